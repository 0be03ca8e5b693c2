package pool

import (
	"cmp"
	"net/netip"
	"sync/atomic"
	"time"

	"bigpipe/dataplane/balance"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// course is what happens to a member of a pool in the course of time: it starts slowly, it is drained. Pools of one name hand it to
// each other. Times are in nanoseconds since 1970; zero is never.
type course struct {
	began    atomic.Int64 // when the operator added, enabled or raised it
	disabled atomic.Int64 // since when the operator keeps new clients away, where that has an end
	drained  atomic.Bool  // that end has come
}

// coldest is the part of its weight, in percent, with which a member starts.
const coldest = 5

// accompany says what the configuration makes of the member from now on. Old is the same member of the pool before, nil where there
// was none; fresh: there was a pool before.
func (m *Member) accompany(c *pb.Member, slow time.Duration, old *Member, fresh bool, now time.Time) {
	m.slow, m.drain = slow, time.Duration(c.GetDrainTimeout())*time.Second
	if old != nil {
		m.course = old.course
	}
	if m.course == nil {
		if m.slow == 0 && m.drain == 0 {
			return
		}
		m.course = &course{}
	}
	if old == nil && fresh || old != nil && m.state.UsableForNew() && !old.state.UsableForNew() {
		m.course.began.Store(now.UnixNano())
	}
	switch {
	case m.drain == 0 || !m.state.disabled():
		m.course.disabled.Store(0)
		m.course.drained.Store(false)
	case m.course.disabled.Load() == 0:
		m.course.disabled.Store(now.UnixNano())
	}
}

// warmth is the part of its weight that the member counts with now, in percent: it grows with the time since the member came up.
func (m *Member) warmth() uint32 {
	h := m.health
	since := max(m.course.began.Load(), h.service.risen.Load(), h.node.found.risen.Load())
	if m.course.began.Load() != 0 { // it was added, and may have had to wait for its first check
		since = max(since, h.service.checked.Load(), h.node.found.checked.Load())
	}
	if m.watched() {
		since = max(since, h.retried.Load())
	}
	if since == 0 {
		return 100
	}
	passed := time.Duration(time.Now().UnixNano() - since)
	if passed < 0 || passed >= m.slow { // less than nothing: the clock was set back
		return 100
	}
	return max(uint32(passed*100/m.slow), coldest)
}

// Drained reports whether the operator disabled the member, and the time that it had to serve its clients is over (drain_timeout,
// rule J-17). It is the same for this member in all snapshots.
func (m *Member) Drained() bool { return m.course != nil && m.course.drained.Load() }

// Over reports whether connections to the member are to end: it is drained, or its monitors find it down and its pool wants that
// (on_down reset).
func (m *Member) Over() bool {
	if m.ResetOnDown {
		if s := m.health.State(); s == Down || s == AddressDown {
			return true
		}
	}
	return m.Drained()
}

// Drains reports whether a member is disabled that has an end, which has not come yet.
func (p *Pool) Drains() bool {
	for _, m := range p.members {
		if m.course != nil && m.course.disabled.Load() != 0 && !m.Drained() {
			return true
		}
	}
	return false
}

// Drain ends the members whose time is over: from now on nobody reaches them. It returns those that were not ended before.
func (p *Pool) Drain(now time.Time) (ended []*Member) {
	for _, m := range p.members {
		if m.course == nil {
			continue
		}
		since := m.course.disabled.Load()
		if since == 0 || now.UnixNano()-since < int64(m.drain) {
			continue
		}
		if m.course.drained.CompareAndSwap(false, true) {
			ended = append(ended, m)
		}
	}
	return ended
}

// live is what changes of the member's weight by itself, nil for nothing.
func (p *Pool) live(m *Member, env *Env) *balance.Live {
	var l balance.Live
	if m.slow > 0 && !p.mode.Keyed() {
		l.Warmth = m.warmth
	}
	if p.mode == balance.DynamicRatio {
		l.Weight = func() uint32 { return cmp.Or(m.health.Weight(), m.Ratio) }
	}
	if p.mode.Multiplied() && env.responds(m.Addr) {
		l.Replies = m.health.Probed
	}
	if l.Warmth == nil && l.Weight == nil && l.Replies == nil {
		return nil
	}
	return &l
}

// responds reports whether a pool with lb_mode response has a member: then how fast it replies counts in all pools (rule M-6). It is
// looked for once, as a member may be in thousands of pools.
func (e *Env) responds(member netip.AddrPort) bool {
	f := e.found()
	found, known := f.responding[member]
	if known {
		return found
	}
	e.View.Referrers("node/"+member.String(), func(from string) bool {
		if kind, name := pb.SplitKey(from); kind == "pool" {
			p := config.FindPool(e.View, name)
			found = p != nil && config.LbModeOf(e.View, p) == pb.LbMode_LB_MODE_RESPONSE
		}
		return !found
	})
	f.responding[member] = found
	return found
}
