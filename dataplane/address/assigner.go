package address

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// announcements is how often an address is announced.
	announcements = 3
	// announceAgain is the time between two announcements.
	announceAgain = time.Second
)

// Assigner adds addresses that the host lacks to a device and removes those that it added, and only those. Its methods may be
// called from any goroutine.
type Assigner struct {
	device string
	memory *memory
	log    *slog.Logger
	stop   chan struct{}
	done   sync.WaitGroup

	mu       sync.Mutex
	wanted   map[netip.Addr]struct{} // guarded by mu, as all below
	added    map[netip.Addr]struct{} // by us, and still there as far as we know
	failing  map[netip.Addr]string   // why a wanted address could not be added
	announce map[netip.Addr]int      // how often still
}

// Forget removes from all devices what an assigner with the directory added and could not remove: its process was killed.
func Forget(dir string) error {
	list, err := memoryIn(dir).read()
	if err != nil || len(list) == 0 {
		return err
	}
	var faults []error
	for _, a := range list {
		faults = append(faults, remove(a))
	}
	return errors.Join(append(faults, memoryIn(dir).write(nil))...)
}

// NewAssigner makes an assigner for a device, which need not be there yet. What it adds is remembered in the directory. What one
// before it added to this device, and did not remove, is its own from now on; what was added to other devices is removed.
func NewAssigner(device, dir string, log *slog.Logger) (*Assigner, error) {
	a := &Assigner{
		device: device, memory: memoryIn(dir), log: log, stop: make(chan struct{}), wanted: map[netip.Addr]struct{}{},
		added: map[netip.Addr]struct{}{}, failing: map[netip.Addr]string{}, announce: map[netip.Addr]int{},
	}
	list, err := a.memory.read()
	if err != nil {
		return nil, fmt.Errorf("assigned addresses: %w", err)
	}
	there, err := hosts(device)
	if err != nil && len(list) > 0 {
		return nil, fmt.Errorf("assigned addresses: %w", err)
	}
	for _, r := range list {
		if r.device != device {
			if err := remove(r); err != nil {
				log.Warn("cannot remove an address that was added", "address", r.addr, "device", r.device, "error", err)
			}
			continue
		}
		if _, has := there[r.addr]; has {
			a.added[r.addr] = struct{}{}
		}
	}
	a.done.Go(a.repeat)
	return a, nil
}

// Add wants addresses. Those that the host lacks are added to the device and announced. It returns when that is done; what fails
// is logged, and tried again by Repair.
func (a *Assigner) Add(addrs ...netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lacking []netip.Addr
	for _, addr := range addrs {
		if addr = addr.Unmap(); !assignable(addr) {
			continue
		}
		a.wanted[addr] = struct{}{}
		if !Available(addr) {
			lacking = append(lacking, addr)
		}
	}
	a.add(lacking)
}

// assignable leaves out what is no address of one host, or needs no device.
func assignable(addr netip.Addr) bool {
	return addr.IsValid() && !addr.IsUnspecified() && !addr.IsLoopback() && !addr.IsMulticast() && !addr.IsLinkLocalUnicast()
}

// Remove wants addresses no more. Those that were added are removed.
func (a *Assigner) Remove(addrs ...netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, addr := range addrs {
		addr = addr.Unmap()
		delete(a.wanted, addr)
		delete(a.failing, addr)
	}
	a.removeUnwanted()
}

// Settle removes what was added before and is not wanted; it is called when all that is wanted was said.
func (a *Assigner) Settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeUnwanted()
}

// Repair adds wanted addresses that the host lacks, which it may have lost or could not be given.
func (a *Assigner) Repair() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lacking []netip.Addr
	for addr := range a.wanted {
		if !Available(addr) {
			lacking = append(lacking, addr)
		}
	}
	a.add(lacking)
}

// Close removes everything that was added.
func (a *Assigner) Close() {
	a.Leave()
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.wanted)
	a.removeUnwanted()
}

// Leave ends the assigner and leaves the addresses to the next one with the same directory.
func (a *Assigner) Leave() {
	close(a.stop)
	a.done.Wait()
}

