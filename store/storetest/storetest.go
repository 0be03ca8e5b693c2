// Package storetest is the test suite that every store.Store must pass.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// Opener opens one store: the same one each time, as it was when it was closed.
type Opener func() (store.Store, error)

// Run runs the suite; fresh makes the opener of a new, empty store.
func Run(t *testing.T, fresh func(t testing.TB) Opener) {
	tests := map[string]func(*testing.T, *harness){
		"empty":            testEmpty,
		"commit":           testCommit,
		"no_difference":    testNoDifference,
		"conflict":         testConflict,
		"refused_change":   testRefusedChange,
		"history":          testHistory,
		"history_limit":    testHistoryLimit,
		"watch":            testWatch,
		"watch_last":       testWatchLast,
		"pending":          testPending,
		"reopen":           testReopen,
		"cancelled":        testCancelled,
		"closed":           testClosed,
		"many_writers":     testManyWriters,
		"snapshot_is_kept": testSnapshotIsKept,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t, fresh(t))) })
	}
	t.Run("state_machine", func(t *testing.T) { testStateMachine(t, fresh) })
}

// harness is a store whose invariants are checked when its test ends.
type harness struct {
	store.Store
	t      testing.TB
	opener Opener
}

func open(t testing.TB, opener Opener) *harness {
	t.Helper()
	s, err := opener()
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{Store: s, t: t, opener: opener}
	t.Cleanup(func() { h.check() })
	return h
}

// reopen closes the store and opens it again.
func (h *harness) reopen() {
	h.t.Helper()
	if err := h.Close(); err != nil {
		h.t.Fatal(err)
	}
	s, err := h.opener()
	if err != nil {
		h.t.Fatal(err)
	}
	h.Store = s
}

// check closes and opens the store and looks at everything that must hold.
func (h *harness) check() {
	before, id := h.Newest(), h.ID()
	h.reopen()
	defer func() {
		if err := h.Close(); err != nil {
			h.t.Error(err)
		}
	}()
	if h.ID() != id {
		h.t.Errorf("identity %q became %q", id, h.ID())
	}
	after := h.Newest()
	if after.Revision != before.Revision {
		h.t.Errorf("revision %d became %d", before.Revision, after.Revision)
	}
	equal(h.t, contents(before.Tree), contents(after.Tree))
	list, err := h.History()
	if err != nil {
		h.t.Fatal(err)
	}
	if len(list) > store.HistoryLimit {
		h.t.Errorf("%d revisions in the history", len(list))
	}
	for i, r := range list {
		if want := after.Revision - uint64(i); r.GetNumber() != want {
			h.t.Errorf("history[%d] is revision %d, want %d", i, r.GetNumber(), want)
		}
		if _, err := h.At(r.GetNumber()); err != nil {
			h.t.Errorf("revision %d: %v", r.GetNumber(), err)
		}
	}
}

