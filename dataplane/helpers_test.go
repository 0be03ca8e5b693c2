package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// member is a pool member: it sends its name to who connects, and then whatever it receives. As a web server it answers
// requests with its name.
type member struct {
	name  string
	l     net.Listener
	pause atomic.Int64 // nanoseconds before each answer of a web server
	wg    sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newMember(t testing.TB, name string, web bool) *member {
	return newMemberAt(t, "127.0.0.1:0", name, web)
}

// newMemberAt is newMember on an address of its own.
func newMemberAt(t testing.TB, address, name string, web bool) *member {
	return newServer(t, address, name, func(m *member, c net.Conn) { m.serve(c, web) })
}

// newServer is a member that serves connections in its own way.
func newServer(t testing.TB, address, name string, serve func(m *member, c net.Conn)) *member {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{name: name, l: l}
	m.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns = append(m.conns, c)
			m.mu.Unlock()
			m.wg.Go(func() {
				defer c.Close()
				serve(m, c)
			})
		}
	})
	t.Cleanup(m.close)
	return m
}

// accepted counts the connections so far.
func (m *member) accepted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

func (m *member) serve(c net.Conn, web bool) {
	if !web {
		fmt.Fprintln(c, m.name)
		_, _ = io.Copy(c, c)
		return
	}
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		req.Body.Close()
		time.Sleep(time.Duration(m.pause.Load()))
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(m.name), m.name)
	}
}

func (m *member) close() {
	m.l.Close()
	m.mu.Lock()
	for _, c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

func (m *member) addr() string { return m.l.Addr().String() }

// site is an engine under test, with the objects that are configured.
type site struct {
	t        testing.TB
	engine   *Engine
	objects  map[string]*pb.Object
	revision uint64
}

// newSite starts an engine with an address map.
func newSite(t testing.TB, stateDir, addresses string) *site {
	t.Helper()
	return newLoggedSite(t, stateDir, addresses, slog.New(slog.DiscardHandler))
}

// newLoggedSite is newSite with a log.
func newLoggedSite(t testing.TB, stateDir, addresses string, log *slog.Logger) *site {
	t.Helper()
	m := &AddressMap{}
	if err := m.Add(addresses); err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(EngineOptions{StateDir: stateDir, Addresses: m, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, engine: e, objects: map[string]*pb.Object{}}
	t.Cleanup(s.close)
	return s
}

func (s *site) close() {
	if s.engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	s.engine.Close(ctx)
	s.engine = nil
}

const storeID = "store-1"

// apply puts objects as a delta; the first time it is the whole configuration.
func (s *site) apply(objects ...*pb.Object) []*pb.NotInEffect {
	s.t.Helper()
	return s.update(objects, nil)
}

func (s *site) update(changed []*pb.Object, deleted []string) []*pb.NotInEffect {
	s.t.Helper()
	h := &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, Full: s.revision == 0, BaseRevision: s.revision, Revision: s.revision + 1}
	missing, err := s.engine.Apply(&Update{Header: h, Changed: changed, Deleted: deleted})
	if err != nil {
		s.t.Fatal(err)
	}
	s.revision++
	return missing
}

// statistics returns what was counted of a pool, of everything if it is "".
func (s *site) statistics(pool string) *pb.StatisticsReply {
	s.t.Helper()
	reply, err := s.engine.Statistics(&pb.StatisticsRequest{Pool: &pool})
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// object wraps what can be configured.
func object(kind any) *pb.Object {
	switch k := kind.(type) {
	case *pb.Pool:
		return &pb.Object{Kind: &pb.Object_Pool{Pool: k}}
	case *pb.VirtualServer:
		return &pb.Object{Kind: &pb.Object_Virtual{Virtual: k}}
	case *pb.Active:
		return &pb.Object{Kind: &pb.Object_Active{Active: k}}
	case *pb.Global:
		return &pb.Object{Kind: &pb.Object_Global{Global: k}}
	case *pb.Node:
		return &pb.Object{Kind: &pb.Object_Node{Node: k}}
	case *pb.Rule:
		return &pb.Object{Kind: &pb.Object_Rule{Rule: k}}
	case *pb.Service:
		return &pb.Object{Kind: &pb.Object_Service{Service: k}}
	case *pb.Monitor:
		return &pb.Object{Kind: &pb.Object_Monitor{Monitor: k}}
	case *pb.MonitorUse:
		return &pb.Object{Kind: &pb.Object_MonitorUse{MonitorUse: k}}
	case *pb.VirtualAddress:
		return &pb.Object{Kind: &pb.Object_VirtualAddress{VirtualAddress: k}}
	}
	panic(fmt.Sprintf("object of %T", kind))
}

func simplePool(name string, timeout uint32, members ...string) *pb.Object {
	p := &pb.Pool{Name: name, PersistMode: pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), SimpleTimeout: &timeout}
	for _, m := range members {
		p.Members = append(p.Members, &pb.Member{Address: m})
	}
	return object(p)
}

func plainPool(name string, members ...string) *pb.Object {
	o := simplePool(name, 0, members...)
	o.GetPool().PersistMode, o.GetPool().SimpleTimeout = nil, nil
	return o
}

func cookiePool(name string, members ...string) *pb.Object {
	o := plainPool(name, members...)
	o.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_COOKIE.Enum()
	o.GetPool().CookieMode = pb.CookieMode_COOKIE_MODE_INSERT.Enum()
	return o
}

func virtualServer(address, pool string) *pb.Object {
	return object(&pb.VirtualServer{Address: address, Pools: []*pb.WeightedPool{{Pool: pool}}})
}

// dial connects to a virtual server.
func (s *site) dial(virtual string) (net.Conn, error) { return s.dialFrom("", virtual) }

// dialFrom connects from an address, "" for any.
func (s *site) dialFrom(client, virtual string) (net.Conn, error) {
	addr, ok := s.engine.Bound(virtual)
	if !ok {
		return nil, fmt.Errorf("%s does not listen", virtual)
	}
	d := net.Dialer{Timeout: patience}
	if client != "" {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(client), 0))
	}
	c, err := d.Dial("tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

// visit connects and returns who answers; the connection stays open.
func (s *site) visit(virtual string) (string, net.Conn) {
	s.t.Helper()
	c, err := s.dial(virtual)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return readName(s.t, c), c
}

func readName(t testing.TB, c net.Conn) string {
	t.Helper()
	var name strings.Builder
	b := make([]byte, 1)
	for {
		if _, err := c.Read(b); err != nil {
			return fmt.Sprint(name.String(), " ", err)
		}
		if b[0] == '\n' {
			return name.String()
		}
		name.Write(b)
	}
}

// echo checks that an open connection still carries bytes.
func echo(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, text); err != nil {
		t.Error(err)
	}
	if got := readName(t, c); got != text {
		t.Errorf("echo of %q is %q", text, got)
	}
}

// who returns who answers one connection; "nobody" when it is reset or closed.
func (s *site) who(virtual string) string {
	c, err := s.dial(virtual)
	if err != nil {
		return "nobody"
	}
	defer c.Close()
	if name := readName(s.t, c); !strings.Contains(name, " ") {
		return name
	}
	return "nobody"
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not come true: %s", what)
		}
	}
}

// reasons prints what is not in effect.
func reasons(list []*pb.NotInEffect) string {
	var lines []string
	for _, n := range list {
		lines = append(lines, n.GetKey()+": "+n.GetReason())
	}
	return strings.Join(lines, "\n")
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
