package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
)

// gated is an origin that answers once released, and closes.
func gated(answer string) (serve func(*origin, *peer), release func()) {
	gate := make(chan struct{})
	return func(o *origin, p *peer) {
		if o.read(p) == "" {
			return
		}
		<-gate
		p.send(answer)
	}, func() { close(gate) }
}

// narrow connects a client that has little room for what it does not read.
func (b *lab) narrow() *peer {
	b.t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		return err
	}}
	c, err := d.Dial("tcp", b.l.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return newPeer(b.t, c)
}

// RFC 9112, 9.6: whatever the client sends without being asked, it gets the whole response and a clean end.
func TestClosingResponseArrives(t *testing.T) {
	body := strings.Repeat("x", 200_000)
	sized := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	post := "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"
	tests := []struct {
		name, request, more, answer string
	}{
		{"HTTP_1_0_POST_and_an_empty_line", "POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\na", "\r\n", sized},
		{"close_and_an_empty_line", post, "\r\n", sized},
		{"close_and_a_request", get("Connection: close"), get(), sized},
		{"close_and_a_request_small", get("Connection: close"), get(), "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + body[:60000]},
		{"until_close_and_a_request", get(), get(), "HTTP/1.1 200 OK\r\n\r\n" + body},
		{"short_body_and_a_request", get(), get(), strings.Replace(sized, ": 200000", ": 300000", 1)},
	}
	for _, tt := range tests {
		for _, when := range []string{"before_the_answer", "after_the_answer"} {
			if strings.HasSuffix(tt.name, "_small") && when == "after_the_answer" {
				continue // it promised to send nothing more, and is believed
			}
			t.Run(tt.name+"_"+when, func(t *testing.T) {
				serve, release := gated(tt.answer)
				o := newOrigin(t, "s", "127.0.0.11:0", serve)
				b := httpLab(t, plain(o))
				c := b.narrow()
				c.send(tt.request)
				eventually(t, "the request arrives", func() bool { _, seen := o.seen(); return len(seen) == 1 })
				if when == "before_the_answer" {
					c.send(tt.more)
				}
				release()
				eventually(t, "the exchange ends", func() bool { return b.table.Len() == 0 })
				if when == "after_the_answer" {
					c.send(tt.more)
					time.Sleep(20 * time.Millisecond) // what a reset would need
				}
				got, err := c.rest()
				if n := strings.Count(got, "x"); err != nil || n != strings.Count(tt.answer, "x") {
					t.Errorf("%d bytes of the body, %v", n, err)
				}
			})
		}
	}
}

func TestClosingAnswerArrives(t *testing.T) {
	for name, request := range map[string]string{
		"error":          "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
		"no_member_body": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := httpLab(t, webPool()).dial()
			c.send(request + strings.Repeat("y", 400_000))
			c.send(strings.Repeat("y", 100_000))
			if text, err := c.rest(); err != nil || !strings.HasPrefix(text, "HTTP/1.1 50") {
				t.Errorf("answer %q, %v", text, err)
			}
		})
	}
	t.Run("draining", func(t *testing.T) {
		serve, release := gated(ok("s"))
		o := newOrigin(t, "s", "127.0.0.11:0", serve)
		b := httpLab(t, plain(o))
		c := b.dial()
		c.send(get())
		eventually(t, "the request arrives", func() bool { _, seen := o.seen(); return len(seen) == 1 })
		c.send(get())
		done := make(chan struct{})
		go func() {
			b.l.Drain(context.Background())
			close(done)
		}()
		eventually(t, "it drains", b.l.draining.Load)
		release()
		<-done
		if text, err := c.rest(); err != nil || !strings.HasSuffix(text, "ok\n") {
			t.Errorf("response %q, %v", text, err)
		}
	})
}

