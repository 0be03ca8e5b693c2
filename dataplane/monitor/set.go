package monitor

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bigpipe/dataplane/pool"
)

// ErrLocal is wrapped by results that say something about this machine and nothing about the node.
var ErrLocal = errors.New("this machine cannot check")

// Prober makes probes.
type Prober interface {
	// Prepare returns the probe that does what a check says, or why there is none.
	Prepare(spec *Spec) (Probe, error)
	// Close ends all that is in progress and waits for it.
	Close()
}

// Probe is what one check does.
type Probe interface {
	// Start begins to probe and does not wait. Done is called once, from any goroutine, before Start returns or at any time
	// until shortly after the deadline: nil is a success.
	Start(deadline time.Time, done func(error))
}

// Weigher is a probe that may learn what the node weighs in mode dynamic_ratio.
type Weigher interface {
	// Weight is what the last success said; zero is nothing. It is asked after each.
	Weight() uint32
}

// Options are what a set is made with.
type Options struct {
	// Health is told what is found.
	Health *pool.Healths
	// Prober makes the probes; Close closes it.
	Prober Prober
	// Known is what another set has found, which is where the checks of the first Apply begin.
	Known []Known
	// Log is told of every transition; nil is slog's default.
	Log *slog.Logger
	// Places is how many probes there may be at a time, half as many more for nodes that are down. Zero: 1,024.
	Places int
}

const (
	defaultPlaces = 1024
	// programs is how many external programs run at a time.
	programs = 32
	// beat is how long starts are collected, so that a thousand a second do not wake a thousand times.
	beat = 10 * time.Millisecond
	// firstPause is the time between the first starts of two checks that are new.
	firstPause = 200 * time.Microsecond
)

// Instance is one monitor at a node.
type Instance struct {
	Monitor string
	// Enabled is what the operator said.
	Enabled bool
	// Target is where it looks, before the address map; the port is 0 for ICMP.
	Target netip.AddrPort
	Spec   Spec
	// Fault is why it cannot be carried out; then it does not count. Spec says nothing then.
	Fault string
}

// Node is an address (port 0) or a service with the monitors that check it.
type Node struct {
	Addr      netip.AddrPort
	Instances []Instance
}

// node is a node as it runs. It is guarded by the set's lock.
type node struct {
	Node
	checks  []*check // of each instance; nil where none runs
	state   pool.State
	last    Transition   // to that state
	health  *pool.Health // of a service; held so that it is not forgotten
	address *pool.Node   // the same of an address
}

// Set checks nodes. Its methods may be called from any goroutine.
type Set struct {
	health *pool.Healths
	prober Prober
	log    *slog.Logger

	mu      sync.Mutex
	nodes   map[netip.AddrPort]*node
	checks  map[key]*check
	queue   queue
	known   map[key]*Known     // until the first Apply
	ways    map[netip.Addr]int // nodes through which checks look, and how many do
	lanes   [lanes]lane
	spread  float64 // where in the interval the last new check stands, 0 to 1
	first   time.Time
	history history
	closed  bool

	ended, failed atomic.Uint64 // probes

	wake chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup
}

// lane is a number of places for probes, and the checks that wait for one.
type lane struct {
	places, busy int
	waiting      []*check
}

const (
	laneGood = iota
	laneDown // nodes that do not answer hold their places long; others need not wait for them
	lanePrograms
	lanes
)

// New makes a set and starts it. Close ends it.
func New(o Options) *Set {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Places == 0 {
		o.Places = defaultPlaces
	}
	s := &Set{
		health: o.Health, prober: o.Prober, log: o.Log,
		nodes: map[netip.AddrPort]*node{}, checks: map[key]*check{}, wake: make(chan struct{}, 1),
	}
	s.history.init()
	s.know(o.Known)
	s.lanes[laneGood].places, s.lanes[laneDown].places, s.lanes[lanePrograms].places = o.Places, max(o.Places/2, 1), programs
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.done.Go(func() { s.run(ctx) })
	return s
}

// Close ends all checks and waits for them. What was found stays with the members.
func (s *Set) Close() {
	s.stop()
	s.done.Wait()
	s.mu.Lock()
	s.closed = true
	s.history.close()
	s.mu.Unlock()
	s.prober.Close()
}

// Apply makes nodes those that are checked: they are new, or checked otherwise than before. A node without instances is not
// checked any more. All others go on. What stays the same of a node goes on too; where a monitor changed, its state stays until
// the next result.
func (s *Set) Apply(nodes []Node) {
	s.mu.Lock()
	now := time.Now()
	if s.first.Before(now) {
		s.first = now
	}
	var changed []Transition
	for i := range nodes {
		s.apply(&nodes[i], now, &changed)
	}
	s.known = nil
	s.mu.Unlock()
	s.tell(changed)
	s.hurry()
}

