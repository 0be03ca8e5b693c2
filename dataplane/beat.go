package dataplane

import (
	"errors"
	"os"
	"sync"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

const (
	beatInterval  = 100 * time.Millisecond
	flushInterval = 500 * time.Millisecond
	// sweepBudget is how many records are looked at with every beat.
	sweepBudget = 20_000
)

// beat does what must be done again and again: it removes records that ran out, tries to bind what could not be bound,
// and puts the journal on the disk.
func (e *Engine) beat() {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	flushed := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case now := <-ticker.C:
			e.records.Sweep(sweepBudget)
			e.peak.Store(max(e.peak.Load(), int64(e.connections.Len())))
			e.retry(now)
			if now.Sub(flushed) >= flushInterval {
				flushed = now
				e.flush()
			}
		}
	}
}

// retry tries again to listen where it is time.
func (e *Engine) retry(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.running.Load().virtuals {
		if v.retryAt.IsZero() || now.Before(v.retryAt) {
			continue
		}
		v.listen(e)
		if v.listener != nil {
			e.log.Info("virtual server is in effect now", "virtual", v.address)
		}
	}
}

// record keeps what was applied. The caller holds the lock. A disk that fails is logged and tried again; the
// configuration is in effect all the same.
func (e *Engine) record(header *pb.ApplyHeader, tree *config.Tree, changes []config.Change) {
	if e.journal == nil {
		return
	}
	again := e.rewrite || header.GetFull()
	if !again {
		var err error
		if again, err = e.journal.add(header, changes); err != nil {
			e.log.Error("cannot keep what was applied", "path", e.journal.path, "error", err)
		}
	}
	if again {
		e.rewriteJournal(header, tree)
	}
}

func (e *Engine) rewriteJournal(header *pb.ApplyHeader, tree *config.Tree) {
	err := e.journal.rewrite(header, tree)
	e.rewrite = err != nil
	if err != nil {
		e.log.Error("cannot keep what was applied", "path", e.journal.path, "error", err)
	}
}

// flush puts the journal on the disk, or writes it anew after a failure. The disk is not waited for under the lock.
func (e *Engine) flush() {
	if e.journal == nil {
		return
	}
	e.mu.Lock()
	if r := e.running.Load(); e.rewrite && r.applied.GetRevision() > 0 {
		e.rewriteJournal(r.applied, r.view)
	}
	file := e.journal.unflushed()
	e.mu.Unlock()
	if file == nil {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: written anew meanwhile
		e.log.Error("cannot keep what was applied", "path", e.journal.path, "error", err)
		e.mu.Lock()
		e.rewrite = true
		e.mu.Unlock()
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
