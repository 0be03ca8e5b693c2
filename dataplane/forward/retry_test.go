package forward

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// closer answers each connection's first n requests, then closes.
func closer(n int) func(*origin, *peer) {
	return func(o *origin, p *peer) {
		for range n {
			if o.read(p) == "" {
				return
			}
			p.send(ok(o.name))
		}
	}
}

// Rule O-15: the server closes between two requests.
func TestServerClosesBetweenRequests(t *testing.T) {
	t.Run("O-15_same_member", func(t *testing.T) {
		o := three(t, closer(1))
		c := httpLab(t, webPool(o...)).dial()
		for i, method := range []string{"GET", "POST", "GET"} {
			c.send(method + " / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n" + cookieOf(o[2]) + "\r\n\r\n")
			expect(t, c.response(), "s3", nil)
			o[2].hasClosed(i + 1)
		}
	})
	t.Run("O-15_member_down", func(t *testing.T) {
		o := three(t, closer(1))
		b := httpLab(t, webPool(o...))
		c := b.dial()
		c.send(get())
		expect(t, c.response(), "s1", o[0])
		no := false
		next := b.set
		next.Pools = []*pool.Pool{compilePool(t, webPool(o...), b.set.Pools[0], &pb.Node{Address: o[0].addr.String(), Up: &no})}
		b.l.Set(next)
		o[0].hasClosed(1)
		c.send(get())
		expect(t, c.response(), "s2", o[1])
	})
	t.Run("O-15_member_removed", func(t *testing.T) {
		o := three(t, closer(1))
		b := httpLab(t, webPool(o...))
		c := b.dial()
		c.send(get())
		expect(t, c.response(), "s1", o[0])
		next := b.set
		next.Pools = []*pool.Pool{compilePool(t, webPool(o[1:]...), b.set.Pools[0])}
		b.l.Set(next)
		o[0].hasClosed(1)
		c.send(get(cookieOf(o[0])))
		if n, _ := server(t, c.response()); n == "s1" {
			t.Errorf("answered by a member that was removed")
		}
	})
	t.Run("O-15_member_gone", func(t *testing.T) {
		o := three(t, closer(1))
		c := httpLab(t, webPool(o...)).dial()
		c.send(get())
		expect(t, c.response(), "s1", o[0])
		o[0].stop()
		c.send(get())
		expect(t, c.response(), "s2", o[1])
		o[1].hasClosed(1)
		c.send(get())
		expect(t, c.response(), "s2", nil)
	})
}

