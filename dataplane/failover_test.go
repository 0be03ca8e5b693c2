package dataplane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// monitored has a monitor find s2 down.
func (f *fixture) monitored() {
	f.t.Helper()
	health := newPage(f.t, "health")
	health.status.Store(500)
	m := quick("page", "http")
	m.GetMonitor().Send, m.GetMonitor().Dest = proto.String("GET /health"), proto.String(health.addr())
	f.apply(m, monitorUse(realOf("s2"), "page"))
	f.awaitState("web_pool", realOf("s2"), "down")
}

// records are the records of web_pool: key, node, connections.
func (f *fixture) records() string {
	f.t.Helper()
	list, err := f.engine.Records(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	var lines []string
	for r := range list {
		lines = append(lines, fmt.Sprintf("%s %s %d", r.GetKey(), r.GetNode(), r.GetConnections()))
	}
	return strings.Join(lines, "\n")
}

// TestStrictness: who belongs to a member that it cannot reach is moved or refused, and it is two things whether the member is not
// available or is none any more.
func TestStrictness(t *testing.T) {
	const bound = "127.8.0.2"
	rebind, refuse := pb.Unavailable_UNAVAILABLE_REBIND, pb.Unavailable_UNAVAILABLE_REFUSE
	for _, unavailable := range []pb.Unavailable{rebind, refuse} {
		for _, unknown := range []pb.Unavailable{rebind, refuse} {
			for cause, said := range map[string]pb.Unavailable{
				"forced_down": unavailable, "monitored_down": unavailable, "closed": unavailable, "removed": unknown,
			} {
				for _, by := range []string{"cookie", "simple"} {
					t.Run(fmt.Sprintf("pain_25_47/%s/%s/unavailable_%s_unknown_%s", by, cause, pb.EnumWord(unavailable), pb.EnumWord(unknown)), func(t *testing.T) {
						t.Parallel()
						policy := func(p *pb.Pool) {
							if by == "simple" {
								simply(60)(p)
							}
							p.PersistUnavailable, p.PersistUnknown = &unavailable, &unknown
						}
						f := newFixture(t, policy)
						if by == "simple" {
							f.stays(f.askFrom("127.8.0.1", ""), "s1")
							f.stays(f.askFrom(bound, ""), "s2")
						}
						switch cause {
						case "forced_down":
							f.node("s2", down)
						case "monitored_down":
							f.monitored()
						case "closed":
							f.servers["s2"].close()
						case "removed":
							f.apply(f.pool(withoutS2(policy)))
						}
						before := f.connections()
						got := f.askFrom(bound, map[string]string{"cookie": c2}[by])
						switch {
						case said == refuse:
							f.stays(got, "503")
							want(t, f.connections(), before)
						case by == "cookie":
							f.moves(got, "s1", "s3")
						case got.who != "s1" && got.who != "s3" || len(got.set) > 0:
							t.Errorf("answered by %s, set %q", got.who, got.set)
						}
					})
				}
			}
		}
	}
}

// TestFailover: a client whose member is gone moves at once, and once.
func TestFailover(t *testing.T) {
	t.Run("pain_26_removed_though_it_listens", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(f.pool(withoutS2(nil)))
		got := reply{}
		for range 20 {
			got = f.ask(c2)
			f.moves(got, "s1", "s3")
		}
		for range 3 { // the client has returned the new cookie
			f.stays(f.ask(cookies[got.who]), got.who)
		}
		if n := f.servers["s2"].accepted(); n != 0 {
			t.Errorf("%d connections to the member that was removed", n)
		}
	})
	// Three failed connects mark a member down under passive health. A request that tried it twice would do so earlier.
	t.Run("pain_28_closed_and_tried_once_a_request", func(t *testing.T) {
		f := newFixture(t, func(p *pb.Pool) { p.PassiveHealth = proto.Bool(true) })
		f.servers["s2"].close()
		for i, state := range []string{"unchecked", "unchecked", "down"} {
			f.moves(f.ask(c2), "s1", "s3")
			if got := f.state("web_pool", realOf("s2")); got != state {
				t.Errorf("after %d requests s2 is %s, want %s", i+1, got, state)
			}
		}
	})
	t.Run("pain_30_moves_once", func(t *testing.T) {
		f := newFixture(t, nil)
		f.node("s2", down)
		first := f.ask(c2)
		f.moves(first, "s1", "s3")
		for range 9 {
			f.stays(f.ask(cookies[first.who]), first.who)
		}
		f.node("s2", enable)
		for range 9 {
			f.stays(f.ask(cookies[first.who]), first.who)
		}
	})
	t.Run("pain_32_disabled_and_then_dead", func(t *testing.T) {
		f := newFixture(t, nil)
		f.node("s2", disable)
		f.stays(f.ask(c2), "s2")
		f.servers["s2"].close()
		for range 3 {
			f.moves(f.ask(c2), "s1", "s3")
		}
	})
	t.Run("pain_33_disabled", func(t *testing.T) {
		f := newFixture(t, nil)
		f.node("s2", disable)
		for range 5 {
			f.stays(f.ask(c2), "s2")
		}
		for range 30 {
			f.moves(f.ask(""), "s1", "s3")
		}
	})
	t.Run("pain_33_down_and_in_flight", func(t *testing.T) {
		f := newFixture(t, nil)
		c, err := f.dial(vip)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, requestWith("/long", c2))
		r := bufio.NewReader(c)
		head := ""
		for !strings.HasSuffix(head, "\r\n\r\n") {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			head += line
		}
		f.node("s2", down)
		f.moves(f.ask(c2), "s1", "s3")
		close(f.paused)
		body := make([]byte, len(longAnswer))
		if _, err := io.ReadFull(r, body); err != nil || string(body) != longAnswer || !strings.Contains(head, "X-Server: s2\r\n") {
			t.Errorf("the request in flight: %q, %v", head, err)
		}
		fmt.Fprint(c, requestWith("/", c2)) // and the next one on its connection moves
		got, err := readReply(r)
		if err != nil {
			t.Fatal(err)
		}
		f.moves(got, "s1", "s3")
	})
	t.Run("pain_35_no_new_connection_by_a_record", func(t *testing.T) {
		f := newFixture(t, simply(60))
		f.stays(f.askFrom("127.8.0.1", ""), "s1")
		f.stays(f.askFrom("127.8.0.2", ""), "s2")
		f.node("s2", down)
		moved := f.askFrom("127.8.0.2", "").who
		if moved != "s1" && moved != "s3" {
			t.Fatalf("answered by %s", moved)
		}
		f.stays(f.askFrom("127.8.0.2", ""), moved)
		f.stays(f.askFrom("127.8.0.2", ""), moved)
		record := "127.8.0.2 " + realOf(moved)
		if !strings.Contains(f.records(), record) {
			t.Errorf("the records: %s", f.records())
		}
		f.node("s2", enable)
		f.stays(f.askFrom("127.8.0.2", ""), moved)
		if !strings.Contains(f.records(), record) {
			t.Errorf("the records afterwards: %s", f.records())
		}
		want(t, fmt.Sprint(f.servers["s2"].accepted()), "1")
	})
	t.Run("pain_50_one_cookie", func(t *testing.T) {
		f := newFixture(t, nil)
		f.servers["s1"].close()
		f.servers["s2"].close()
		f.moves(f.ask(""), "s3")
	})
}

