package dataplane

import (
	"net/netip"
	"strconv"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/pool"
	"bigpipe/store/config"
)

// shares count what pools and virtual servers have in common. They outlive configurations, and must not be copied.
type shares struct {
	addresses pool.Registry[netip.Addr, pool.Gauge] // virtual addresses
	services  pool.Registry[uint16, pool.Gauge]     // ports of virtual servers
}

// of returns what a virtual server shares with the others of its address and of its service, with the limits of these.
func (s *shares) of(view config.View, virtual netip.AddrPort) []forward.Shared {
	address := view.Get("virtual_address/" + virtual.Addr().String()).GetVirtualAddress()
	service := view.Get("service/" + strconv.Itoa(int(virtual.Port()))).GetService()
	return []forward.Shared{
		{Gauge: s.addresses.Of(virtual.Addr(), nil), Limit: address.GetLimit()},
		{Gauge: s.services.Of(virtual.Port(), nil), Limit: service.GetLimit()},
	}
}
