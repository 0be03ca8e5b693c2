package dataplane

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
)

// aged makes records of pool p at web: client i of n was there i%55 seconds ago for the last time, and first a minute before.
func (s *site) aged(n int, timeout time.Duration, nodes ...string) {
	s.t.Helper()
	id := persist.PoolIDOf("p")
	all, err := persist.NewMask(32, 128)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		idle := time.Duration(i%55) * time.Second
		r := persist.Record{
			Key:  persist.AddrKey(persist.Simple, persist.ScopeOf(persist.Globals{}, netip.MustParseAddrPort(web), id), all, agedClient(i)),
			Node: netip.MustParseAddrPort(nodes[i%len(nodes)]), Pool: id, Refresher: id, Accepted: true,
			Timeout: timeout, Remaining: timeout - idle, Idle: idle, Age: idle + time.Minute,
		}
		if !s.engine.records.Import(r) {
			s.t.Fatalf("record %d is not taken", i)
		}
	}
}

func agedClient(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, byte(8 + i>>8), byte(i)}) }

// ages are how old the records are, by client, in seconds.
func (s *site) ages() map[string]uint64 {
	s.t.Helper()
	records, err := s.engine.Records(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	ages := map[string]uint64{}
	for r := range records {
		ages[r.GetKey()+" "+r.GetNode()] = r.GetAgeSeconds()
	}
	return ages
}

// Pain 52: 1,000 records of different ages are there after the same configuration came again, and after a kill and 20 seconds, each
// older by these; those that ran out meanwhile are not, and a timeout that was changed holds for them.
func TestPain52(t *testing.T) {
	const n, down = 1000, 20 * time.Second
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	dir := t.TempDir()
	s := newSite(t, dir, mapped)
	objects := []*pb.Object{simplePool("p", 60, a.addr(), b.addr()), virtualServer(web, "p")}
	s.apply(objects...)
	s.aged(n, time.Minute, a.addr(), b.addr())
	before, began := s.ages(), time.Now()
	s.apply(objects...) // b load
	s.engine.recordFile.clock = func() moment {
		m := readMoment()
		return moment{m.wall - int64(down), m.boot - int64(down)}
	}
	s.written()

	// check compares with the records of clients that were there so long ago at most, all older by so much.
	check := func(t *testing.T, s *site, idle int, older time.Duration) {
		t.Helper()
		left, seen, passed := s.ages(), 0, uint64(time.Since(began)/time.Second)
		for i := range n {
			key := fmt.Sprintf("%s %s", agedClient(i), []string{a.addr(), b.addr()}[i%2])
			age, ok := left[key]
			switch {
			case i%55 > idle-5 && i%55 <= idle: // it runs out about now
				delete(left, key)
			case ok != (i%55 <= idle):
				t.Errorf("client %d: there %t, was idle for %d s", i, ok, i%55)
			case ok:
				seen++
				if want := before[key] + uint64(older/time.Second); age+1 < want || age > want+1+passed {
					t.Errorf("client %d is %d s old, want %d and %d for the test", i, age, want, passed)
				}
				delete(left, key)
			}
		}
		if len(left) > 0 || seen == 0 {
			t.Errorf("%d records too many, %d checked", len(left), seen)
		}
		for i := range 4 { // idle for 0 to 3 s
			want(t, s.whoAt(agedClient(i).String(), web), []string{"a", "b"}[i%2])
		}
	}
	t.Run("pain-52_load", func(t *testing.T) { check(t, s, 60, 0) })
	t.Run("pain-52_kill", func(t *testing.T) { check(t, newSite(t, killed(t, dir), mapped), 40, down) })
	t.Run("pain-52_pain-53_kill_and_another_timeout", func(t *testing.T) {
		left := changed(t, dir, simplePool("p", 30, a.addr(), b.addr()), virtualServer(web, "p"))
		check(t, newSite(t, left, mapped), 10, down)
	})
}

// Pain 58: a connection that lasts longer than the timeout keeps its record, which runs out that long after the last one ended.
func TestPain58(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	s := newSite(t, "", mapped)
	s.apply(simplePool("p", 1, a.addr(), b.addr()), virtualServer(web, "p"))
	name, long := s.visit(web)
	want(t, name, "a")
	for range 3 { // a line now and then
		time.Sleep(500 * time.Millisecond)
		echo(t, long, "on and on")
	}
	want(t, s.who(web), "a")
	s.engine.records.Sweep(1000)
	want(t, s.who(web), "a")
	if n := len(s.remaining(nil)); n != 1 {
		t.Errorf("%d records", n)
	}
	long.Close()
	eventually(t, "the record runs out", func() bool { return len(s.remaining(nil)) == 0 })
	want(t, s.who(web), "b") // the next in turn
}

// together opens connections of a client in one moment, and returns who answers each; all stay open.
func (s *site) together(client string, n int) (names []string) {
	s.t.Helper()
	names = make([]string, n)
	go1 := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-go1
			c, err := s.dialFrom(client, web)
			if err != nil {
				names[i] = err.Error()
				return
			}
			s.t.Cleanup(func() { c.Close() })
			names[i] = readName(s.t, c)
		})
	}
	close(go1)
	all.Wait()
	return names
}

