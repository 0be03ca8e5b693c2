package dataplane

import (
	"sync"
	"time"

	"bigpipe/dataplane/pool"
)

const (
	beatInterval  = 100 * time.Millisecond
	flushInterval = 500 * time.Millisecond
	// tellInterval is how often what happened to records is logged.
	tellInterval = 10 * time.Second
	// sweepBudget is how many records are looked at with every beat.
	sweepBudget = 20_000
)

// beat does what must be done again and again: it removes records that ran out, tries to bind what could not be bound,
// ends what is drained, puts the journal on the disk, and logs what happened to records.
func (e *Engine) beat() {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	flushed := time.Now()
	told := flushed
	for {
		select {
		case <-e.stop:
			return
		case <-e.presence.watch.Wake():
			e.follow(time.Now())
		case now := <-ticker.C:
			e.records.Sweep(sweepBudget)
			e.follow(now)
			e.endDrained(now)
			if now.Sub(flushed) >= flushInterval {
				flushed = now
				e.flush()
			}
			if now.Sub(told) >= tellInterval {
				told = now
				for _, p := range e.running.Load().pools {
					p.Tell()
				}
			}
		}
	}
}

// gone sums what was counted by virtual servers that are no more.
type gone struct {
	mu     sync.Mutex
	counts pool.Counts
}

func (g *gone) add(n pool.Counts) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n.Current = 0
	g.counts = g.counts.Plus(n)
}

func (g *gone) get() pool.Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}

func (g *gone) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts = pool.Counts{}
}
