package intercept

import (
	"errors"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// marked is the rule that sends marked packets to our routing table.
func marked(family int) *netlink.Rule {
	r := netlink.NewRule()
	mask := uint32(mark)
	r.Family, r.Mark, r.Mask = family, mark, &mask
	r.Table, r.Priority, r.Protocol = routingTable, rulePriority, protocol
	return r
}

// delivery is the only route of our table: all is delivered to this host.
func delivery(family int) (*netlink.Route, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if family == unix.AF_INET6 {
		all = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &netlink.Route{
		LinkIndex: lo.Attrs().Index, Family: family, Table: routingTable, Protocol: protocol,
		Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST, Dst: all,
	}, nil
}

// route adds rule and route, unless they are there. A host without IPv6 needs none for it.
func route(family int) error {
	r, err := delivery(family)
	if err == nil {
		err = netlink.RouteReplace(r)
	}
	if err == nil {
		err = netlink.RuleAdd(marked(family))
	}
	switch {
	case errors.Is(err, os.ErrExist), family == unix.AF_INET6 && errors.Is(err, unix.EAFNOSUPPORT):
		return nil
	}
	return err
}

// unroute removes rules and routes that bear our protocol number.
func unroute(family int) error {
	rules, err := netlink.RuleListFiltered(family, &netlink.Rule{Table: routingTable}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return ignoreMissing(err)
	}
	var faults []error
	for _, r := range rules {
		if r.Protocol == protocol {
			r.Family = family // the listing does not say it
			faults = append(faults, ignoreMissing(netlink.RuleDel(&r)))
		}
	}
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: routingTable, Protocol: protocol, Type: unix.RTN_LOCAL},
		netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TYPE)
	if err != nil {
		return errors.Join(append(faults, ignoreMissing(err))...)
	}
	for _, r := range routes {
		faults = append(faults, ignoreMissing(netlink.RouteDel(&r)))
	}
	return errors.Join(faults...)
}

// ignoreMissing makes what is not there, and what this kernel does not have, no error.
func ignoreMissing(err error) error {
	for _, missing := range [...]error{os.ErrNotExist, unix.ESRCH, unix.EAFNOSUPPORT} {
		if errors.Is(err, missing) {
			return nil
		}
	}
	return err
}
