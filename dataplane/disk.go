package dataplane

import (
	"errors"
	"os"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Pauses between attempts to write the journal anew after a failure.
const (
	shortestDiskPause = flushInterval
	longestDiskPause  = 30 * time.Second
)

// disk is how keeping the applied configuration goes. The engine's lock guards it.
type disk struct {
	rewrite bool // the journal must be written anew
	retryAt time.Time
	pause   time.Duration // zero: the last attempt succeeded
}

// record keeps what was applied. The caller holds the lock. A disk that fails is logged and tried again; the
// configuration is in effect all the same.
func (e *Engine) record(header *pb.ApplyHeader, tree *config.Tree, changes []config.Change) {
	if e.journal == nil {
		return
	}
	again := e.disk.rewrite || header.GetFull()
	if !again {
		var err error
		if again, err = e.journal.add(header, changes); err != nil {
			e.disk.rewrite = true
			e.cannotKeep(err)
			return
		}
	}
	if again {
		e.rewriteJournal(header, tree)
	}
}

// rewriteJournal writes the journal anew, unless that failed a short time ago. The caller holds the lock.
func (e *Engine) rewriteJournal(header *pb.ApplyHeader, tree *config.Tree) {
	e.disk.rewrite = true
	if time.Now().Before(e.disk.retryAt) {
		return
	}
	if err := e.journal.rewrite(header, tree); err != nil {
		e.cannotKeep(err)
		return
	}
	if e.disk.pause > 0 {
		e.log.Info("what was applied is kept again", "path", e.journal.path, "revision", header.GetRevision())
	}
	e.disk = disk{}
	e.unkept.Store(0)
}

// cannotKeep notes a failure; only the first one is logged. The caller holds the lock.
func (e *Engine) cannotKeep(err error) {
	if e.disk.pause == 0 {
		e.log.Error("cannot keep what was applied; it is in effect, and keeping it is tried again",
			"path", e.journal.path, "error", err)
		e.unkept.Store(time.Now().UnixNano())
	}
	e.disk.pause = min(max(2*e.disk.pause, shortestDiskPause), longestDiskPause)
	e.disk.retryAt = time.Now().Add(e.disk.pause)
}

// flush puts the journal on the disk, or writes it anew after a failure. The disk is waited for without the lock, unless the
// journal is written anew: then no configuration can be applied before that is done.
func (e *Engine) flush() {
	e.mu.Lock()
	if e.journal == nil {
		e.mu.Unlock()
		return
	}
	if r := e.running.Load(); e.disk.rewrite && r.applied.GetRevision() > 0 {
		e.rewriteJournal(r.applied, r.view)
	}
	file := e.journal.unflushed()
	e.mu.Unlock()
	if file == nil {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: written anew meanwhile
		e.mu.Lock()
		e.disk.rewrite = true
		e.cannotKeep(err)
		e.mu.Unlock()
	}
}

// Unkept returns for how long what is applied is not on the disk, because writing fails; zero: it is, or nothing is kept.
func (e *Engine) Unkept() time.Duration {
	since := e.unkept.Load()
	if since == 0 {
		return 0
	}
	return max(time.Since(time.Unix(0, since)), 1)
}
