package forward

import (
	"errors"
	"time"

	"bigpipe/dataplane/pool"
)

// redial connects again to the member of the decision, because its connection ended between two requests. If the member is
// not usable any more a new decision is made, and a new cookie (rule O-15).
func (x *exchange) redial() error {
	f := x.f
	d := &f.decision
	m, current := f.listener.settings.Load().member(d)
	if m == nil || !m.State().UsableForPersisted() {
		return x.decide()
	}
	x.redialled = m.Addr
	err := f.dial(m, d.Pool().ConnectTimeout)
	switch {
	case err == nil:
		d.Accepted()
		return nil
	case errors.Is(err, errKilled), errors.Is(err, errLocal):
		return answerTo(err)
	case !current:
		return x.decide()
	}
	return x.reach(d.Pool(), d.Refused())
}

// member finds the member of a decision in the pool of the same name; current: it is the very pool that decided.
func (set *Settings) member(d *pool.Decision) (m *pool.Member, current bool) {
	for _, p := range set.Pools {
		if p != nil && p.Name == d.Pool().Name {
			return p.Member(d.Member.Addr), p == d.Pool()
		}
	}
	return nil, false
}

// mayRepeat reports whether a request may be sent again on a new connection: the one that it was sent on was used before, which
// a new one is not, and died without a byte of an answer; and sending twice does what sending once does (rules on retries). If
// its kept connection had ended, and the new one to the same member died too, it may if that member is gone.
func (x *exchange) mayRepeat() bool {
	f := x.f
	first := f.reused && !x.repeated
	second := !f.reused && !x.probed && f.decision.Member.Addr == x.redialled
	return (first || second) && x.answers == 0 && f.from.len() == 0 && !x.upload.started &&
		(x.request.Idempotent() || f.decision.Idempotent(&x.request)) && !x.asked.Upgrade
}

// mayReplay reports whether a request that its member did not answer is sent to another one: where the pool says so of such requests,
// nothing of an answer has come, and all of the request is still there (rule J-15).
func (x *exchange) mayReplay(err error) bool {
	return (errors.Is(err, errTooLate) || errors.Is(err, errBadMember)) && x.answers == 0 && x.f.from.len() == 0 &&
		!x.upload.started && !x.asked.Upgrade && x.f.decision.MayReplay(&x.request)
}

// replay connects to another member for such a request.
func (x *exchange) replay() error {
	f := x.f
	f.server.close()
	f.from.drop()
	f.pinned = false
	return x.reach(f.decision.Pool(), f.decision.Replay())
}

// again connects for a request that is repeated: to its member, and where that ended just then to another one.
func (x *exchange) again() error {
	f := x.f
	f.afresh = true
	if f.reused {
		x.repeated = true
		return x.redial()
	}
	x.probed = true
	if !x.gone() {
		return errBadMember
	}
	f.pinned = false
	return x.decide()
}

// parting bounds how long a process that was killed has its listener when its connections are closed. That is a moment, but on a
// busy machine it may be interrupted.
const parting = time.Second

// gone reports whether the member accepts no connections any more. One that is accepted by the listener of a process that ends is
// closed with it: only the next one is refused.
func (x *exchange) gone() bool {
	f := x.f
	for range 2 {
		if err := f.dial(f.decision.Member, f.decision.Pool().ConnectTimeout); err != nil {
			return !errors.Is(err, errKilled) && !errors.Is(err, errLocal)
		}
		f.server.until(&f.server.reader, parting)
		f.wait()
		err := f.server.fill(&f.from)
		f.waiting.Store(0)
		if err == nil || errors.Is(err, errTimeout) || errors.Is(err, errKilled) {
			return false
		}
	}
	return false
}
