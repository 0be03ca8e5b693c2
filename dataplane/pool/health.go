package pool

import (
	"cmp"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// What failed traffic does to a member of a pool with passive_health: so many connects that fail one after the other, or requests
// that get no answer, mark it down, for so long. Then traffic may try it again, and the first failure marks it again.
const (
	passiveFailures = 3
	passiveDown     = 10 * time.Second
)

// Health is what is known of a member beyond what the operator said: what monitors found, what traffic met, and how many connections
// it has. It belongs to an address and port, whatever pools have it, and outlives snapshots. Methods may be called from any goroutine.
type Health struct {
	service     finding
	node        *Node // never nil
	connections Gauge // of all pools
	marks       atomic.Uint32

	probed   atomic.Int64                           // see Probed
	retried  atomic.Int64                           // when the mark of traffic last ended, nanoseconds since 1970
	failures atomic.Uint32                          // connects of traffic that failed, one after the other
	silences atomic.Uint32                          // requests without an answer, one after the other
	told     func(member netip.AddrPort, down bool) // of marks; nil: nobody
	member   netip.AddrPort

	mu     sync.Mutex
	marked bool        // by traffic
	unmark *time.Timer // ends the mark; nil: it lasts until Retry
}

// What is set in marks: passiveBit while traffic has marked the member down, guardedBit while it is guarded.
const (
	passiveBit = 1 << iota
	guardedBit
)

// Node is what the members of all pools at one node address have together.
type Node struct {
	found       finding
	connections Gauge
	timing      timing
}

// finding is what monitors found of a node address or of a service. The zero value is Unchecked.
type finding struct {
	state  atomic.Uint32
	weight atomic.Uint32 // see Health.Weight
	// risen is when it last came up after it was down, checked when the first check succeeded, in nanoseconds since 1970.
	risen, checked atomic.Int64

	mu     sync.Mutex
	fallen bool // it was down and has not come up since; guarded by mu
}

func (f *finding) get() State { return State(f.state.Load()) }

func (f *finding) set(s State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch before := f.get(); {
	case s == Down:
		f.fallen = true
	case s.UsableForNew() && f.fallen:
		f.fallen = false
		f.risen.Store(time.Now().UnixNano())
	case s == Up && before == Checking:
		f.checked.Store(time.Now().UnixNano())
	}
	f.state.Store(uint32(s))
}

// State is what monitors found: Unchecked, Checking, Up, Down, or AddressDown.
func (h *Health) State() State { return combined(h.service.get(), h.node.found.get()) }

// combined is what a member is whose service and address are monitored.
func combined(service, address State) State {
	switch {
	case address == Down:
		return AddressDown
	case service == Unchecked && address == Checking:
		return Checking
	}
	return service
}

// Probed is the time in which the member lately answered its monitors; zero is not known.
func (h *Health) Probed() time.Duration { return time.Duration(h.probed.Load()) }

// SetProbed says what monitors measured; zero is nothing.
func (h *Health) SetProbed(took time.Duration) { h.probed.Store(int64(took)) }

// Weight is what a program said that monitors the member or, where none did, its node address (lb_mode dynamic_ratio); zero is
// not known.
func (h *Health) Weight() uint32 {
	return cmp.Or(h.service.weight.Load(), h.node.found.weight.Load())
}

// SetWeight says what a program that monitors the member said; zero is nothing.
func (h *Health) SetWeight(w uint32) { h.service.weight.Store(w) }

// SetWeight says what a program that monitors the node address said; zero is nothing.
func (n *Node) SetWeight(w uint32) { n.found.weight.Store(w) }

// Marked reports whether traffic has marked the member down.
func (h *Health) Marked() bool { return h.marks.Load()&passiveBit != 0 }

// Guard has the first failure of traffic mark the member down, in whatever pool, until Retry: a health checker looks after it then
// (rules J-14, J-16).
func (h *Health) Guard() {
	h.mu.Lock()
	h.marks.Or(guardedBit)
	h.mu.Unlock()
}

// Unguard ends that, and the mark with it, of which nobody is told.
func (h *Health) Unguard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guarded() {
		h.marks.And(^uint32(guardedBit))
		h.clear()
	}
}

