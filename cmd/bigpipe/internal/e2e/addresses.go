package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"strings"

	"bigpipe/grammar"
)

// unmapped is the network that has no place on loopback, for what shall not be in effect.
var unmapped = netip.MustParsePrefix("192.0.2.0/24")

// addresses gives each address and port of a configuration a free one on loopback.
type addresses struct {
	network byte // hosts are 127.network.0.1 and up
	hosts   map[netip.Addr]netip.Addr
	places  map[netip.AddrPort]netip.AddrPort
	taken   map[netip.AddrPort]bool
	order   []netip.AddrPort
}

func newAddresses() *addresses {
	return &addresses{
		// Other tests use the low and the high networks of 127.0.0.0/8.
		network: byte(64 + rand.N(64)), hosts: map[netip.Addr]netip.Addr{},
		places: map[netip.AddrPort]netip.AddrPort{}, taken: map[netip.AddrPort]bool{},
	}
}

// parse reads ADDRESS:SERVICE.
func parse(text string) (netip.AddrPort, error) {
	host, service, _ := strings.Cut(text, ":")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, ok := grammar.ParseService(service)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%s: unknown service %q", text, service)
	}
	return netip.AddrPortFrom(addr, port), nil
}

// local returns where the address lives, and gives it a place at first.
func (a *addresses) local(real netip.AddrPort) (netip.AddrPort, error) {
	if place, ok := a.places[real]; ok {
		return place, nil
	}
	host, ok := a.hosts[real.Addr()]
	if !ok {
		n := len(a.hosts) + 1
		host = netip.AddrFrom4([4]byte{127, a.network, byte(n >> 8), byte(n)})
		a.hosts[real.Addr()] = host
	}
	place, err := freePort(host)
	for err == nil && a.taken[place] {
		place, err = freePort(host)
	}
	if err != nil {
		return place, err
	}
	a.taken[place] = true
	a.places[real] = place
	a.order = append(a.order, real)
	return place, nil
}

func freePort(host netip.Addr) (netip.AddrPort, error) {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(host, 0)))
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).AddrPort(), nil
}

// endpoint is ADDRESS:SERVICE in a text.
var endpoint = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:[a-z0-9]+\b`)

// place gives every ADDRESS:SERVICE of a text a place, but for loopback and what is never mapped.
func (a *addresses) place(text string) error {
	for _, word := range endpoint.FindAllString(text, -1) {
		real, err := parse(word)
		if err != nil || real.Addr().IsLoopback() || unmapped.Contains(real.Addr()) {
			continue // faulty words stand in texts on purpose
		}
		if _, err := a.local(real); err != nil {
			return err
		}
	}
	return nil
}

// file is the text of a dataplane's map.
func (a *addresses) file(second bool) string {
	var b strings.Builder
	for _, real := range a.order {
		place := a.places[real]
		if other, ok := a.places[ofSecond(real)]; ok && second {
			place = other
		}
		fmt.Fprintf(&b, "%s=%s\n", real, place)
	}
	return b.String()
}

// ofSecond is the address whose place an address has on the second dataplane, if that is mentioned.
func ofSecond(real netip.AddrPort) netip.AddrPort {
	if a := real.Addr().As4(); a[0] == 192 && a[1] == 168 && a[2] == 200 {
		a[2]++
		return netip.AddrPortFrom(netip.AddrFrom4(a), real.Port())
	}
	return real
}
