package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	pb "bigpipe/proto/bigpipe/v1"
)

// TestAllDown: when nobody can serve a request the answer is 503, or a redirection where the pool has a fallback, and never carries a
// cookie: whatever the pool persists by, why ever there is nobody, and with a cookie of the client or without.
func TestAllDown(t *testing.T) {
	none := way{"none", web1, false, func(*pb.Pool) {}}
	always := way{"cookie_insert_always", web1, false, func(p *pb.Pool) {
		byCookie(pb.CookieMode_COOKIE_MODE_INSERT)(p)
		p.CookieAlwaysSend = proto.Bool(true)
	}}
	heard := slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return w.talk == tls1 || w.talk == rdp })
	off := proto.Bool(false)
	both := func(change func(n *pb.Node)) func(s *nobody) {
		return func(s *nobody) {
			for _, m := range []*member{s.a, s.b} {
				n := &pb.Node{Address: m.addr()}
				change(n)
				s.apply(object(n))
			}
		}
	}
	for cause, happen := range map[string]func(s *nobody){
		"forced_down": both(func(n *pb.Node) { n.Up = off }),
		"disabled":    both(func(n *pb.Node) { n.Enabled = off }),
		"monitored_down": func(s *nobody) {
			health := newPage(t, "health")
			health.status.Store(500)
			m := quick("page", "http")
			m.GetMonitor().Send, m.GetMonitor().Dest = proto.String("GET /health"), proto.String(health.addr())
			s.apply(m, monitorUse(s.a.addr(), "page"), monitorUse(s.b.addr(), "page"))
			for name := range s.engine.running.Load().pools {
				s.awaitState(name, s.a.addr(), "down")
				s.awaitState(name, s.b.addr(), "down")
			}
		},
		"closed":      func(s *nobody) { s.a.close(); s.b.close() },
		"maintenance": func(s *nobody) { s.apply(object(&pb.Global{Maint: proto.Bool(true)})) },
		"at_their_limit": func(s *nobody) {
			both(func(n *pb.Node) { n.Limit = new(uint32(1)) })(s)
			s.fill()
		},
	} {
		t.Run(cause, func(t *testing.T) {
			s := newNobody(t, append([]way{none, always}, heard...))
			for i, p := range s.pools { // while they serve
				s.cookies[i] = s.bound(i)
				if got := s.ask(i, s.cookies[i]); got.StatusCode != http.StatusOK {
					t.Fatalf("%s: status %d", p.GetName(), got.StatusCode)
				}
			}
			happen(s)
			for i, p := range s.pools {
				for _, cookie := range []string{"", s.cookies[i]} {
					if cause == "disabled" && (cookie != "" || p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_SIMPLE || p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_STICKY) {
						continue // they serve their own
					}
					got := s.ask(i, cookie)
					status, location := http.StatusServiceUnavailable, ""
					if p.Fallback != nil {
						status, location = http.StatusFound, p.GetFallback()
					}
					if got.StatusCode != status || got.Header.Get("Location") != location || len(got.Header.Values("Set-Cookie")) > 0 {
						t.Errorf("%s, cookie %q: status %d, location %q, cookies %q", p.GetName(), cookie, got.StatusCode, got.Header.Get("Location"), got.Header.Values("Set-Cookie"))
					}
				}
			}
		})
	}
}

// nobody is a site with pools of each way, with fallback and without, on virtual servers that decide for a connection and for each
// request.
type nobody struct {
	*site
	a, b    *member
	hold    chan bool // closed at the end
	pools   []*pb.Pool
	cookies []string // of a client that is bound, by pool
}

func newNobody(t *testing.T, ways []way) *nobody {
	var addresses []string
	for i := range 4 * len(ways) {
		addresses = append(addresses, place(i, 0)+"=127.0.0.1:0")
	}
	s := &nobody{site: newSite(t, "", strings.Join(addresses, ",")), hold: make(chan bool)}
	s.a, s.b = newServer(t, "127.0.1.1:0", "a", s.answer), newServer(t, "127.0.1.2:0", "b", s.answer)
	t.Cleanup(func() { close(s.hold) })
	s.cookies = make([]string, 4*len(ways))
	var objects []*pb.Object
	for i := range 4 * len(ways) {
		p := plainPool(fmt.Sprintf("%s_%d", ways[i/4].name, i), s.a.addr(), s.b.addr())
		ways[i/4].change(p.GetPool())
		if i%2 > 0 {
			p.GetPool().Fallback = proto.String("http://sorry.example.com/")
		}
		vs := virtualServer(place(i, 0), p.GetPool().GetName())
		vs.GetVirtual().Http, vs.GetVirtual().Oneconnect = pb.HttpProcessing_HTTP_PROCESSING_ENABLE.Enum(), proto.Bool(i%4 > 1)
		objects = append(objects, p, vs)
		s.pools = append(s.pools, p.GetPool())
	}
	want(t, reasons(s.apply(objects...)), "")
	return s
}

// bound is a cookie that binds a client to a, or to anybody by a hash or the pool's token.
func (s *nobody) bound(i int) string {
	p := s.pools[i]
	if p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_TOKEN {
		token, _, _ := strings.Cut(s.ask(i, "").Header.Get("Set-Cookie"), ";")
		return token
	}
	return "SID=1234; BIGipServer" + p.GetName() + "=" + string(cookie.AppendValue(nil, netip.MustParseAddrPort(s.a.addr())))
}

func (s *nobody) ask(i int, cookie string) *http.Response {
	s.t.Helper()
	c, err := s.dial(place(i, 0))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, requestWith("/", cookie))
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// fill has one request in progress at each member, through the first pool, for as long as the test runs: limits of nodes count in all
// pools.
func (s *nobody) fill() {
	s.t.Helper()
	current := func(want uint64) func() bool {
		return func() bool {
			open := map[netip.AddrPort]uint64{}
			for _, p := range s.engine.running.Load().pools {
				for _, m := range p.Members() {
					open[m.Addr] += m.Counters().Current()
				}
			}
			for _, n := range open {
				if n != want {
					return false
				}
			}
			return true
		}
	}
	eventually(s.t, "what was served is over", current(0))
	for range 2 {
		c, err := s.dial(place(0, 0))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, requestWith("/hold", ""))
	}
	eventually(s.t, "all are at their limit", current(1))
}

// answer holds the answer to /hold.
func (s *nobody) answer(m *member, c net.Conn) {
	for r := bufio.NewReader(c); ; {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if q.URL.Path == "/hold" {
			<-s.hold
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(m.name), m.name)
	}
}
