package dataplane

import (
	"context"
	"sync"
	"time"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
)

// endDrained ends the disabled members whose drain_timeout is over: their connections are reset and their records removed, so that
// who comes back goes to another member, and stays there (rule J-17).
func (e *Engine) endDrained(now time.Time) {
	r := e.running.Load()
	for name := range r.draining {
		p := r.pools[name]
		ended := p.Drain(now)
		if len(ended) == 0 {
			continue
		}
		counters := map[*pool.Counters]bool{} // which the member has in all snapshots
		for _, m := range ended {
			counters[m.Counters()] = true
			records := e.records.Clear(persist.Filter{Pool: p.ID, Node: m.Addr}, nil)
			e.log.Info("disabled member is drained", "pool", name, "member", m.Addr, "records", records)
		}
		if n := e.connections.Reset(func(m *pool.Member) bool { return counters[m.Counters()] }); n > 0 {
			e.log.Info("connections to drained members are reset", "pool", name, "connections", n)
		}
	}
}

// idleGrace is how long an idle HTTP connection of a virtual server that is gone may still send a request.
const idleGrace = 5 * time.Second

// drains are the listeners that accept no more while connections of theirs are open. The zero value has none.
type drains struct {
	group sync.WaitGroup
	mu    sync.Mutex
	open  map[endpoint]context.CancelFunc // guarded by mu
	hurry bool                            // guarded by mu: idle connections have no grace
}

// add stops a listener. Its connections go on; then, which may be nil, is called when the last one is closed.
func (d *drains) add(l endpoint, then func()) {
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	grace := idleGrace
	if d.hurry {
		grace = 0
	}
	if d.open == nil {
		d.open = map[endpoint]context.CancelFunc{}
	}
	d.open[l] = cancel
	d.mu.Unlock()
	l.Retire(grace)
	d.group.Go(func() {
		l.Drain(ctx)
		d.mu.Lock()
		delete(d.open, l)
		d.mu.Unlock()
		cancel()
		if then != nil {
			then()
		}
	})
}

// hasten closes idle connections, those of listeners that come later too.
func (d *drains) hasten() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hurry = true
	for l := range d.open {
		l.Retire(0)
	}
}

// wait returns when no connection is open. What is when ctx ends is reset.
func (d *drains) wait(ctx context.Context) {
	end := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, kill := range d.open {
			kill()
		}
	})
	d.group.Wait()
	end()
}
