package pool

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// What failed traffic does to a member of a pool with passive_health: so many connects that fail one after the other mark it
// down, for so long. Then traffic may try it again, and the first failure marks it again.
const (
	passiveFailures = 3
	passiveDown     = 10 * time.Second
)

// Health is what is known of a member beyond what the operator said: what monitors found, and what traffic met. It belongs to an
// address, whatever pools have it, and outlives snapshots. Methods may be called from any goroutine.
type Health struct {
	// word is the state that monitors found; passiveBit is set while traffic has marked the member down.
	word atomic.Uint32

	probed   atomic.Int64                           // see Probed
	failures atomic.Uint32                          // of traffic, one after the other
	told     func(member netip.AddrPort, down bool) // of marks; nil: nobody
	member   netip.AddrPort

	mu               sync.Mutex
	service, address State       // what monitors say of each
	marked           *time.Timer // ends the mark of traffic
}

const passiveBit = 1 << 8

// State is what monitors found: Unchecked, Checking, Up, Down, or AddressDown.
func (h *Health) State() State { return State(h.word.Load()) }

func (h *Health) set(target *State, s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*target = s
	word := uint32(combined(h.service, h.address))
	if h.marked != nil {
		word |= passiveBit
	}
	h.word.Store(word)
}

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

// Marked reports whether traffic has marked the member down.
func (h *Health) Marked() bool { return h.word.Load()&passiveBit != 0 }

// refused notes that a connect of traffic failed.
func (h *Health) refused() {
	if h.failures.Add(1) < passiveFailures || h.Marked() {
		return
	}
	h.mu.Lock()
	fresh := h.marked == nil
	if fresh {
		h.marked = time.AfterFunc(passiveDown, h.Retry)
		h.word.Or(passiveBit)
	}
	h.mu.Unlock()
	if fresh && h.told != nil {
		h.told(h.member, true)
	}
}

// accepted notes that a connect of traffic succeeded.
func (h *Health) accepted() {
	if h.failures.Load() != 0 {
		h.failures.Store(0)
	}
}

// Retry takes the mark of traffic away: the member may be tried again.
func (h *Health) Retry() {
	h.mu.Lock()
	marked := h.marked != nil
	if marked { // one more failure marks again
		h.marked.Stop()
		h.marked = nil
		h.failures.Store(passiveFailures - 1)
		h.word.And(^uint32(passiveBit))
	}
	h.mu.Unlock()
	if marked && h.told != nil {
		h.told(h.member, false)
	}
}

// Healths holds the health of members by address. The zero value is ready. Methods may be called from any goroutine.
type Healths struct {
	// Marked is called when traffic marks a member down, and when the mark ends; nil is allowed.
	Marked func(member netip.AddrPort, down bool)

	mu    sync.Mutex
	known map[netip.Addr]*machine
	gone  func(netip.AddrPort) // forget, made once
}

// machine is a node address with the members on it. A member that no pool has any more leaves.
type machine struct {
	state   State
	members []memberHealth // few, so a map would take more memory than it saves time
}

type memberHealth struct {
	port   uint16
	health weak.Pointer[Health]
}

// find returns where the member with a port is, -1 if it is not there, and its health, nil if nobody holds it any more.
func (m *machine) find(port uint16) (place int, health *Health) {
	for i := range m.members {
		if m.members[i].port == port {
			return i, m.members[i].health.Value()
		}
	}
	return -1, nil
}

// Of returns the health of a member, the same for as long as anybody holds it.
func (h *Healths) Of(member netip.AddrPort) *Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of(member)
}

func (h *Healths) of(member netip.AddrPort) *Health {
	m := h.machine(member.Addr())
	place, known := m.find(member.Port())
	if known != nil {
		return known
	}
	health := &Health{told: h.Marked, member: member}
	health.set(&health.address, m.state)
	if place < 0 {
		m.members = append(m.members, memberHealth{port: member.Port(), health: weak.Make(health)})
	} else { // it is gone, and not yet forgotten
		m.members[place].health = weak.Make(health)
	}
	if h.gone == nil {
		h.gone = h.forget
	}
	runtime.AddCleanup(health, h.gone, member)
	return health
}

func (h *Healths) machine(addr netip.Addr) *machine {
	m := h.known[addr]
	if m == nil {
		if h.known == nil {
			h.known = map[netip.Addr]*machine{}
		}
		m = &machine{}
		h.known[addr] = m
	}
	return m
}

// forget removes a member that nobody holds.
func (h *Healths) forget(member netip.AddrPort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.known[member.Addr()]
	if m == nil {
		return
	}
	if place, health := m.find(member.Port()); place >= 0 && health == nil {
		m.members = slices.Delete(m.members, place, place+1)
		h.tidy(member.Addr(), m)
	}
}

func (h *Healths) tidy(addr netip.Addr, m *machine) {
	if len(m.members) == 0 && m.state == Unchecked {
		delete(h.known, addr)
	}
}

// SetService says what monitors found of a member, and returns its health, which the caller holds for as long as it is to be
// remembered.
func (h *Healths) SetService(member netip.AddrPort, s State) *Health {
	health := h.Of(member)
	health.set(&health.service, s)
	return health
}

// SetAddress says what monitors found of a node address: of all members on it.
func (h *Healths) SetAddress(addr netip.Addr, s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.machine(addr)
	m.state = s
	for _, member := range m.members {
		if health := member.health.Value(); health != nil {
			health.set(&health.address, s)
		}
	}
	h.tidy(addr, m)
}

// Address returns what monitors found of a node address.
func (h *Healths) Address(addr netip.Addr) State {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.known[addr]; m != nil {
		return m.state
	}
	return Unchecked
}

// Len returns how many members are known, for tests of what is forgotten.
func (h *Healths) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, m := range h.known {
		n += len(m.members)
	}
	return n
}