// TestFailingAttempts: pain 38: a client leaves at the first connect that fails, and attempts that fail keep no record alive.
func TestFailingAttempts(t *testing.T) {
	f := newFixture(t, simply(1))
	f.stays(f.ask(""), "s1")
	f.stays(f.askFrom("127.8.0.2", ""), "s2")
	f.servers["s2"].close()
	if got := f.askFrom("127.8.0.2", ""); got.who != "s1" && got.who != "s3" {
		t.Errorf("answered by %s", got.who)
	}
	f.servers["s1"].close()
	f.servers["s3"].close()
	eventually(t, "the records end though clients try on", func() bool {
		f.stays(f.askFrom("127.8.0.2", ""), "503")
		return f.records() == ""
	})
}

// TestDownWithRecords: pain 48: when a monitor finds a member down open connections are reset (on_down reset), or live on; the
// record moves with the next connection either way, and stays when the member is back.
func TestDownWithRecords(t *testing.T) {
	for _, onDown := range []pb.OnDown{pb.OnDown_ON_DOWN_RESET, pb.OnDown_ON_DOWN_KEEP} {
		t.Run("pain_48_"+pb.EnumWord(onDown), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(p *pb.Pool) { simply(60)(p); p.OnDown = &onDown })
			f.stays(f.askFrom("127.8.0.1", ""), "s1")
			c, err := f.dialFrom("127.8.0.2", vip)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r := bufio.NewReader(c)
			fmt.Fprint(c, requestWith("/long", ""))
			if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			f.monitored()
			moved := f.askFrom("127.8.0.2", "").who
			close(f.paused)
			switch rest, err := io.ReadAll(io.LimitReader(r, int64(len("X-Server: s2\r\nContent-Length: 200000\r\n\r\n")+len(longAnswer)))); {
			case onDown == pb.OnDown_ON_DOWN_RESET && !errors.Is(err, syscall.ECONNRESET):
				t.Errorf("the open connection: %d bytes, %v", len(rest), err)
			case onDown == pb.OnDown_ON_DOWN_KEEP && (err != nil || !strings.HasSuffix(string(rest), longAnswer)):
				t.Errorf("the open connection: %d bytes, %v", len(rest), err)
			}
			if moved != "s1" && moved != "s3" || !strings.Contains(f.records(), "127.8.0.2 "+realOf(moved)) {
				t.Errorf("answered by %s, the records: %s", moved, f.records())
			}
			f.update(nil, []string{"monitor_use/" + realOf("s2")})
			f.awaitState("web_pool", realOf("s2"), "unchecked")
			f.stays(f.askFrom("127.8.0.2", ""), moved)
		})
	}
}

