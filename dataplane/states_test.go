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
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	pb "bigpipe/proto/bigpipe/v1"
)

// way is a way to persist, as pools are configured for it.
type way struct {
	name   string
	talk   talk
	timed  bool // it has records that end
	change func(p *pb.Pool)
}

// talk is what clients and members say to each other.
type talk int

const (
	lines talk = iota
	web1       // HTTP/1.1
	tls1       // hellos of TLS 1.2
	rdp        // requests to terminal services
)

// ways are all that there are.
var ways = []way{
	{"simple", lines, true, func(p *pb.Pool) {
		p.PersistMode, p.SimpleTimeout = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), new(uint32(300))
	}},
	{"sticky", lines, true, func(p *pb.Pool) {
		p.PersistMode, p.StickyTimeout = pb.PersistMode_PERSIST_MODE_STICKY.Enum(), new(uint32(300))
	}},
	{"cookie_insert", web1, false, byCookie(pb.CookieMode_COOKIE_MODE_INSERT)},
	{"cookie_rewrite", web1, false, byCookie(pb.CookieMode_COOKIE_MODE_REWRITE)},
	{"cookie_passive", web1, false, byCookie(pb.CookieMode_COOKIE_MODE_PASSIVE)},
	{"cookie_hash", web1, false, byCookie(pb.CookieMode_COOKIE_MODE_HASH)},
	{"token", web1, false, func(p *pb.Pool) { p.PersistMode = pb.PersistMode_PERSIST_MODE_TOKEN.Enum() }},
	{"ssl", tls1, true, func(p *pb.Pool) { p.PersistMode = pb.PersistMode_PERSIST_MODE_SSL.Enum() }},
	{"msrdp", rdp, true, func(p *pb.Pool) { p.PersistMode = pb.PersistMode_PERSIST_MODE_MSRDP.Enum() }},
}

func byCookie(mode pb.CookieMode) func(p *pb.Pool) {
	return func(p *pb.Pool) {
		p.PersistMode, p.CookieMode = pb.PersistMode_PERSIST_MODE_COOKIE.Enum(), mode.Enum()
		if mode == pb.CookieMode_COOKIE_MODE_HASH {
			p.CookieHashName, p.CookieHashOffset, p.CookieHashLength = new("SID"), new(uint32(0)), new(uint32(4))
		}
	}
}

// scene is a site where each way has a pool of its name with members a and b on two nodes. Its virtual servers are many, because
// sticky knows one client from another by where it goes.
type scene struct {
	*site
	a, b   *member
	health *page  // what monitors ask
	hello  []byte // what members answer those of TLS, with another ID
	// sessions counts the sessions of TLS that members gave.
	sessions atomic.Uint64
	open     map[string]net.Conn
	cookie   map[string]string // what the client sends that is bound to a, by way
	given    string            // the session or token that somebody got last
	ended    map[string]string // those of clients whose record has ended, by their virtual server
}

const roles = 6

// place is the virtual server of a way's client.
func place(i, role int) string { return fmt.Sprintf("10.0.%d.%d:80", i, role+1) }

// Clients by number: one that is bound to a and has a connection open, strangers of before and after, and where records end a
// pool of their own (see short) with two whose record ended.
const (
	bound = iota
	before
	first
	second
)

// short is the index of the pool whose records end soon.
func short(i int) int { return i + len(ways) }

