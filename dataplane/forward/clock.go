package forward

import (
	"sync/atomic"
	"time"
)

// tick is how often deadlines are looked at, and how coarse the clock is.
const tick = 100 * time.Millisecond

// clock is a coarse monotonic clock that costs nothing to read.
type clock struct {
	nanos atomic.Int64
	base  time.Time
}

func newClock() *clock {
	c := &clock{base: time.Now().Add(-time.Second)} // no instant is zero
	c.update()
	return c
}

func (c *clock) update() instant {
	n := instant(time.Since(c.base))
	c.nanos.Store(int64(n))
	return n
}

// now is up to one tick old.
func (c *clock) now() instant { return instant(c.nanos.Load()) }

func (c *clock) after(d time.Duration) instant { return c.now() + instant(d) }
