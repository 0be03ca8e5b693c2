package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPatience is how long a test waits for what must happen.
const testPatience = 20 * time.Second

// peer is a raw connection of a client or an origin.
type peer struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func newPeer(t testing.TB, c net.Conn) *peer {
	c.SetDeadline(time.Now().Add(testPatience))
	return &peer{t, c, bufio.NewReader(c)}
}

func (p *peer) send(text string) {
	if _, err := io.WriteString(p, text); err != nil && p.t != nil {
		p.t.Logf("write: %v", err)
	}
}

// head reads a head with its empty line; what came before the end of the stream if there is no whole one.
func (p *peer) head() string {
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		line, err := p.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			break
		}
	}
	return b.String()
}

// bytes reads n bytes.
func (p *peer) bytes(n int) string {
	b := make([]byte, n)
	got, _ := io.ReadFull(p.r, b)
	return string(b[:got])
}

// rest reads to the end; a reset is reported.
func (p *peer) rest() (text string, err error) {
	b, err := io.ReadAll(p.r)
	return string(b), err
}

// message reads a head and the body that its Content-Length or chunks say.
func (p *peer) message() string {
	head := p.head()
	lower := strings.ToLower(head)
	if strings.Contains(lower, "\r\ntransfer-encoding: chunked") {
		return head + p.rawChunks()
	}
	if _, after, ok := strings.Cut(lower, "\r\ncontent-length:"); ok {
		n, _ := strconv.Atoi(strings.TrimSpace(after[:strings.Index(after, "\r\n")]))
		return head + p.bytes(n)
	}
	return head
}

// rawChunks reads a chunked body with its trailers as it comes.
func (p *peer) rawChunks() string {
	var b strings.Builder
	line := func() string {
		line, _ := p.r.ReadString('\n')
		b.WriteString(line)
		return line
	}
	for {
		n, err := strconv.ParseInt(strings.TrimSpace(line()), 16, 64)
		if err != nil {
			return b.String()
		}
		if n == 0 {
			break
		}
		b.WriteString(p.bytes(int(n)))
		line()
	}
	for {
		if l := line(); l == "\r\n" || l == "" {
			return b.String()
		}
	}
}

// response reads a whole response to a request that is not HEAD.
func (p *peer) response() string {
	p.t.Helper()
	r := p.message()
	if r == "" {
		p.t.Error("no response")
	}
	return r
}

// closed fails the test unless the connection ends now without another byte.
func (p *peer) closed() {
	p.t.Helper()
	if text, err := p.rest(); text != "" || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("not closed: %q, %v", text, err)
	}
}

// origin is a member: it records every message, and answers as its script says.
type origin struct {
	name string
	l    net.Listener
	addr netip.AddrPort

	mu       sync.Mutex
	conns    int
	closed   int
	requests []string
	open     map[net.Conn]bool
	wg       sync.WaitGroup
}

// newOrigin listens on an address, port 0 for any. Serve handles each connection; nil answers like a plain web server.
func newOrigin(t testing.TB, name, addr string, serve func(o *origin, p *peer)) *origin {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if serve == nil {
		serve = func(o *origin, p *peer) {
			for o.read(p) != "" {
				p.send(ok(o.name))
			}
		}
	}
	o := &origin{name: name, l: l, addr: netip.MustParseAddrPort(l.Addr().String()), open: map[net.Conn]bool{}}
	o.wg.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of descriptors, in the test of that
				time.Sleep(time.Millisecond)
				continue
			}
			o.mu.Lock()
			o.conns++
			o.open[c] = true
			o.mu.Unlock()
			o.wg.Go(func() {
				serve(o, newPeer(t, c))
				c.Close()
				o.mu.Lock()
				o.closed++
				delete(o.open, c)
				o.mu.Unlock()
			})
		}
	})
	t.Cleanup(o.stop)
	return o
}

func (o *origin) stop() {
	o.l.Close()
	o.mu.Lock()
	for c := range o.open {
		c.Close()
	}
	o.mu.Unlock()
	o.wg.Wait()
}

// read reads and records a request.
func (o *origin) read(p *peer) string {
	r := p.message()
	if r != "" {
		o.mu.Lock()
		o.requests = append(o.requests, r)
		o.mu.Unlock()
	}
	return r
}

// seen returns what was received so far.
func (o *origin) seen() (conns int, requests []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns, append([]string(nil), o.requests...)
}

// hasClosed waits until the origin has closed n connections.
func (o *origin) hasClosed(n int) {
	eventually(nil, o.name+" closes", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.closed >= n
	})
}

// ok is a response that names the origin.
func ok(name string) string {
	return "HTTP/1.1 200 OK\r\nX-Server: " + name + "\r\nContent-Length: 3\r\n\r\nok\n"
}

// get is a request with header lines.
func get(lines ...string) string {
	var b strings.Builder
	b.WriteString("GET / HTTP/1.1\r\nHost: h\r\n")
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	return b.String() + "\r\n"
}

