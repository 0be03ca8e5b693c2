package forward

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
)

// No growth with requests and with connections to members: what is in use after many is what was in use after few.
func TestNothingGrows(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", rawServer)
	b := sharing(t, webPool(o), func(s *Settings) { s.OneConnect.MaxReuse = 2 })
	ask := asker(t, b, browser)
	inUse := func(requests int) uint64 {
		for range requests {
			ask()
		}
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse(3000)
	if after := inUse(15000); after > before+256<<10 && !raceEnabled {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if n := b.table.Spares(); n > 1 {
		t.Errorf("%d spare connections", n)
	}
}

// Edges 5a-26: clients that send a byte now and then are ended at the deadline for a head, and are in nobody's way until then.
func TestSlowClients(t *testing.T) {
	const clients = 2000
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	b := sharing(t, webPool(o), func(s *Settings) { s.HeaderTimeout = 4 * time.Second })
	var slow sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for range clients {
		c := b.dial()
		c.send("GET / HT")
		slow.Go(func() {
			for {
				c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
				text, err := io.ReadAll(c.r)
				if errors.Is(err, os.ErrDeadlineExceeded) && len(text) == 0 {
					c.SetWriteDeadline(time.Now().Add(testPatience))
					c.send("x")
					continue
				}
				line, _, _ := strings.Cut(string(text), "\r\n")
				mu.Lock()
				answers[line]++
				mu.Unlock()
				return
			}
		})
	}
	fast := b.dial()
	for range 200 {
		fast.send(get())
		expect(t, fast.response(), "s", o)
	}
	slow.Wait()
	if n := answers["HTTP/1.1 408 Request Timeout"]; n != clients {
		t.Errorf("%d of %d were told so: %v", n, clients, answers)
	}
	connections(t, o, 1)
}

// When descriptors run out, connections that nobody uses give theirs up.
func TestSparesGiveDescriptorsUp(t *testing.T) {
	o, other := newOrigin(t, "s1", "127.0.0.11:0", nil), newOrigin(t, "s2", "127.0.0.12:0", nil)
	b := sharing(t, webPool(o, other), nil)
	expect(t, b.ask(get(cookieOf(o))), "s1", nil)
	b.spares(1)
	eventually(t, "the client has left", func() bool { return b.table.Len() == 0 && leavingOf(b.table) == 0 })
	client := b.dial()
	eventually(t, "the client is there", func() bool { return b.table.Len() == 1 })
	fillDescriptors(t)
	f := &flow{listener: b.l, settings: &b.set}
	fd, err := f.socket(other.addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	b.spares(0)
	client.Close()
}

// leavingOf is how many clients' sockets wait for the client's end.
func leavingOf(table *Table) (n int) {
	for i := range table.shards {
		n += table.shards[i].leaving.len()
	}
	return n
}

// fillDescriptors opens files until no descriptor is left, for as long as the test runs.
func fillDescriptors(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	t.Cleanup(func() {
		unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
		for _, f := range files {
			f.Close()
		}
	})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		files = append(files, f)
	}
}

// A client that leaves while its request waits for a member, or while it uploads: nothing of it is left, and the member's
// connection is not used again.
func TestClientLeavesSharedConnection(t *testing.T) {
	for name, request := range map[string]string{
		"waiting":   get(),
		"uploading": "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				if o.read(p) == "" {
					return
				}
				p.send(ok("s"))
				p.head()
				p.rest()
			})
			b := sharing(t, webPool(o), nil)
			expect(t, b.ask(get()), "s", o)
			c := b.dial()
			c.send(request)
			eventually(t, "the member is asked", func() bool { return b.set.Pools[0].Members()[0].Counters().Current() == 1 })
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
			o.hasClosed(1)
			eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
			b.spares(0)
			connections(t, o, 1)
		})
	}
	t.Run("connecting", func(t *testing.T) {
		p := webPool(&origin{addr: fullListener(t)})
		p.ConnectTimeout = new(uint32(60))
		b := sharing(t, p, nil)
		c := b.dial()
		c.send(get())
		eventually(t, "the member is dialled", func() bool { return b.set.Pools[0].Members()[0].Counters().Current() == 1 })
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
		eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
	})
}

// Edges 5a-26: a cap on the connections of one source.
func TestSourceLimit(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	for _, http := range []bool{true, false} {
		b := newLab(t, Settings{HTTP: http, SourceLimit: 2, TrustedProxies: networks("127.0.0.9/32"), Pools: []*pool.Pool{compilePool(t, plain(o), nil)}})
		answered := func(c *peer) {
			t.Helper()
			c.send(get())
			expect(t, c.response(), "s", nil)
		}
		one, two := b.dial(), b.dial()
		answered(one)
		answered(two)
		b.refused()
		for range 4 {
			answered(b.dialFrom("127.0.0.9"))
		}
		answered(b.dialFrom("127.0.0.2"))
		one.Close()
		eventually(t, "one of them has ended", func() bool { return b.table.Len() == 6 })
		answered(b.dial())
		b.refused()
		next := b.set
		next.SourceLimit = 3
		b.l.Set(next)
		answered(b.dial())
		b.refused()
	}
}

// Counts of sources end with the last connection, and count a network of IPv6 as one.
func TestSources(t *testing.T) {
	var s sources
	a, same, other := sourceOf(netip.MustParseAddr("2001:db8::1")), sourceOf(netip.MustParseAddr("2001:db8::2")), sourceOf(netip.MustParseAddr("2001:db8:0:1::1"))
	if !s.enter(a, 2) || !s.enter(same, 2) || s.enter(a, 2) || !s.enter(other, 2) {
		t.Error("two of a network are two of a source")
	}
	if sourceOf(netip.MustParseAddr("::ffff:192.0.2.1")) != netip.MustParseAddr("192.0.2.1") {
		t.Error("an IPv4 address is a source of its own")
	}
	s.leave(a)
	s.leave(a)
	s.leave(other)
	for i := range s.shards {
		if n := len(s.shards[i].n); n != 0 {
			t.Errorf("%d sources are left", n)
		}
	}
}
