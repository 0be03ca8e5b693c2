package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// MaxMembers is how many pool members a lab can play.
const MaxMembers = 4000

// lowPort is the first port that an ordinary user may listen on; lower ones are moved up by portShift.
const (
	lowPort   = 1024
	portShift = 8000
)

// Mapping says where on loopback each address of a configuration lives. It depends on the configuration alone, so a lab
// has the same addresses on every run.
type Mapping struct {
	local map[netip.Addr]netip.Addr
	ports map[netip.AddrPort]netip.AddrPort
	// order of the pairs, as the configuration names them.
	order []netip.AddrPort
	used  map[netip.AddrPort]bool

	virtuals, nodes uint32
}

// Member is one pool member that the lab plays.
type Member struct {
	Node  string   `json:"node"`
	Local string   `json:"local"`
	Pools []string `json:"pools"`
	TLS   bool     `json:"tls"`
}

// NewMapping places the virtual servers (127.10.0.0/16) and the members (127.20.0.0/16) of a configuration.
func NewMapping(objects []*pb.Object) (*Mapping, error) {
	m := &Mapping{
		local: map[netip.Addr]netip.Addr{}, ports: map[netip.AddrPort]netip.AddrPort{}, used: map[netip.AddrPort]bool{},
	}
	var reals []netip.AddrPort
	for _, o := range objects {
		if v := o.GetVirtual(); v != nil {
			if addr, err := netip.ParseAddrPort(v.GetAddress()); err == nil {
				m.place(addr.Addr(), 10, &m.virtuals)
				reals = append(reals, addr)
			}
		}
	}
	members := 0
	for _, o := range objects {
		for _, member := range o.GetPool().GetMembers() {
			if members++; members > MaxMembers {
				return nil, fmt.Errorf("the file has more than %d pool members", MaxMembers)
			}
			addr, err := netip.ParseAddrPort(member.GetAddress())
			if err != nil {
				return nil, fmt.Errorf("member %s: %w", member.GetAddress(), err)
			}
			m.place(addr.Addr(), 20, &m.nodes)
			reals = append(reals, addr)
		}
	}
	if m.virtuals > 65000 || m.nodes > 65000 {
		return nil, errors.New("the file has more than 65,000 addresses")
	}
	// High ports keep their number; the low ones then take what is free.
	for _, real := range reals {
		if real.Port() >= lowPort {
			m.assign(real, real.Port())
		}
	}
	for _, real := range reals {
		if real.Port() < lowPort {
			m.assign(real, real.Port()+portShift)
		}
	}
	return m, nil
}

// place gives addr an address of 127.NET.0.0/16, counted from 127.NET.0.1.
func (m *Mapping) place(addr netip.Addr, network byte, count *uint32) {
	if _, ok := m.local[addr]; ok {
		return
	}
	*count++
	m.local[addr] = netip.AddrFrom4([4]byte{127, network, byte(*count >> 8), byte(*count)})
}

func (m *Mapping) assign(real netip.AddrPort, port uint16) {
	if _, ok := m.ports[real]; ok {
		return
	}
	local := netip.AddrPortFrom(m.local[real.Addr()], port)
	for m.used[local] {
		next := local.Port() + 1
		if next < lowPort {
			next = lowPort
		}
		local = netip.AddrPortFrom(local.Addr(), next)
	}
	m.used[local] = true
	m.ports[real] = local
	m.order = append(m.order, real)
}

// Local returns where real lives; false when the configuration does not name it.
func (m *Mapping) Local(real string) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddrPort(real)
	if err != nil {
		return netip.AddrPort{}, false
	}
	local, ok := m.ports[addr]
	return local, ok
}

// File is the text of the dataplane's --map-file, a pair a line: each address and port, then each address, so that what is
// added by hand on a known address is found too.
func (m *Mapping) File() string {
	var b strings.Builder
	for _, real := range m.order {
		fmt.Fprintf(&b, "%s=%s\n", real, m.ports[real])
	}
	written := map[netip.Addr]bool{}
	for _, real := range m.order {
		if addr := real.Addr(); !written[addr] {
			written[addr] = true
			fmt.Fprintf(&b, "%s=%s\n", addr, m.local[addr])
		}
	}
	return b.String()
}

// Members returns the members to play, each address once with all its pools.
func (m *Mapping) Members(objects []*pb.Object) []Member {
	var members []Member
	index := map[string]int{}
	add := func(node, pool string, tls bool) {
		if i, ok := index[node]; ok {
			members[i].Pools = append(members[i].Pools, pool)
			return
		}
		local, ok := m.Local(node)
		if !ok {
			return
		}
		index[node] = len(members)
		members = append(members, Member{Node: node, Local: local.String(), Pools: []string{pool}, TLS: tls})
	}
	for _, o := range objects {
		for _, member := range o.GetPool().GetMembers() {
			addr, err := netip.ParseAddrPort(member.GetAddress())
			if err == nil {
				add(addr.String(), o.GetPool().GetName(), addr.Port() == 443)
			}
		}
	}
	return members
}