func TestRetries(t *testing.T) {
	t.Run("pain_28_refused", func(t *testing.T) {
		o := three(t, nil)
		o[1].stop()
		b := httpLab(t, webPool(o...))
		seen := map[string]bool{}
		for range 3 {
			r := b.ask(get(cookieOf(o[1])))
			name, set := server(t, r)
			if name != "s1" && name != "s3" || set == "" {
				t.Errorf("answered by %q with cookie %q", name, set)
			}
			seen[name] = true
		}
		if len(seen) != 2 {
			t.Errorf("answered by %v", seen)
		}
	})
	t.Run("pain_28_connect_timeout", func(t *testing.T) {
		// A listener whose queue is full does not answer.
		full := fullListener(t)
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		p := webPool(&origin{addr: full}, o)
		one := uint32(1)
		p.ConnectTimeout = &one
		expect(t, httpLab(t, p).ask(get()), "s1", o)
	})
	// Addresses that no TCP connection can be made to from any host: what connect says is about the way there.
	for name, addr := range map[string]string{"multicast": "224.0.0.1:80", "IPv6_multicast": "[ff02::1]:80", "no_scope": "[fe80::1]:80"} {
		for _, http := range []bool{true, false} {
			t.Run(fmt.Sprintf("no_way_to_one_member_%s_http_%v", name, http), func(t *testing.T) {
				o := newOrigin(t, "s2", "127.0.0.12:0", nil)
				p := plain(&origin{addr: parseAddrPort(addr)}, o)
				b := newLab(t, Settings{HTTP: http, Pools: []*pool.Pool{compilePool(t, p, nil)}})
				for range 3 {
					expect(t, b.ask(get()), "s2", nil)
				}
			})
		}
	}
	t.Run("pain_40_no_tries", func(t *testing.T) {
		o := three(t, nil)
		o[1].stop()
		p := webPool(o...)
		p.ReselectTries = new(uint32)
		if r := httpLab(t, p).ask(get(cookieOf(o[1]))); !strings.HasPrefix(r, "HTTP/1.1 503 ") || strings.Contains(r, "Set-Cookie") {
			t.Errorf("answer %q", r)
		}
		for _, o := range o {
			if n, _ := o.seen(); n != 0 {
				t.Errorf("%s was connected to", o.name)
			}
		}
	})
	t.Run("pain_40_one_try", func(t *testing.T) {
		o := three(t, nil)
		o[0].stop()
		o[1].stop()
		p := webPool(o...)
		one := uint32(1)
		p.ReselectTries = &one
		if r := httpLab(t, p).ask(get(cookieOf(o[1]))); !strings.HasPrefix(r, "HTTP/1.1 503 ") {
			t.Errorf("answer %q", r)
		}
	})
	t.Run("5.3_POST_of_which_nothing_was_sent", func(t *testing.T) {
		o := three(t, nil)
		o[0].stop()
		o[1].stop()
		for _, b := range []*lab{httpLab(t, webPool(o...)), sharing(t, webPool(o...), nil)} {
			expect(t, b.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"), "s3", o[2])
			c := b.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n" + cookieOf(o[0]) + "\r\n\r\nabc")
			c.send("def")
			expect(t, c.response(), "s3", o[2])
		}
		if _, seen := o[2].seen(); len(seen) != 4 || !strings.HasSuffix(seen[3], "abcdef") {
			t.Errorf("s3 got %q", seen)
		}
	})
	t.Run("5.3_none_accepts", func(t *testing.T) {
		o := three(t, nil)
		for _, o := range o {
			o.stop()
		}
		b := sharing(t, webPool(o...), nil)
		c := b.dial()
		for range 2 { // the client's connection goes on
			c.send(get(cookieOf(o[1])))
			if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 503 ") || strings.Contains(r, "Set-Cookie") {
				t.Errorf("answer %q", r)
			}
		}
		for _, m := range b.set.Pools[0].Members() {
			if n := m.Counters().Counts().Total; n != 0 {
				t.Errorf("%d connections counted at %s", n, m.Addr)
			}
		}
	})
	t.Run("5.3_connect_timeout_of_the_only_member", func(t *testing.T) {
		p := webPool(&origin{addr: fullListener(t)})
		p.ConnectTimeout = new(uint32(1))
		if r := sharing(t, p, nil).ask(get()); !strings.HasPrefix(r, "HTTP/1.1 503 ") {
			t.Errorf("answer %q", r)
		}
	})
	// A new connection that dies is no reason to send again, whatever the method.
	t.Run("5.3_died_new", func(t *testing.T) {
		o := three(t, func(o *origin, p *peer) { o.read(p) })
		for i, b := range []*lab{httpLab(t, webPool(o...)), sharing(t, webPool(o...), nil)} {
			if r := b.ask(get(cookieOf(o[1]))); !strings.HasPrefix(r, "HTTP/1.1 502 ") || strings.Contains(r, "Set-Cookie") {
				t.Errorf("answer %q", r)
			}
			connections(t, o[0], 0)
			connections(t, o[1], i+1)
			connections(t, o[2], 0)
		}
	})
	// The member of a kept connection is gone: the request goes to another one, because there it is sent for the first time;
	// but not on a kept connection, which may be dead too.
	t.Run("5.3_died_reused_and_member_gone", func(t *testing.T) {
		var stop sync.Once
		dies := func(o *origin, p *peer) {
			if o.read(p) != "" {
				p.send(ok(o.name))
				o.read(p)
				if o.name == "s1" {
					stop.Do(func() { o.l.Close() })
				}
			}
		}
		one, two := newOrigin(t, "s1", "127.0.0.11:0", dies), newOrigin(t, "s2", "127.0.0.12:0", dies)
		b := sharing(t, webPool(one, two), nil)
		expect(t, b.ask(get(cookieOf(one))), "s1", nil)
		expect(t, b.ask(get(cookieOf(two))), "s2", nil)
		b.spares(2)
		expect(t, b.ask(get(cookieOf(one))), "s2", two)
		if conns, seen := two.seen(); conns != 2 || len(seen) != 2 {
			t.Errorf("s2 got %d requests on %d connections", len(seen), conns)
		}
	})
	t.Run("pain_40_POST_partly_sent", func(t *testing.T) {
		o := three(t, func(o *origin, p *peer) { p.head() })
		c := httpLab(t, webPool(o...)).dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc")
		if r, _ := c.rest(); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
		total := 0
		for _, o := range o {
			n, _ := o.seen()
			total += n
		}
		if total != 1 {
			t.Errorf("%d members were connected to", total)
		}
	})
	// A connection that was used before dies when it gets the second request.
	second := func(o *origin, p *peer) {
		if o.read(p) != "" {
			p.send(ok(o.name))
			o.read(p)
		}
	}
	for method, again := range map[string]bool{"GET": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false} {
		t.Run("died_reused_"+method, func(t *testing.T) {
			o := three(t, second)
			c := httpLab(t, webPool(o...)).dial()
			request := method + " / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
			c.send(request)
			expect(t, c.response(), "s1", o[0])
			c.send(request)
			r := c.response()
			conns, seen := o[0].seen()
			if again {
				expect(t, r, "s1", nil)
			} else if !strings.HasPrefix(r, "HTTP/1.1 502 ") {
				t.Errorf("answer %q", r)
			}
			if want := map[bool]int{true: 3, false: 2}[again]; len(seen) != want || conns != want-1 {
				t.Errorf("%d requests on %d connections", len(seen), conns)
			}
		})
	}
	// The request is sent twice, and no more while the member lives: a third connection carries none.
	t.Run("died_reused_twice", func(t *testing.T) {
		var served int
		serve := func(o *origin, p *peer) {
			if o.read(p) != "" && served == 0 {
				served++
				p.send(ok(o.name))
				o.read(p)
			}
		}
		o, other := newOrigin(t, "s1", "127.0.0.11:0", serve), newOrigin(t, "s2", "127.0.0.12:0", nil)
		c := httpLab(t, webPool(o, other)).dial()
		c.send(get())
		expect(t, c.response(), "s1", o)
		c.send(get())
		if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
		if _, seen := o.seen(); len(seen) != 3 {
			t.Errorf("%d requests", len(seen))
		}
		connections(t, other, 0)
	})
	// A process that is killed has its listener a moment longer than its connections: what is sent again is accepted and lost.
	for _, between := range []bool{false, true} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(fmt.Sprintf("killed_while_it_listens/%s_between_requests_%t", method, between), func(t *testing.T) {
				dies := func(o *origin, p *peer) {
					for o.read(p) != "" {
						if conns, seen := o.seen(); conns > 1 {
							o.l.Close()
							return
						} else if len(seen) > 1 {
							return
						}
						p.send(ok(o.name))
						if between {
							return
						}
					}
				}
				o, other := newOrigin(t, "s1", "127.0.0.11:0", dies), newOrigin(t, "s2", "127.0.0.12:0", nil)
				c := httpLab(t, webPool(o, other)).dial()
				request := method + " / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
				c.send(request)
				expect(t, c.response(), "s1", o)
				if between {
					o.hasClosed(1)
				}
				c.send(request)
				if r := c.response(); method == "GET" {
					expect(t, r, "s2", other)
				} else if !strings.HasPrefix(r, "HTTP/1.1 502 ") {
					t.Errorf("answer %q", r)
				}
			})
		}
	}
	// One that ends with each request that it is sent takes no third member with it.
	t.Run("killed_by_the_request", func(t *testing.T) {
		dies := func(o *origin, p *peer) {
			for o.read(p) != "" {
				if _, seen := o.seen(); len(seen) > 1 || o.name != "s1" {
					o.l.Close()
					return
				}
				p.send(ok(o.name))
			}
		}
		o := three(t, dies)
		c := httpLab(t, webPool(o...)).dial()
		c.send(get())
		expect(t, c.response(), "s1", o[0])
		c.send(get())
		if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
		connections(t, o[2], 0)
	})
	t.Run("partial_answer_is_not_repeated", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send(ok(o.name))
			o.read(p)
			p.send("H")
		})
		c := httpLab(t, webPool(o)).dial()
		c.send(get())
		c.response()
		c.send(get())
		if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
	})
}