func newScene(t *testing.T) *scene {
	var addresses []string
	for i := range 2 * len(ways) {
		for role := range roles {
			addresses = append(addresses, place(i, role)+"=127.0.0.1:0")
		}
	}
	s := &scene{
		site: newSite(t, "", strings.Join(addresses, ",")), health: newPage(t, "health"), hello: hello(t, "min_sh_id32_tls12"),
		open: map[string]net.Conn{}, cookie: map[string]string{}, ended: map[string]string{},
	}
	s.a, s.b = newServer(t, "127.0.1.1:0", "a", s.either), newServer(t, "127.0.1.2:0", "b", s.either)
	var objects []*pb.Object
	for i, w := range ways {
		objects = append(objects, s.pool(i))
		for role := range roles {
			objects = append(objects, virtualServer(place(i, role), w.name))
			if w.timed {
				objects = append(objects, virtualServer(place(short(i), role), w.name+"_short"))
			}
		}
		if w.timed {
			objects = append(objects, s.shortPool(i))
		}
	}
	want(t, reasons(s.apply(objects...)), "")
	for i, w := range ways {
		s.bind(i, w)
	}
	eventually(t, "the records of the short pools ended", func() bool {
		list, err := s.engine.Records(nil)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(slices.Collect(list), func(r *pb.Record) bool { return strings.HasSuffix(r.GetPool(), "_short") })
	})
	for _, p := range s.engine.running.Load().pools {
		for k, m := range p.Members() {
			held := uint64(0)
			if k == 0 && !strings.HasSuffix(p.Name, "_short") {
				held = 1
			}
			eventually(t, "what was closed is closed", func() bool { return m.Counters().Current() == held })
		}
	}
	return s
}

func (s *scene) pool(i int) *pb.Object {
	p := plainPool(ways[i].name, s.a.addr(), s.b.addr())
	ways[i].change(p.GetPool())
	return p
}

func (s *scene) shortPool(i int) *pb.Object {
	p := s.pool(i)
	p.GetPool().Name += "_short"
	p.GetPool().SimpleTimeout, p.GetPool().StickyTimeout = new(uint32(1)), new(uint32(1))
	p.GetPool().SslTimeout, p.GetPool().MsrdpTimeout = new(uint32(1)), new(uint32(1))
	return p
}

// bind has each client placed before anything changes. Afterwards it is a's turn.
func (s *scene) bind(i int, w way) {
	s.t.Helper()
	byMember := w.talk == web1 && w.name != "token" // who is who is known beforehand
	if byMember {
		s.cookie[w.name] = "BIGipServer" + w.name + "=" + string(cookie.AppendValue(nil, netip.MustParseAddrPort(s.a.addr())))
	}
	for n := 0; w.name == "cookie_hash"; n++ {
		s.cookie[w.name] = fmt.Sprintf("SID=%04d", n)
		if s.visit(i, bound, s.cookie[w.name]) == "a" {
			break
		}
	}
	if !byMember { // round robin: from the first
		want(s.t, s.visit(i, bound, ""), "a")
		s.cookie[w.name] = s.given
		want(s.t, s.visit(i, before, ""), "b")
	}
	who, c := s.begin(i, bound, s.cookie[w.name])
	want(s.t, who, "a")
	s.t.Cleanup(func() { c.Close() })
	s.open[w.name] = c
	for role := first; w.timed && role <= second; role++ {
		want(s.t, s.visit(short(i), role, ""), "a")
		s.ended[place(short(i), role)] = s.given
		want(s.t, s.visit(short(i), role+2, ""), "b")
	}
}

// begin has a client connect and say something.
func (s *scene) begin(i, role int, cookie string) (string, net.Conn) {
	s.t.Helper()
	c, err := s.dialFrom(fmt.Sprintf("127.9.0.%d", role+1), place(i, role))
	if err != nil {
		return "nobody", nil
	}
	return s.say(i, c, cookie), c
}

// say says something on a connection, and returns who answers: nobody where it was closed, or is told 503. A cookie is also a session
// of TLS; who asks for terminal services is called by his address.
func (s *scene) say(i int, c net.Conn, cookie string) string {
	s.t.Helper()
	s.given = ""
	switch ways[i%len(ways)].talk {
	case web1:
		return s.request(c, cookie)
	case tls1:
		b := hello(s.t, "min_ch_empty")
		if cookie != "" {
			b = clientHello(s.t, []byte(cookie))
		}
		_, _ = c.Write(b)
		answer := serverHello(s.t, idA)
		if _, err := io.ReadFull(c, answer); err == nil {
			s.given = string(answer[44:76])
		}
	case rdp:
		host, _, _ := net.SplitHostPort(c.LocalAddr().String())
		_, _ = c.Write(connectionRequest("mstshash=" + host))
	default:
		fmt.Fprintln(c, "hello")
	}
	if name := readName(s.t, c); !strings.Contains(name, " ") {
		return name
	}
	return "nobody"
}

