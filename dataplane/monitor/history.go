package monitor

import (
	"net/netip"
	"slices"
	"time"

	"bigpipe/dataplane/pool"
)

// Transition is a change of a node's state.
type Transition struct {
	// Number rises by one with each transition; the first is 1.
	Number uint64
	Time   time.Time
	// Node is an address (port 0) or a service.
	Node     netip.AddrPort
	From, To pool.State
	// Monitor is whose result decided; "" where a change of the configuration did, or traffic.
	Monitor string
	// Reason says why the node is down.
	Reason string
}

// Name returns the node as it is written: ADDRESS or ADDRESS:PORT.
func (t *Transition) Name() string { return NameOf(t.Node) }

// NameOf returns a node as it is written: ADDRESS or ADDRESS:PORT.
func NameOf(node netip.AddrPort) string {
	if node.Port() == 0 {
		return node.Addr().String()
	}
	return node.String()
}

// kept is how many transitions are remembered for those who follow.
const kept = 1024

// history keeps the last transitions. It is guarded by the set's lock.
type history struct {
	ring       [kept]Transition
	last       uint64 // number of the newest; 0: none
	ups, downs uint64
	more       chan struct{} // closed when there is a newer one
	over       bool
}

func (h *history) init() { h.more = make(chan struct{}) }

func (h *history) add(t Transition) Transition {
	h.last++
	t.Number = h.last
	h.ring[t.Number%kept] = t
	switch t.To {
	case pool.Up:
		h.ups++
	case pool.Down:
		h.downs++
	}
	if !h.over {
		close(h.more)
		h.init()
	}
	return t
}

func (h *history) close() {
	if !h.over {
		h.over = true
		close(h.more)
	}
}

// Last returns the number of the newest transition; 0: there was none.
func (s *Set) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.last
}

// After returns the transitions after one that is known by its number. Missed says that some before them are not remembered any
// more. More is closed when there is a newer one, and at the end of the set.
func (s *Set) After(number uint64) (list []Transition, missed bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.history
	if h.last > kept && number < h.last-kept {
		number, missed = h.last-kept, true
	}
	for n := number + 1; n <= h.last; n++ {
		list = append(list, h.ring[n%kept])
	}
	return list, missed, h.more
}

// States returns the last transition of each node that is monitored, in the order of nodes, and the number of the newest of all.
func (s *Set) States() (list []Transition, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		list = append(list, n.last)
	}
	slices.SortFunc(list, func(a, b Transition) int { return a.Node.Compare(b.Node) })
	return list, s.history.last
}

// Marked notes that traffic marked a member down, or that the mark ended. A member with a health checker is down until that finds it
// well.
func (s *Set) Marked(member netip.AddrPort, down bool) {
	var changed []Transition
	s.mu.Lock()
	n := s.nodes[member]
	if n != nil && n.guarded() {
		if down && !s.closed {
			s.struck(n, &changed)
		}
		s.mu.Unlock()
		s.tell(changed)
		s.hurry()
		return
	}
	found := pool.Unchecked
	if n != nil {
		found = n.state
	}
	t := Transition{Time: time.Now(), Node: member, From: found, To: pool.Down, Reason: trafficFailed}
	if !down {
		t.From, t.To, t.Reason = pool.Down, found, ""
	}
	t = s.history.add(t)
	s.mu.Unlock()
	if down {
		s.log.Warn("traffic marks a member down", "node", t.Name())
	} else {
		s.log.Info("traffic may try a member again", "node", t.Name())
	}
}
