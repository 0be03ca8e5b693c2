package monitor

import (
	"context"
	"errors"
	"time"

	"bigpipe/dataplane/pool"
)

// rest is how long the schedule sleeps where nothing is to be done.
const rest = time.Hour

// run starts checks when they are due until ctx ends.
func (s *Set) run(ctx context.Context) {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for {
		timer.Reset(s.visit())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
			// Several results at once wake once.
			timer.Reset(beat)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
	}
}

// hurry has the schedule look again.
func (s *Set) hurry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// start is a probe to be started.
type start struct {
	check    *check
	probe    Probe
	deadline time.Time
	began    time.Time
	lane     int
}

// visit does all that is due, and returns when to look again.
func (s *Set) visit() time.Duration {
	s.mu.Lock()
	now := time.Now()
	var starts []start
	var changed []Transition
	for i := range s.lanes {
		for l := &s.lanes[i]; l.busy < l.places && len(l.waiting) > 0; {
			c := l.waiting[0]
			l.waiting = l.waiting[1:]
			if !c.gone {
				c.success = c.success.Add(now.Sub(c.waits)) // that is not the node's fault
				c.waits = time.Time{}
				starts = append(starts, s.occupy(c, i, now))
				s.queue.put(c)
			}
		}
	}
	for len(s.queue) > 0 && !s.queue[0].due().After(now) {
		c := s.queue[0]
		if c.expire(now) {
			s.spreadWord(c, now, &changed)
		}
		if !c.next.After(now) {
			c.plan(now)
			starts = s.begin(c, now, starts)
		}
		s.queue.put(c)
	}
	pause := rest
	if len(s.queue) > 0 {
		pause = max(s.queue[0].due().Sub(now), beat)
	}
	s.mu.Unlock()
	s.tell(changed)
	for _, st := range starts {
		st.began = time.Now()
		st.probe.Start(st.deadline, func(err error) { s.result(st, err) })
	}
	return pause
}

// begin appends the start of a check if there is a place, else the check waits.
func (s *Set) begin(c *check, now time.Time, starts []start) []start {
	lane := c.lane()
	l := &s.lanes[lane]
	switch {
	case c.inflight >= c.most() || !c.waits.IsZero():
	case c.inflight > 0 && l.busy >= l.places/2: // a second look is for when there is time
	case l.busy >= l.places:
		c.waits = now
		l.waiting = append(l.waiting, c)
	default:
		starts = append(starts, s.occupy(c, lane, now))
	}
	return starts
}

func (c *check) lane() int {
	switch {
	case c.spec.Kind == External:
		return lanePrograms
	case c.state == pool.Down:
		return laneDown
	}
	return laneGood
}

func (s *Set) occupy(c *check, lane int, now time.Time) start {
	s.lanes[lane].busy++
	c.inflight++
	return start{check: c, probe: c.probe, deadline: now.Add(c.spec.Timeout), lane: lane}
}

// result takes what a probe found.
func (s *Set) result(st start, err error) {
	s.ended.Add(1)
	if err != nil && !errors.Is(err, ErrLocal) {
		s.failed.Add(1)
	}
	var changed []Transition
	var retried []*pool.Health
	s.mu.Lock()
	c, l := st.check, &s.lanes[st.lane]
	l.busy--
	c.inflight--
	look := len(l.waiting) > 0
	if !c.gone && !s.closed && st.probe == c.probe {
		now := time.Now()
		if c.found(err, now) {
			s.spreadWord(c, now, &changed)
		}
		if err == nil {
			c.answered(now.Sub(st.began))
			c.weighed()
			retried = c.marked()
		}
		s.queue.put(c)
		look = look || c.place == 0
	}
	s.mu.Unlock()
	s.tell(changed)
	for _, h := range retried {
		h.Retry()
	}
	if look {
		s.hurry()
	}
}

// answered notes how long an answer took.
func (c *check) answered(took time.Duration) {
	if !c.spec.measures() {
		return
	}
	c.took = pool.Average(c.took, took)
	for _, n := range c.nodes {
		n.measure()
	}
}

// weighed notes what a success said of the weight.
func (c *check) weighed() {
	w, ok := c.probe.(Weigher)
	if !ok || w.Weight() == c.weight {
		return
	}
	c.weight = w.Weight()
	for _, n := range c.nodes {
		n.weigh()
	}
}

// weigh tells the node what its monitors say that it weighs: the first that says something.
func (n *node) weigh() {
	weight := uint32(0)
	for _, c := range n.checks {
		if c != nil && weight == 0 {
			weight = c.weight
		}
	}
	switch {
	case n.health != nil:
		n.health.SetWeight(weight)
	case n.address != nil:
		n.address.SetWeight(weight)
	}
}

// measure tells the member how long its monitors wait for answers: as long as for the slowest of them.
func (n *node) measure() {
	if n.health == nil {
		return
	}
	slowest := time.Duration(0)
	for _, c := range n.checks {
		if c != nil {
			slowest = max(slowest, c.took)
		}
	}
	n.health.SetProbed(slowest)
}

// marked returns the members that traffic had marked down, and that all their monitors find up.
func (c *check) marked() (list []*pool.Health) {
	for _, n := range c.nodes {
		if n.health != nil && n.health.Marked() && n.state == pool.Up {
			list = append(list, n.health)
		}
	}
	return list
}

// spreadWord settles all nodes that a check says something of.
func (s *Set) spreadWord(c *check, now time.Time, changed *[]Transition) {
	for _, n := range c.nodes {
		s.settle(n, now, changed)
	}
}

// tell logs transitions.
func (s *Set) tell(changed []Transition) {
	for i := range changed {
		t := &changed[i]
		switch t.To {
		case pool.Down:
			s.log.Warn("node is down", "node", t.Name(), "was", t.From, "monitor", t.Monitor, "reason", t.Reason)
		case pool.Up:
			s.log.Info("node is up", "node", t.Name(), "was", t.From, "monitor", t.Monitor)
		}
	}
}