// add adds what is lacking. mu is held.
func (a *Assigner) add(lacking []netip.Addr) {
	if len(lacking) == 0 {
		return
	}
	var ours []netip.Addr // already: somebody removed them
	for _, addr := range lacking {
		if _, was := a.added[addr]; was {
			ours = append(ours, addr)
		}
		a.added[addr] = struct{}{}
	}
	if err := a.remember(); err != nil { // what is not remembered could not be removed after a crash
		for _, addr := range lacking {
			a.failed(addr, err)
			if !slices.Contains(ours, addr) {
				delete(a.added, addr)
			}
		}
		return
	}
	link, err := netlink.LinkByName(a.device)
	failed := false
	for _, addr := range lacking {
		fault := err
		if fault == nil {
			fault = netlink.AddrAdd(link, netlinkAddr(addr))
		}
		switch {
		case fault == nil:
			delete(a.failing, addr)
			a.announce[addr] = announcements
			a.log.Info("address added", "address", addr, "device", a.device)
		case errors.Is(fault, unix.EEXIST) && slices.Contains(ours, addr): // the device is down
		default:
			delete(a.added, addr)
			failed = true
			a.failed(addr, fault)
		}
	}
	if failed {
		_ = a.remember() // what is remembered and not there does no harm
	}
	a.announceAll()
}

// failed logs why an address cannot be added, each reason once.
func (a *Assigner) failed(addr netip.Addr, err error) {
	if why := err.Error(); a.failing[addr] != why {
		a.failing[addr] = why
		a.log.Warn("cannot add an address", "address", addr, "device", a.device, "error", err)
	}
}

// removeUnwanted removes what was added and is not wanted. mu is held.
func (a *Assigner) removeUnwanted() {
	changed := false
	for addr := range a.added {
		if _, wanted := a.wanted[addr]; wanted {
			continue
		}
		if err := remove(assignment{a.device, addr}); err != nil {
			a.log.Warn("cannot remove an address that was added", "address", addr, "device", a.device, "error", err)
			continue
		}
		delete(a.added, addr)
		delete(a.announce, addr)
		changed = true
		a.log.Info("address removed", "address", addr, "device", a.device)
	}
	if changed {
		if err := a.remember(); err != nil {
			a.log.Warn("cannot write which addresses were added", "path", a.memory.path, "error", err)
		}
	}
}

func (a *Assigner) remember() error {
	list := make([]assignment, 0, len(a.added))
	for addr := range a.added {
		list = append(list, assignment{a.device, addr})
	}
	return a.memory.write(list)
}

// repeat announces new addresses again: the first packet may be lost.
func (a *Assigner) repeat() {
	ticker := time.NewTicker(announceAgain)
	defer ticker.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-ticker.C:
			a.mu.Lock()
			a.announceAll()
			a.mu.Unlock()
		}
	}
}

// announceAll announces each new address once. mu is held.
func (a *Assigner) announceAll() {
	if len(a.announce) == 0 {
		return
	}
	announcer, err := announcerFor(a.device)
	for addr, left := range a.announce {
		if err == nil {
			if fault := announcer.announce(addr); fault != nil && left == announcements {
				a.log.Warn("cannot announce an address", "device", a.device, "error", fault)
			}
		}
		if a.announce[addr]--; left == 1 {
			delete(a.announce, addr)
		}
	}
}

// netlinkAddr is an address with the prefix of a single host. An IPv6 address is usable at once, and not chosen as the source of
// connections to others.
func netlinkAddr(addr netip.Addr) *netlink.Addr {
	n := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}}
	if addr.Is6() {
		n.Flags, n.ValidLft = unix.IFA_F_NODAD, math.MaxUint32
	}
	return n
}

// remove removes an address from its device, if both are there. Another prefix with the same address stays.
func remove(a assignment) error {
	link, err := netlink.LinkByName(a.device)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.AddrDel(link, netlinkAddr(a.addr)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

// hosts returns the addresses of a device that have the prefix of a single host, as Add adds them.
func hosts(device string) (map[netip.Addr]struct{}, error) {
	link, err := netlink.LinkByName(device)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr]struct{}{}
	for _, n := range list {
		addr, ok := netip.AddrFromSlice(n.IP)
		addr = addr.Unmap()
		if ones, _ := n.Mask.Size(); ok && ones == addr.BitLen() {
			found[addr] = struct{}{}
		}
	}
	return found, nil
}
