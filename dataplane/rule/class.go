package rule

import (
	"net/netip"
	"strconv"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// network is an address and a mask, both in 16 bytes; an IPv4 mask covers the mapped form.
type network struct {
	addr, mask [16]byte
}

func (n *network) contains(a [16]byte) bool {
	for i := range a {
		if (a[i]^n.addr[i])&n.mask[i] != 0 {
			return false
		}
	}
	return true
}

// network reads an address and a netmask in dotted notation; no netmask is one host.
func (c *compiler) network(address, netmask string) (network, bool) {
	n := network{}
	a, err := netip.ParseAddr(address)
	if err != nil {
		c.fault("bad address %q", address)
		return n, false
	}
	n.addr = a.As16()
	for i := range n.mask {
		n.mask[i] = 0xff
	}
	if netmask == "" {
		return n, true
	}
	m, err := netip.ParseAddr(netmask)
	if err != nil || m.Is4() != a.Is4() {
		c.fault("bad netmask %q for address %s", netmask, address)
		return n, false
	}
	if m.Is4() {
		four := m.As4()
		copy(n.mask[12:], four[:])
	} else {
		n.mask = m.As16()
	}
	return n, true
}

// addressSet is a class of addresses.
type addressSet struct {
	hosts    map[[16]byte]bool
	networks []network
}

func (s *addressSet) contains(addr netip.Addr) bool {
	a := addr.As16()
	if s.hosts[a] {
		return true
	}
	for i := range s.networks {
		if s.networks[i].contains(a) {
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
	set := &addressSet{hosts: map[[16]byte]bool{}}
	for _, list := range [][]string{class.GetHosts(), class.GetStrings()} {
		for _, text := range list {
			if n, ok := c.network(text, ""); ok {
				set.hosts[n.addr] = true
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
