package dataplane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// killed copies the state directory as it is in this moment: what a dataplane would find if the one that runs were killed now.
func killed(t *testing.T, dir string) string {
	t.Helper()
	left := t.TempDir()
	for _, name := range []string{journalName, recordsName, removedName} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if name == removedName && os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return left
}

// written waits until everything that has happened is in the file.
func (s *site) written() {
	s.t.Helper()
	s.engine.recordFile.flush(time.Hour)
}

// visitors are clients that were each answered by somebody.
type visitors map[string]string

func (s *site) visitors(n int) visitors {
	s.t.Helper()
	v := visitors{}
	for i := range n {
		client := fmt.Sprintf("127.0.7.%d", i+1)
		v[client] = s.whoFrom(client)
	}
	return v
}

// whoFrom is who answers a client at the virtual server web, whoAt at another one.
func (s *site) whoFrom(client string) string { s.t.Helper(); return s.whoAt(client, web) }

func (s *site) whoAt(client, virtual string) string {
	s.t.Helper()
	c, err := s.dialFrom(client, virtual)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	return readName(s.t, c)
}

// stay checks that every client is where it was.
func (v visitors) stay(s *site) {
	s.t.Helper()
	for client, name := range v {
		want(s.t, s.whoFrom(client), name)
	}
}

func (s *site) remaining(filter *pb.RecordFilter) (seconds []uint64) {
	s.t.Helper()
	records, err := s.engine.Records(filter)
	if err != nil {
		s.t.Fatal(err)
	}
	for r := range records {
		seconds = append(seconds, r.GetExpiresInSeconds())
	}
	return seconds
}

// Everybody finds their member after the dataplane was killed, also those who are the first to come.
func TestKilled(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	dir := t.TempDir()
	s := newSite(t, dir, mapped)
	s.apply(simplePool("p", 300, a.addr(), b.addr()), virtualServer(web, "p"))
	clients := s.visitors(99)
	delete(clients, "127.0.7.3")
	if _, err := s.engine.ClearRecords(&pb.RecordFilter{Client: new("127.0.7.3")}); err != nil {
		t.Fatal(err)
	}
	open, err := s.dialFrom("127.0.7.200", web)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	clients["127.0.7.200"] = readName(t, open)
	s.written()

	t.Run("pain-52_all_records_are_back", func(t *testing.T) {
		s := newSite(t, killed(t, dir), mapped)
		seconds := s.remaining(nil)
		for _, n := range seconds {
			if n < 290 || n > 300 {
				t.Errorf("%d seconds are left", n)
			}
		}
		if len(seconds) != 99 {
			t.Errorf("%d records", len(seconds))
		}
		clients.stay(s)
	})
	t.Run("what_was_cleared_stays_so", func(t *testing.T) { // also when nothing was written since
		left := killed(t, dir)
		s := newSite(t, left, mapped)
		if n, err := s.engine.ClearRecords(&pb.RecordFilter{Client: new("127.0.7.5")}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n := len(newSite(t, killed(t, left), mapped).remaining(nil)); n != 98 {
			t.Errorf("%d records", n)
		}
	})
	t.Run("pain-53_a_timeout_that_was_changed", func(t *testing.T) {
		s := newSite(t, changed(t, dir, simplePool("p", 60, a.addr(), b.addr()), virtualServer(web, "p")), mapped)
		for _, n := range s.remaining(nil) {
			if n > 60 {
				t.Fatalf("%d seconds are left of 60", n)
			}
		}
		clients.stay(s)
	})
	t.Run("pain-53_no_persistence_any_more", func(t *testing.T) {
		s := newSite(t, changed(t, dir, plainPool("p", a.addr(), b.addr()), virtualServer(web, "p")), mapped)
		if n := len(s.remaining(nil)); n != 0 {
			t.Errorf("%d records", n)
		}
	})
	t.Run("pain-39_the_pool_is_gone", func(t *testing.T) {
		s := newSite(t, changed(t, dir, plainPool("q", a.addr()), virtualServer(web, "q")), mapped)
		if n := len(s.remaining(nil)); n != 0 {
			t.Errorf("%d records", n)
		}
	})
	t.Run("damaged_configuration", func(t *testing.T) { // what is left is not the whole one: no record is given up for it
		left := killed(t, dir)
		if err := os.WriteFile(filepath.Join(left, journalName), []byte(journalMagic), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSite(t, left, mapped)
		if n := len(s.remaining(nil)); n != 99 {
			t.Errorf("%d records while there is no configuration", n)
		}
		s.apply(simplePool("p", 300, a.addr(), b.addr()), virtualServer(web, "p"))
		clients.stay(s)
		if n := len(s.remaining(nil)); n != 99 {
			t.Errorf("%d records", n)
		}
	})
	t.Run("pain-51_unrelated_changes", func(t *testing.T) {
		s := newSite(t, killed(t, dir), mapped)
		c := newMember(t, "c", false)
		s.revision = 1
		s.apply(plainPool("another", c.addr()), virtualServer(other, "another"))
		s.apply(simplePool("p", 300, a.addr(), b.addr(), c.addr()))
		clients.stay(s)
		s.apply(simplePool("p", 300, a.addr(), b.addr()))
		clients.stay(s)
	})
}

// changed is what is left of a dataplane that was killed in the moment in which a configuration was applied: the records are
// those of before.
func changed(t *testing.T, dir string, objects ...*pb.Object) string {
	t.Helper()
	left := killed(t, dir)
	records, err := os.ReadFile(filepath.Join(left, recordsName))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, left, mapped)
	s.apply(objects...) // the whole one
	s.close()
	if err := os.WriteFile(filepath.Join(left, recordsName), records, 0o600); err != nil {
		t.Fatal(err)
	}
	return left
}

// A dataplane that has taken over keeps the records from then on; the one before does not disturb it.
func TestKilledAfterHandOver(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	dir := t.TempDir()
	first := startProcess(t, dir)
	first.apply(simplePool("p", 300, a.addr(), b.addr()), virtualServer(web, "p"))
	clients := first.visitors(20)
	_, open := first.visit(web)
	second := first.succeed(dir)
	for client, name := range second.visitors(40) {
		clients[client] = name
	}
	echo(t, open, "still with the first")
	second.written()
	first.engine.recordFile.flush(time.Hour)
	s := newSite(t, killed(t, dir), mapped)
	if n := len(s.remaining(nil)); n != 41 {
		t.Errorf("%d records", n)
	}
	clients.stay(s)
}
