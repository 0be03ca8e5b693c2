package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// tcpLab is a TCP virtual server for a pool.
func tcpLab(t testing.TB, p *pb.Pool) *lab {
	t.Helper()
	return newLab(t, Settings{Pools: []*pool.Pool{compilePool(t, p, nil)}})
}

// echoBytes sends back what it gets, and its end.
func echoBytes(_ *origin, p *peer) {
	io.Copy(p, p.r)
	p.Conn.(*net.TCPConn).CloseWrite()
}

func TestTCPBytes(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(listen, func(t *testing.T) {
			o := newOrigin(t, "s", listen, echoBytes)
			table := NewTable(slog.New(slog.DiscardHandler))
			defer table.Close()
			counters := pool.NewCounters()
			p := compilePool(t, plain(o), nil)
			l, err := Listen(table, netip.MustParseAddrPort(listen), Settings{Pools: []*pool.Pool{p}, Counters: counters})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Drain(context.Background())
			nc, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			c := newPeer(t, nc)
			data := make([]byte, 5<<20)
			r := rand.NewChaCha8([32]byte{})
			r.Read(data)
			go func() {
				c.Write(data)
				nc.(*net.TCPConn).CloseWrite()
			}()
			if got, err := c.rest(); err != nil || !bytes.Equal([]byte(got), data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
			eventually(t, "all is counted", func() bool { return counters.Current() == 0 })
			for _, n := range []pool.Counts{counters.Counts(), p.Members()[0].Counters().Counts()} {
				if n.In != uint64(len(data)) || n.Out != uint64(len(data)) || n.Total != 1 {
					t.Errorf("counts %+v", n)
				}
			}
		})
	}
}

func TestTCPServerSpeaksFirst(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
		p.send("220 hello\r\n")
		line, _ := p.r.ReadString('\n')
		p.send("got " + line)
	})
	c := tcpLab(t, plain(o)).dial()
	if got := c.bytes(11); got != "220 hello\r\n" {
		t.Errorf("%q", got)
	}
	c.send("x\n")
	if got, err := c.rest(); got != "got x\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTCPHalfClose(t *testing.T) {
	t.Run("client_first", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
			text, _ := p.rest()
			p.send("after the end: " + text)
		})
		c := tcpLab(t, plain(o)).dial()
		c.send("abc")
		c.Conn.(*net.TCPConn).CloseWrite()
		if got, err := c.rest(); got != "after the end: abc" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("server_first", func(t *testing.T) {
		got := make(chan string, 1)
		o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
			p.send("bye")
			p.Conn.(*net.TCPConn).CloseWrite()
			text, _ := p.rest()
			got <- text
		})
		c := tcpLab(t, plain(o)).dial()
		if text, err := c.rest(); text != "bye" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		c.send("still here")
		c.Close()
		if text := <-got; text != "still here" {
			t.Errorf("the member got %q", text)
		}
	})
}

func TestTCPResets(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		got := make(chan error, 1)
		o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
			p.bytes(1)
			_, err := p.rest()
			got <- err
		})
		c := tcpLab(t, plain(o)).dial()
		c.send("x")
		time.Sleep(20 * time.Millisecond)
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
		if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the member sees %v", err)
		}
	})
	t.Run("server", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
			p.bytes(1)
			p.Conn.(*net.TCPConn).SetLinger(0)
		})
		c := tcpLab(t, plain(o)).dial()
		c.send("x")
		if _, err := c.rest(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client sees %v", err)
		}
	})
	t.Run("no_member", func(t *testing.T) {
		tcpLab(t, plain()).refused()
	})
}

func TestTCPRefused(t *testing.T) {
	name := func(o *origin, p *peer) { p.send(o.name) }
	o := three(t, name)
	o[0].stop()
	o[1].stop()
	b := tcpLab(t, plain(o...))
	for range 4 {
		if got, _ := b.dial().rest(); got != "s3" {
			t.Errorf("answered by %q", got)
		}
	}
	o[2].stop()
	b.refused()
}

func TestTCPIdle(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", echoBytes)
	b := newLab(t, Settings{IdleTimeout: 2 * time.Second, Pools: []*pool.Pool{compilePool(t, plain(o), nil)}})
	c := b.dial()
	for range 12 { // longer than the timeout, never idle
		c.send("x")
		if got := c.bytes(1); got != "x" {
			t.Fatalf("%q", got)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if _, err := c.rest(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("idle connection: %v", err)
	}
}

// Pain 38 at the forwarder: only a member that accepted is told so.
func TestTCPAcceptedOnce(t *testing.T) {
	o := three(t, echoBytes)
	o[0].stop()
	b := tcpLab(t, plain(o...))
	c := b.dial()
	c.send("x")
	c.bytes(1)
	members := b.set.Pools[0].Members()
	if a, b := members[0].Counters().Counts(), members[1].Counters().Counts(); a.Total != 0 || a.Current != 0 || b.Total != 1 || b.Current != 1 {
		t.Errorf("refusing member %+v, accepting member %+v", a, b)
	}
}

func TestTCPDrain(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", echoBytes)
	b := tcpLab(t, plain(o))
	c := b.dial()
	c.send("x")
	c.bytes(1)
	b.l.Close()
	c.send("y")
	if got := c.bytes(1); got != "y" {
		t.Errorf("after Close: %q", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	b.l.Drain(ctx)
	if _, err := c.rest(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the deadline: %v", err)
	}
}
