package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
	"bigpipe/dataplane/openssl"
)

// sslSite is our programs in front of openssl's servers.
type sslSite struct {
	*testing.T
	*e2e.Site
	peer *openssl.Peer
}

var sslMembers = []string{"10.1.1.1:443", "10.1.1.2:443", "10.1.1.3:443"}

// newSSLSite has the virtual server 192.168.200.10:443 in front of servers that have the options.
func newSSLSite(t *testing.T, options ...string) *sslSite {
	t.Helper()
	peer := openssl.New(t) // before programs are started
	conf := "pool secure { persist_mode ssl member " + strings.Join(sslMembers, " member ") + " }\nvirtual 192.168.200.10:443 { use pool secure }\n"
	s := &sslSite{T: t, Site: newSite(t, conf), peer: peer}
	var places []string
	for _, m := range sslMembers {
		place, err := s.Place(m)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place.String())
	}
	peer.Serve(places, options...)
	start(t, s.Site, "dataplane")
	start(t, s.Site, "mgmtd")
	loadText(t, s.Site, conf)
	return s
}

// connect runs a client, whose connections have to begin as wanted. It returns the session's ID.
func (s *sslSite) connect(want, from string, page bool, options ...string) string {
	s.Helper()
	place, err := s.Place("192.168.200.10:443")
	if err != nil {
		s.Fatal(err)
	}
	got := s.peer.Connect(openssl.Client{From: from, To: place.String(), Page: page}, options...)
	if got.Began != want {
		s.Errorf("connections from %s began %q, want %q", from, got.Began, want)
	}
	return got.ID
}

// bigpipe runs a command.
func (s *sslSite) bigpipe(command string) string {
	s.Helper()
	return output(s.T, s.Site, "-n", "-c", command)
}

// records returns what persist dump lists, sorted, as "MODE KEY NODE".
func (s *sslSite) records() (list []string) {
	s.Helper()
	var dump struct {
		Records []struct{ Pool, Mode, Key, Virtual, Node string }
	}
	if err := json.Unmarshal([]byte(output(s.T, s.Site, "-o", "json", "pool", "secure", "persist", "dump")), &dump); err != nil {
		s.Fatal(err)
	}
	for _, r := range dump.Records {
		if r.Pool != "secure" || r.Virtual != "192.168.200.10:443" {
			s.Errorf("record %+v", r)
		}
		list = append(list, fmt.Sprint(r.Mode, " ", r.Key, " ", r.Node))
	}
	slices.Sort(list)
	return list
}