// TestReselect: pain 40: as many other members are tried as the pool says, and a request that was sent in part is not sent again.
func TestReselect(t *testing.T) {
	tries := func(n uint32) func(p *pb.Pool) { return func(p *pb.Pool) { p.ReselectTries = &n } }
	t.Run("pain_40_tries_0", func(t *testing.T) {
		f := newFixture(t, tries(0))
		f.servers["s2"].close()
		f.stays(f.ask(c2), "503")
		want(t, f.connections(), "0 0 0")
	})
	t.Run("pain_40_tries_1", func(t *testing.T) {
		f := newFixture(t, tries(1))
		f.servers["s2"].close()
		f.moves(f.ask(c2), "s1")
		want(t, f.connections(), "1 0 0")
	})
	t.Run("pain_40_tries_1_exactly_one_other", func(t *testing.T) {
		f := newFixture(t, tries(1))
		f.servers["s2"].close()
		f.servers["s1"].close() // whose turn it is
		f.stays(f.ask(c2), "503")
		want(t, f.connections(), "0 0 0")
	})
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("pain_40_POST_partly_sent/connection_used_before_%t", used), func(t *testing.T) {
			f := newFixture(t, nil)
			if used {
				f.stays(f.ask(c2), "s2")
			}
			c, err := f.dial(vip)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nCookie: %s\r\nContent-Length: 100000\r\n\r\nabc", c2)
			eventually(t, "s2 is asked", func() bool {
				p := f.engine.running.Load().pools["web_pool"]
				return p.Members()[1].Counters().Current() == 1 && f.servers["s2"].accepted() == 1
			})
			f.servers["s2"].close()
			got, err := readReply(bufio.NewReader(c))
			if err != nil {
				t.Fatal(err)
			}
			f.stays(got, "502")
			want(t, f.connections(), "0 1 0")
		})
	}
}