// A body that ends with the connection must not look whole when it is not.
func TestCutBodyIsReset(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		o.read(p)
		p.send("HTTP/1.1 200 OK\r\n\r\n")
		b := make([]byte, 1<<20)
		for range 100 {
			if _, err := p.Write(b); err != nil {
				return
			}
		}
	})
	set := Settings{HTTP: true, IdleTimeout: 300 * time.Millisecond, Pools: []*pool.Pool{compilePool(t, plain(o), nil)}}
	b := newLab(t, set)
	c := b.narrow()
	c.send(get())
	c.head()
	eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
	if text, err := c.rest(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes and %v", len(text), err)
	}
}

// connected is a pair of TCP sockets; the first is a plain descriptor.
func connected(t *testing.T) (fd int, other *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	file, err := a.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err = unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	return fd, c.(*net.TCPConn)
}

func TestLeaving(t *testing.T) {
	start := func(t *testing.T) (leaving, *net.TCPConn) {
		fd, c := connected(t)
		t.Cleanup(func() { unix.Close(fd) })
		return leaving{fd: fd, began: 1, heard: 1}, c
	}
	arrive := func(l *leaving, c *net.TCPConn, n int, now instant) (done bool) {
		c.Write(make([]byte, n))
		for want := l.taken + n; l.taken < want && !done; {
			done = l.look(now)
		}
		return done
	}
	t.Run("quiet", func(t *testing.T) {
		l, c := start(t)
		if l.look(leavingQuiet) {
			t.Error("too early")
		}
		if arrive(&l, c, 10, leavingQuiet) || l.look(leavingQuiet+2) {
			t.Error("it was not quiet")
		}
		if !l.look(2*leavingQuiet + 1) {
			t.Error("it never ends")
		}
	})
	t.Run("unacknowledged", func(t *testing.T) {
		l, c := start(t)
		for errno := syscall.Errno(0); errno == 0; {
			_, errno = send(l.fd, nowhere[:])
		}
		if l.look(leavingQuiet + 2) {
			t.Error("the client has not read yet")
		}
		if !l.look(leavingTime + 2) {
			t.Error("it never ends")
		}
		unix.Shutdown(l.fd, unix.SHUT_WR)
		io.Copy(io.Discard, c)
		eventually(t, "the client has read all", func() bool { return l.look(leavingQuiet + 2) })
	})
	t.Run("end", func(t *testing.T) {
		l, c := start(t)
		c.CloseWrite()
		eventually(t, "its end is seen", func() bool { return l.look(2) })
	})
	t.Run("bytes", func(t *testing.T) {
		l, c := start(t)
		for n := 0; n < leavingBytes; n += 1 << 16 {
			if arrive(&l, c, 1<<16, 2) {
				t.Fatalf("ended after %d bytes", n)
			}
		}
		ended := arrive(&l, c, leavingSlice, 2)
		ended = ended || arrive(&l, c, leavingSlice, 2)
		if !ended {
			t.Errorf("it goes on after %d bytes", l.taken)
		}
	})
}

// There are only so many at a time, and none is lost.
func TestDepartures(t *testing.T) {
	var d departures
	for i := range leavingMost + 10 {
		first, full := d.put(leaving{taken: i})
		if full != (i >= leavingMost) || full && first.taken != i-leavingMost {
			t.Fatalf("put %d: %v %v", i, first.taken, full)
		}
	}
	for i := range leavingMost {
		if l, ok := d.take(); !ok || l.taken != i+10 {
			t.Fatalf("take %d: %v %v", i, l.taken, ok)
		}
	}
	if _, ok := d.take(); ok || d.len() != 0 {
		t.Error("one too many")
	}
}

// Sockets are closed once their clients are gone, without another connection.
func TestLeavingSocketsAreClosed(t *testing.T) {
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	o := newOrigin(t, "s", "127.0.0.11:0", closer(1))
	b := httpLab(t, plain(o))
	b.ask(get("Connection: close"))
	before := open()
	for range 50 {
		b.ask(get("Connection: close"))
	}
	eventually(t, "the sockets are closed", func() bool { return open() <= before })
}
