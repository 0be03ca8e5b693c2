package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"bigpipe/store/config"
)

const (
	defaultTimeout = 2 * time.Second
	lockRetry      = 20 * time.Millisecond
)

// Options are settings of Open; the zero value is good.
type Options struct {
	// Timeout is how long to wait for another process to let go of the file; 0 means two seconds.
	Timeout time.Duration
	// Now is the wall clock for the times of revisions; nil means time.Now.
	Now func() time.Time
}

// Bolt is a Store in one bbolt file.
type Bolt struct {
	path string
	id   string
	now  func() time.Time

	// writing is held by whoever uses db or state; it is taken before mu.
	writing sync.Mutex
	db      *bbolt.DB
	state   state
	closed  bool

	mu      sync.Mutex
	newest  Snapshot
	changed chan struct{}
}

var _ Store = (*Bolt)(nil)

// Open opens the store in the file path and reads all of it. A file that does not exist is created, mode 0600, its folder
// with mode 0700. Errors: ErrLocked, ErrVersion, *CorruptError, and those of the file system.
func Open(path string, o Options) (*Bolt, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("create store %s: %w", path, err)
		}
	}
	b := &Bolt{path: path, now: o.Now, changed: make(chan struct{})}
	err := b.guard(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
			OpenFile: func(path string, _ int, _ os.FileMode) (*os.File, error) {
				return openLocked(path, o.Timeout)
			},
		})
		if err != nil {
			return err
		}
		b.db = db
		return db.View(b.load)
	})
	if err != nil {
		if b.db != nil {
			err = errors.Join(err, b.db.Close())
		}
		return nil, err
	}
	return b, nil
}

// openLocked opens the file, takes its lock and checks its pages, so that nothing reads them before.
func openLocked(path string, timeout time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	err = lock(f, timeout)
	if err == nil {
		err = checkFile(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock takes the file's lock; another process that has it gets as long as timeout to let go.
func lock(f *os.File, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock store %s: %w", f.Name(), err)
		case time.Now().After(deadline):
			return fmt.Errorf("store %s: %w", f.Name(), ErrLocked)
		}
		time.Sleep(lockRetry)
	}
}

// checkFile looks at every page of a store.
func checkFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("store %s: %w", f.Name(), err)
	}
	if err := checkPages(f, info.Size()); err != nil {
		return &CorruptError{Path: f.Name(), Reason: err.Error()}
	}
	return nil
}

// create makes an empty store. It appears under its name when it is complete; if two processes create it, one wins.
func create(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what stays is empty and harmless
	fresh := filepath.Join(tmp, "store")
	if err := initialize(fresh); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// initialize writes the buckets of an empty store with a new identity.
func initialize(path string) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range bucketNames {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		w := writer{tx: tx}
		return errors.Join(
			w.put(bucketMeta, []byte(keyFormat), []byte(strconv.Itoa(format))),
			w.put(bucketMeta, []byte(keyID), []byte(hex.EncodeToString(id))),
			w.putState(),
		)
	})
	return errors.Join(err, db.Close())
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// guard runs fn and turns what the library does on a damaged file into an error: it panics, or reads outside the file.
func (b *Bolt) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{Path: b.path, Reason: fmt.Sprint(r)}
		}
	}()
	return fn()
}

// ID is the identity of the store.
func (b *Bolt) ID() string { return b.id }

// Newest returns the newest snapshot.
func (b *Bolt) Newest() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

// Watch returns the newest snapshot and a channel that is closed when there is a newer one.
func (b *Bolt) Watch() (Snapshot, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest, b.changed
}

// publish makes a snapshot the newest and wakes the watchers.
func (b *Bolt) publish(tree *config.Tree) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = Snapshot{Revision: b.state.Revision, Tree: tree, Pending: b.state.Pending}
	close(b.changed)
	b.changed = make(chan struct{})
}

// Close ends the store.
func (b *Bolt) Close() error {
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return b.db.Close()
}
