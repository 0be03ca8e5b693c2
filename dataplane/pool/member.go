package pool

import (
	"net/netip"
	"time"

	"bigpipe/dataplane/balance"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// State is what a member is for new and for persisted traffic; its word is that of a display.
type State uint8

const (
	// Unchecked is an enabled member that nothing monitors.
	Unchecked State = iota
	// Up is an enabled member whose monitors succeed.
	Up
	// Down is a member whose monitors fail, or that cannot be dialled at all.
	Down
	// ForcedDown is a member that the operator set down.
	ForcedDown
	// Checking is a member whose first check has not ended.
	Checking
	// Maintenance is every member while maintenance mode is on.
	Maintenance
	// Disabled is a member that the operator disabled: it serves open connections and persisted clients.
	Disabled
	// AddressDisabled is a member whose node address is disabled.
	AddressDisabled
	// PortDisabled is a member whose service is disabled.
	PortDisabled
	// AddressDown is a member whose node address is down.
	AddressDown
)

var stateWords = [...]string{
	"unchecked", "up", "down", "forced_down", "checking", "maintenance", "disabled", "address_disabled", "port_disabled",
	"address_down",
}

// String returns the word.
func (s State) String() string {
	if int(s) < len(stateWords) {
		return stateWords[s]
	}
	return "unknown"
}

// Message returns the state as the API says it.
func (s State) Message() pb.MemberState {
	return pb.MemberState(s) + pb.MemberState_MEMBER_STATE_UNCHECKED
}

// UsableForNew reports whether new traffic may be balanced to a member in this state.
func (s State) UsableForNew() bool { return s == Unchecked || s == Up }

// UsableForPersisted reports whether clients that are bound to the member may still reach it (rules B-8, C-7). They may while
// nothing is known of it: after a restart nobody is moved for want of a first check.
func (s State) UsableForPersisted() bool {
	switch s {
	case Unchecked, Up, Checking, Disabled, AddressDisabled, PortDisabled:
		return true
	}
	return false
}

// disabled reports whether the operator keeps new clients away, be it by the member, its address or its service.
func (s State) disabled() bool { return s == Disabled || s == AddressDisabled || s == PortDisabled }

// Over returns what a member or a node is that the operator has in one state, while its monitors found another. That it is down
// stands above all but what the operator set down: a disabled member that is dead takes nobody.
func Over(operator, found State) State {
	switch {
	case operator == Unchecked, operator.disabled() && (found == Down || found == AddressDown):
		return found
	}
	return operator
}

// Member is an address and port in a pool. It belongs to one snapshot and does not change; its counters outlive it.
type Member struct {
	// Addr is the address of the configuration. Names, cookies, records and all output use it.
	Addr netip.AddrPort
	// Dial is where to connect to; invalid when the address may not be dialled.
	Dial netip.AddrPort
	// Limit is the most connections at a time in this pool, ServiceLimit in all pools that have the member, NodeLimit at its node
	// address together with other members there; zero means no limit.
	Limit, ServiceLimit, NodeLimit uint32
	// Ratio is the weight of the member under the pool's mode, Priority its group.
	Ratio, Priority uint32
	// ResetOnDown says that open connections are reset when monitors find the member down (on_down reset).
	ResetOnDown bool

	removed  time.Time // when the configuration lost it; zero: it has it
	index    int
	state    State // by the operator, or Down when it cannot be dialled
	counters *Counters
	health   *Health
	passive  bool          // failed traffic marks it down
	strict   bool          // the first one does
	live     *balance.Live // what changes of its weight; nil: nothing
	course   *course       // nil where time changes nothing
	slow     time.Duration // slow_start of the pool; 0: none
	drain    time.Duration // drain_timeout; 0: none
	cookie   []byte        // the value that names the member
	epoch    uint64        // of the member; encrypted cookies hold it
}

// State returns the member's state now. What the operator said stands above what monitors found. One that is disabled for longer
// than its drain_timeout is down.
func (m *Member) State() State {
	found := m.health.State()
	if m.passive && m.health.Marked() {
		found = Down
	}
	state := Over(m.state, found)
	if state.disabled() && m.Drained() {
		return ForcedDown
	}
	return state
}

// Health returns what is known of the member; it is shared with all members of that address.
func (m *Member) Health() *Health { return m.health }

// Counters returns what is counted about the member; it is shared with the same member in other snapshots.
func (m *Member) Counters() *Counters { return m.counters }

// watched reports whether failures of traffic are counted.
func (m *Member) watched() bool { return m.passive || m.health.guarded() }

// watch says what failed traffic does to the member: with passive_health several failures mark it down, in a pool of persist_mode
// jroute the first one does (rule J-14).
func (m *Member) watch(pool *pb.Pool) {
	m.strict = pool.GetPersistMode() == pb.PersistMode_PERSIST_MODE_JROUTE
	m.passive = m.strict || pool.GetPassiveHealth()
}

// patience is how many failures, one after the other, mark the member down.
func (m *Member) patience() uint32 {
	if m.strict {
		return 1
	}
	return passiveFailures
}

// full reports whether a limit is reached now.
func (m *Member) full() bool {
	return m.Limit > 0 && m.counters.Current() >= uint64(m.Limit) || m.health.connections.full(m.ServiceLimit) ||
		m.health.node.connections.full(m.NodeLimit)
}

// usable reports whether new traffic may be balanced to the member now.
func (m *Member) usable() bool { return m.State().UsableForNew() && !m.full() }

// open counts a connection at the member, unless it has as many as limits say.
func (m *Member) open(l limits) bool {
	h := m.health
	if !h.node.connections.Open(l.node) {
		return false
	}
	if !h.connections.Open(l.service) {
		h.node.connections.Close()
		return false
	}
	if !m.counters.Open(l.member) {
		h.connections.Close()
		h.node.connections.Close()
		return false
	}
	return true
}

func (m *Member) close() {
	m.counters.Close()
	m.health.connections.Close()
	m.health.node.connections.Close()
}

// limits are those that count for one choice; zero means no limit.
type limits struct{ member, service, node uint32 }

func (m *Member) limits() limits { return limits{m.Limit, m.ServiceLimit, m.NodeLimit} }

// OperatorState is what the operator said of a member: of itself, its address, its service, the whole unit. Given a node's
// address alone, it is that of the node.
func OperatorState(view config.View, member string) State {
	if config.Globals(view).GetMaint() {
		return Maintenance
	}
	return State(config.MemberState(view, member).Word - pb.MemberState_MEMBER_STATE_UNCHECKED)
}
