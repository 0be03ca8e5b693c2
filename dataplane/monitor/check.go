package monitor

import (
	"container/heap"
	"errors"
	"net/netip"
	"time"

	"bigpipe/dataplane/pool"
)

// Kind is what a check does.
type Kind uint8

const (
	// ICMP sends an echo request and waits for the reply.
	ICMP Kind = iota
	// TCP connects; with a text to send or to expect it talks too.
	TCP
	// Echo sends a text over TCP and expects it back.
	Echo
	// UDP sends a datagram.
	UDP
	// HTTP asks for a page.
	HTTP
	// HTTPS is HTTP over TLS, whose certificate is not verified.
	HTTPS
	// External runs a program.
	External
	// Healer asks for a page of a member that traffic has found dead, until it answers (rule J-16).
	Healer
)

// Spec is what a check does, and where. Two that are equal are the same check.
type Spec struct {
	Kind Kind
	// Dial is where it looks, by the address map. The port is 0 for ICMP.
	Dial netip.AddrPort
	// Via is the node through which it looks there, by the address map; the zero value is none.
	Via netip.Addr
	// Interval is the time between two starts, Timeout how long there may be no success.
	Interval, Timeout time.Duration
	// Send is what is sent, Recv a regular expression that the answer must match; with Reverse it must not.
	Send, Recv string
	Reverse    bool
	// Host is what an HTTP check names as host, Username and Password what it logs in with.
	Host, Username, Password string
	// Active has a Healer check members too that are well: Retries failures in a row then find one down.
	Active  bool
	Retries int
	// Program is run by External with the address, the port, and Args, which are separated by zero bytes.
	Program, Args string
}

// key is what makes a check go on when its settings change: the monitor, the place where it looks, and for whom if it is not for all
// that look there.
type key struct {
	monitor string
	target  netip.AddrPort // of the configuration
	node    netip.AddrPort // of a Healer: whom traffic has found dead; of one that looks through a node: which
}

func keyOf(node netip.AddrPort, in *Instance) key {
	k := key{monitor: in.Monitor, target: in.Target}
	if in.Spec.Kind == Healer || in.Spec.Via.IsValid() {
		k.node = node
	}
	return k
}

// check is one check as it runs. It is guarded by the set's lock.
type check struct {
	key   key
	spec  Spec
	probe Probe
	nodes []*node // that it says something of

	weight   uint32        // what a program said; zero: nothing
	took     time.Duration // average of how long answers take; zero: not known
	state    pool.State    // Checking, Up or Down; Unchecked where nothing has been asked yet
	reason   string        // why it is not up
	failures int           // of a Healer, one after the other
	success  time.Time     // the last one; at first when the check began
	next     time.Time     // when to start again
	rhythm   time.Time     // where the second start is; zero afterwards
	waits    time.Time     // since when it waits for a place in its lane; zero: it does not
	inflight int
	gone     bool
	place    int   // in the queue; -1: in none
	at       int64 // what orders the queue: nanoseconds of due
}

// overlap is how many probes of one check there may be at a time: while one waits for an answer that does not come, another may
// find out that the next connection works.
const overlap = 2

// measures reports whether the time of a success is that of an answer: not where a program runs, or silence will do.
func (s *Spec) measures() bool {
	return s.Kind != External && (s.Kind != UDP || s.Recv != "")
}

// most is how many probes of the check there may be.
func (c *check) most() int {
	if c.spec.Kind == External || c.spec.Kind == Healer {
		return 1
	}
	return overlap
}

// due is when something is to be done: to start, or to find it down.
func (c *check) due() time.Time {
	if c.rests() {
		return never
	}
	at := c.next
	if c.spec.Kind != Healer && c.state == pool.Up && c.waits.IsZero() {
		if down := c.success.Add(c.spec.Timeout); down.Before(at) {
			return down
		}
	}
	return at
}

// found takes a result: nil is a success. It reports whether the state changed.
func (c *check) found(err error, now time.Time) bool {
	before := c.state
	switch {
	case c.spec.Kind == Healer:
		c.healed(err)
	case errors.Is(err, ErrLocal): // the node has no part in that
		c.success = now
	case err == nil:
		c.success, c.state, c.reason = now, pool.Up, ""
	case c.state == pool.Checking:
		c.state, c.reason = pool.Down, err.Error()
	default:
		c.reason = err.Error()
		c.expire(now)
	}
	return c.state != before
}

// expire finds the check down that had no success for its timeout. It reports whether the state changed.
func (c *check) expire(now time.Time) bool {
	if c.spec.Kind == Healer || c.state != pool.Up || !c.waits.IsZero() || now.Before(c.success.Add(c.spec.Timeout)) {
		return false
	}
	c.state = pool.Down
	if c.reason == "" {
		c.reason = "no answer within " + c.spec.Timeout.String()
	}
	return true
}

// plan sets the next start after one that was due, in the rhythm of the check.
func (c *check) plan(now time.Time) {
	if !c.rhythm.IsZero() {
		c.next, c.rhythm = c.rhythm, time.Time{}
		return
	}
	c.next = c.next.Add(c.spec.Interval)
	if c.next.Before(now) { // what was missed is not made up for
		late := now.Sub(c.next)
		c.next = c.next.Add(late - late%c.spec.Interval + c.spec.Interval)
	}
}

// queue orders checks by when something is to be done. It implements heap.Interface.
type queue []*check

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// put makes a check that changed stand where it belongs.
func (q *queue) put(c *check) {
	c.at = c.due().UnixNano()
	if c.place < 0 {
		heap.Push(q, c)
	} else {
		heap.Fix(q, c.place)
	}
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	c := x.(*check)
	c.place = len(*q)
	*q = append(*q, c)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	c.place = -1
	return c
}