// connectionRequest is how a client of terminal services begins, with a cookie.
func connectionRequest(cookie string) []byte {
	tail := "Cookie: " + cookie + "\r\n\x01\x00\x08\x00\x03\x00\x00\x00"
	return append([]byte{3, 0, 0, byte(11 + len(tail)), byte(6 + len(tail)), 0xe0, 0, 0, 0, 0, 0}, tail...)
}

func (s *scene) request(c net.Conn, cookie string) string {
	s.t.Helper()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h\r\nCookie: %s\r\n\r\n", cookie)
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if reply.StatusCode == http.StatusServiceUnavailable {
		return "nobody"
	}
	s.given, _, _ = strings.Cut(reply.Header.Get("Set-Cookie"), ";")
	return string(body)
}

func (s *scene) visit(i, role int, cookie string) string {
	s.t.Helper()
	who, c := s.begin(i, role, cookie)
	if c != nil {
		c.Close()
	}
	return who
}

// either answers a line with the member's name, and a request of any kind too. The sessions of TLS that it gives begin with its name;
// only these it knows again.
func (s *scene) either(m *member, c net.Conn) {
	for r := bufio.NewReader(c); ; {
		first, err := r.Peek(5)
		switch {
		case err != nil:
			return
		case first[0] == 22: // a record of TLS
			b := make([]byte, 5+int(first[3])<<8+int(first[4]))
			if _, err := io.ReadFull(r, b); err != nil {
				return
			}
			id := id32(0)
			copy(id, fmt.Sprint(m.name, s.sessions.Add(1)))
			if b[43] == 32 && strings.HasPrefix(string(b[44:]), m.name) {
				id = b[44:76]
			}
			_, _ = c.Write(withID(s.hello, id))
			fmt.Fprintln(c, m.name)
		case first[0] == 3: // of terminal services
			if _, err := r.Discard(int(first[3])); err != nil {
				return
			}
			fmt.Fprintln(c, m.name)
		default:
			if err := answerLine(m, c, r); err != nil {
				return
			}
		}
	}
}

func answerLine(m *member, c net.Conn, r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(line, " HTTP/1.1") {
		fmt.Fprintln(c, m.name)
		return nil
	}
	for strings.TrimSpace(line) != "" && err == nil {
		line, err = r.ReadString('\n')
	}
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(m.name), m.name)
	return err
}

// probe is a monitor of a that asks the page health.
func (s *scene) probe(target string, status int64) []*pb.Object {
	s.health.status.Store(status)
	m := quick("health", "http")
	m.GetMonitor().Send, m.GetMonitor().Dest = proto.String("GET /health"), proto.String(s.health.addr())
	return []*pb.Object{m, monitorUse(target, "health")}
}

