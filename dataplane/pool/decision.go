package pool

import (
	"errors"
	"net/netip"

	"bigpipe/dataplane/balance"
	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/tlshello"
)

var (
	// ErrNoMember means that no member may be used, or that none is left to be tried.
	ErrNoMember = errors.New("no member is available")
	// ErrRefused means that the client belongs to a member that it cannot reach, and the pool says not to move it
	// (persist_unavailable refuse).
	ErrRefused = errors.New("the client's member is not available")
)

// Input is what a choice is made by. Addresses are those of the configuration, before the address map.
type Input struct {
	Client netip.AddrPort
	// Virtual is the virtual server; scopes are made of it.
	Virtual netip.AddrPort
	// Destination is where the client wanted to go; the zero value means Virtual.
	Destination netip.AddrPort
	// Request is the request's head; nil where no HTTP is read. It must stay as it is until the call returns.
	Request *http1.Head
	// Target is the request's target as received; nil where it is not known. It must stay as it is until the call returns.
	Target []byte
	// ID names the session where the client's bytes do: the Call-ID of a SIP message, the user of terminal services. Nil
	// where they name none. It may be a part of a buffer.
	ID []byte
	// Named is the member that the client's bytes name, as those of terminal services can; else invalid.
	Named netip.AddrPort
	// Hello is the client's hello of TLS, as far as it came; nil where none was read. It must stay as it is until the call
	// returns.
	Hello *tlshello.Client
	// Fresh asks for a new choice, whatever was recorded (use pool P persist none).
	Fresh bool
	// ByRule says that a rule chose the pool.
	ByRule bool
}

// Decision is one choice and what follows from it. Its owner makes it once, uses it for one choice after the other, and
// calls Release after each. It must not be copied while it holds a choice, nor be used by two goroutines at once. The zero
// value is ready.
type Decision struct {
	// Member is the member that was chosen; nil before Choose and after an error.
	Member *Member

	pool    *Pool
	shard   Shard
	tried   balance.Set
	refused int
	opened  bool // counted as open at Member
	outcome Outcome
	lapsed  bool // the client's record had run out
	action  Outcome
	cookie  cookieNote
	token   tokenNote
	jroute  jrouteNote
	hash    hashNote
	record  recordNote
	answer  *answerNote // nil: nothing is learned from the member's answer
	trace   *trace
	key     netip.Addr // see Pool.key
}

// Choose chooses a member for a connection or request: first what persistence says, then by the mode of the pool. The
// member counts the connection as open from now on. A decision that was not released is released first. On an error
// (ErrNoMember, ErrRefused) no member was chosen; the decision still tells the outcome.
func (p *Pool) Choose(d *Decision, in *Input) error {
	d.Release()
	d.pool, d.shard = p, NewShard()
	return d.choose(in)
}

func (d *Decision) choose(in *Input) error {
	if d.dry() {
		d.pool.groups.refresh()
	} else {
		d.pool.groups.look()
	}
	if d.pool.mode.Keyed() {
		d.key = d.pool.key(in)
	}
	if d.pool.persisted == nil {
		return d.counted(d.balance())
	}
	d.lapsed = false
	done, err := d.pool.persisted.choose(d, in)
	if !done && err == nil {
		err = d.balance()
	}
	if byTable := d.lapsed && d.outcome == OutcomeExpired; !d.dry() && !byTable {
		d.pool.shared.outcomes.add(d.shard, d.outcome)
		d.pool.tell(d.outcome, 1, in.Client.Addr())
	}
	return d.counted(err)
}

// counted counts a connection that found no member.
func (d *Decision) counted(err error) error {
	if err != nil && !d.dry() {
		d.pool.shared.unserved.Add(1)
	}
	return err
}

// follow takes the member that the client belongs to. When it is not done, the outcome says why: down, or valid for a
// member at its limit, whose client is served elsewhere and stays bound (rule B-16).
func (d *Decision) follow(m *Member) (done bool, err error) {
	state := m.State()
	if !state.UsableForPersisted() {
		d.outcome = OutcomeDown
		if d.pool.refuseUnavailable() {
			return false, ErrRefused
		}
		return false, nil
	}
	if !d.pool.keeps(m) {
		d.outcome = OutcomeDown
		if d.dry() {
			d.step("a higher priority group than that of member %s takes the traffic", m.Addr)
		}
		return false, nil
	}
	d.outcome = OutcomeValid
	if !d.take(m, d.pool.persistedLimits(m)) {
		if d.dry() {
			d.step("member %s has as many connections as it may: another one serves this connection, the binding stays", m.Addr)
		}
		return false, nil
	}
	if state.disabled() {
		d.outcome = OutcomeDisabledHonoured
	}
	return true, nil
}

