package monitor

import (
	"errors"
	"time"

	"bigpipe/dataplane/pool"
)

// A Healer checks members that traffic has found dead (rules J-14, J-16): until then nothing is asked of them, and they count as well.

// trafficFailed is why a node is down that traffic has found dead.
const trafficFailed = "traffic failed"

// never is when a check that rests is due.
var never = time.Unix(1<<33, 0)

// rests reports whether nothing is to be done: a member that is well is left alone.
func (c *check) rests() bool {
	return c.spec.Kind == Healer && !c.spec.Active && c.state != pool.Down
}

// initial is the state of a check that has not begun.
func (s *Spec) initial() pool.State {
	if s.Kind == Healer {
		return pool.Unchecked
	}
	return pool.Checking
}

// healed takes a result: one success is enough; of a member that is well it takes several failures.
func (c *check) healed(err error) {
	switch {
	case errors.Is(err, ErrLocal):
	case err == nil:
		c.state, c.reason, c.failures = pool.Up, "", 0
	default:
		c.failures++
		c.reason = err.Error()
		if c.failures >= c.spec.Retries {
			c.state = pool.Down
		}
	}
}

// struck is that traffic has found the member dead, which is asked an interval later.
func (c *check) struck(now time.Time) {
	if c.state == pool.Down {
		return
	}
	c.state, c.reason, c.failures = pool.Down, trafficFailed, 0
	c.next, c.rhythm = now.Add(c.spec.Interval), time.Time{}
}

// healers calls fn for each Healer of the node.
func (n *node) healers(fn func(c *check)) {
	for _, c := range n.checks {
		if c != nil && c.spec.Kind == Healer {
			fn(c)
		}
	}
}

func (n *node) guarded() (yes bool) {
	n.healers(func(*check) { yes = true })
	return yes
}

// guard has traffic say when the member is dead, where a Healer looks after it.
func (n *node) guard() {
	switch {
	case n.health == nil:
	case n.guarded():
		n.health.Guard()
	default:
		n.health.Unguard()
	}
}

// struck has the Healers of a node look after it, since traffic found it dead.
func (s *Set) struck(n *node, changed *[]Transition) {
	now := time.Now()
	n.healers(func(c *check) {
		c.struck(now)
		s.queue.put(c)
	})
	s.settle(n, now, changed)
}
