package forward

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// served is an origin that answers every request and counts them.
func served(t *testing.T) (*origin, *atomic.Int64) {
	var n atomic.Int64
	return newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		for o.read(p) != "" {
			n.Add(1)
			p.send(ok("s"))
		}
	}), &n
}

// A paused listener refuses nobody: who connects is served when it goes on.
func TestPause(t *testing.T) {
	o, n := served(t)
	b := httpLab(t, webPool(o))
	for range 3 {
		b.l.Pause()
		c := b.dial()
		c.send(get())
		time.Sleep(10 * time.Millisecond)
		before := n.Load()
		b.l.Resume()
		if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 200") || n.Load() != before+1 {
			t.Errorf("response %q, %d requests, %d before", r, n.Load(), before)
		}
	}
}

// A copy of the socket goes on where the listener ends, and what waits in the queue with it.
func TestListenOn(t *testing.T) {
	o, _ := served(t)
	b := httpLab(t, webPool(o))
	file, err := b.l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table := NewTable(slog.New(slog.DiscardHandler)) // of the next process
	next, err := ListenOn(table, file, b.set)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		next.Drain(context.Background())
		table.Close()
	}()
	if next.Addr() != b.l.Addr() {
		t.Errorf("it is bound to %s, not %s", next.Addr(), b.l.Addr())
	}
	b.l.Pause()
	c := b.dial()
	c.send(get())
	b.l.Close()
	next.Resume()
	if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 200") {
		t.Errorf("response %q", r)
	}
	c.Close()
}

func TestListenOnRefuses(t *testing.T) {
	table := NewTable(slog.New(slog.DiscardHandler))
	defer table.Close()
	connected, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	c, err := net.Dial("tcp", connected.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stream, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for name, file := range map[string]*os.File{"a connection": stream, "a file": plain} {
		if _, err := ListenOn(table, file, Settings{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	_, err = Listen(table, netip.MustParseAddrPort("192.0.2.77:80"), Settings{})
	if !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("an address that is not there: %v", err)
	}
}

// A client that is idle when its virtual server retires has a while to send its next request, which is answered and is the
// last; one that stays idle is closed then.
func TestRetire(t *testing.T) {
	o, _ := served(t)
	b := httpLab(t, webPool(o))
	late, idle := b.dial(), b.dial()
	for _, c := range []*peer{late, idle} {
		c.send(get())
		c.response()
	}
	b.l.Retire(time.Hour)
	time.Sleep(3 * tick)
	late.send(get())
	if r := late.response(); !strings.Contains(r, "\r\nConnection: close\r\n") {
		t.Errorf("response %q", r)
	}
	late.closed()
	b.l.Retire(2 * time.Hour) // changes nothing
	b.l.Retire(0)
	idle.closed()
	b.l.Drain(context.Background())
}

// Listeners leave descriptors to connections, however many are asked for.
func TestListenersLeaveDescriptors(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 160
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var open []int
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for _, listen := range []func(netip.AddrPort, bool) (int, error){listen, listenUDP} {
		var err error
		for range few.Cur {
			fd := 0
			if fd, err = listen(netip.MustParseAddrPort("127.0.0.1:0"), false); err != nil {
				break
			}
			open = append(open, fd)
		}
		if !errors.Is(err, errFewDescriptors) {
			t.Errorf("after %d listeners: %v", len(open), err)
		}
	}
	for range 15 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("none is left: %v", err)
		}
		open = append(open, fd)
	}
}
