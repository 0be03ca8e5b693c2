package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/tlshello"
	pb "bigpipe/proto/bigpipe/v1"
)

// persisting are pools of all ways to persist that keep records.
func persisting() []*pb.Object {
	mode := func(name string, mode pb.PersistMode, change func(p *pb.Pool)) *pb.Object {
		o := plainPool(name, "127.0.3.1:9001", "127.0.3.2:9001")
		o.GetPool().PersistMode = mode.Enum()
		if change != nil {
			change(o.GetPool())
		}
		return o
	}
	return []*pb.Object{
		simplePool("simple", 300, "127.0.3.1:9001", "127.0.3.2:9001"),
		mode("sticky", pb.PersistMode_PERSIST_MODE_STICKY, func(p *pb.Pool) { p.StickyTimeout = proto.Uint32(400) }),
		mode("sticky_for_ever", pb.PersistMode_PERSIST_MODE_STICKY, nil),
		mode("ssl", pb.PersistMode_PERSIST_MODE_SSL, func(p *pb.Pool) {
			p.SslTimeout, p.Members[0].Tmout = proto.Uint32(500), proto.Uint32(700)
		}),
		mode("ssl_fallback", pb.PersistMode_PERSIST_MODE_SSL, func(p *pb.Pool) {
			p.SslFallback, p.SimpleTimeout = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum(), proto.Uint32(800)
		}),
		mode("sip", pb.PersistMode_PERSIST_MODE_SIP, nil),
		mode("msrdp", pb.PersistMode_PERSIST_MODE_MSRDP, nil),
		mode("cookie", pb.PersistMode_PERSIST_MODE_COOKIE, func(p *pb.Pool) {
			p.CookieMode, p.CookieReserve = pb.CookieMode_COOKIE_MODE_INSERT.Enum(), proto.Bool(true)
		}),
	}
}