func TestDialError(t *testing.T) {
	for errno, local := range map[syscall.Errno]bool{
		unix.EMFILE: true, unix.ENFILE: true, unix.ENOBUFS: true, unix.ENOMEM: true,
		unix.EADDRNOTAVAIL: false, unix.ENETUNREACH: false, unix.EHOSTUNREACH: false, unix.EAFNOSUPPORT: false,
		unix.ECONNREFUSED: false, unix.EACCES: false, unix.EPERM: false, unix.EINVAL: false,
	} {
		if err := dialError(errno); errors.Is(err, errLocal) != local || err == nil {
			t.Errorf("%v becomes %v", errno, err)
		}
	}
	if err := dialError(nil); err != nil {
		t.Error(err)
	}
}

// fullListener returns an address that swallows attempts to connect.
func fullListener(t *testing.T) (a addrPort) {
	l, err := net.Listen("tcp", "127.0.0.19:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = listenAgain(int(fd)) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return parseAddrPort(l.Addr().String())
}

// Rule O-14 for a split, and O-T5 without the server-side pool: a decision for each request.
func TestPerRequest(t *testing.T) {
	o := three(t, nil)
	b := newLab(t, Settings{HTTP: true, PerRequest: true, Pools: []*pool.Pool{compilePool(t, webPool(o...), nil)}})
	c := b.dial()
	for _, want := range []string{"s2", "s1", "s2", "s2"} {
		i := int(want[1] - '1')
		c.send(get(cookieOf(o[i])))
		expect(t, c.response(), want, nil)
	}
	if n, _ := o[1].seen(); n != 2 {
		t.Errorf("%d connections at s2", n)
	}
	c = b.dial()
	for i := range 3 {
		c.send(get())
		expect(t, c.response(), fmt.Sprintf("s%d", i+1), o[i])
	}
}
