package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
	pb "bigpipe/proto/bigpipe/v1"
)

type addrPort = netip.AddrPort

func parseAddrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// listenAgain makes the queue of a listening socket as short as it can be.
func listenAgain(fd int) error { return unix.Listen(fd, 0) }

func TestTimeLimits(t *testing.T) {
	short := func(t *testing.T, o *origin, change func(*Settings)) *lab {
		set := Settings{HTTP: true, HeaderTimeout: 300 * time.Millisecond, BodyMinRate: 1 << 20, Pools: []*pool.Pool{compilePool(t, webPool(o), nil)}}
		change(&set)
		return newLab(t, set)
	}
	none := func(*Settings) {}
	t.Run("5a-26_slow_head", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", nil)
		c := short(t, o, none).dial()
		begin := time.Now()
		go func() { // one byte after the other, for as long as it is let
			for _, b := range []byte(strings.Repeat("GET / HTTP/1.1", 100)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 408 ") {
			t.Errorf("answer %q after %v", h, time.Since(begin))
		}
		if n, _ := o.seen(); n != 0 {
			t.Error("the member was connected to")
		}
	})
	t.Run("silent_client", func(t *testing.T) {
		short(t, newOrigin(t, "s", "127.0.0.11:0", nil), none).dial().closed()
	})
	t.Run("second_head_slow", func(t *testing.T) {
		c := short(t, newOrigin(t, "s", "127.0.0.11:0", nil), none).dial()
		c.send(get() + "GET /")
		c.response()
		if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 408 ") {
			t.Errorf("answer %q", h)
		}
	})
	t.Run("idle_between_requests", func(t *testing.T) {
		b := short(t, newOrigin(t, "s", "127.0.0.11:0", nil), func(s *Settings) { s.IdleTimeout = 300 * time.Millisecond })
		c := b.dial()
		c.send(get())
		c.response()
		c.closed()
	})
	t.Run("slow_body", func(t *testing.T) {
		c := short(t, newOrigin(t, "s", "127.0.0.11:0", nil), none).dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n")
		go func() {
			for range 90 {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 408 ") {
			t.Errorf("answer %q", h)
		}
	})
	t.Run("response_timeout", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) { o.read(p); p.rest() })
		p := webPool(o)
		one := uint32(1)
		p.ResponseTimeout = &one
		c := httpLab(t, p).dial()
		c.send(get())
		if h := c.response(); !strings.HasPrefix(h, "HTTP/1.1 504 ") || strings.Contains(h, "Set-Cookie") {
			t.Errorf("answer %q", h)
		}
	})
	t.Run("client_reads_nothing", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
			b := make([]byte, 1<<20)
			for range 100 {
				if _, err := p.Write(b); err != nil {
					return
				}
			}
		})
		b := short(t, o, func(s *Settings) { s.IdleTimeout = 300 * time.Millisecond })
		b.dial().send(get())
		eventually(t, "a connection", func() bool { return b.table.Len() == 1 })
		eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
	})
}

func TestPace(t *testing.T) {
	set := (&Settings{BodyMinRate: 100}).withDefaults()
	p := pace{began: 1000e9, settings: set}
	if d := p.deadline(1000e9); d != 1010e9 {
		t.Errorf("nothing received: %v", d)
	}
	p.received = 500
	if d := p.deadline(1001e9); d != 1015e9 {
		t.Errorf("500 bytes received: %v", d)
	}
	p.received = 1 << 60
	if d := p.deadline(1001e9); d != 1301e9 {
		t.Errorf("much received: %v", d)
	}
	set.BodyMinRate = 0
	if d := p.deadline(1001e9); d != 1301e9 {
		t.Errorf("no minimum: %v", d)
	}
}

// The client leaves while the member works: the member's connection ends, nothing leaks.
func TestClientLeaves(t *testing.T) {
	gone := make(chan error, 4)
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		p.head()
		_, err := p.rest()
		gone <- err
	})
	b := httpLab(t, webPool(o))
	reset := func(request string) {
		c := b.dial()
		c.send(request)
		eventually(t, "the member is asked", func() bool { return b.set.Pools[0].Members()[0].Counters().Current() == 1 })
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
		select {
		case err := <-gone:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the member's connection goes on")
			}
		case <-time.After(2 * testPatience):
			t.Fatal("the member's connection goes on")
		}
		eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
	}
	reset(get())
	reset("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
}

