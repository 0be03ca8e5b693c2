package intercept

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Target is one kind of packets, and the socket that they are delivered to.
type Target struct {
	// Network holds the destinations; the host's own addresses are never meant.
	Network netip.Prefix
	// Port is the port of the destinations; zero means all.
	Port uint16
	UDP  bool
	// Local is the port of the socket, which has IP_TRANSPARENT and is bound to all addresses of the family.
	Local uint16
}

// Interceptor keeps the kernel's rules. Its methods may be called from any goroutine.
type Interceptor struct {
	mu      sync.Mutex
	targets []Target // guarded by mu; in order
	left    bool     // guarded by mu: the rules are another process's by now
}

// Set makes the rules those of the targets: all of them, or, with an error, what they were before. Of two targets that a packet
// belongs to the narrower one gets it: the longer prefix, then the one that names a port. Without targets nothing is left in the
// kernel.
func (x *Interceptor) Set(targets []Target) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	targets = slices.Clone(targets)
	slices.SortFunc(targets, narrower)
	if x.left || slices.Equal(targets, x.targets) {
		return nil
	}
	if len(targets) == 0 {
		if err := Clean(); err != nil {
			return err
		}
		x.targets = nil
		return nil
	}
	// The way for marked packets is there before any is marked.
	if err := errors.Join(route(unix.AF_INET), route(unix.AF_INET6)); err != nil {
		return fmt.Errorf("routes of intercepted packets: %w", err)
	}
	if err := replaceTable(targets); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	x.targets = targets
	return nil
}

func narrower(a, b Target) int {
	named := func(t Target) int {
		if t.Port != 0 {
			return 0
		}
		return 1
	}
	return cmp.Or(-cmp.Compare(a.Network.Bits(), b.Network.Bits()), a.Network.Addr().Compare(b.Network.Addr()),
		cmp.Compare(named(a), named(b)), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Local, b.Local))
}

// Leave leaves the rules to the process that takes over. Nothing is changed from now on.
func (x *Interceptor) Leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.left = true
}

// Close removes everything, unless it was left.
func (x *Interceptor) Close() error { return x.Set(nil) }

// Clean removes what is ours from the kernel, whoever made it. To find nothing is no error.
func Clean() error {
	return errors.Join(removeTable(), unroute(unix.AF_INET), unroute(unix.AF_INET6))
}
