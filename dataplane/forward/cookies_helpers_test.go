package forward

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// The fixture of the pains: web_pool at 18:00 on a Monday, with members s1 to s3 at 127.0.0.11:8001 and so on.
const (
	c1 = "184549503.16671.0000"
	c2 = "201326719.16671.0000"
	c3 = "218103935.16671.0000"
	cx = "1660944511.16671.0000" // 127.0.0.99:8001, not a member
	ce = "151587082.5632.0000"   // 10.9.9.9:22, not a member

	name = "BIGipServerweb_pool"
	set1 = "Set-Cookie: " + name + "=" + c1 + "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"
	set2 = "Set-Cookie: " + name + "=" + c2 + "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"
	set3 = "Set-Cookie: " + name + "=" + c3 + "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"
)

// fixture is a virtual server for web_pool.
type fixture struct {
	*lab
	origins []*origin
	config  *pb.Pool
	env     *pool.Env
	clock   atomic.Pointer[time.Time]
}

// newFixture starts the members, which answer as serve says (nil: ok with their name), and the virtual server: R decides for
// each request, L for each connection. Change may alter the pool.
func newFixture(t testing.TB, mode string, change func(*pb.Pool), serve func(*origin, *peer)) *fixture {
	t.Helper()
	x := &fixture{origins: three(t, serve), config: webPool()}
	x.clock.Store(new(time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)))
	x.config.CookieExpiration = new(uint64(3600))
	dial := map[netip.AddrPort]netip.AddrPort{}
	for i, o := range x.origins {
		member := fmt.Sprintf("127.0.0.%d:8001", 11+i)
		dial[parseAddrPort(member)] = o.addr
		x.config.Members = append(x.config.Members, &pb.Member{Address: member})
	}
	if change != nil {
		change(x.config)
	}
	x.env = &pool.Env{
		View: config.NewTree(), Table: persist.New(persist.Options{}), Now: func() time.Time { return *x.clock.Load() },
		Dial: func(a netip.AddrPort) (netip.AddrPort, error) { return dial[a], nil },
	}
	set := Settings{HTTP: true, Pools: []*pool.Pool{x.compile(t, nil)}}
	if mode == "R" {
		set.PerRequest, set.OneConnect = true, shareAll()
	}
	x.lab = newLab(t, set)
	return x
}

func (x *fixture) compile(t testing.TB, previous *pool.Pool) *pool.Pool {
	t.Helper()
	p, reasons := pool.Compile(x.config, x.env, previous)
	if len(reasons) > 0 {
		t.Fatal(reasons)
	}
	return p
}

// pass lets time go by.
func (x *fixture) pass(d time.Duration) { x.clock.Store(new(x.clock.Load().Add(d))) }

// apply puts a changed configuration of the pool, and of nodes, into effect.
func (x *fixture) apply(nodes ...*pb.Node) {
	x.t.Helper()
	var objects []*pb.Object
	for _, n := range nodes {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Node{Node: n}})
	}
	x.env.View = config.NewTree(objects...)
	x.set.Pools = []*pool.Pool{x.compile(x.t, x.set.Pools[0])}
	x.l.Set(x.set)
}

// answered is the whole response of a member that answers ok, with lines that were added.
func answered(name string, lines ...string) string {
	return strings.Join(append([]string{"HTTP/1.1 200 OK", "X-Server: " + name, "Content-Length: 3"}, append(lines, "", "ok\n")...), "\r\n")
}

// same fails the test unless two texts are equal.
func same(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// asks sends a request with header lines on a new connection, whose whole response has to be want.
func (x *fixture) asks(want string, lines ...string) {
	x.t.Helper()
	same(x.t, fmt.Sprint(lines), x.ask(get(lines...)), want)
}

// says makes a member that answers each request with the same lines in its head, and ok.
func says(lines ...string) func(*origin, *peer) {
	return func(o *origin, p *peer) {
		for o.read(p) != "" {
			p.send(answered(o.name, lines...))
		}
	}
}

// line is a Cookie line of the fixture.
func line(value string) string { return "Cookie: " + name + "=" + value }

// kept is the value that a Set-Cookie line of a response gives web_pool's cookie, "" for none.
func kept(response string) string {
	_, after, _ := strings.Cut(response, "\r\nSet-Cookie: "+name+"=")
	value, _, _ := strings.Cut(after, ";")
	return value
}

// blank is what a server sends that wants its cookie rewritten.
func blank(n int) string { return "Set-Cookie: BIGipCookie=" + strings.Repeat("0", n) }

func rewriting(p *pb.Pool) { p.CookieMode = pb.CookieMode_COOKIE_MODE_REWRITE.Enum() }

// seal makes encryption possible.
func (x *fixture) seal(keys ...byte) {
	ring := []cookie.Key{}
	for _, k := range keys {
		ring = append(ring, cookie.Key{k})
	}
	x.env.Keys = cookie.NewRing(ring[0], ring[1:]...)
}

// viewOf is a configuration of pools.
func viewOf(pools ...*pb.Pool) config.View {
	var objects []*pb.Object
	for _, p := range pools {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Pool{Pool: p}})
	}
	return config.NewTree(objects...)
}
