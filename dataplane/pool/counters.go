package pool

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
)

// shards is how many copies a counter that every request touches has: a power of two near the number of processors.
var shards = func() uint32 {
	n := uint32(1)
	for n < uint32(runtime.NumCPU()) && n < 8 {
		n *= 2
	}
	return n
}()

// Shard names one copy of the sharded counters. A connection draws one when it begins and keeps it.
type Shard uint32

// NewShard draws a shard.
func NewShard() Shard { return Shard(rand.Uint32() & (shards - 1)) }

// Counters counts the traffic of a member or of a virtual server. Methods may be called from any goroutine.
type Counters struct {
	current, max, total atomic.Uint64
	traffic             []traffic
	timing              timing
}

// traffic is one cache line, so that workers do not take it from each other.
type traffic struct {
	in, out, requests atomic.Uint64
	_                 [5]uint64
}

// Counts is what Counters say at one moment. Bytes are counted at the client's side: In came from clients.
type Counts struct {
	Current, Max, Total uint64
	In, Out             uint64
	Requests            uint64
}

// NewCounters returns counters at zero.
func NewCounters() *Counters { return &Counters{traffic: make([]traffic, shards)} }

// Open counts a connection as open unless there are already as many as limit, which is reported. Zero is no limit.
func (c *Counters) Open(limit uint32) bool {
	n := c.current.Add(1)
	if limit > 0 && n > uint64(limit) {
		c.current.Add(^uint64(0))
		return false
	}
	for {
		m := c.max.Load()
		if n <= m || c.max.CompareAndSwap(m, n) {
			return true
		}
	}
}

// Opened counts a connection in the total: one that Open let in and that came to be.
func (c *Counters) Opened() { c.total.Add(1) }

// Close ends what Open began.
func (c *Counters) Close() { c.current.Add(^uint64(0)) }

// Current is the number of open connections.
func (c *Counters) Current() uint64 { return c.current.Load() }

// Add counts bytes from and to the client, and requests.
func (c *Counters) Add(s Shard, in, out, requests uint64) {
	t := &c.traffic[s]
	if in > 0 {
		t.in.Add(in)
	}
	if out > 0 {
		t.out.Add(out)
	}
	if requests > 0 {
		t.requests.Add(requests)
	}
}

// Counts returns the sums.
func (c *Counters) Counts() Counts {
	n := Counts{Current: c.current.Load(), Max: c.max.Load(), Total: c.total.Load()}
	for i := range c.traffic {
		t := &c.traffic[i]
		n.In += t.in.Load()
		n.Out += t.out.Load()
		n.Requests += t.requests.Load()
	}
	return n
}

// Reset begins again with zero; what is open stays counted as open.
func (c *Counters) Reset() {
	c.max.Store(c.current.Load())
	c.total.Store(0)
	for i := range c.traffic {
		t := &c.traffic[i]
		t.in.Store(0)
		t.out.Store(0)
		t.requests.Store(0)
	}
}

// Plus returns the sums of both.
func (n Counts) Plus(o Counts) Counts {
	return Counts{
		Current: n.Current + o.Current, Max: n.Max + o.Max, Total: n.Total + o.Total,
		In: n.In + o.In, Out: n.Out + o.Out, Requests: n.Requests + o.Requests,
	}
}
