package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// grown makes a store with a few pages of every kind and returns its file and what it must hold.
func grown(t *testing.T) (path string, want map[string]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "config.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint64(4) {
		var changes []config.Change
		for i := range 80 {
			o := testPool(i, uint32(round))
			if c := (config.Change{Key: o.Key(), New: o}); round < 3 || i%7 == 0 {
				changes = append(changes, c)
			}
		}
		for i := range 20 {
			changes = append(changes, config.Change{Key: fmt.Sprintf("pool/pool%04d", 80+i+int(round))})
		}
		if _, err := s.Commit(context.Background(), Commit{Base: round, Changes: changes, Actor: "root", Summary: "grow"}); err != nil {
			t.Fatal(err)
		}
	}
	want = allOf(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

func testPool(i int, ratio uint32) *pb.Object {
	p := &pb.Pool{Name: fmt.Sprintf("pool%04d", i)}
	for m := range 3 {
		p.Members = append(p.Members, &pb.Member{Address: fmt.Sprintf("10.1.%d.%d:80", i, m), Ratio: proto.Uint32(ratio)})
	}
	if i == 17 { // longer than a page
		p.Fallback = proto.String("http://" + strings.Repeat("x", 9000))
	}
	return &pb.Object{Kind: &pb.Object_Pool{Pool: p}}
}

// allOf reads all that a store tells: the configuration of each revision, the history and the identity.
func allOf(t *testing.T, s Store) map[string]string {
	t.Helper()
	all := map[string]string{"id": s.ID()}
	list, err := s.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		all[fmt.Sprint("revision ", r.GetNumber())] = r.GetSummary() + r.GetActor() + fmt.Sprint(r.GetUnixSeconds(), r.GetChanged(), r.GetDeleted())
		tree, err := s.At(r.GetNumber())
		if err != nil {
			t.Fatal(err)
		}
		tree.Range("", func(o *pb.Object) bool {
			bytes, err := encodeObject(o)
			all[fmt.Sprint(r.GetNumber(), " ", o.Key())] = string(bytes)
			return err == nil
		})
	}
	return all
}

func TestOpen_damaged_bytes(t *testing.T) {
	t.Parallel()
	path, want := grown(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// What lies after the last page in use is never read.
	_, pageSize, err := readMeta(bytes.NewReader(whole), 0)
	if err != nil {
		t.Fatal(err)
	}
	used := usedBytes(t, whole)
	rng := rand.New(rand.NewPCG(1, 2))
	var offsets []int
	for page := 0; page < used; page += int(pageSize) {
		for range 4 { // headers and the first entries, where a byte matters most
			offsets = append(offsets, page+rng.IntN(64))
		}
		for range 2 {
			offsets = append(offsets, page+rng.IntN(int(pageSize)))
		}
	}
	refused := 0
	for _, at := range offsets {
		damaged := bytes.Clone(whole)
		switch rng.IntN(3) {
		case 0:
			damaged[at] ^= 1 << rng.IntN(8)
		case 1:
			damaged[at] ^= 0xff
		case 2:
			damaged[at] += byte(1 + rng.IntN(255))
		}
		if checkDamaged(t, damaged, want) {
			refused++
		}
		if t.Failed() {
			t.Fatalf("byte %d: %#x became %#x", at, whole[at], damaged[at])
		}
	}
	if refused == 0 || refused == len(offsets) {
		t.Errorf("%d of %d damaged files were refused", refused, len(offsets))
	}
}

func TestOpen_damaged_pages(t *testing.T) {
	t.Parallel()
	path, want := grown(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	used := usedBytes(t, whole)
	for at := 0; at < used; at += page {
		zero := bytes.Clone(whole)
		clear(zero[at : at+page])
		checkDamaged(t, zero, want)
		swapped, from := bytes.Clone(whole), (at+page)%used // a page in the place of another
		copy(swapped[at:at+page], whole[from:from+page])
		checkDamaged(t, swapped, want)
		checkDamaged(t, whole[:at+page/2], want)
		if t.Failed() {
			t.Fatalf("page %d", at/page)
		}
	}
}

// usedBytes is where the pages end that were ever written.
func usedBytes(t *testing.T, file []byte) int {
	t.Helper()
	m0, size, err0 := readMeta(bytes.NewReader(file), 0)
	m1, _, err1 := readMeta(bytes.NewReader(file), size)
	if err := errors.Join(err0, err1); err != nil {
		t.Fatal(err)
	}
	return int(max(m0.end, m1.end)) * int(size)
}

// checkDamaged opens a file: it must be refused with a name, or hold everything and take a commit.
func checkDamaged(t *testing.T, file []byte, want map[string]string) (refused bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	s, err := Open(path, Options{})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("refused without a name: %v", err)
		}
		return true
	}
	defer s.Close()
	got := allOf(t, s)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s holds %q, want %q", key, got[key], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("holds %d things, want %d", len(got), len(want))
	}
	o := testPool(1, 77)
	if _, err := s.Commit(context.Background(), Commit{Base: s.Newest().Revision, Changes: []config.Change{{Key: o.Key(), New: o}}}); err != nil {
		t.Errorf("commit: %v", err)
	}
	return false
}