func (h *Health) guarded() bool { return h.marks.Load()&guardedBit != 0 }

// refused notes that a connect of traffic failed, silent that a request of traffic got no answer.
// So many of them, most, mark the member down.
func (h *Health) refused(most uint32) { h.failed(&h.failures, most) }
func (h *Health) silent(most uint32)  { h.failed(&h.silences, most) }

// failed counts a failure, which may mark the member down.
func (h *Health) failed(count *atomic.Uint32, most uint32) {
	if n := count.Add(1); !h.Marked() && (n >= most || h.guarded()) {
		h.mark()
	}
}

// mark marks the member down.
func (h *Health) mark() {
	h.mu.Lock()
	fresh := !h.marked
	if fresh {
		h.marked = true
		if !h.guarded() {
			h.unmark = time.AfterFunc(passiveDown, h.Retry)
		}
		h.marks.Or(passiveBit)
	}
	h.mu.Unlock()
	if fresh && h.told != nil {
		h.told(h.member, true)
	}
}

// accepted notes that a connect of traffic succeeded, answered that a request was answered.
func (h *Health) accepted() { clearCount(&h.failures) }
func (h *Health) answered() { clearCount(&h.silences) }

func clearCount(n *atomic.Uint32) {
	if n.Load() != 0 {
		n.Store(0)
	}
}

// Retry takes the mark of traffic away: the member may be tried again, and one more failure marks it again.
func (h *Health) Retry() {
	h.mu.Lock()
	marked := h.clear()
	h.mu.Unlock()
	if marked && h.told != nil {
		h.told(h.member, false)
	}
}

// clear takes the mark away. It reports whether there was one. The caller holds the lock.
func (h *Health) clear() bool {
	if !h.marked {
		return false
	}
	if h.unmark != nil {
		h.unmark.Stop()
	}
	h.marked, h.unmark = false, nil
	h.failures.Store(passiveFailures - 1)
	h.silences.Store(passiveFailures - 1)
	h.marks.And(^uint32(passiveBit))
	h.retried.Store(time.Now().UnixNano())
	return true
}

// Healths holds the health of members and what is known of node addresses, for as long as anybody holds that. The zero value is
// ready. Methods may be called from any goroutine.
type Healths struct {
	// Marked is called when traffic marks a member down, and when the mark ends; nil is allowed.
	Marked func(member netip.AddrPort, down bool)

	members Registry[netip.AddrPort, Health]
	nodes   Registry[netip.Addr, Node]
}

// Of returns the health of a member, the same for as long as anybody holds it.
func (h *Healths) Of(member netip.AddrPort) *Health {
	return h.members.Of(member, func(health *Health) {
		health.told, health.member, health.node = h.Marked, member, h.nodes.Of(member.Addr(), nil)
	})
}

// SetService says what monitors found of a member, and returns its health, which the caller holds for as long as it is to be
// remembered.
func (h *Healths) SetService(member netip.AddrPort, s State) *Health {
	health := h.Of(member)
	health.service.set(s)
	return health
}

// SetAddress says what monitors found of a node address: of all members on it. The caller holds what it returns for as long as it
// is to be remembered.
func (h *Healths) SetAddress(addr netip.Addr, s State) *Node {
	node := h.nodes.Of(addr, nil)
	node.found.set(s)
	return node
}

// Address returns what monitors found of a node address.
func (h *Healths) Address(addr netip.Addr) State {
	if node := h.nodes.get(addr); node != nil {
		return node.found.get()
	}
	return Unchecked
}

// Marks lists the members that traffic has marked down, in no order.
func (h *Healths) Marks() []netip.AddrPort {
	var list []netip.AddrPort
	h.members.each(func(member netip.AddrPort, health *Health) {
		if health.Marked() {
			list = append(list, member)
		}
	})
	return list
}

// Mark marks a member down as failures of traffic do.
func (h *Healths) Mark(member netip.AddrPort) { h.Of(member).mark() }

// Len returns how many members are known, for tests of what is forgotten.
func (h *Healths) Len() int { return h.members.Len() }