// A client that has only sent its last byte still gets its answer.
func TestClientHalfCloses(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		o.read(p)
		time.Sleep(1500 * time.Millisecond) // longer than a client is left alone
		p.send(ok("s"))
	})
	c := httpLab(t, webPool(o)).dial()
	c.send(get())
	c.Conn.(*net.TCPConn).CloseWrite()
	expect(t, c.response(), "s", o)
	c.closed()
}

func TestLimitOfConnections(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	b := newLab(t, Settings{HTTP: true, Limit: 2, Pools: []*pool.Pool{compilePool(t, webPool(o), nil)}})
	first, second := b.dial(), b.dial()
	for _, c := range []*peer{first, second} {
		c.send(get())
		c.response()
	}
	b.refused()
	first.Close()
	eventually(t, "room", func() bool { return b.set.Counters.Current() == 1 })
	b.ask(get())
	eventually(t, "all requests are counted", func() bool { return b.set.Counters.Counts().Requests == 3 })
	if n := b.set.Counters.Counts(); n.Total != 3 || n.Max != 2 {
		t.Errorf("counts %+v", n)
	}
}

func TestCountersAndListing(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	b := httpLab(t, plain(o))
	c := b.dial()
	post := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	in, out := 0, 0
	for _, r := range []string{get(), post} {
		c.send(r)
		in, out = in+len(r), out+len(c.response())
	}
	eventually(t, "both are counted", func() bool { return b.set.Counters.Counts().Requests == 2 })
	for _, n := range []pool.Counts{b.set.Counters.Counts(), b.set.Pools[0].Members()[0].Counters().Counts()} {
		if n.In != uint64(in) || n.Out != uint64(out) || n.Requests != 2 || n.Current != 1 || n.Total != 1 {
			t.Errorf("counts %+v; want %d bytes in, %d out", n, in, out)
		}
	}
	var list []Connection
	b.table.Range(func(c Connection) bool { list = append(list, c); return true })
	if len(list) != 1 || list[0].Client.String() != c.LocalAddr().String() || list[0].Virtual != b.set.Virtual ||
		list[0].Node != o.addr || list[0].Age < 0 || list[0].Idle < 0 {
		t.Errorf("listed %+v", list)
	}
}

// Bytes are counted while a connection is open, once.
func TestCountedWhileOpen(t *testing.T) {
	counted := func(t *testing.T, b *lab, in, out int) {
		t.Helper()
		for _, c := range []*pool.Counters{b.set.Counters, b.set.Pools[0].Members()[0].Counters()} {
			eventually(t, "all bytes are counted", func() bool {
				n := c.Counts()
				return n.In == uint64(in) && n.Out == uint64(out)
			})
		}
	}
	t.Run("tcp", func(t *testing.T) {
		b := tcpLab(t, plain(newOrigin(t, "s", "127.0.0.11:0", echoBytes)))
		c := b.dial()
		for i := range 3 {
			c.send("hello")
			c.bytes(5)
			counted(t, b, 5*(i+1), 5*(i+1))
		}
		c.Close()
		eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
		counted(t, b, 15, 15)
	})
	t.Run("bodies", func(t *testing.T) {
		gate := make(chan struct{})
		head, up, down := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n", strings.Repeat("u", 50), strings.Repeat("d", 50)
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
		o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
			p.head()
			p.bytes(100)
			p.send(answer + down)
			<-gate
			p.send(down)
		})
		b := httpLab(t, plain(o))
		c := b.dial()
		c.send(head + up)
		counted(t, b, len(head)+50, 0)
		c.send(up)
		counted(t, b, len(head)+100, len(answer)+50)
		close(gate)
		c.response()
		counted(t, b, len(head)+100, len(answer)+100)
		if n := b.set.Counters.Counts(); n.Requests != 1 {
			t.Errorf("%d requests", n.Requests)
		}
	})
}

