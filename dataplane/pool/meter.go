package pool

import (
	"sync/atomic"
	"time"

	"bigpipe/dataplane/balance"
)

type counter = atomic.Uint64

// defaultMaxIdle is how long a measured time counts in the modes fastest and fastest_app_resp, so that who was slow once is
// tried again (fastest_max_idle_time).
const defaultMaxIdle = 10 * time.Second

// timing is a moving average of how long answers take (rule M-6: a new one counts a quarter). The zero value knows none. A
// measurement that is lost to another at the same moment does not matter.
type timing struct {
	average atomic.Int64 // nanoseconds; zero: none
	last    atomic.Int64 // when it was measured, nanoseconds since 1970
}

func (t *timing) add(took time.Duration, now time.Time) {
	t.average.Store(int64(Average(time.Duration(t.average.Load()), took)))
	t.last.Store(now.UnixNano())
}

// Average is a moving average of times: what a new one makes of that before it, of which it counts a quarter (rule M-6). Zero is
// none before; the result is never zero.
func Average(before, took time.Duration) time.Duration {
	took = max(took, 1)
	if before > 0 {
		took = max(before+(took-before)/4, 1)
	}
	return took
}

// within returns the average, or zero when it is older than idle; zero idle is any age.
func (t *timing) within(idle time.Duration) time.Duration {
	if idle > 0 && time.Now().UnixNano()-t.last.Load() > int64(idle) {
		return 0
	}
	return time.Duration(t.average.Load())
}

// meter tells the pool's mode what is measured of a member, or of its node address.
type meter struct {
	m      *Member
	byNode bool
	idle   time.Duration // how long a measured time counts; zero: for ever
	probed bool          // what monitors measured comes before what traffic did (rule M-6)
}

var _ balance.Meter = meter{}

func (t meter) Open() uint64 {
	if t.byNode {
		return t.m.health.node.connections.Current()
	}
	return t.m.counters.Current()
}

func (t meter) Took() time.Duration {
	probed := t.m.health.Probed()
	if t.probed && probed > 0 {
		return probed
	}
	timing := &t.m.counters.timing
	if t.byNode {
		timing = &t.m.health.node.timing
	}
	if took := timing.within(t.idle); took > 0 {
		return took
	}
	return probed
}

func (t meter) Octets() uint64 {
	n := t.m.counters.Counts()
	return n.In + n.Out
}

// Start returns when the chosen member was asked: to accept a connection, or for the answer to a request. It is the zero time
// in pools whose mode does not look at that.
func (d *Decision) Start() time.Time {
	if d.Member == nil || !d.pool.mode.Timed() {
		return time.Time{}
	}
	return time.Now()
}

// Took notes that the chosen member did now what it was asked for at the start.
func (d *Decision) Took(start time.Time) {
	if d.Member == nil || start.IsZero() {
		return
	}
	now := time.Now()
	d.Member.counters.timing.add(now.Sub(start), now)
	d.Member.health.node.timing.add(now.Sub(start), now)
}
