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
	targets []Target // guarded by mu, as all below; in order
	routed  bool     // marked packets are delivered
	left    bool     // the rules are another process's by now
	made    inKernel // what there was after the last change

	gateways sync.Map // netip.Addr to its number, an int
}

// Set makes the rules those of the targets: all of them, or, with an error, what they were before. Of two targets that a packet
// belongs to the narrower one gets it: the longer prefix, then the one that names a port. Connections that are open stay, also
// where no target is left.
func (x *Interceptor) Set(targets []Target) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	targets = slices.Clone(targets)
	slices.SortFunc(targets, narrower)
	if x.left || slices.Equal(targets, x.targets) {
		return nil
	}
	// The way for marked packets is there before any is marked.
	if !x.routed {
		if err := errors.Join(deliverMarked(unix.AF_INET), deliverMarked(unix.AF_INET6)); err != nil {
			return fmt.Errorf("routes of intercepted packets: %w", err)
		}
		x.routed = true
	}
	if err := replaceTable(targets); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	x.targets = targets
	return x.note()
}

// SetGateways makes the gateways those that are given; each must be a neighbour of this host. What cannot be routed is in the
// error, the others are.
func (x *Interceptor) SetGateways(list []netip.Addr) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left {
		return nil
	}
	wanted, used := map[netip.Addr]bool{}, map[int]bool{}
	for _, a := range list {
		wanted[a] = true
	}
	var faults []error
	changed := false
	for a, n := range x.gateways.Range {
		if wanted[a.(netip.Addr)] {
			used[n.(int)] = true
			continue
		}
		changed = true
		x.gateways.Delete(a)
		faults = append(faults, unroute(func(table int) bool { return table == routingTable+n.(int) }))
	}
	next := 1
	for _, a := range list {
		if _, has := x.gateways.Load(a); has {
			continue
		}
		for used[next] {
			next++
		}
		if next > mostGateways {
			return errors.Join(append(faults, fmt.Errorf("more than %d gateways", mostGateways))...)
		}
		if err := routeThrough(a, next); err != nil {
			faults = append(faults, fmt.Errorf("route through %s: %w", a, err))
			continue
		}
		used[next], changed = true, true
		x.gateways.Store(a, next)
	}
	if changed {
		faults = append(faults, x.note())
	}
	return errors.Join(faults...)
}

// note remembers what there is in the kernel. The caller holds the lock.
func (x *Interceptor) note() (err error) {
	x.made, err = look()
	return err
}

// Repair makes anew what others have taken away: a firewall that is loaded anew may empty nftables, and a network daemon that is
// started anew may remove routing rules that it does not know. It reports whether anything was missing.
func (x *Interceptor) Repair() (missing bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left || x.made == (inKernel{}) {
		return false, nil
	}
	there, err := look()
	if err != nil || !there.lacks(x.made) {
		return false, err
	}
	if x.routed {
		err = errors.Join(deliverMarked(unix.AF_INET), deliverMarked(unix.AF_INET6), replaceTable(x.targets))
	}
	for a, n := range x.gateways.Range {
		err = errors.Join(err, routeThrough(a.(netip.Addr), n.(int)))
	}
	return true, errors.Join(err, x.note())
}

// Mark returns the mark of packets that leave through a gateway; zero for what is none.
func (x *Interceptor) Mark(gateway netip.Addr) uint32 {
	n, ok := x.gateways.Load(gateway.Unmap())
	if !ok {
		return 0
	}
	return uint32(n.(int)) << gatewayShift
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

// Left reports whether Leave was called.
func (x *Interceptor) Left() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.left
}

// Close removes everything, unless it was left. Set may begin anew.
func (x *Interceptor) Close() error {
	err := x.SetGateways(nil)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left || !x.routed {
		return err
	}
	if err := errors.Join(removeTable(), unroute(func(table int) bool { return table == routingTable })); err != nil {
		return err
	}
	x.targets, x.routed, x.made = nil, false, inKernel{}
	return err
}

// Clean removes what is ours from the kernel, whoever made it. To find nothing is no error.
func Clean() error {
	return errors.Join(removeTable(), unroute(func(int) bool { return true }))
}