func (s *sslSite) wantRecords(want ...string) {
	s.Helper()
	want = slices.Sorted(slices.Values(want))
	if got := s.records(); !slices.Equal(got, want) {
		s.Errorf("records are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// contains checks what a command prints.
func (s *sslSite) contains(command string, words ...string) {
	s.Helper()
	out := s.bigpipe(command)
	for _, w := range words {
		if !strings.Contains(out, w) {
			s.Errorf("%s prints no %q:\n%s", command, w, out)
		}
	}
}

// TestSessionIDs: A-T1 and A-T2 through all programs: sessions of TLS 1.2 without tickets are resumed wherever their clients are, also
// after the dataplane was handed over or killed; operators find them by their IDs.
func TestSessionIDs(t *testing.T) {
	t.Parallel()
	s := newSSLSite(t, "-tls1_2", "-no_ticket")
	const first, second = "127.0.0.1", "127.0.0.9"
	var want, ids []string
	for i, m := range sslMembers {
		id := s.connect("New", first, false, "-tls1_2", "-no_ticket", "-sess_out", fmt.Sprint("s", i))
		if len(id) != 64 {
			t.Fatalf("session ID %q", id)
		}
		ids, want = append(ids, id), append(want, "ssl "+id+" "+m)
	}
	s.wantRecords(want...)
	resume := func(what string) {
		t.Helper()
		for i := range sslMembers {
			for _, from := range []string{first, second} {
				s.connect(openssl.Reused(6), from, false, "-tls1_2", "-no_ticket", "-reconnect", "-sess_in", fmt.Sprint("s", i))
			}
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	resume("at once")
	s.wantRecords(want...)

	s.contains("pool secure persist show", "persist_mode ssl", ids[0], ids[1], ids[2])
	s.contains("pool secure persist dump client "+ids[1], ids[1], "10.1.1.2:443")
	s.contains("pool secure persist explain client 127.0.0.7 session "+ids[2],
		"the record of "+ids[2]+" on 192.168.200.10:443 names 10.1.1.3:443", "persistence: valid", "->  member 10.1.1.3:443")
	s.contains("pool secure persist explain client 127.0.0.7 session 0a", "no record of 0a", "persistence: none")
	s.contains("persist forecast node 10.1.1.2", "10.1.1.2:443")
	s.contains("pool secure show", "valid 36", "bound 3")

	if err := s.HandOver(); err != nil {
		t.Fatal(err)
	}
	resume("handed over")
	s.bigpipe("node 10.1.1.1:443 disable") // which keeps its sessions
	resume("with a member disabled")
	s.bigpipe("node 10.1.1.1:443 enable")

	if got := s.bigpipe("pool secure persist clear client " + ids[0]); got != "1 cleared\n" {
		t.Errorf("clear says %q", got)
	}
	s.wantRecords(want[1:]...)
	s.contains("pool secure persist explain client 127.0.0.7 session "+ids[0], "no record of "+ids[0])
}

// TestSessionsAfterKill: the IDs of sessions are found again after kill -9.
func TestSessionsAfterKill(t *testing.T) {
	t.Parallel()
	s := newSSLSite(t, "-tls1_2", "-no_ticket")
	for i := range sslMembers {
		s.connect("New", "127.0.0.1", false, "-tls1_2", "-no_ticket", "-sess_out", fmt.Sprint("s", i))
	}
	before := s.records()
	time.Sleep(time.Second) // records are written four times a second
	if err := s.KillDaemon("dataplane"); err != nil {
		t.Fatal(err)
	}
	start(t, s.Site, "dataplane")
	awaitVirtual(t, s.Site, "192.168.200.10:443")
	s.wantRecords(before...)
	for i := range sslMembers {
		s.connect("Reused", "127.0.0.9", false, "-tls1_2", "-no_ticket", "-sess_in", fmt.Sprint("s", i))
	}
}

// TestTickets: A-T17 and pain 89 through all programs: tickets of TLS 1.2 are learned, unless they are ignored.
func TestTickets(t *testing.T) {
	t.Parallel()
	s := newSSLSite(t, "-tls1_2")
	s.connect("New", "127.0.0.9", true, "-tls1_2", "-sess_out", "other")
	s.connect("New", "127.0.0.1", true, "-tls1_2", "-sess_out", "s")
	for range 5 {
		s.connect("Reused", "127.0.0.9", true, "-tls1_2", "-sess_in", "s", "-sess_out", "s")
	}
	s.connect(openssl.Reused(6), "127.0.0.1", false, "-tls1_2", "-reconnect", "-sess_in", "s")
	s.contains("pool secure persist dump node 10.1.1.2:443", "10.1.1.2:443")

	s.bigpipe("pool secure modify { ssl_tickets ignore }")
	s.contains("pool secure persist show", "ssl_tickets ignore")
	s.wantRecords()
	for range 2 { // the next ones in turn
		s.connect("New", "127.0.0.1", true, "-tls1_2", "-sess_in", "s")
	}
	s.wantRecords()
}

// TestTLS13: A-T16, rule A-13 and pain 88 through all programs: sessions of TLS 1.3 cannot be followed, which is said once; with
// ssl_fallback simple their clients stay by their addresses.
func TestTLS13(t *testing.T) {
	t.Parallel()
	s := newSSLSite(t, "-tls1_3")
	s.connect("New", "127.0.0.1", true, "-sess_out", "s")
	for range 2 {
		s.connect("New", "127.0.0.1", true, "-sess_in", "s")
	}
	s.wantRecords()
	if log, err := s.Log("dataplane"); err != nil || strings.Count(log, "ssl_fallback simple") != 1 {
		t.Errorf("the log has to say once what to do: %v\n%s", err, log)
	}

	s.bigpipe("pool secure modify { ssl_fallback simple }")
	s.contains("pool secure persist show", "ssl_fallback simple")
	s.connect("New", "127.0.0.1", true, "-sess_out", "s") // the turn is that of the first again
	for range 5 {
		s.connect("Reused", "127.0.0.1", true, "-sess_in", "s", "-sess_out", "s")
	}
	s.wantRecords("simple 127.0.0.1 10.1.1.1:443")
	s.contains("pool secure persist explain client 127.0.0.1", "the record of 127.0.0.1 on 192.168.200.10:443 names 10.1.1.1:443", "->  member 10.1.1.1:443")
}
