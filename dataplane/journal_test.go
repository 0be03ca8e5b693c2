package dataplane

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

func TestRestart(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	dir := t.TempDir()
	s := newSite(t, dir, mapped)
	s.apply(plainPool("p", a.addr()), virtualServer(web, "p"), virtualServer(other, "p"))
	s.apply(plainPool("p", b.addr()))
	s.update(nil, []string{"virtual/" + other})
	s.close()

	s = newSite(t, dir, mapped)
	want(t, s.who(web), "b")
	if _, ok := s.engine.Bound(other); ok {
		t.Error("what was deleted is back")
	}
	if got := s.engine.Status(); got.GetStoreId() != storeID || got.GetRevision() != 3 {
		t.Errorf("restored %v", got)
	}
	s.revision = 3
	s.apply(plainPool("p", a.addr())) // a delta goes on from there
	s.close()
	s = newSite(t, dir, mapped)
	want(t, s.who(web), "a")
}

// objects makes n pools.
func objects(n int) []*pb.Object {
	list := make([]*pb.Object, n)
	for i := range list {
		list[i] = plainPool(fmt.Sprint("p", i), "127.0.0.1:1")
	}
	return list
}

func header(revision uint64) *pb.ApplyHeader {
	return &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, Revision: revision}
}

// written is a journal with a whole configuration of three entries and two deltas; ends tells where each entry ends.
func written(t *testing.T) (path string, ends []int64) {
	t.Helper()
	j, tree, _, err := openJournal(t.TempDir())
	if err != nil || tree != nil {
		t.Fatal(tree, err)
	}
	defer j.close()
	tree = config.NewTree(objects(2*journalPiece + 10)...)
	if again, err := j.add(header(0), nil); !again || err != nil {
		t.Error("a delta went before the whole configuration", err)
	}
	if err := j.rewrite(header(1), tree); err != nil {
		t.Fatal(err)
	}
	ends = append(ends, j.size)
	for i := range 2 {
		changes := []config.Change{{Key: fmt.Sprint("pool/p", i)}, {Key: "pool/new", New: plainPool("new", fmt.Sprint("127.0.0.1:", i+1))}}
		if again, err := j.add(header(uint64(i+2)), changes); again || err != nil {
			t.Fatal(again, err)
		}
		ends = append(ends, j.size)
	}
	return j.path, ends
}

func TestJournal(t *testing.T) {
	path, ends := written(t)
	j, tree, h, err := openJournal(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if h.GetRevision() != 3 || tree.Len("pool") != 2*journalPiece+10-2+1 || tree.Get("pool/p1") != nil {
		t.Errorf("revision %d, %d pools", h.GetRevision(), tree.Len("pool"))
	}
	if got := config.FindPool(tree, "new").GetMembers()[0].GetAddress(); got != "127.0.0.1:2" {
		t.Errorf("the last delta says %s", got)
	}
	if j.size != ends[2] || j.whole != ends[0] {
		t.Errorf("sizes %d, %d, want %d, %d", j.whole, j.size, ends[0], ends[2])
	}
	j.whole = 0
	j.size = journalSlack + 1
	if again, err := j.add(header(4), nil); !again || err != nil {
		t.Errorf("it grows for ever: %v", err)
	}
}

func TestJournalDamage(t *testing.T) {
	path, ends := written(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int64) []byte {
		b := append([]byte{}, content...)
		b[at] ^= 0x10
		return b
	}
	tests := []struct {
		name    string
		content []byte
		offset  int64 // that the error names
		pools   int
	}{
		{"cut_in_the_last_delta", content[:ends[2]-3], ends[1], 2*journalPiece + 10},
		{"cut_in_a_head", content[:ends[1]+4], ends[1], 2*journalPiece + 10},
		{"flipped_in_the_first_delta", flip(ends[0] + 20), ends[0], 2*journalPiece + 10},
		{"flipped_length", flip(ends[1]), ends[1], 2*journalPiece + 10},
		{"zeros_behind", append(append([]byte{}, content...), make([]byte, 100)...), ends[2], 2*journalPiece + 9},
		{"whole_cut", content[:ends[0]-5], 0, 2 * journalPiece},
		{"not_a_journal", []byte("hello"), 0, 0},
		{"empty", nil, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, journalName), tt.content, 0o600); err != nil {
				t.Fatal(err)
			}
			j, tree, _, err := openJournal(dir)
			if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), journalName) {
				t.Fatalf("error %v", err)
			}
			if where := fmt.Sprintf("at byte %d:", tt.offset); tt.offset > 0 && !strings.Contains(err.Error(), where) {
				t.Errorf("%v does not say %q", err, where)
			}
			if n := tree.Len("pool"); n != tt.pools {
				t.Errorf("%d pools could be read, want %d", n, tt.pools)
			}
			if again, err := j.add(header(9), nil); !again || err != nil {
				t.Errorf("a delta is appended to a damaged file: %v", err)
			}
		})
	}
}

func TestDamagedStart(t *testing.T) {
	a := newMember(t, "a", false)
	dir := t.TempDir()
	s := newSite(t, dir, mapped)
	s.apply(plainPool("p", a.addr()), virtualServer(web, "p"))
	s.apply(plainPool("q", a.addr()))
	s.close()
	path := filepath.Join(dir, journalName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-2); err != nil {
		t.Fatal(err)
	}
	s = newSite(t, dir, mapped)
	want(t, s.who(web), "a") // what can be read forwards
	_, err = s.engine.Apply(&Update{Header: &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, BaseRevision: 2, Revision: 3}})
	if !errors.Is(err, ErrBase) {
		t.Errorf("a delta on damaged ground: %v", err)
	}
	s.apply(plainPool("p", a.addr()), virtualServer(other, "p"))
	s.close()
	s = newSite(t, dir, mapped)
	want(t, s.who(other), "a")
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(journalMagic))
	f.Add([]byte(journalMagic + "\x00\x00\x00\x00\x00\x00\x00\x00w"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, journalName), content, 0o600); err != nil {
			t.Fatal(err)
		}
		j, tree, h, err := openJournal(dir)
		if err == nil && (tree == nil || h == nil && j.whole == 0) {
			t.Errorf("neither a configuration nor an error")
		}
		if j != nil {
			j.close()
		}
	})
}

// changesTo changes every pool.
func changesTo(tree *config.Tree) (changes []config.Change) {
	tree.Range("pool", func(o *pb.Object) bool {
		changes = append(changes, config.Change{Key: o.Key(), New: o})
		return true
	})
	return changes
}

// limitFileSize makes writes beyond a size fail while fn runs, as a full disk would.
func limitFileSize(t *testing.T, size uint64, fn func() error) error {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) }()
	return fn()
}