// commit commits changes on the newest revision.
func (h *harness) commit(summary string, changes ...config.Change) *pb.Revision {
	h.t.Helper()
	r, err := h.Commit(context.Background(), store.Commit{
		Base: h.Newest().Revision, Changes: changes, Actor: "root", Summary: summary,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// put is the change that makes a pool whose only member has the given ratio.
func put(name string, ratio uint32) config.Change {
	o := pool(name, ratio)
	return config.Change{Key: o.Key(), New: o}
}

func drop(name string) config.Change { return config.Change{Key: "pool/" + name} }

func pool(name string, ratio uint32) *pb.Object {
	return &pb.Object{Kind: &pb.Object_Pool{Pool: &pb.Pool{
		Name: name, Members: []*pb.Member{{Address: "10.1.1.1:80", Ratio: proto.Uint32(ratio)}},
	}}}
}

// contents returns the ratio of each pool, which is all that the suite stores.
func contents(v config.View) map[string]uint32 {
	m := map[string]uint32{}
	v.Range("pool", func(o *pb.Object) bool {
		m[o.GetPool().GetName()] = o.GetPool().GetMembers()[0].GetRatio()
		return true
	})
	return m
}

func equal(t interface{ Errorf(string, ...any) }, want, got map[string]uint32) {
	if fmt.Sprint(want) != fmt.Sprint(got) { // fmt sorts maps
		t.Errorf("holds %v, want %v", got, want)
	}
}

func testEmpty(t *testing.T, h *harness) {
	n := h.Newest()
	if n.Revision != 0 || n.Pending != nil || len(contents(n.Tree)) != 0 {
		t.Errorf("a new store holds %+v", n)
	}
	if len(h.ID()) < 16 {
		t.Errorf("identity %q", h.ID())
	}
	if list, err := h.History(); err != nil || len(list) != 0 {
		t.Errorf("history %v, %v", list, err)
	}
}

func testCommit(t *testing.T, h *harness) {
	r := h.commit("first", put("a", 1), put("b", 2))
	if r.GetNumber() != 1 || r.GetActor() != "root" || r.GetSummary() != "first" || r.GetChanged() != 2 || r.GetDeleted() != 0 || r.GetUnixSeconds() == 0 {
		t.Errorf("revision %v", r)
	}
	r = h.commit("second", put("a", 3), drop("b"), put("c", 4), drop("nothing"))
	if r.GetNumber() != 2 || r.GetChanged() != 2 || r.GetDeleted() != 1 {
		t.Errorf("revision %v", r)
	}
	equal(t, map[string]uint32{"a": 3, "c": 4}, contents(h.Newest().Tree))
	if h.Newest().Revision != 2 {
		t.Errorf("newest revision %d", h.Newest().Revision)
	}
}

func testNoDifference(t *testing.T, h *harness) {
	h.commit("first", put("a", 1))
	r := h.commit("again", put("a", 1), drop("b"))
	if r.GetNumber() != 1 || r.GetSummary() != "first" {
		t.Errorf("revision %v", r)
	}
}

func testConflict(t *testing.T, h *harness) {
	h.commit("first", put("a", 1))
	for _, base := range []uint64{0, 2} {
		_, err := h.Commit(context.Background(), store.Commit{Base: base, Changes: []config.Change{put("a", 2)}})
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("base %d: %v", base, err)
		}
	}
	equal(t, map[string]uint32{"a": 1}, contents(h.Newest().Tree))
}

func testRefusedChange(t *testing.T, h *harness) {
	bad := put("a", 1)
	bad.Key = "pool/b"
	for _, c := range []config.Change{bad, {Key: "", New: &pb.Object{}}} {
		_, err := h.Commit(context.Background(), store.Commit{Changes: []config.Change{put("x", 1), c}})
		if err == nil {
			t.Errorf("key %q was stored", c.Key)
		}
	}
	if h.Newest().Revision != 0 {
		t.Errorf("revision %d", h.Newest().Revision)
	}
}

func testHistory(t *testing.T, h *harness) {
	h.commit("one", put("a", 1))
	h.commit("two", put("a", 2), put("b", 1))
	h.commit("three", drop("a"))
	h.commit("four", put("a", 4))
	want := []map[string]uint32{{}, {"a": 1}, {"a": 2, "b": 1}, {"b": 1}, {"a": 4, "b": 1}}
	for i, w := range want {
		tree, err := h.At(uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, w, contents(tree))
	}
	if _, err := h.At(5); !errors.Is(err, store.ErrNoRevision) {
		t.Errorf("revision 5: %v", err)
	}
	list, err := h.History()
	if err != nil || len(list) != 4 || list[0].GetSummary() != "four" || list[3].GetSummary() != "one" {
		t.Errorf("history %v, %v", list, err)
	}
}

func testHistoryLimit(t *testing.T, h *harness) {
	const more = 5
	for i := range uint32(store.HistoryLimit + more) {
		h.commit("", put("a", i+1), put(fmt.Sprint("p", i%3), i+1))
	}
	list, err := h.History()
	if err != nil || len(list) != store.HistoryLimit {
		t.Fatalf("%d revisions, %v", len(list), err)
	}
	oldest := list[len(list)-1].GetNumber()
	tree, err := h.At(oldest)
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(tree)["a"]; uint64(got) != oldest {
		t.Errorf("revision %d holds %d", oldest, got)
	}
	if _, err := h.At(oldest - 2); !errors.Is(err, store.ErrNoRevision) {
		t.Errorf("revision %d: %v", oldest-2, err)
	}
}

func testWatch(t *testing.T, h *harness) {
	s, changed := h.Watch()
	if s.Revision != 0 {
		t.Errorf("revision %d", s.Revision)
	}
	select {
	case <-changed:
		t.Error("woken without a change")
	default:
	}
	h.commit("first", put("a", 1))
	<-changed
	if s, _ := h.Watch(); s.Revision != 1 {
		t.Errorf("revision %d", s.Revision)
	}
}

// testWatchLast has a watcher that is slower than the writer: it must see the last change.
func testWatchLast(t *testing.T, h *harness) {
	const last = 50
	done := make(chan uint64)
	go func() {
		s, changed := h.Watch()
		for s.Revision < last {
			<-changed
			s, changed = h.Watch()
		}
		done <- s.Revision
	}()
	for i := range uint32(last) {
		h.commit("", put("a", i+1))
	}
	if got := <-done; got != last {
		t.Errorf("watched up to revision %d", got)
	}
}

func testPending(t *testing.T, h *harness) {
	h.commit("good", put("a", 1))
	deadline := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ctx := context.Background()
	r, err := h.Commit(ctx, store.Commit{
		Base: 1, Changes: []config.Change{put("a", 2)}, Pending: &store.Pending{BackTo: 1, Deadline: deadline},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.reopen()
	p := h.Newest().Pending
	if p == nil || p.Revision != r.GetNumber() || p.BackTo != 1 || !p.Deadline.Equal(deadline) {
		t.Fatalf("pending %+v", p)
	}
	if ok, err := h.Confirm(ctx); !ok || err != nil {
		t.Errorf("confirm: %v, %v", ok, err)
	}
	if ok, err := h.Confirm(ctx); ok || err != nil {
		t.Errorf("confirm again: %v, %v", ok, err)
	}
	h.reopen()
	if h.Newest().Pending != nil || h.Newest().Revision != 2 {
		t.Errorf("after confirm: %+v", h.Newest())
	}
}

func testReopen(t *testing.T, h *harness) {
	h.commit("first", put("a", 1), put("b", 2))
	h.commit("second", drop("b"))
	id := h.ID()
	h.reopen()
	if h.ID() != id || h.Newest().Revision != 2 {
		t.Errorf("identity %s, revision %d", h.ID(), h.Newest().Revision)
	}
	equal(t, map[string]uint32{"a": 1}, contents(h.Newest().Tree))
}

func testCancelled(t *testing.T, h *harness) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Commit(ctx, store.Commit{Changes: []config.Change{put("a", 1)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if h.Newest().Revision != 0 {
		t.Errorf("revision %d", h.Newest().Revision)
	}
}

func testClosed(t *testing.T, h *harness) {
	h.commit("first", put("a", 1))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	_, errCommit := h.Commit(context.Background(), store.Commit{Base: 1, Changes: []config.Change{put("a", 2)}})
	_, errConfirm := h.Confirm(context.Background())
	_, errHistory := h.History()
	_, errAt := h.At(1)
	for i, err := range []error{errCommit, errConfirm, errHistory, errAt} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	equal(t, map[string]uint32{"a": 1}, contents(h.Newest().Tree))
}

// testManyWriters has writers that try again after a conflict: each of their changes must be there once.
func testManyWriters(t *testing.T, h *harness) {
	const writers, each = 4, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				for {
					s := h.Newest()
					_, err := h.Commit(context.Background(), store.Commit{
						Base: s.Revision, Changes: []config.Change{put("sum", contents(s.Tree)["sum"]+1), put(fmt.Sprint(w), uint32(n+1))},
					})
					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if got := contents(h.Newest().Tree)["sum"]; got != writers*each {
		t.Errorf("sum %d, want %d", got, writers*each)
	}
}

func testSnapshotIsKept(t *testing.T, h *harness) {
	h.commit("first", put("a", 1))
	s := h.Newest()
	h.commit("second", put("a", 2), put("b", 1))
	equal(t, map[string]uint32{"a": 1}, contents(s.Tree))
}

// testStateMachine compares the store with plain maps, one for each revision.
func testStateMachine(t *testing.T, fresh func(t testing.TB) Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		h := open(t, fresh(t))
		defer func() { _ = h.Close() }()
		model := []map[string]uint32{{}}
		names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) {
				next := map[string]uint32{}
				for k, v := range model[len(model)-1] {
					next[k] = v
				}
				var changes []config.Change
				for _, name := range rapid.SliceOfNDistinct(names, 1, 4, rapid.ID[string]).Draw(rt, "names") {
					if ratio := rapid.Uint32Range(0, 3).Draw(rt, "ratio"); ratio > 0 {
						next[name] = ratio
						changes = append(changes, put(name, ratio))
					} else {
						delete(next, name)
						changes = append(changes, drop(name))
					}
				}
				r, err := h.Commit(context.Background(), store.Commit{Base: h.Newest().Revision, Changes: changes})
				if err != nil {
					rt.Fatal(err)
				}
				if fmt.Sprint(next) != fmt.Sprint(model[len(model)-1]) {
					model = append(model, next)
				}
				if r.GetNumber() != uint64(len(model)-1) {
					rt.Errorf("revision %d, want %d", r.GetNumber(), len(model)-1)
				}
			},
			"stale": func(rt *rapid.T) {
				_, err := h.Commit(context.Background(), store.Commit{Base: uint64(len(model)), Changes: []config.Change{put("z", 1)}})
				if !errors.Is(err, store.ErrConflict) {
					rt.Errorf("stale commit: %v", err)
				}
			},
			"at": func(rt *rapid.T) {
				n := rapid.IntRange(0, len(model)-1).Draw(rt, "revision")
				tree, err := h.At(uint64(n))
				switch {
				case len(model)-1-n > store.HistoryLimit:
					if !errors.Is(err, store.ErrNoRevision) {
						rt.Errorf("revision %d: %v", n, err)
					}
				case err != nil:
					rt.Fatal(err)
				default:
					equal(rt, model[n], contents(tree))
				}
			},
			"reopen": func(rt *rapid.T) { h.reopen() },
			"": func(rt *rapid.T) {
				equal(rt, model[len(model)-1], contents(h.Newest().Tree))
			},
		})
	})
}
