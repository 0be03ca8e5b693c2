package config

import (
	"cmp"
	"net/netip"
	"slices"

	pb "bigpipe/proto/bigpipe/v1"
)

// MapProxies are the networks of large proxies, whose clients come from changing addresses, and the address that each counts
// as. The longest network comes first.
type MapProxies []mapProxy

type mapProxy struct {
	network netip.Prefix
	address netip.Addr
}

// MapProxiesOf returns the networks of map_proxy; none while persist map_proxies is disabled. What is none is left out.
func MapProxiesOf(g *pb.Global) (list MapProxies) {
	if g.PersistMapProxies != nil && !g.GetPersistMapProxies() {
		return nil
	}
	for _, m := range g.GetMapProxies() {
		network, err1 := parseNetwork(m.GetNetwork())
		address, err2 := parseAddress(m.GetAddress())
		if err1 == nil && err2 == nil {
			list = append(list, mapProxy{network, address})
		}
	}
	slices.SortStableFunc(list, func(a, b mapProxy) int { return cmp.Compare(b.network.Bits(), a.network.Bits()) })
	return list
}

// Map returns the address that a client counts as, and whether it is another one.
func (l MapProxies) Map(client netip.Addr) (netip.Addr, bool) {
	client = client.Unmap().WithZone("")
	for _, m := range l {
		if m.network.Contains(client) {
			return m.address, true
		}
	}
	return client, false
}

func (c *checker) checkGlobal(key string, g *pb.Global) {
	at := attribute(g.GetMeta(), "map_proxy")
	var seen set
	for _, m := range g.GetMapProxies() {
		network, err := parseNetwork(m.GetNetwork())
		switch {
		case err != nil:
			c.fault(key, at, CodeValue, "%s: map_proxy: %q is neither an address nor a network", Title(key), m.GetNetwork())
		case !seen.add(network.String()):
			c.fault(key, at, CodeDuplicate, "%s: map_proxy: network %s is given twice", Title(key), network)
		}
		if a, err := parseAddress(m.GetAddress()); err != nil || a.Zone() != "" {
			c.fault(key, at, CodeValue, "%s: map_proxy: %q is not an address", Title(key), m.GetAddress())
		}
	}
}
