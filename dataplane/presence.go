package dataplane

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"bigpipe/dataplane/address"
)

// holds count who needs an address of this host: virtual servers, and connections of those that are gone. Where a device is
// given they make the host have the addresses.
type holds struct {
	assigner *address.Assigner // nil: nothing is assigned

	mu    sync.Mutex
	count map[netip.Addr]int // guarded by mu
}

// newHolds takes over what a process before this one had assigned, or removes it.
func newHolds(o *EngineOptions) (*holds, error) {
	h := &holds{count: map[netip.Addr]int{}}
	var err error
	switch {
	case o.AssignDevice != "" && o.StateDir == "":
		return nil, fmt.Errorf("assign addresses to %s: there is no state directory to remember them", o.AssignDevice)
	case o.AssignDevice != "":
		h.assigner, err = address.NewAssigner(o.AssignDevice, o.StateDir, o.Log)
	case o.StateDir != "":
		if fault := address.Forget(o.StateDir); fault != nil {
			o.Log.Warn("cannot remove addresses that were assigned", "error", fault)
		}
	}
	return h, err
}

// take holds addresses; one comes as often as it is held.
func (h *holds) take(addrs []netip.Addr) {
	if h.assigner == nil || len(addrs) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var first []netip.Addr
	for _, a := range addrs {
		if h.count[a]++; h.count[a] == 1 {
			first = append(first, a)
		}
	}
	h.assigner.Add(first...)
}

// release holds an address once less.
func (h *holds) release(a netip.Addr) {
	if h.assigner == nil || !a.IsValid() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[a]--; h.count[a] == 0 {
		delete(h.count, a)
		h.assigner.Remove(a)
	}
}

func (h *holds) settle() {
	if h.assigner != nil {
		h.assigner.Settle()
	}
}

func (h *holds) repair() {
	if h.assigner != nil {
		h.assigner.Repair()
	}
}

// close removes what was assigned.
func (h *holds) close() {
	if h.assigner != nil {
		h.assigner.Close()
	}
}

// settling is for how long after a change of the host's addresses sockets may not know of it yet.
const settling = time.Second

// presence follows which addresses the host has. It belongs to the engine's beat.
type presence struct {
	watch  *address.Watcher
	recent map[netip.Addr]time.Time // addresses that changed, and until when they are looked at
}

func newPresence(log *slog.Logger) *presence {
	return &presence{watch: address.Watch(log), recent: map[netip.Addr]time.Time{}}
}

// affected takes in what changed and returns whether an address must be looked at.
func (p *presence) affected(now time.Time) func(netip.Addr) bool {
	changed, missed := p.watch.Take()
	for a := range changed {
		p.recent[a] = now.Add(settling)
	}
	look := make(map[netip.Addr]struct{}, len(p.recent))
	for a, until := range p.recent {
		look[a] = struct{}{}
		if now.After(until) {
			delete(p.recent, a)
		}
	}
	return func(a netip.Addr) bool {
		_, ok := look[a]
		return ok || missed
	}
}

// follow binds what could not be bound, where its address has changed or it is time, and says of virtual servers whose address
// went away that they are not in effect. Their sockets stay: with the address everything comes back.
func (e *Engine) follow(now time.Time) {
	look := e.presence.affected(now)
	e.mu.Lock()
	defer e.mu.Unlock()
	repaired := false
	for _, v := range e.running.Load().virtuals {
		addr := v.wanted.bind.Addr()
		changed := addr.IsValid() && look(addr.Unmap())
		if !changed && (v.retryAt.IsZero() || now.Before(v.retryAt)) {
			continue
		}
		if !repaired {
			e.holds.repair()
			repaired = true
		}
		switch {
		case !v.listening() && !v.retryAt.IsZero():
			v.listen(e)
			if v.listening() {
				e.log.Info("virtual server is in effect now", "virtual", v.address)
			}
		case (v.listener != nil || v.udp != nil) && changed:
			v.look(e, addr)
		}
	}
}

// look compares whether the address of a listener is there with what was known.
func (v *virtual) look(e *Engine, addr netip.Addr) {
	switch there := address.Available(addr); {
	case !there && v.reason() != notAvailable:
		e.log.Warn("virtual server is not in effect any more", "virtual", v.address, "bind", v.wanted.bind, "reason", notAvailable)
		v.setReason(notAvailable)
	case there && v.reason() == notAvailable:
		e.log.Info("virtual server is in effect now", "virtual", v.address)
		v.setReason(v.wanted.reason)
	}
}
