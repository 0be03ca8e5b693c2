package rule

import (
	"net/netip"
	"strconv"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// network is what an address with a netmask stands for.
func (c *compiler) network(address, netmask string) (netip.Prefix, bool) {
	n, err := config.Network(address, netmask)
	if err != nil {
		c.fault("%v", err)
	}
	return n, err == nil
}

// addressSet is a class of addresses.
type addressSet struct {
	hosts    map[netip.Addr]bool
	networks []netip.Prefix
}

func (s *addressSet) contains(addr netip.Addr) bool {
	addr = addr.Unmap()
	if s.hosts[addr] {
		return true
	}
	for _, n := range s.networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// class returns the class that a comparison names.
func (c *compiler) class(cmp *pb.RuleComparison) *pb.Class {
	name := cmp.GetClass()
	if c.classes != nil {
		if class := c.classes(name); class != nil {
			return config.WholeClass(class)
		}
	}
	c.fault("class %q not found", name)
	return &pb.Class{}
}

// addresses reads a class as addresses: its hosts, its networks, and its strings.
func (c *compiler) addresses(cmp *pb.RuleComparison) *addressSet {
	class := c.class(cmp)
	set := &addressSet{hosts: map[netip.Addr]bool{}}
	for _, list := range [][]string{class.GetHosts(), class.GetStrings()} {
		for _, text := range list {
			if n, ok := c.network(text, ""); ok {
				set.hosts[n.Addr()] = true
			}
		}
	}
	for _, n := range class.GetNetworks() {
		if n, ok := c.network(n.GetAddress(), n.GetNetmask()); ok {
			set.networks = append(set.networks, n)
		}
	}
	return set
}

// ports reads the strings of a class as ports.
func (c *compiler) ports(cmp *pb.RuleComparison) map[uint16]bool {
	set := map[uint16]bool{}
	for _, text := range c.class(cmp).GetStrings() {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			c.fault("%q in class %s is not a port", text, cmp.GetClass())
		}
		set[uint16(port)] = true
	}
	return set
}

// oneOfTexts compares with the strings and hosts of a class.
func (c *compiler) oneOfTexts(cmp *pb.RuleComparison) test {
	class := c.class(cmp)
	set := map[string]bool{}
	for _, list := range [][]string{class.GetStrings(), class.GetHosts()} {
		for _, text := range list {
			set[text] = true
		}
	}
	return func(v []byte) bool { return set[string(v)] }
}
