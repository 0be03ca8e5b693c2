// Package store keeps the configuration: objects by key, the revisions that led to it, and who made them.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// HistoryLimit is how many revisions can be listed and gone back to.
const HistoryLimit = 100

// Errors of opening.
var (
	// ErrLocked is returned when another process holds the store.
	ErrLocked = errors.New("in use by another process")
	// ErrVersion is returned for a store that a newer release wrote.
	ErrVersion = errors.New("written by a newer release")
	// ErrCorrupt is what every *CorruptError is: the file is damaged.
	ErrCorrupt = errors.New("damaged")
)

// Errors of use.
var (
	// ErrConflict is returned by Commit when its base is not the newest revision: somebody else was faster.
	ErrConflict = errors.New("conflict: the configuration has changed meanwhile")
	// ErrNoRevision is returned for a revision that does not exist or is older than the history.
	ErrNoRevision = errors.New("no such revision")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("store is closed")
)

// CorruptError says where a store is damaged and how. It is ErrCorrupt.
type CorruptError struct {
	// Path is the file.
	Path string
	// Bucket is "" when no bucket can be named.
	Bucket string
	// Key is the entry, "" when it is not about one.
	Key string
	// Reason is what is wrong.
	Reason string
}

// Error names the file, the bucket and the key.
func (e *CorruptError) Error() string {
	where := ""
	if e.Bucket != "" {
		where = fmt.Sprintf(": bucket %s", e.Bucket)
	}
	if e.Key != "" {
		where += fmt.Sprintf(", key %q", e.Key)
	}
	return fmt.Sprintf("store %s is damaged%s: %s", e.Path, where, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Snapshot is the whole configuration at one revision. It is immutable.
type Snapshot struct {
	// Revision counts commits; 0 is an empty store that was never written to.
	Revision uint64
	// Tree holds the objects. They may be read by anyone and changed by no one.
	Tree *config.Tree
	// Pending is the commit that waits to be confirmed; nil when there is none.
	Pending *Pending
}

// Pending is a change that is taken back unless it is confirmed in time. It survives a restart.
type Pending struct {
	// Revision is the change that waits.
	Revision uint64 `json:"revision"`
	// BackTo is the revision whose configuration returns when the time is over.
	BackTo uint64 `json:"back_to"`
	// Deadline is when the time is over, by the wall clock.
	Deadline time.Time `json:"deadline"`
}

// Commit is one change of the configuration: all of it happens or nothing.
type Commit struct {
	// Base is the revision that Changes were computed from.
	Base uint64
	// Changes name each key once; New nil deletes. Old is not read.
	Changes []config.Change
	// Actor is who changes, Summary what is done, in short; both for the history.
	Actor   string
	Summary string
	// Pending replaces the pending change, its Revision is filled in; nil leaves none pending.
	Pending *Pending
}

// Store keeps one configuration. All methods may be called at the same time.
type Store interface {
	// ID is the identity of the store: random, made when it was created.
	ID() string
	// Newest returns the newest snapshot. It does no I/O.
	Newest() Snapshot
	// Watch returns the newest snapshot and a channel that is closed as soon as there is a newer one. A slow watcher
	// misses steps between, never the last one.
	Watch() (Snapshot, <-chan struct{})
	// Commit makes a change durable and returns its revision. It writes only the objects that differ; when none does and
	// the pending change stays as it is, there is no new revision and the newest one is returned.
	// Errors: ErrConflict for a stale base, ErrClosed, and those of I/O; nothing is changed then.
	Commit(ctx context.Context, c Commit) (*pb.Revision, error)
	// Confirm keeps the pending change. False: none was pending.
	Confirm(ctx context.Context) (bool, error)
	// History lists the last revisions, the newest first; HistoryLimit at most.
	History() ([]*pb.Revision, error)
	// At returns the configuration as it was at a revision. ErrNoRevision when it is unknown or too old.
	At(revision uint64) (*config.Tree, error)
	// Close ends the store; it waits for what is running.
	Close() error
}
