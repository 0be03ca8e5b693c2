package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// corrupt makes the error for an entry.
func (b *Bolt) corrupt(bucket string, key []byte, reason string, args ...any) error {
	return &CorruptError{Path: b.path, Bucket: bucket, Key: printable(bucket, key), Reason: fmt.Sprintf(reason, args...)}
}

// load reads everything: format and identity, the objects, and the history for its checksums.
func (b *Bolt) load(tx *bbolt.Tx) error {
	st, err := b.loadMeta(tx)
	if err != nil {
		return err
	}
	var objects []*pb.Object
	err = b.scan(tx, st, bucketObjects, func(key, contents []byte) error {
		o, err := b.decodeObject(bucketObjects, key, string(key), contents)
		objects = append(objects, o)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.checkHistory(tx, st); err != nil {
		return err
	}
	b.state = *st
	b.publish(config.NewTree(objects...))
	return nil
}

// loadMeta reads format, identity and state.
func (b *Bolt) loadMeta(tx *bbolt.Tx) (*state, error) {
	for _, name := range bucketNames {
		if tx.Bucket([]byte(name)) == nil {
			return nil, b.corrupt(name, nil, "missing")
		}
	}
	version, err := b.entry(tx, keyFormat)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(string(version))
	switch {
	case err != nil:
		return nil, b.corrupt(bucketMeta, []byte(keyFormat), "%q is not a number", version)
	case n > format:
		return nil, fmt.Errorf("store %s: %w: it has format %d, this release knows %d", b.path, ErrVersion, n, format)
	}
	id, err := b.entry(tx, keyID)
	if err != nil {
		return nil, err
	}
	b.id = string(id)
	contents, err := b.entry(tx, keyState)
	if err != nil {
		return nil, err
	}
	st := new(state)
	if err := json.Unmarshal(contents, st); err != nil {
		return nil, b.corrupt(bucketMeta, []byte(keyState), "%v", err)
	}
	return st, nil
}

// entry reads one entry of the bucket meta.
func (b *Bolt) entry(tx *bbolt.Tx, key string) ([]byte, error) {
	sealed := tx.Bucket([]byte(bucketMeta)).Get([]byte(key))
	if sealed == nil {
		return nil, b.corrupt(bucketMeta, []byte(key), "missing")
	}
	contents, err := open([]byte(key), sealed)
	if err != nil {
		return nil, b.corrupt(bucketMeta, []byte(key), "%v", err)
	}
	return contents, nil
}

// scan opens every entry of a bucket and compares what it saw with the bucket's tally.
func (b *Bolt) scan(tx *bbolt.Tx, st *state, bucket string, fn func(key, contents []byte) error) error {
	var seen tally
	err := tx.Bucket([]byte(bucket)).ForEach(func(key, sealed []byte) error {
		contents, err := open(key, sealed)
		if err != nil {
			return b.corrupt(bucket, key, "%v", err)
		}
		seen.add(sealed)
		return fn(key, contents)
	})
	if err != nil {
		return err
	}
	if want := *st.tally(bucket); seen != want {
		return b.corrupt(bucket, nil, "holds %d entries, not the %d that were written", seen.Count, want.Count)
	}
	return nil
}

// decodeObject reads an object that must have the key want.
func (b *Bolt) decodeObject(bucket string, key []byte, want string, contents []byte) (*pb.Object, error) {
	o := new(pb.Object)
	if err := proto.Unmarshal(contents, o); err != nil {
		return nil, b.corrupt(bucket, key, "not an object: %v", err)
	}
	if got := o.Key(); got != want {
		return nil, b.corrupt(bucket, key, "holds the object %q", got)
	}
	return o, nil
}

// checkHistory makes sure that the history can be read: its numbers follow each other and end with the newest.
func (b *Bolt) checkHistory(tx *bbolt.Tx, st *state) error {
	var last uint64
	err := b.scan(tx, st, bucketRevisions, func(key, contents []byte) error {
		r, err := b.decodeRevision(key, contents)
		if err != nil {
			return err
		}
		if last != 0 && r.GetNumber() != last+1 {
			return b.corrupt(bucketRevisions, key, "follows revision %d", last)
		}
		last = r.GetNumber()
		return nil
	})
	if err != nil {
		return err
	}
	if last != st.Revision {
		return b.corrupt(bucketRevisions, nil, "ends with revision %d, the newest is %d", last, st.Revision)
	}
	return b.scan(tx, st, bucketUndo, func(key, contents []byte) error {
		_, err := b.decodeUndo(key, contents)
		return err
	})
}

func (b *Bolt) decodeRevision(key, contents []byte) (*pb.Revision, error) {
	r := new(pb.Revision)
	if err := proto.Unmarshal(contents, r); err != nil {
		return nil, b.corrupt(bucketRevisions, key, "not a revision: %v", err)
	}
	if len(key) != 8 || binary.BigEndian.Uint64(key) != r.GetNumber() {
		return nil, b.corrupt(bucketRevisions, key, "holds revision %d", r.GetNumber())
	}
	return r, nil
}

// decodeUndo returns the object that a revision replaced; nil when there was none.
func (b *Bolt) decodeUndo(key, contents []byte) (*pb.Object, error) {
	if len(key) <= 8 {
		return nil, b.corrupt(bucketUndo, key, "names no object")
	}
	if len(contents) == 0 {
		return nil, nil
	}
	return b.decodeObject(bucketUndo, key, string(key[8:]), contents)
}