func TestDrain(t *testing.T) {
	release := make(chan struct{})
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		for {
			r := o.read(p)
			if r == "" {
				return
			}
			if strings.HasPrefix(r, "GET /slow") {
				<-release
			}
			p.send(ok("s"))
		}
	})
	b := httpLab(t, webPool(o))
	idle, busy := b.dial(), b.dial()
	idle.send(get())
	idle.response()
	busy.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
	eventually(t, "both requests arrive", func() bool { _, seen := o.seen(); return len(seen) == 2 })
	done := make(chan struct{})
	go func() {
		b.l.Drain(context.Background())
		close(done)
	}()
	idle.closed()
	if c, err := net.Dial("tcp", b.l.Addr().String()); err == nil {
		c.Close()
		t.Error("still accepting")
	}
	close(release)
	if r := busy.response(); !strings.Contains(r, "\r\nConnection: close\r\n") {
		t.Errorf("response %q", r)
	}
	busy.closed()
	<-done
}

func TestDrainDeadline(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) { o.read(p); p.rest() })
	b := httpLab(t, webPool(o))
	c := b.dial()
	c.send(get())
	eventually(t, "the request arrives", func() bool { _, seen := o.seen(); return len(seen) == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	b.l.Drain(ctx)
	if r, err := c.rest(); r != "" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v", r, err)
	}
}

// New settings hold for new connections; those that are open do not notice.
func TestSet(t *testing.T) {
	o := three(t, nil)
	b := httpLab(t, webPool(o[0]))
	c := b.dial()
	c.send(get())
	expect(t, c.response(), "s1", o[0])
	for i := range 50 {
		next := b.set
		next.Pools = []*pool.Pool{compilePool(t, webPool(o[1+i%2]), nil)}
		b.l.Set(next)
		c.send(get())
		expect(t, c.response(), "s1", nil)
		expect(t, b.ask(get()), fmt.Sprintf("s%d", 2+i%2), o[1+i%2])
	}
}

// Descriptors run out: nothing is lost, connections are accepted when there are some again.
func TestOutOfDescriptors(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	warned := make(chan struct{}, 100)
	table := NewTable(slog.New(slog.NewTextHandler(writerFunc(func([]byte) { warned <- struct{}{} }), nil)))
	defer table.Close()
	l, err := Listen(table, parseAddrPort("127.0.0.1:0"), Settings{HTTP: true, Pools: []*pool.Pool{compilePool(t, webPool(o), nil)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	defer l.Drain(ctx)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	a := l.Addr()
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())})
	select {
	case <-warned:
	case <-time.After(testPatience):
		t.Error("no warning")
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newPeer(t, c)
	p.send(get())
	expect(t, p.response(), "s", o)
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// A listener of all addresses knows where its clients wanted to go.
func TestContactedAddress(t *testing.T) {
	o := three(t, nil)
	v := &pb.RuleVariable{Name: pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_ADDR}
	cmp := &pb.RuleComparison{Variable: v, Operator: pb.RuleOperator_RULE_OPERATOR_EQUALS, Value: &pb.RuleComparison_Text{Text: "127.0.0.2"}}
	use := func(p string) *pb.RuleStatement {
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: p}}}}}
	}
	r, err := rule.Compile(&pb.Rule{Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{
		Condition: &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: cmp}}, Then: use("a"), Else: use("b"),
	}}}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := newLab(t, Settings{})
	l, err := Listen(b.table, parseAddrPort("0.0.0.0:0"), Settings{
		HTTP: true, Rule: r, Virtual: parseAddrPort("0.0.0.0:80"),
		Pools: []*pool.Pool{compilePool(t, plain(o[0]), nil), compilePool(t, plain(o[1]), nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Drain(context.Background())
	for host, want := range map[string]string{"127.0.0.2": "s1", "127.0.0.3": "s2"} {
		c, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(host), l.Addr().Port()).String())
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, c)
		p.send(get())
		expect(t, p.response(), want, nil)
		c.Close()
	}
}

func TestListenErrors(t *testing.T) {
	table := newLab(t, Settings{}).table
	l, err := Listen(table, parseAddrPort("127.0.0.1:0"), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(table, l.Addr(), Settings{}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("taken: %v", err)
	}
	if _, err := Listen(table, parseAddrPort("192.0.2.1:80"), Settings{}); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("not here: %v", err)
	}
	l.Close()
	if l, err = Listen(table, l.Addr(), Settings{}); err != nil {
		t.Errorf("again: %v", err)
	} else {
		l.Close()
	}
}
