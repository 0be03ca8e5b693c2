package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// The fixture of the pains: three servers, and the cookies that name them.
const (
	vip        = "127.0.1.1:8080"
	cookieName = "BIGipServerweb_pool="
	c1         = cookieName + "184549503.16671.0000"
	c2         = cookieName + "201326719.16671.0000"
	c3         = cookieName + "218103935.16671.0000"
)

// cookies are those of s1, s2 and s3.
var cookies = map[string]string{"s1": c1, "s2": c2, "s3": c3}

// fixture is pool web_pool behind vip, with members 127.0.0.11 to 13, port 8001. Requests are decided each for itself.
type fixture struct {
	*site
	servers map[string]*member
	paused  chan bool // closed: what waits in the middle of an answer goes on
}

func newFixture(t testing.TB, change func(p *pb.Pool)) *fixture {
	t.Helper()
	f := &fixture{servers: map[string]*member{}, paused: make(chan bool)}
	addresses := vip + "=127.0.0.1:0"
	for i := range 3 {
		m := newServer(t, "127.0.0.1:0", fmt.Sprintf("s%d", i+1), f.answer)
		f.servers[m.name] = m
		addresses += "," + realOf(m.name) + "=" + m.addr()
	}
	f.site = newSite(t, "", addresses)
	vs := virtualServer(vip, "web_pool")
	vs.GetVirtual().Oneconnect = proto.Bool(true)
	want(t, reasons(f.apply(f.pool(change), vs)), "")
	return f
}

func realOf(name string) string { return "127.0.0.1" + name[1:] + ":8001" }

// pool is web_pool, changed.
func (f *fixture) pool(change func(p *pb.Pool)) *pb.Object {
	p := cookiePool("web_pool", realOf("s1"), realOf("s2"), realOf("s3"))
	p.GetPool().CookieExpiration = proto.Uint64(3600)
	if change != nil {
		change(p.GetPool())
	}
	return p
}

// withoutS2 is the pool without s2, changed.
func withoutS2(change func(p *pb.Pool)) func(p *pb.Pool) {
	return func(p *pb.Pool) {
		if change != nil {
			change(p)
		}
		p.Members = slices.DeleteFunc(p.Members, func(m *pb.Member) bool { return m.GetAddress() == realOf("s2") })
	}
}

// simply persists by the client's address.
func simply(timeout uint32) func(p *pb.Pool) {
	return func(p *pb.Pool) {
		p.PersistMode, p.CookieMode, p.CookieExpiration = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), nil, nil
		p.SimpleTimeout = &timeout
	}
}

// longAnswer is the body of the path /long, which waits in its middle.
var longAnswer = strings.Repeat("0123456789", 20_000)

func (f *fixture) answer(m *member, c net.Conn) {
	for r := bufio.NewReader(c); ; {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		body, half := "ok\n", 0
		if q.URL.Path == "/long" {
			body, half = longAnswer, len(longAnswer)/2
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Server: %s\r\nContent-Length: %d\r\n\r\n%s", m.name, len(body), body[:half])
		if half > 0 {
			<-f.paused
		}
		if _, err := io.WriteString(c, body[half:]); err != nil {
			return
		}
	}
}

func (f *fixture) node(name string, change func(n *pb.Node)) {
	f.t.Helper()
	n := &pb.Node{Address: realOf(name)}
	change(n)
	f.apply(object(n))
}

func down(n *pb.Node)    { n.Up = proto.Bool(false) }
func disable(n *pb.Node) { n.Enabled = proto.Bool(false) }
func enable(*pb.Node)    {}

// reply is who answered a request, or the status, and the cookies that were set.
type reply struct {
	who string
	set []string
}

func readReply(r *bufio.Reader) (reply, error) {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return reply{}, err
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return reply{}, err
	}
	got := reply{answer.Header.Get("X-Server"), answer.Header.Values("Set-Cookie")}
	if answer.StatusCode != http.StatusOK {
		got.who = fmt.Sprint(answer.StatusCode)
	}
	return got, nil
}

func requestWith(path, cookie string, more ...string) string {
	lines := append([]string{"GET " + path + " HTTP/1.1", "Host: h"}, more...)
	if cookie != "" {
		lines = append(lines, "Cookie: "+cookie)
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// ask sends a request with a cookie, "" for none, on a connection of its own.
func (f *fixture) ask(cookie string) reply { f.t.Helper(); return f.askFrom("", cookie) }

func (f *fixture) askFrom(client, cookie string) reply {
	f.t.Helper()
	c, err := f.dialFrom(client, vip)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, requestWith("/", cookie))
	got, err := readReply(bufio.NewReader(c))
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

var setCookie = regexp.MustCompile(`^(BIGipServerweb_pool=\d+\.16671\.0000); expires=\w{3}, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d GMT; path=/$`)

// stays checks that a server answered and set no cookie; moves, that one of several did, and set one cookie that names it.
func (f *fixture) stays(got reply, who string) {
	f.t.Helper()
	if got.who != who || len(got.set) != 0 {
		f.t.Errorf("%s answered and set %q; want %s and none", got.who, got.set, who)
	}
}

func (f *fixture) moves(got reply, who ...string) {
	f.t.Helper()
	if !slices.Contains(who, got.who) || len(got.set) != 1 {
		f.t.Errorf("%s answered and set %q; want one of %s, and one cookie", got.who, got.set, who)
		return
	}
	if m := setCookie.FindStringSubmatch(got.set[0]); m == nil || m[1] != cookies[got.who] {
		f.t.Errorf("%s answered and set %q", got.who, got.set)
	}
}

// connections counts what the servers have accepted, by name.
func (f *fixture) connections() string {
	return fmt.Sprint(f.servers["s1"].accepted(), f.servers["s2"].accepted(), f.servers["s3"].accepted())
}
