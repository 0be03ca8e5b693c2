package monitor

import (
	"net/netip"
	"time"

	"bigpipe/dataplane/pool"
)

// Known is what a check has found, for another set that goes on from there.
type Known struct {
	Monitor string
	// Target is where it looks, Node for whom where that is not for all.
	Target, Node netip.AddrPort
	Kind         Kind
	// State is Up or Down, Reason why it is not up, Failures how many there were in a row.
	State    pool.State
	Reason   string
	Failures int
	// Age is how long ago the last success was, Took how long answers take.
	Age, Took time.Duration
}

// Known returns what the checks have found, without those that have found nothing yet.
func (s *Set) Known() []Known {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var list []Known
	for k, c := range s.checks {
		if c.state == pool.Up || c.state == pool.Down || c.failures > 0 {
			list = append(list, Known{
				Monitor: k.monitor, Target: k.target, Node: k.node, Kind: c.spec.Kind,
				State: c.state, Reason: c.reason, Failures: c.failures, Age: now.Sub(c.success), Took: c.took,
			})
		}
	}
	return list
}

// know takes what another set has found.
func (s *Set) know(list []Known) {
	s.known = make(map[key]*Known, len(list))
	for i := range list {
		k := &list[i]
		s.known[key{k.Monitor, k.Target, k.Node}] = k
	}
}

// remind gives a check that is new what is known of it.
func (s *Set) remind(c *check, now time.Time) {
	k := s.known[c.key]
	if k == nil || k.Kind != c.spec.Kind {
		return
	}
	c.state, c.reason, c.failures, c.took = k.State, k.Reason, k.Failures, k.Took
	c.success = now.Add(-min(k.Age, c.spec.Timeout/2)) // it gets time for a look of its own
}
