package intercept

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var families = [...]int{unix.AF_INET, unix.AF_INET6}

// marked is the rule that sends packets with a mark to a routing table.
func marked(family int, bits, mask uint32, table int) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Mark, r.Mask = family, bits, &mask
	r.Table, r.Priority, r.Protocol = table, rulePriority, protocol
	return r
}

func everywhere(family int) *net.IPNet {
	if family == unix.AF_INET6 {
		return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
}

// deliverMarked has marked packets delivered to this host, unless they are. A host without IPv6 needs nothing for it.
func deliverMarked(family int) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	err = add(&netlink.Route{
		LinkIndex: lo.Attrs().Index, Family: family, Table: routingTable, Protocol: protocol,
		Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST, Dst: everywhere(family),
	}, marked(family, mark, mark, routingTable))
	if family == unix.AF_INET6 && errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return err
}

// routeThrough has packets with the mark of a gateway leave through it.
func routeThrough(gateway netip.Addr, number int) error {
	ways, err := netlink.RouteGet(gateway.AsSlice())
	switch {
	case err != nil:
		return err
	case len(ways) == 0 || len(ways[0].Gw) > 0 || ways[0].Type == unix.RTN_LOCAL:
		return errors.New("it is no neighbour of this host")
	}
	family := unix.AF_INET
	if gateway.Is6() {
		family = unix.AF_INET6
	}
	const mask = mostGateways << gatewayShift
	return add(&netlink.Route{
		LinkIndex: ways[0].LinkIndex, Family: family, Table: routingTable + number, Protocol: protocol,
		Gw: gateway.AsSlice(), Dst: everywhere(family),
	}, marked(family, uint32(number)<<gatewayShift, mask, routingTable+number))
}

func add(way *netlink.Route, rule *netlink.Rule) error {
	if err := netlink.RouteReplace(way); err != nil {
		return err
	}
	if err := netlink.RuleAdd(rule); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// inKernel is what there is of ours.
type inKernel struct {
	rules int  // of routing
	table bool // of nftables
}

// lacks reports whether there is less than there was. More may be another process's, which is about to take over.
func (k inKernel) lacks(before inKernel) bool {
	return before.table && !k.table || k.rules < before.rules
}

// look tells what there is now.
func look() (there inKernel, err error) {
	if there.table, err = hasTable(); err != nil {
		return there, err
	}
	for _, family := range families {
		rules, err := netlink.RuleList(family)
		if ignoreMissing(err) != nil {
			return there, err
		}
		for _, r := range rules {
			if ofUs(int(r.Protocol), r.Table) {
				there.rules++
			}
		}
	}
	return there, nil
}

// ofUs reports whether a rule or route is ours, by its protocol number and its routing table.
func ofUs(by, table int) bool {
	return by == protocol && table >= routingTable && table <= routingTable+mostGateways
}

// unroute removes rules and routes that bear our protocol number, of those of our routing tables that are ours to remove.
func unroute(ours func(table int) bool) error {
	var faults []error
	for _, family := range families {
		rules, err := netlink.RuleList(family)
		faults = append(faults, ignoreMissing(err))
		for _, r := range rules {
			if ofUs(int(r.Protocol), r.Table) && ours(r.Table) {
				r.Family = family // the listing does not say it
				faults = append(faults, ignoreMissing(netlink.RuleDel(&r)))
			}
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		faults = append(faults, ignoreMissing(err))
		for _, r := range routes {
			if ofUs(int(r.Protocol), r.Table) && ours(r.Table) {
				faults = append(faults, ignoreMissing(netlink.RouteDel(&r)))
			}
		}
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