// TestOpen_damaged_entries changes entries behind the store's back, pages and all.
func TestOpen_damaged_entries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage func(tx *bbolt.Tx) error
		want   string
	}{
		"lost_object": {
			func(tx *bbolt.Tx) error { return tx.Bucket([]byte("objects")).Delete([]byte("pool/pool0003")) },
			"bucket objects: holds 79 entries, not the 80 that were written",
		},
		"changed_object": {
			func(tx *bbolt.Tx) error { return flip(tx, "objects", []byte("pool/pool0003")) },
			`bucket objects, key "pool/pool0003": wrong checksum`,
		},
		"object_in_the_place_of_another": {
			func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("objects"))
				return b.Put([]byte("pool/pool0003"), bytes.Clone(b.Get([]byte("pool/pool0004"))))
			},
			`bucket objects, key "pool/pool0003": wrong checksum`,
		},
		"not_an_object": {
			func(tx *bbolt.Tx) error {
				key := []byte("pool/pool0003")
				return tx.Bucket([]byte("objects")).Put(key, seal(key, []byte{0xff, 0xff}))
			},
			`bucket objects, key "pool/pool0003": not an object`,
		},
		"no_checksum": {
			func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte("objects")).Put([]byte("pool/pool0003"), []byte("x"))
			},
			`bucket objects, key "pool/pool0003": too short`,
		},
		"lost_bucket": {
			func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("objects")) },
			"bucket objects: missing",
		},
		"lost_state": {
			func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("state")) },
			`bucket meta, key "state": missing`,
		},
		"lost_revision": {
			func(tx *bbolt.Tx) error { return tx.Bucket([]byte("revisions")).Delete(revisionKey(3)) },
			`bucket revisions, key "4": follows revision 2`,
		},
		"changed_undo": {
			func(tx *bbolt.Tx) error { return flip(tx, "undo", undoKey(2, "pool/pool0003")) },
			`bucket undo, key "2 pool/pool0003": wrong checksum`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path, _ := grown(t)
			edit(t, path, test.damage)
			_, err := Open(path, Options{})
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestOpen_newer_format(t *testing.T) {
	path, _ := grown(t)
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), seal([]byte("format"), []byte("2")))
	})
	_, err := Open(path, Options{})
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("got %v", err)
	}
}

func edit(t *testing.T, path string, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func flip(tx *bbolt.Tx, bucket string, key []byte) error {
	value := bytes.Clone(tx.Bucket([]byte(bucket)).Get(key))
	value[len(value)-1] ^= 1
	return tx.Bucket([]byte(bucket)).Put(key, value)
}

// TestCommit_after_a_late_failure has the file ahead of memory, as after an error in the last step of a commit.
func TestCommit_after_a_late_failure(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "config.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, o := context.Background(), testPool(1, 1)
	change := Commit{Changes: []config.Change{{Key: o.Key(), New: o}}}
	before := s.Newest()
	if _, err := s.Commit(ctx, change); err != nil {
		t.Fatal(err)
	}
	s.newest, s.state = before, state{}
	if _, err := s.Commit(ctx, change); !errors.Is(err, ErrConflict) {
		t.Errorf("got %v", err)
	}
	if n := s.Newest(); n.Revision != 1 || n.Tree.Get(o.Key()) == nil {
		t.Errorf("revision %d", n.Revision)
	}
}