// did notes and counts what persistence did.
func (d *Decision) did(action Outcome) {
	d.action = action
	if !d.dry() {
		d.pool.shared.outcomes.add(d.shard, action)
		d.pool.tell(action, 1, d.record.key.Prefix().Addr())
	}
}

// balance takes the next member by the pool's mode that may be used and was not tried: of the priority groups that take
// traffic, or where none of these is left, of all. Where there is none, those are tried of which nothing is known yet.
func (d *Decision) balance() error {
	if d.dry() {
		d.passedOver()
	}
	for {
		ask := balance.Ask{Usable: d.pool.preferred, Tried: d.tried, Key: d.key}
		i, ok := d.picker().Pick(ask)
		if !ok && d.pool.groups != nil {
			ask.Usable = d.pool.usable
			i, ok = d.picker().Pick(ask)
		}
		if !ok {
			ask.Usable = d.pool.checking
			i, ok = d.picker().Pick(ask)
		}
		if !ok && d.pool.jroutes != nil && d.pool.allUnhealthy() { // rule J-13
			ask.Usable = d.pool.unhealthy
			i, ok = d.picker().Pick(ask)
		}
		if !ok {
			d.take(nil, limits{})
			if d.dry() {
				d.step("no member can be used")
			}
			return ErrNoMember
		}
		if m := d.pool.members[i]; d.take(m, m.limits()) {
			if d.dry() {
				d.step("%s chooses member %s", d.pool.mode, m.Addr)
			}
			return nil
		}
		d.tried.Add(i) // it filled up since it was asked
	}
}

// take makes m the chosen member and counts the connection there; false when it has as many as limits say already, and then
// nothing changes. Nil chooses nobody.
func (d *Decision) take(m *Member, l limits) bool {
	switch {
	case m == nil:
	case d.dry():
		if l != (limits{}) && m.full() {
			return false
		}
	case !m.open(l):
		return false
	}
	if d.opened {
		d.Member.close()
	}
	d.Member, d.opened = m, m != nil && !d.dry()
	return true
}

// Refused says that the chosen member did not accept. The next one is chosen: each remaining usable member once, at most
// reselect_tries of them. A record moves with the choice, so that others who fail at the same time meet at one member.
func (d *Decision) Refused() error {
	if d.Member == nil {
		return ErrNoMember
	}
	d.tried.Add(d.Member.index)
	if d.Member.removed.IsZero() {
		d.refused++
	}
	if d.Member.watched() && !d.dry() {
		d.Member.health.refused(d.Member.patience())
	}
	if d.refused > d.pool.refusals {
		d.take(nil, limits{})
		return d.counted(ErrNoMember)
	}
	if d.pool.persisted == nil {
		return d.counted(d.balance())
	}
	if d.pool.refuseUnavailable() && (d.outcome == OutcomeValid || d.outcome == OutcomeDisabledHonoured) {
		d.take(nil, limits{})
		return d.counted(ErrRefused)
	}
	return d.counted(d.pool.persisted.refused(d))
}

// Accepted says that the chosen member accepted: it is counted, and only now a record is refreshed (a
// failing attempt refreshes nothing). Should the connection end and the decision go on, all members may be tried again.
func (d *Decision) Accepted() {
	if d.Member == nil {
		return
	}
	d.tried, d.refused = balance.Set{}, 0
	d.Member.counters.Opened()
	if d.Member.watched() {
		d.Member.health.accepted()
	}
	if d.pool.persisted != nil {
		d.pool.persisted.accepted(d)
	}
}

// Silent says that the chosen member did not answer a request: it took too long, or closed a connection that was made for it (rule
// J-14).
func (d *Decision) Silent() {
	if d.Member != nil && d.Member.watched() {
		d.Member.health.silent(d.Member.patience())
	}
}

// Answered says that the chosen member answered a request.
func (d *Decision) Answered() {
	if d.Member != nil && d.Member.watched() {
		d.Member.health.answered()
	}
}

// Rest says that the member serves nothing of this decision for now: it counts no connection as open for it any more. A
// record stays held. Member stays, for Count.
func (d *Decision) Rest() {
	if d.opened {
		d.Member.close()
		d.opened = false
	}
}

// Count counts bytes from and to the client, and requests, at the chosen member.
func (d *Decision) Count(in, out, requests uint64) {
	if d.Member != nil {
		d.Member.counters.Add(d.shard, in, out, requests)
	}
}

// Release ends the decision: the connection is closed, or was never made. The timer of a record starts when the last
// connection that holds it is released. Releasing twice does nothing.
func (d *Decision) Release() {
	d.take(nil, limits{})
	d.record.release()
	d.answer.release()
	*d = Decision{}
}

// Pool returns the pool that chose; nil before Choose.
func (d *Decision) Pool() *Pool { return d.pool }

// Outcome says what persistence found (none, valid, down, ...) and what it did: bound, moved, or off for nothing.
func (d *Decision) Outcome() (found, did Outcome) { return d.outcome, d.action }