// TestStateMatrix: what a state of a member means for clients that are new, whose record is live or has ended, and for connections
// that are open: bigpipe's own table of states (sections 4.7 and 5), and pain 34.
func TestStateMatrix(t *testing.T) {
	off := proto.Bool(false)
	for _, tt := range []struct {
		state string
		// change is what brings it about.
		change func(s *scene) []*pb.Object
		// fresh: new clients, and those whose record has ended, get to a in their turn. Live is where bound ones get.
		fresh bool
		live  string
	}{
		{"unchecked", func(*scene) []*pb.Object { return nil }, true, "a"},
		{"up", func(s *scene) []*pb.Object { return s.probe(s.a.addr(), 200) }, true, "a"},
		{"checking", func(s *scene) []*pb.Object {
			m := quick("slow", "tcp")
			m.GetMonitor().Recv, m.GetMonitor().Timeout = proto.String("never"), proto.Uint32(600)
			return []*pb.Object{m, monitorUse(s.a.addr(), "slow")}
		}, false, "a"},
		{"down", func(s *scene) []*pb.Object { return s.probe(s.a.addr(), 500) }, false, "b"},
		{"address_down", func(s *scene) []*pb.Object { return s.probe("127.0.1.1", 500) }, false, "b"},
		{"forced_down", func(s *scene) []*pb.Object { return []*pb.Object{object(&pb.Node{Address: s.a.addr(), Up: off})} }, false, "b"},
		{"address_down/by_the_operator", func(s *scene) []*pb.Object {
			return []*pb.Object{object(&pb.Node{Address: "127.0.1.1", Up: off})}
		}, false, "b"},
		{"disabled", func(s *scene) []*pb.Object {
			return []*pb.Object{object(&pb.Node{Address: s.a.addr(), Enabled: off})}
		}, false, "a"},
		{"address_disabled", func(s *scene) []*pb.Object {
			return []*pb.Object{object(&pb.Node{Address: "127.0.1.1", Enabled: off})}
		}, false, "a"},
		{"port_disabled", func(s *scene) []*pb.Object {
			port := netip.MustParseAddrPort(s.a.addr()).Port()
			return []*pb.Object{object(&pb.Service{Port: uint32(port), Tcp: off})}
		}, false, "a"},
		// Disabled and dead: nobody is sent there.
		{"down/and_disabled", func(s *scene) []*pb.Object {
			return append(s.probe(s.a.addr(), 500), object(&pb.Node{Address: s.a.addr(), Enabled: off}))
		}, false, "b"},
		{"maintenance", func(*scene) []*pb.Object { return []*pb.Object{object(&pb.Global{Maint: proto.Bool(true)})} }, false, "nobody"},
		// Not a state, but alike: reselected at once, the record stays.
		{"unchecked/at_its_limit", func(s *scene) []*pb.Object { return s.limited(false) }, false, "b"},
		{"unchecked/at_its_limit_with_override", func(s *scene) []*pb.Object { return s.limited(true) }, false, "a"},
	} {
		t.Run(tt.state, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.apply(tt.change(s)...)
			word, _, _ := strings.Cut(tt.state, "/")
			for i, w := range ways {
				s.awaitState(w.name, s.a.addr(), word)
				name := func(column string) string { return w.name + "/" + column }
				t.Run(name("no_record"), func(t *testing.T) {
					s.fresh(t, tt.fresh, tt.live, s.visit(i, first, "")+s.visit(i, second, ""))
				})
				t.Run(name("expired_record"), func(t *testing.T) {
					k, atLimit := i, strings.Contains(tt.state, "limit")
					if w.timed {
						k = short(i)
					}
					s.fresh(t, tt.fresh || w.timed && atLimit, tt.live, s.visit(k, first, s.ended[place(k, first)])+s.visit(k, second, s.ended[place(k, second)]))
				})
				t.Run(name("live_record"), func(t *testing.T) { want(t, s.visit(i, bound, s.cookie[w.name]), tt.live) })
				t.Run(name("open_connection"), func(t *testing.T) {
					if w.name == "token" { // each request is decided alone (rule O-14); the limit is reached by this connection
						live := tt.live
						if strings.Contains(tt.state, "limit") {
							live = "a"
						}
						want(t, s.say(i, s.open[w.name], s.cookie[w.name]), live)
						return
					}
					want(t, s.say(i, s.open[w.name], ""), "a")
				})
				if strings.Contains(tt.state, "limit") {
					t.Run(name("record_stays"), func(t *testing.T) {
						s.open[w.name].Close()
						eventually(t, "a is free", func() bool {
							return s.engine.running.Load().pools[w.name].Members()[0].Counters().Current() == 0
						})
						want(t, s.visit(i, bound, s.cookie[w.name]), "a")
					})
				}
			}
		})
	}
}

// fresh checks where two clients went that are nobody's: of two in a row one gets to each member that may be used.
func (s *scene) fresh(t *testing.T, a bool, live, went string) {
	t.Helper()
	switch {
	case a && went != "ab" && went != "ba":
		t.Errorf("went to %s, want both", went)
	case !a && live == "nobody":
		want(t, went, "nobodynobody")
	case !a && live != "nobody":
		want(t, went, "bb")
	}
}

// limited are the pools with a limit at a that the open connections reach.
func (s *scene) limited(override bool) (list []*pb.Object) {
	for i := range ways {
		p := s.pool(i)
		p.GetPool().Members[0].Limit, p.GetPool().PersistLimitOverride = new(uint32(1)), &override
		list = append(list, p)
	}
	return list
}
