package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/renameio/v2"

	pb "bigpipe/proto/bigpipe/v1"
)

// logged collects what an engine logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines hold all the words.
func (l *logged) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// loggedSite is a site whose log is kept.
func loggedSite(t *testing.T, dir, addresses string) (*site, *logged) {
	t.Helper()
	m := &AddressMap{}
	if err := m.Add(addresses); err != nil {
		t.Fatal(err)
	}
	l := &logged{}
	e, err := NewEngine(EngineOptions{StateDir: dir, Addresses: m, Log: l.logger()})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, engine: e, objects: map[string]*pb.Object{}}
	t.Cleanup(s.close)
	return s, l
}

// A virtual server that cannot be bound is logged once, however often it is tried and applied, and again for another reason.
func TestCannotBindIsLogged(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, log := loggedSite(t, "", "10.0.0.1:80="+taken.Addr().String())
	warned := func(reason string) int { return log.count("level=WARN", "virtual=10.0.0.1:80", reason) }
	for i := range 3 {
		s.apply(plainPool("p", fmt.Sprint("127.0.0.1:", i+1)), virtualServer("10.0.0.1:80", "p"))
	}
	time.Sleep(2 * shortestPause) // it is tried again meanwhile
	if n := warned("address in use"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	s.engine.mu.Lock()
	v := s.engine.running.Load().virtuals["10.0.0.1:80"]
	v.setReason("another reason")
	s.engine.mu.Unlock()
	eventually(t, "the change is logged", func() bool { return warned("address in use") == 2 })
	taken.Close()
	eventually(t, "it is in effect", func() bool { return log.count("in effect now") == 1 })
}

func TestStateDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	first := newSite(t, dir, mapped)
	first.apply(plainPool("p", "127.0.0.1:1"))
	if e, err := NewEngine(EngineOptions{StateDir: dir}); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second dataplane: %v, %v", e, err)
	}
	// One that ends gives it up at once, not when its last connection has ended.
	m := newMember(t, "m", false)
	first.apply(plainPool("p", m.addr()), virtualServer(web, "p"))
	_, _ = first.visit(web)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		first.engine.Close(ctx)
		close(done)
	}()
	second := newSite(t, dir, mapped)
	select {
	case <-done:
		t.Error("the first has ended already")
	default:
	}
	if got := second.engine.Status().GetRevision(); got != 2 {
		t.Errorf("revision %d", got)
	}
	cancel()
	<-done
	first.engine = nil
}

// A disk that fails is told once, tried again less and less often, and told when it works again.
func TestDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, log := loggedSite(t, dir, mapped)
	s.apply(plainPool("p", "127.0.0.1:1"))
	if d := s.engine.Unkept(); d != 0 {
		t.Errorf("unkept for %v", d)
	}
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	s.engine.mu.Lock()
	s.engine.disk.rewrite = true
	s.engine.mu.Unlock()
	failing := func() bool { return log.count("level=ERROR") > 0 }
	eventually(t, "the failure is logged", failing)
	eventually(t, "it is tried again", func() bool {
		s.engine.mu.Lock()
		defer s.engine.mu.Unlock()
		return s.engine.disk.pause > shortestDiskPause
	})
	s.apply(plainPool("p", "127.0.0.1:2"))
	if n := log.count("level=ERROR"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if s.engine.Unkept() <= 0 || s.statistics("").GetUnit().GetCounters()[UnkeptSeconds] > 60 {
		t.Error("it is not told")
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is kept again", func() bool { return s.engine.Unkept() == 0 })
	if log.count("level=INFO", "kept again", "revision=2") != 1 {
		t.Error("the end of it is not logged")
	}
	s.close()
	s = newSite(t, dir, mapped)
	if got := s.engine.Status().GetRevision(); got != 2 {
		t.Errorf("revision %d was kept", got)
	}
}

// Half an entry is taken back: what was kept before stays readable.
func TestJournalHalfWritten(t *testing.T) {
	path, ends := written(t)
	j, tree, _, err := openJournal(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := limitFileSize(t, uint64(ends[2]+20), func() error {
		_, err := j.add(header(4), changesTo(tree))
		return err
	}); err == nil {
		t.Fatal("nothing failed")
	}
	j.close()
	j, _, h, err := openJournal(filepath.Dir(path))
	if err != nil || h.GetRevision() != 3 {
		t.Errorf("revision %d, %v", h.GetRevision(), err)
	}
	j.close()
}

// A journal that was being written anew when its process was killed does not stay beside the next ones.
func TestJournalPartsGo(t *testing.T) {
	path, _ := written(t)
	part, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		t.Fatal(err)
	}
	defer part.Cleanup()
	if _, err := os.Stat(part.Name()); err != nil {
		t.Fatal(err)
	}
	j, _, h, err := openJournal(filepath.Dir(path))
	if err != nil || h.GetRevision() != 3 {
		t.Fatalf("revision %d, %v", h.GetRevision(), err)
	}
	j.close()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != journalName {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestSortedIfFew(t *testing.T) {
	for _, n := range []int{0, 1, 100, sortedMost, sortedMost + 1, 3 * sortedMost} {
		backwards := func(yield func(int) bool) {
			for i := n; i > 0 && yield(i); i-- {
			}
		}
		list := slices.Collect(sortedIfFew(backwards, func(a, b int) int { return a - b }))
		if len(list) != n || n <= sortedMost && !slices.IsSorted(list) {
			t.Errorf("%d of %d, sorted: %v", len(list), n, slices.IsSorted(list))
		}
		for stop := range 3 {
			left := stop
			sortedIfFew(backwards, func(a, b int) int { return a - b })(func(int) bool { left--; return left >= 0 })
		}
	}
}

// Two listings of the same records, and of the same connections, look the same on every run.
func TestListingsAreSorted(t *testing.T) {
	m := newMember(t, "m", false)
	s := newSite(t, "", mapped)
	s.apply(simplePool("p", 300, m.addr()), virtualServer(web, "p"))
	bound, _ := s.engine.Bound(web)
	for i := range 40 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 7, byte(40-i))}}
		c, err := d.Dial("tcp", bound.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		readName(t, c)
	}
	records, err := s.engine.Records(nil)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for r := range records {
		if i++; r.GetKey() != fmt.Sprint("127.0.7.", i) {
			t.Errorf("record %d is that of %s", i, r.GetKey())
		}
	}
	connections, err := s.engine.Connections(&pb.ListConnectionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	k := 0
	for c := range connections {
		if k++; !strings.HasPrefix(c.GetClient(), fmt.Sprintf("127.0.7.%d:", k)) {
			t.Errorf("connection %d is that of %s", k, c.GetClient())
		}
	}
	if i != 40 || k != 40 {
		t.Errorf("%d records, %d connections", i, k)
	}
}
