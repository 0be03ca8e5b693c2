package store

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// writer puts and deletes sealed entries and keeps the tallies of the buckets.
type writer struct {
	tx    *bbolt.Tx
	state state
}

func (w *writer) put(bucket string, key, contents []byte) error {
	if err := w.forget(bucket, key); err != nil {
		return err
	}
	sealed := seal(key, contents)
	if t := w.state.tally(bucket); t != nil {
		t.add(sealed)
	}
	if err := w.tx.Bucket([]byte(bucket)).Put(key, sealed); err != nil {
		return fmt.Errorf("write %s/%s: %w", bucket, printable(bucket, key), err)
	}
	return nil
}

func (w *writer) delete(bucket string, key []byte) error {
	if err := w.forget(bucket, key); err != nil {
		return err
	}
	if err := w.tx.Bucket([]byte(bucket)).Delete(key); err != nil {
		return fmt.Errorf("delete %s/%s: %w", bucket, printable(bucket, key), err)
	}
	return nil
}

// forget takes an entry out of its bucket's tally, if it is there.
func (w *writer) forget(bucket string, key []byte) error {
	t, old := w.state.tally(bucket), w.tx.Bucket([]byte(bucket)).Get(key)
	if t == nil || old == nil {
		return nil
	}
	if _, err := open(key, old); err != nil {
		return fmt.Errorf("%s/%s: %w", bucket, printable(bucket, key), err)
	}
	t.remove(old)
	return nil
}

func (w *writer) putState() error {
	contents, err := w.state.encode()
	if err != nil {
		return err
	}
	return w.put(bucketMeta, []byte(keyState), contents)
}

// Commit makes a change durable.
func (b *Bolt) Commit(ctx context.Context, c Commit) (*pb.Revision, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if c.Base != b.state.Revision {
		return nil, fmt.Errorf("revision %d is not the newest, which is %d: %w", c.Base, b.state.Revision, ErrConflict)
	}
	// A change without effect is no revision. It still settles what is pending.
	differs, err := b.differing(c.Changes)
	if err != nil {
		return nil, err
	}
	if len(differs) == 0 {
		return b.settle(c.Pending)
	}
	revision := &pb.Revision{
		Number: b.state.Revision + 1, UnixSeconds: b.now().Unix(), Actor: c.Actor, Summary: c.Summary,
	}
	w := writer{state: b.state}
	err = b.update(&w, func() error { return w.commit(revision, differs, c.Pending) })
	if err != nil {
		return nil, fmt.Errorf("commit revision %d: %w", revision.GetNumber(), err)
	}
	b.state = w.state
	changes := make([]config.Change, len(differs))
	for i, d := range differs {
		changes[i] = d.change
	}
	b.publish(b.Newest().Tree.Apply(changes))
	return revision, nil
}

// encoded is a change with its object as the bytes to store, nil to delete, and the bytes that it replaces, nil for none.
type encoded struct {
	change   config.Change
	new, old []byte
}

// differing encodes the changes that are none of what is stored already.
func (b *Bolt) differing(changes []config.Change) ([]encoded, error) {
	var differs []encoded
	tree := b.Newest().Tree
	for _, c := range changes {
		e := encoded{change: c}
		var err error
		if c.New != nil {
			if key := c.New.Key(); key != c.Key || key == "" {
				return nil, fmt.Errorf("change of %q holds the object %q", c.Key, key)
			}
			if e.new, err = encodeObject(c.New); err != nil {
				return nil, fmt.Errorf("encode %s: %w", c.Key, err)
			}
		}
		if old := tree.Get(c.Key); old != nil {
			if e.old, err = encodeObject(old); err != nil {
				return nil, fmt.Errorf("encode %s: %w", c.Key, err)
			}
		}
		if (e.new == nil) == (e.old == nil) && bytes.Equal(e.new, e.old) {
			continue
		}
		differs = append(differs, e)
	}
	return differs, nil
}

// commit writes the objects, what they replace, and the revision.
func (w *writer) commit(r *pb.Revision, changes []encoded, pending *Pending) error {
	for _, e := range changes {
		key := []byte(e.change.Key)
		if err := w.put(bucketUndo, undoKey(r.GetNumber(), e.change.Key), e.old); err != nil {
			return err
		}
		if e.new == nil {
			r.Deleted++
			if err := w.delete(bucketObjects, key); err != nil {
				return err
			}
			continue
		}
		r.Changed++
		if err := w.put(bucketObjects, key, e.new); err != nil {
			return err
		}
	}
	contents, err := proto.Marshal(r)
	if err != nil {
		return err
	}
	if err := w.put(bucketRevisions, revisionKey(r.GetNumber()), contents); err != nil {
		return err
	}
	w.state.Revision = r.GetNumber()
	w.state.Pending = nil
	if pending != nil {
		p := *pending
		p.Revision = r.GetNumber()
		w.state.Pending = &p
	}
	return w.prune()
}

