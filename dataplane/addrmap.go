package dataplane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// AddressMap says where to bind or dial instead of the addresses of the configuration. Only sockets use the local
// address; names, cookies, records and output keep the real one. The zero value and nil map nothing. It must not be
// changed once it is in use.
type AddressMap struct {
	// Only refuses every address that is not mapped.
	Only bool

	ports    map[netip.AddrPort]netip.AddrPort
	addrs    map[netip.Addr]netip.Addr
	networks []networkPair // longest first
}

type networkPair struct{ real, local netip.Prefix }

// ErrNotMapped means that an address may not be bound or dialled because it is not in the map (--map-only).
var ErrNotMapped = errors.New("the address is not mapped")

// Add adds pairs REAL=LOCAL, separated by commas. Both sides of a pair are an address with a port, an address, which
// keeps the port, or a network, which keeps port and host part and has the same length on both sides. What is named more
// closely goes first. A real address cannot be mapped twice. All faults are reported, joined.
func (m *AddressMap) Add(pairs string) error {
	var faults []error
	for pair := range strings.SplitSeq(pairs, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		if err := m.add(pair); err != nil {
			faults = append(faults, fmt.Errorf("map %q: %w", pair, err))
		}
	}
	return errors.Join(faults...)
}

// Read adds pairs, one a line. Empty lines and lines that begin with "#" are passed over. All faults are reported with
// their lines, joined.
func (m *AddressMap) Read(r io.Reader) error {
	var faults []error
	scanner := bufio.NewScanner(r)
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := m.Add(line); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n, err))
		}
	}
	return errors.Join(append(faults, scanner.Err())...)
}

func (m *AddressMap) add(pair string) error {
	from, to, ok := strings.Cut(pair, "=")
	if !ok {
		return errors.New("want REAL=LOCAL")
	}
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	if strings.Contains(from, "/") {
		return m.addNetwork(from, to)
	}
	if a, err := netip.ParseAddr(from); err == nil {
		b, err := netip.ParseAddr(to)
		if err != nil {
			return fmt.Errorf("%q is not an address", to)
		}
		return insert(&m.addrs, a.Unmap(), b.Unmap())
	}
	a, err := netip.ParseAddrPort(from)
	if err != nil {
		return fmt.Errorf("%q is not an address, an address with a port, or a network", from)
	}
	b, err := netip.ParseAddrPort(to)
	if err != nil {
		return fmt.Errorf("%q is not an address with a port", to)
	}
	return insert(&m.ports, unmapped(a), unmapped(b))
}

func (m *AddressMap) addNetwork(from, to string) error {
	a, err := netip.ParsePrefix(from)
	if err != nil {
		return fmt.Errorf("%q is not a network", from)
	}
	b, err := netip.ParsePrefix(to)
	if err != nil {
		return fmt.Errorf("%q is not a network", to)
	}
	a, b = a.Masked(), b.Masked()
	if a.Bits() != b.Bits() || a.Addr().BitLen() != b.Addr().BitLen() {
		return errors.New("the networks differ in length or family")
	}
	if slices.ContainsFunc(m.networks, func(n networkPair) bool { return n.real == a }) {
		return fmt.Errorf("%s is mapped twice", a)
	}
	m.networks = append(m.networks, networkPair{a, b})
	slices.SortStableFunc(m.networks, func(x, y networkPair) int { return y.real.Bits() - x.real.Bits() })
	return nil
}

func insert[A interface {
	comparable
	fmt.Stringer
}](m *map[A]A, from, to A) error {
	if _, twice := (*m)[from]; twice {
		return fmt.Errorf("%s is mapped twice", from)
	}
	if *m == nil {
		*m = map[A]A{}
	}
	(*m)[from] = to
	return nil
}

// Local returns the address to bind or dial for a real one: itself where nothing maps it. It is ErrNotMapped where only
// mapped addresses are allowed.
func (m *AddressMap) Local(real netip.AddrPort) (netip.AddrPort, error) {
	real = unmapped(real)
	if m == nil {
		return real, nil
	}
	if local, ok := m.find(real); ok {
		return local, nil
	}
	if m.Only {
		return netip.AddrPort{}, ErrNotMapped
	}
	return real, nil
}

// LocalAddr is Local for an address without a port. Where only ports of it are mapped, all to one place, that is it.
func (m *AddressMap) LocalAddr(real netip.Addr) (netip.Addr, error) {
	local, err := m.Local(netip.AddrPortFrom(real, 0))
	if err == nil && local.Addr() != real.Unmap() || m == nil {
		return local.Addr(), err
	}
	var only netip.Addr
	for from, to := range m.ports {
		if from.Addr() != real.Unmap() {
			continue
		}
		if only.IsValid() && only != to.Addr() {
			return local.Addr(), err
		}
		only = to.Addr()
	}
	if only.IsValid() {
		return only, nil
	}
	return local.Addr(), err
}

// Maps reports whether a real address is mapped.
func (m *AddressMap) Maps(real netip.AddrPort) bool {
	if m == nil {
		return false
	}
	_, ok := m.find(unmapped(real))
	return ok
}

func (m *AddressMap) find(real netip.AddrPort) (netip.AddrPort, bool) {
	if local, ok := m.ports[real]; ok {
		return local, true
	}
	if local, ok := m.addrs[real.Addr()]; ok {
		return netip.AddrPortFrom(local, real.Port()), true
	}
	for _, n := range m.networks {
		if n.real.Contains(real.Addr()) {
			return netip.AddrPortFrom(n.move(real.Addr()), real.Port()), true
		}
	}
	return netip.AddrPort{}, false
}

// move puts the host part of an address of the real network into the local one.
func (n networkPair) move(a netip.Addr) netip.Addr {
	host, network := a.AsSlice(), n.local.Addr().AsSlice()
	for i := range host {
		keep := min(max(n.real.Bits()-8*i, 0), 8)
		mask := byte(0xff) << (8 - keep)
		host[i] = network[i]&mask | host[i]&^mask
	}
	moved, _ := netip.AddrFromSlice(host)
	return moved
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