// slowly is a member that answers after a while.
func slowly(m *member, c net.Conn) {
	time.Sleep(300 * time.Millisecond)
	m.serve(c, false)
}

// Pain 63: twelve first connections of a client in one moment, to members that take their time, are at one member, and are one
// record. Where that member refuses, all twelve move to one other.
func TestPain63(t *testing.T) {
	var members []*member
	var addrs []string
	for _, name := range []string{"a", "b", "c"} {
		m := newServer(t, "127.0.0.1:0", name, slowly)
		members, addrs = append(members, m), append(addrs, m.addr())
	}
	s := newSite(t, "", mapped)
	s.apply(simplePool("p", 60, addrs...), virtualServer(web, "p"))
	check := func(client string, open int, who ...string) {
		t.Helper()
		names := s.together(client, 12)
		for i := range names {
			if names[i] != names[0] || !strings.Contains(strings.Join(who, " "), names[i]) {
				t.Fatalf("they are at %v, want one of %v", names, who)
			}
		}
		records, err := s.engine.Records(&pb.RecordFilter{Client: &client})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for r := range records {
			if n++; int(r.GetConnections()) != open {
				t.Errorf("record %v", r)
			}
		}
		if n != 1 {
			t.Errorf("%d records", n)
		}
	}
	check("127.0.7.1", 12, "a")
	want(t, fmt.Sprint(members[0].accepted(), members[1].accepted(), members[2].accepted()), "12 0 0")
	members[1].l.Close() // its turn is next
	check("127.0.7.2", 12, "c", "a")
	if out := s.outcomes("p"); out.GetBound() != 2 || out.GetMoved() != 1 {
		t.Errorf("counted %v", out)
	}
}

// Pain 63 with cookies: with cookie_reserve twelve parallel first requests of a client reach one member, without they are spread.
func TestPain63Cookies(t *testing.T) {
	for _, reserve := range []bool{true, false} {
		f := newFixture(t, func(p *pb.Pool) { p.CookieReserve = &reserve })
		var replies [12]reply
		var errs [12]error
		var all sync.WaitGroup
		for i := range replies {
			all.Go(func() {
				c, err := f.dialFrom("127.0.7.1", vip)
				if err == nil {
					defer c.Close()
					fmt.Fprint(c, requestWith("/", ""))
					replies[i], err = readReply(bufio.NewReader(c))
				}
				errs[i] = err
			})
		}
		all.Wait()
		counts := map[string]int{}
		for i, got := range replies {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			f.moves(got, "s1", "s2", "s3")
			counts[got.who]++
		}
		if reserve && counts["s1"] != 12 || !reserve && fmt.Sprint(counts) != "map[s1:4 s2:4 s3:4]" {
			t.Errorf("cookie_reserve %t: %v", reserve, counts)
		}
	}
}