// prune drops the revisions that are older than the history.
func (w *writer) prune() error {
	for w.state.Revisions.Count > HistoryLimit {
		oldest, _ := w.tx.Bucket([]byte(bucketRevisions)).Cursor().First()
		oldest = bytes.Clone(oldest)
		if err := w.delete(bucketRevisions, oldest); err != nil {
			return err
		}
		var keys [][]byte
		c := w.tx.Bucket([]byte(bucketUndo)).Cursor()
		for key, _ := c.Seek(oldest); bytes.HasPrefix(key, oldest); key, _ = c.Next() {
			keys = append(keys, bytes.Clone(key))
		}
		for _, key := range keys {
			if err := w.delete(bucketUndo, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// update runs fn in a transaction that ends with the writer's state. After an error the file is what it was.
func (b *Bolt) update(w *writer, fn func() error) error {
	return b.guard(func() error {
		return b.db.Update(func(tx *bbolt.Tx) error {
			w.tx = tx
			if err := fn(); err != nil {
				return err
			}
			return w.putState()
		})
	})
}

// ready tells whether the store can be used. Where the last transaction failed late, the file decides what holds.
func (b *Bolt) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.closed {
		return ErrClosed
	}
	return b.guard(func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			st, err := b.loadMeta(tx)
			if err != nil || st.Revision == b.state.Revision {
				return err
			}
			return b.load(tx)
		})
	})
}

// settle replaces what is pending without a new revision and returns the newest one.
func (b *Bolt) settle(pending *Pending) (*pb.Revision, error) {
	if pending != nil || b.state.Pending != nil {
		w := writer{state: b.state}
		w.state.Pending = nil
		if pending != nil {
			p := *pending
			p.Revision = b.state.Revision
			w.state.Pending = &p
		}
		if err := b.update(&w, func() error { return nil }); err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		b.state = w.state
		b.publish(b.Newest().Tree)
	}
	list, err := b.history(1)
	if err != nil || len(list) == 0 {
		return &pb.Revision{Number: b.state.Revision}, err
	}
	return list[0], nil
}

// Confirm keeps the pending change.
func (b *Bolt) Confirm(ctx context.Context) (bool, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.ready(ctx); err != nil {
		return false, err
	}
	if b.state.Pending == nil {
		return false, nil
	}
	_, err := b.settle(nil)
	return err == nil, err
}

// History lists the last revisions, the newest first.
func (b *Bolt) History() ([]*pb.Revision, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	return b.history(HistoryLimit)
}

func (b *Bolt) history(limit int) ([]*pb.Revision, error) {
	var list []*pb.Revision
	err := b.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(bucketRevisions)).Cursor()
		for key, sealed := c.Last(); key != nil && len(list) < limit; key, sealed = c.Prev() {
			contents, err := open(key, sealed)
			if err != nil {
				return b.corrupt(bucketRevisions, key, "%v", err)
			}
			r, err := b.decodeRevision(key, contents)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

func (b *Bolt) view(fn func(tx *bbolt.Tx) error) error {
	return b.guard(func() error { return b.db.View(fn) })
}

// At returns the configuration as it was at a revision: the newest one, with what later revisions replaced put back.
func (b *Bolt) At(revision uint64) (*config.Tree, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	tree := b.Newest().Tree
	if revision == b.state.Revision {
		return tree, nil
	}
	oldest := b.state.Revision - b.state.Revisions.Count // nothing older than the first one's undo is known
	if revision > b.state.Revision || revision < oldest {
		return nil, fmt.Errorf("revision %d: %w", revision, ErrNoRevision)
	}
	var back []config.Change
	seen := map[string]bool{}
	err := b.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(bucketUndo)).Cursor()
		for key, sealed := c.Seek(revisionKey(revision + 1)); key != nil; key, sealed = c.Next() {
			contents, err := open(key, sealed)
			if err != nil {
				return b.corrupt(bucketUndo, key, "%v", err)
			}
			old, err := b.decodeUndo(key, contents)
			if err != nil {
				return err
			}
			name := string(key[8:])
			if seen[name] { // an earlier revision replaced it first
				continue
			}
			seen[name] = true
			back = append(back, config.Change{Key: name, Old: tree.Get(name), New: old})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tree.Apply(back), nil
}