// binds makes the records that a connection makes in each pool.
func (s *site) binds(at string) {
	s.t.Helper()
	client, session, ticket := &tlshello.Client{}, &tlshello.Server{}, &tlshello.Server{Tickets: true}
	if state := client.Feed(hello(s.t, "min_ch_empty")); state != tlshello.Complete {
		s.t.Fatal(state)
	}
	gives := session.Feed(hello(s.t, "min_sh_id32_tls12"))
	givesTicket := ticket.Feed(append(hello(s.t, "tls12_ticket_0_server_first_record"), newTicket("TICK")...))
	q := &http1.Request{}
	if n, err := q.Parse([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")); n == 0 || err != nil {
		s.t.Fatal(n, err)
	}
	for _, name := range sortedKeys(s.engine.running.Load().pools) {
		in := &pool.Input{Client: netip.MustParseAddrPort(at), Virtual: netip.MustParseAddrPort(web), Request: &q.Head, ID: []byte("call or user")}
		if strings.HasPrefix(name, "ssl") {
			in.Hello = client
		}
		var d pool.Decision
		if err := s.engine.running.Load().pools[name].Choose(&d, in); err != nil {
			s.t.Fatal(name, err)
		}
		d.Accepted()
		d.Learn(gives, client, session)
		d.Learn(givesTicket, client, ticket)
		d.Release()
	}
}

// kept are the records as they are, without their times, and how long each will be there yet.
func (s *site) kept() (records []string, left map[string]time.Duration) {
	left = map[string]time.Duration{}
	names := s.engine.running.Load().poolNames()
	for r := range s.engine.records.List(persist.Filter{}) {
		text := fmt.Sprintf("%s %s %s on %s %s %s for %s", names[r.Pool], r.Key.Kind(), r.Key, r.Key.Scope().Virtual(), r.Node, r.Timer, r.Timeout)
		records = append(records, text)
		left[text] = r.Remaining
	}
	slices.Sort(records)
	return records, left
}

// goesOn checks that the records of before are there, with what was left of their time after a pause, give or take a second.
func (s *site) goesOn(before *site, pause time.Duration) {
	s.t.Helper()
	was, leftThen := before.kept()
	now, left := s.kept()
	was = slices.DeleteFunc(was, func(r string) bool { return leftThen[r] != persist.Forever && leftThen[r] <= pause })
	if !slices.Equal(was, now) {
		s.t.Errorf("records before:\n%s\nand now:\n%s", strings.Join(was, "\n"), strings.Join(now, "\n"))
	}
	for _, r := range now {
		then := leftThen[r]
		if then == persist.Forever {
			if left[r] != persist.Forever {
				s.t.Errorf("%s: ends in %s, and would not before", r, left[r])
			}
			continue
		}
		if lost := then - left[r] - pause; lost < -time.Second || lost > time.Second {
			s.t.Errorf("%s: %s were left, and %s are after %s", r, then, left[r], pause)
		}
	}
}

// Each kind of record that there is goes over a restart, which takes 25 seconds, and over a hand-over, with the rest of its time.
func TestRecordsGoOn(t *testing.T) {
	for _, timer := range []pb.PersistTimer{pb.PersistTimer_PERSIST_TIMER_LIMIT, pb.PersistTimer_PERSIST_TIMER_TIMEOUT} {
		word := pb.EnumWord(timer)
		t.Run("restart_"+word, func(t *testing.T) {
			dir := t.TempDir()
			s := newSite(t, dir, mapped)
			s.apply(append(persisting(), object(&pb.Global{PersistTimer: timer.Enum()}))...)
			s.binds("127.0.0.9:1000")
			if records, _ := s.kept(); len(records) != 11 {
				t.Fatalf("records:\n%s", strings.Join(records, "\n"))
			}
			const pause = 25 * time.Second // a call is remembered for 32
			s.engine.recordFile.clock = func() moment {
				m := readMoment()
				return moment{m.wall - int64(pause), m.boot - int64(pause)}
			}
			s.written()
			newSite(t, killed(t, dir), mapped).goesOn(s, pause)
		})
		t.Run("hand_over_"+word, func(t *testing.T) {
			dir := t.TempDir()
			first := startProcess(t, dir)
			first.apply(append(persisting(), object(&pb.Global{PersistTimer: timer.Enum()}))...)
			first.binds("127.0.0.9:1000")
			before, _ := first.kept()
			second := first.succeed(dir)
			withoutReservation := func(r string) bool { return strings.HasPrefix(r, "cookie ") } // its two seconds may be over
			now, _ := second.kept()
			want(t, strings.Join(slices.DeleteFunc(now, withoutReservation), "\n"), strings.Join(slices.DeleteFunc(before, withoutReservation), "\n"))
			<-first.done
		})
	}
}

// A reservation of two seconds goes over a restart, if that is quick enough.
func TestReservationGoesOn(t *testing.T) {
	for began := time.Now(); ; {
		dir := t.TempDir()
		s := newSite(t, dir, mapped)
		s.apply(persisting()...)
		at := time.Now()
		s.binds("127.0.0.9:1000")
		s.written()
		next := newSite(t, killed(t, dir), mapped)
		now, _ := next.kept()
		if time.Since(at) < 2*time.Second {
			if len(now) != 11 {
				t.Errorf("records:\n%s", strings.Join(now, "\n"))
			}
			return
		}
		if time.Since(began) > patience {
			t.Fatal("no restart within two seconds")
		}
	}
}

// Records that pools share live as the pool says through which they were used last, also when that is changed and has bound none
// (rules B-14, B-2; pain 53).
func TestRetimeShared(t *testing.T) {
	s := newSite(t, "", mapped)
	both := object(&pb.Global{PersistAcrossVirtuals: proto.Bool(true)})
	s.apply(both, simplePool("a", 300, "127.0.3.1:9001"), simplePool("b", 200, "127.0.3.1:9002"))
	s.binds("127.0.0.9:1000") // a binds, b uses it then
	left := func() string {
		var text []string
		_, left := s.kept()
		for _, d := range left {
			text = append(text, d.Round(10*time.Second).String())
		}
		return strings.Join(text, " ")
	}
	want(t, left(), "3m20s")
	s.apply(simplePool("a", 600, "127.0.3.1:9001"))
	want(t, left(), "3m20s")
	s.apply(simplePool("b", 60, "127.0.3.1:9002"))
	want(t, left(), "1m0s")
	s.apply(simplePool("b", 60, "127.0.3.1:9002", "127.0.3.2:9002"))
	want(t, left(), "1m0s")
	s.apply(plainPool("a", "127.0.3.1:9001")) // which does not persist any more; b does
	want(t, left(), "1m0s")
	s.apply(simplePool("a", 600, "127.0.3.1:9001"))
	s.update(nil, []string{"pool/b"})
	want(t, left(), "1m0s") // a may still use it
	s.update(nil, []string{"pool/a"})
	want(t, left(), "")
}

// A kind of record that a pool does not keep any more goes, and no other.
func TestRetimeKinds(t *testing.T) {
	s := newSite(t, "", mapped)
	s.apply(slices.DeleteFunc(persisting(), func(o *pb.Object) bool { return o.GetPool().GetName() == "cookie" })...) // it has two seconds
	s.binds("127.0.0.9:1000")
	was, _ := s.kept()
	gone := func(pool string, change func(p *pb.Pool), records ...string) {
		t.Helper()
		o := proto.CloneOf(s.engine.running.Load().view.Get("pool/" + pool))
		change(o.GetPool())
		s.apply(o)
		now, _ := s.kept()
		var missing []string
		for _, r := range was {
			if !slices.Contains(now, r) {
				missing = append(missing, strings.Join(strings.Fields(r)[:2], " "))
			}
		}
		want(t, strings.Join(missing, ", "), strings.Join(records, ", "))
		was = now
	}
	gone("ssl", func(p *pb.Pool) { p.SslTickets = pb.SslTickets_SSL_TICKETS_IGNORE.Enum() }, "ssl ticket")
	gone("ssl_fallback", func(p *pb.Pool) { p.SslFallback = nil }, "ssl_fallback simple")
	gone("sip", func(p *pb.Pool) { p.PersistMode = pb.PersistMode_PERSIST_MODE_MSRDP.Enum() }, "sip sip")
	gone("ssl", func(p *pb.Pool) { p.LbMode = pb.LbMode_LB_MODE_LEAST_CONN.Enum() })
	gone("simple", func(p *pb.Pool) { p.Members = p.Members[1:] })
}
