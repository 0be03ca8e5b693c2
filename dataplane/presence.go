package dataplane

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"bigpipe/dataplane/address"
)

// holds count who needs an address of this host: virtual servers, and connections of those that are gone. Where a device is
// given they make the host have the addresses.
type holds struct {
	mu       sync.Mutex
	count    map[netip.Addr]int // guarded by mu, as all below
	assigner *address.Assigner  // nil: nothing is assigned
	forget   func()             // removes what another process assigned; nil: nothing
}

// open takes over what a process before this one had assigned, or removes it, and begins to assign. What is not wanted is
// removed by settle.
func (h *holds) open(o *EngineOptions) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case o.AssignDevice != "" && o.StateDir == "":
		return fmt.Errorf("assign addresses to %s: there is no state directory to remember them", o.AssignDevice)
	case o.AssignDevice != "":
		if h.assigner, err = address.NewAssigner(o.AssignDevice, o.StateDir, o.Log); err == nil {
			h.assigner.Add(slices.Collect(maps.Keys(h.count))...)
		}
		return err
	case o.StateDir != "":
		h.forget = func() {
			if err := address.Forget(o.StateDir); err != nil {
				o.Log.Warn("cannot remove addresses that were assigned", "error", err)
			}
		}
	}
	return nil
}

// take holds addresses; one comes as often as it is held.
func (h *holds) take(addrs []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first []netip.Addr
	for _, a := range addrs {
		if h.count[a]++; h.count[a] == 1 {
			first = append(first, a)
		}
	}
	if h.assigner != nil && len(first) > 0 {
		h.assigner.Add(first...)
	}
}

// release holds an address once less.
func (h *holds) release(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[a]--; h.count[a] > 0 {
		return
	}
	delete(h.count, a)
	if h.assigner != nil {
		h.assigner.Remove(a)
	}
}

// settle removes what was assigned by a process before this one and is not needed.
func (h *holds) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.assigner != nil:
		h.assigner.Settle()
	case h.forget != nil:
		h.forget()
		h.forget = nil
	}
}

func (h *holds) repair() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.assigner != nil {
		h.assigner.Repair()
	}
}

// close removes what was assigned.
func (h *holds) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.assigner != nil {
		h.assigner.Close()
		h.assigner = nil
	}
}

// leave leaves what was assigned to another process.
func (h *holds) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.assigner != nil {
		h.assigner.Leave()
		h.assigner = nil
	}
	h.forget = nil
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
			if v.wanted.network.IsValid() {
				e.intercept()
			}
			if v.listening() {
				e.log.Info("virtual server is in effect now", "virtual", v.address)
			}
		case (v.listener != nil || v.udp != nil) && changed:
			v.look(e, addr)
		}
	}
	e.keepIntercepting(now)
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