func (s *Set) apply(wanted *Node, now time.Time, changed *[]Transition) {
	n := s.nodes[wanted.Addr]
	if n == nil {
		if len(wanted.Instances) == 0 {
			return
		}
		n = &node{last: Transition{Time: now, Node: wanted.Addr}}
		s.nodes[wanted.Addr] = n
	}
	before := n.checks
	n.Node, n.checks = *wanted, make([]*check, len(wanted.Instances))
	for i := range n.Instances {
		if in := &n.Instances[i]; in.Enabled && in.Fault == "" {
			n.checks[i] = s.join(n, in, now)
		}
	}
	for _, c := range before {
		if c != nil {
			s.leave(n, c)
		}
	}
	s.settle(n, now, changed)
	n.measure()
	n.weigh()
	n.guard()
	if len(n.Instances) == 0 {
		delete(s.nodes, n.Addr)
	}
}

// join returns the check of an instance, which now says something of the node.
func (s *Set) join(n *node, in *Instance, now time.Time) *check {
	k := keyOf(n.Addr, in)
	c := s.checks[k]
	if c == nil || c.spec != in.Spec {
		probe, err := s.prober.Prepare(&in.Spec)
		if err != nil {
			in.Fault = err.Error()
			return nil
		}
		if c == nil {
			c = &check{key: k, state: in.Spec.initial(), next: s.first, place: -1}
			s.first = s.first.Add(firstPause)
			s.spread += 0.6180339887498949 // each new one falls into the largest gap
			s.spread -= float64(int(s.spread))
			c.rhythm = c.next.Add(beat + time.Duration(s.spread*float64(in.Spec.Interval)))
			s.checks[k] = c
		} else {
			c.next, c.took, c.weight = now, 0, 0
			if (c.spec.Kind == Healer) != (in.Spec.Kind == Healer) { // what was found says nothing
				c.state, c.failures = in.Spec.initial(), 0
			}
		}
		s.way(in.Spec.Via, 1)
		s.way(c.spec.Via, -1)
		c.spec, c.probe, c.success = in.Spec, probe, now
		if c.place < 0 {
			s.remind(c, now)
		}
	}
	s.queue.put(c)
	c.nodes = append(c.nodes, n)
	return c
}

// leave takes one mention of the node off a check, which ends when nobody is left.
func (s *Set) leave(n *node, c *check) {
	for i, other := range c.nodes {
		if other == n {
			c.nodes = append(c.nodes[:i], c.nodes[i+1:]...)
			break
		}
	}
	if len(c.nodes) == 0 {
		s.remove(c)
	}
}

func (s *Set) remove(c *check) {
	c.gone = true
	s.way(c.spec.Via, -1)
	delete(s.checks, c.key)
	if c.place >= 0 {
		heap.Remove(&s.queue, c.place)
	}
}

// way counts the checks that look through a node.
func (s *Set) way(node netip.Addr, more int) {
	if !node.IsValid() {
		return
	}
	if s.ways == nil {
		s.ways = map[netip.Addr]int{}
	}
	s.ways[node] += more
	if s.ways[node] == 0 {
		delete(s.ways, node)
	}
}

// Ways lists the nodes through which checks look, by the address map, in their order.
func (s *Set) Ways() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.ways), netip.Addr.Compare)
}

// settle makes a node's state what its checks say, and says so.
func (s *Set) settle(n *node, now time.Time, changed *[]Transition) {
	state, monitor, reason := n.sum()
	fresh := n.health == nil && n.Addr.Port() != 0
	if state == n.state && !fresh {
		return
	}
	if n.Addr.Port() == 0 {
		n.address = s.health.SetAddress(n.Addr.Addr(), state)
	} else {
		n.health = s.health.SetService(n.Addr, state)
	}
	if state != n.state {
		t := s.history.add(Transition{Time: now, Node: n.Addr, From: n.state, To: state, Monitor: monitor, Reason: reason})
		*changed = append(*changed, t)
		n.state, n.last = state, t
	}
}

// sum joins what the checks of a node say: all must succeed.
func (n *node) sum() (state pool.State, monitor, reason string) {
	state = pool.Unchecked
	for i, c := range n.checks {
		switch {
		case c == nil || c.state == pool.Unchecked:
		case c.state == pool.Down:
			return pool.Down, n.Instances[i].Monitor, c.reason
		case c.state == pool.Checking || state == pool.Checking:
			state = pool.Checking
		default:
			state, monitor = pool.Up, n.Instances[i].Monitor
		}
	}
	return state, monitor, ""
}

// Range calls fn for each monitor at each node with what it says, in no order: Unchecked where it is switched off, cannot be carried
// out, or has had nothing to look at.
func (s *Set) Range(fn func(node netip.AddrPort, in *Instance, state pool.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for i := range n.Instances {
			state := pool.Unchecked
			if c := n.checks[i]; c != nil {
				state = c.state
			}
			fn(n.Addr, &n.Instances[i], state)
		}
	}
}

// Counts are what a set has counted since it was made.
type Counts struct {
	// Nodes and Checks are how many there are now.
	Nodes, Checks int
	// Probes were carried out, of which Failed had no success.
	Probes, Failed uint64
	// Ups and Downs are transitions of nodes.
	Ups, Downs uint64
}

// Counts returns what was counted.
func (s *Set) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{
		Nodes: len(s.nodes), Checks: len(s.checks), Probes: s.ended.Load(), Failed: s.failed.Load(),
		Ups: s.history.ups, Downs: s.history.downs,
	}
}