// TestPoolDeleted: pain 39: the records of a pool that is deleted are gone with their memory, and a pool of the same name with other
// members begins with none.
func TestPoolDeleted(t *testing.T) {
	const clients = 10_000
	f := newFixture(t, simply(300))
	vs := virtualServer(vip, "web_pool")
	vs.GetVirtual().Oneconnect, vs.GetVirtual().XForwardedFor = proto.Bool(true), proto.Bool(true)
	vs.GetVirtual().TrustedProxies = []string{"127.0.0.0/8"}
	f.apply(vs)
	forwarded := func(from, to int) (answered map[string]int) {
		c, err := f.dial(vip)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		answered = map[string]int{}
		r := bufio.NewReader(c)
		const batch = 50
		for i := from; i < to; i += batch {
			var requests strings.Builder
			for k := i; k < min(i+batch, to); k++ {
				requests.WriteString(requestWith("/", "", fmt.Sprintf("X-Forwarded-For: 10.1.%d.%d", k/250, k%250)))
			}
			if _, err := io.WriteString(c, requests.String()); err != nil {
				t.Fatal(err)
			}
			for range min(batch, to-i) {
				got, err := readReply(r)
				if err != nil {
					t.Fatal(err)
				}
				answered[got.who]++
			}
		}
		return answered
	}
	heap := func() float64 {
		for range 3 {
			goruntime.GC()
		}
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	bytes, before := f.engine.records.Stats().Bytes, heap()
	answered := forwarded(0, clients)
	for _, m := range []string{"s1", "s2", "s3"} {
		if n := answered[m]; n != clients/3 && n != clients/3+1 {
			t.Errorf("%d new clients at %s", n, m)
		}
	}
	full := heap()
	if s := f.engine.records.Stats(); s.Records != clients || s.Bytes < bytes+1<<20 || full < before+1<<20 {
		t.Fatalf("%d records with %d bytes more, the heap has %.0f more", s.Records, s.Bytes-bytes, full-before)
	}
	f.update(nil, []string{"pool/web_pool", "virtual/" + vip})
	if n := f.engine.records.Stats().Records; n != 0 || f.records() != "" {
		t.Errorf("%d records are left", n)
	}
	eventually(t, "the table gives its memory back", func() bool { return f.engine.records.Stats().Bytes <= bytes+bytes/10 })
	// The first requests have made something that stays; it is less than a tenth of a heap, and than a quarter of the records.
	if after := heap(); after > before*1.1 || after-before > (full-before)/4 {
		t.Errorf("the heap was %.0f bytes, %.0f with the records, and is %.0f", before, full, after)
	}
	f.apply(vs, f.pool(func(p *pb.Pool) { withoutS2(simply(300))(p) }))
	want(t, fmt.Sprint(forwarded(0, 100)), "map[s1:50 s3:50]")
	if s := f.engine.records.Stats(); s.Records != 100 {
		t.Errorf("%d records of 100 clients", s.Records)
	}
}

// TestCookiesAtLoad: pain 29: of thousands of requests with the cookies of three servers mixed on many connections, each gets to its
// server, whatever is loaded meanwhile.
func TestCookiesAtLoad(t *testing.T) {
	const connections, requests, batch = 64, 8_000, 8
	f := newFixture(t, nil)
	var serving sync.WaitGroup
	loaded := make(chan bool)
	wrong := make(chan error, connections)
	for i := range connections {
		c, err := f.dial(vip)
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() {
			defer c.Close()
			wrong <- mixed(c, rand.New(rand.NewPCG(1, uint64(i))), requests/connections/batch, batch, loaded)
		})
	}
	for i := range 3 {
		h := &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, Full: true, Revision: f.revision + 1}
		vs := virtualServer(vip, "web_pool")
		vs.GetVirtual().Oneconnect = proto.Bool(true)
		p := f.pool(func(p *pb.Pool) { p.ResponseTimeout = proto.Uint32(uint32(50 + i)) })
		if _, err := f.engine.Apply(&Update{Header: h, Changed: []*pb.Object{p, vs, plainPool("another", realOf("s1"))}}); err != nil {
			t.Fatal(err)
		}
		f.revision++
		for range connections { // each has got answers since, before the next load
			loaded <- true
		}
	}
	close(loaded)
	serving.Wait()
	for range connections {
		if err := <-wrong; err != nil {
			t.Error(err)
		}
	}
}

// mixed sends requests with mixed cookies, and reports the first that another server answers, or that sets a cookie. It goes on until
// loads are over, and rounds are done at least.
func mixed(c net.Conn, random *rand.Rand, rounds, batch int, loaded <-chan bool) error {
	names := []string{"s1", "s2", "s3"}
	r := bufio.NewReader(c)
	sent := make([]string, batch)
	var fault error
	for over, round := false, 0; !over || round < rounds; round++ {
		select {
		case _, more := <-loaded:
			over = !more
			if over {
				loaded = nil
			}
		default:
		}
		if fault != nil {
			time.Sleep(time.Millisecond) // until all is loaded
			continue
		}
		var text strings.Builder
		for i := range sent {
			sent[i] = names[random.IntN(3)]
			text.WriteString(requestWith("/", cookies[sent[i]]))
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, text.String()); err != nil {
			fault = err
		}
		for _, name := range slices.Clone(sent) {
			got, err := readReply(r)
			if err == nil && (got.who != name || len(got.set) > 0) {
				err = fmt.Errorf("a request for %s is answered by %s, which sets %q", name, got.who, got.set)
			}
			if err != nil && fault == nil {
				fault = err
				break
			}
		}
	}
	return fault
}
