// Package host finds the addresses of hosts.
package host

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// timeout is how long finding an address may take.
const timeout = 5 * time.Second

// Address asks this machine's resolver for the address of a host: its first IPv4 address, else its first one. It gives up
// after five seconds.
func Address(ctx context.Context, name string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.Addr{}, err
	}
	return choose(name, addrs)
}

func choose(name string, addrs []netip.Addr) (netip.Addr, error) {
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() {
			return a, nil
		}
	}
	if len(addrs) == 0 {
		return netip.Addr{}, fmt.Errorf("host %s has no address", name)
	}
	return addrs[0], nil
}