// webPool is a pool of origins with cookie insert.
func webPool(origins ...*origin) *pb.Pool {
	p := &pb.Pool{Name: "web_pool", PersistMode: pb.PersistMode_PERSIST_MODE_COOKIE.Enum(), CookieMode: pb.CookieMode_COOKIE_MODE_INSERT.Enum()}
	for _, o := range origins {
		p.Members = append(p.Members, &pb.Member{Address: o.addr.String()})
	}
	return p
}

// compilePool compiles a pool; nodes are configured around it.
func compilePool(t testing.TB, p *pb.Pool, previous *pool.Pool, nodes ...*pb.Node) *pool.Pool {
	t.Helper()
	var objects []*pb.Object
	for _, n := range nodes {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Node{Node: n}})
	}
	compiled, reasons := pool.Compile(p, &pool.Env{View: config.NewTree(objects...), Table: persist.New(persist.Options{})}, previous)
	if len(reasons) > 0 {
		t.Fatal(reasons)
	}
	return compiled
}

// lab is a virtual server on a free port of 127.0.0.1.
type lab struct {
	t     testing.TB
	table *Table
	l     *Listener
	set   Settings
}

func newLab(t testing.TB, set Settings) *lab {
	t.Helper()
	b := &lab{t: t, table: NewTable(slog.New(slog.DiscardHandler)), set: set}
	if !b.set.Virtual.IsValid() {
		b.set.Virtual = netip.MustParseAddrPort("10.0.0.1:80")
	}
	if b.set.Counters == nil {
		b.set.Counters = pool.NewCounters()
	}
	var err error
	if b.l, err = Listen(b.table, netip.MustParseAddrPort("127.0.0.1:0"), b.set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		b.l.Drain(ctx)
		if n := b.table.Len(); n != 0 {
			t.Errorf("%d connections left", n)
		}
		b.table.Close()
		if c := b.set.Counters.Counts(); c.Current != 0 {
			t.Errorf("virtual server: %d connections left", c.Current)
		}
		for _, p := range b.set.Pools {
			for _, m := range p.Members() {
				if c := m.Counters().Counts(); c.Current != 0 {
					t.Errorf("member %s: %d connections left", m.Addr, c.Current)
				}
			}
		}
	})
	return b
}

// httpLab is an HTTP virtual server for a pool.
func httpLab(t testing.TB, p *pb.Pool, nodes ...*pb.Node) *lab {
	t.Helper()
	return newLab(t, Settings{HTTP: true, Pools: []*pool.Pool{compilePool(t, p, nil, nodes...)}})
}

// dial connects a client.
func (b *lab) dial() *peer {
	b.t.Helper()
	c, err := net.Dial("tcp", b.l.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return newPeer(b.t, c)
}

// refused fails the test unless a new connection is reset without a byte; the dial may see that already.
func (b *lab) refused() {
	b.t.Helper()
	c, err := net.Dial("tcp", b.l.Addr().String())
	text := ""
	if err == nil {
		defer c.Close()
		text, err = newPeer(b.t, c).rest()
	}
	if text != "" || !errors.Is(err, syscall.ECONNRESET) {
		b.t.Errorf("not refused: %q, %v", text, err)
	}
}

// ask sends a request on a new connection and returns the response.
func (b *lab) ask(request string) string {
	b.t.Helper()
	c := b.dial()
	defer c.Close()
	c.send(request)
	return c.response()
}

// three starts origins s1, s2, s3.
func three(t testing.TB, serve func(o *origin, p *peer)) []*origin {
	var list []*origin
	for i := 1; i <= 3; i++ {
		list = append(list, newOrigin(t, fmt.Sprintf("s%d", i), fmt.Sprintf("127.0.0.1%d:0", i), serve))
	}
	return list
}

// value is the cookie's value that names a member.
func value(o *origin) string { return string(cookie.AppendValue(nil, o.addr)) }

// cookieOf is a Cookie line that names a member of web_pool.
func cookieOf(o *origin) string { return "Cookie: BIGipServerweb_pool=" + value(o) }

// server is the origin that a response names, and the value of our cookie in it, "" for none.
func server(t testing.TB, response string) (name, set string) {
	t.Helper()
	for line := range strings.SplitSeq(response, "\r\n") {
		if v, ok := strings.CutPrefix(line, "X-Server: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(line, "Set-Cookie: BIGipServerweb_pool="); ok {
			if set != "" {
				t.Errorf("two cookies in %q", response)
			}
			set, _, _ = strings.Cut(v, ";")
		}
	}
	return name, set
}

// expect checks which origin a response names, and the cookie in it: one that names set, or none for nil.
func expect(t testing.TB, response, name string, set *origin) {
	t.Helper()
	want := ""
	if set != nil {
		want = value(set)
	}
	if n, c := server(t, response); n != name || c != want {
		t.Errorf("answered by %q with cookie %q; want %q with %q\n%s", n, c, name, want, response)
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	if t != nil {
		t.Helper()
	}
	for end := time.Now().Add(testPatience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	if t == nil {
		panic("never: " + what)
	}
	t.Errorf("never: %s", what)
}
