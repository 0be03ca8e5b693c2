package forward

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// shareAll is what oneconnect is without further words.
func shareAll() *OneConnect {
	mask, err := persist.NewMask(0, 0)
	if err != nil {
		panic(err)
	}
	return &OneConnect{SourceMask: mask, MaxSize: 10000, MaxReuse: 1000, MaxAge: 24 * time.Hour}
}

func networks(list ...string) (networks []netip.Prefix) {
	for _, n := range list {
		networks = append(networks, netip.MustParsePrefix(n))
	}
	return networks
}

// sharing is an HTTP virtual server with oneconnect for a pool; change may alter what it is without further words.
func sharing(t testing.TB, p *pb.Pool, change func(*Settings)) *lab {
	t.Helper()
	set := Settings{HTTP: true, PerRequest: true, OneConnect: shareAll(), Pools: []*pool.Pool{compilePool(t, p, nil)}}
	if change != nil {
		change(&set)
	}
	return newLab(t, set)
}

// dialFrom connects a client that has a certain address.
func (b *lab) dialFrom(addr string) *peer {
	b.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	c, err := d.Dial("tcp", b.l.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return newPeer(b.t, c)
}

// connections fails the test unless the origin was connected to so often.
func connections(t testing.TB, o *origin, want int) {
	t.Helper()
	if n, _ := o.seen(); n != want {
		t.Errorf("%s was connected to %d times, want %d", o.name, n, want)
	}
}

// spares waits until so many connections to members are kept.
func (b *lab) spares(n int) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%d spare connections", n), func() bool { return b.table.Spares() == n })
}

// Rules O-3 to O-5: a decision and a cookie for each request.
func TestOneConnectDecides(t *testing.T) {
	t.Run("O-T4_no_cookie", func(t *testing.T) {
		o := three(t, nil)
		c := sharing(t, webPool(o...), nil).dial()
		for i := range 2 {
			c.send(get())
			expect(t, c.response(), o[i].name, o[i])
		}
	})
	t.Run("O-T5_cookies", func(t *testing.T) {
		o := three(t, nil)
		c := sharing(t, webPool(o...), nil).dial()
		for _, i := range []int{1, 0, 1} {
			c.send(get(cookieOf(o[i])))
			expect(t, c.response(), o[i].name, nil)
		}
		connections(t, o[1], 1)
	})
	t.Run("O-T14_down_then_disabled", func(t *testing.T) {
		o := three(t, nil)
		p := webPool(o[:2]...)
		b := sharing(t, p, nil)
		c := b.dial()
		no := false
		for _, node := range []*pb.Node{{Up: &no}, {Enabled: &no}} {
			node.Address = o[1].addr.String()
			next := b.set
			next.Pools = []*pool.Pool{compilePool(t, p, b.set.Pools[0], node)}
			b.l.Set(next)
			c.send(get(cookieOf(o[1])))
			if node.Up != nil {
				expect(t, c.response(), "s1", o[0])
			} else {
				expect(t, c.response(), "s2", nil)
			}
		}
	})
	for _, v := range []string{"999.80.0000", "abc", "4294967296.1.0000", "vi00.1", ""} {
		t.Run("O-T15_"+v, func(t *testing.T) {
			o := three(t, nil)
			c := sharing(t, webPool(o...), nil).dial()
			for i := range 2 {
				c.send(get("Cookie: BIGipServerweb_pool=" + v))
				r := c.response()
				expect(t, r, o[i].name, o[i])
				if !strings.HasPrefix(r, "HTTP/1.1 200 ") {
					t.Errorf("response %q", r)
				}
			}
		})
	}
	t.Run("O-T16_first_is_broken", func(t *testing.T) {
		o := three(t, nil)
		c := sharing(t, webPool(o...), nil).dial()
		for _, i := range []int{2, 1} {
			c.send(get("Cookie: BIGipServerweb_pool=broken; BIGipServerweb_pool=" + value(o[i])))
			expect(t, c.response(), o[i].name, nil)
		}
	})
	t.Run("O-T17_IPv6", func(t *testing.T) {
		o := newOrigin(t, "s1", "[::1]:0", nil)
		c := sharing(t, webPool(o), nil).dial()
		c.send(get())
		_, set := server(t, c.response())
		port := o.addr.Port()
		if want := fmt.Sprintf("vi00000000000000000000000000000001.%d", port<<8|port>>8); set != want {
			t.Errorf("cookie %q, want %q", set, want)
		}
		c.send(get("Cookie: BIGipServerweb_pool=" + set))
		expect(t, c.response(), "s1", nil)
		connections(t, o, 1)
	})
	always := func(o ...*origin) *pb.Pool {
		p := webPool(o...)
		p.CookieAlwaysSend = new(true)
		return p
	}
	t.Run("O-T18_always_send", func(t *testing.T) {
		o := three(t, nil)
		c := sharing(t, always(o...), nil).dial()
		for range 3 {
			c.send(get(cookieOf(o[1])))
			expect(t, c.response(), "s2", o[1])
		}
	})
	t.Run("O-5_always_send_per_connection", func(t *testing.T) {
		o := three(t, closer(2)) // the last one comes on a new connection
		c := httpLab(t, always(o...)).dial()
		c.send(get(cookieOf(o[1])))
		expect(t, c.response(), "s2", o[1])
		c.send(get())
		expect(t, c.response(), "s2", o[1])
		o[1].hasClosed(1)
		c.send(get())
		expect(t, c.response(), "s2", o[1])
	})
	t.Run("O-12_pipelined", func(t *testing.T) {
		o := three(t, nil)
		c := sharing(t, webPool(o...), nil).dial()
		post := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n" + cookieOf(o[2]) + "\r\n\r\nabc"
		c.send(get(cookieOf(o[1])) + get(cookieOf(o[0])) + post + get())
		for _, name := range []string{"s2", "s1", "s3"} {
			expect(t, c.response(), name, nil)
		}
		expect(t, c.response(), "s1", o[0])
		if _, seen := o[2].seen(); len(seen) != 1 || seen[0] != post {
			t.Errorf("s3 got %q", seen)
		}
	})
}

// Rules O-6 to O-9: which connections are used again.
func TestOneConnectShares(t *testing.T) {
	t.Run("O-T6_one_member", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		b := sharing(t, webPool(o), nil)
		for range 50 {
			expect(t, b.ask(get()), "s1", o)
		}
		connections(t, o, 1)
	})
	for mask, want := range map[int]int{0: 1, 8: 1, 31: 2, 32: 2} {
		t.Run(fmt.Sprintf("O-T7_mask_%d", mask), func(t *testing.T) {
			o := newOrigin(t, "s1", "127.0.0.11:0", nil)
			b := sharing(t, webPool(o), func(s *Settings) { s.OneConnect.SourceMask, _ = persist.NewMask(mask, 128) })
			for range 5 {
				for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
					c := b.dialFrom(from)
					c.send(get())
					expect(t, c.response(), "s1", o)
					c.Close()
				}
			}
			connections(t, o, want)
		})
	}
	t.Run("O-T8_max_reuse", func(t *testing.T) {
		var counts [3]int
		var n int
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.mu.Lock()
			k := n
			n++
			o.mu.Unlock()
			for o.read(p) != "" {
				o.mu.Lock()
				counts[k]++
				o.mu.Unlock()
				p.send(ok("s1"))
			}
		})
		b := sharing(t, webPool(o), func(s *Settings) { s.OneConnect.MaxReuse = 3 })
		c := b.dial()
		for range 10 {
			c.send(get())
			expect(t, c.response(), "s1", o)
		}
		connections(t, o, 3)
		o.mu.Lock()
		defer o.mu.Unlock()
		if counts != [3]int{4, 4, 2} {
			t.Errorf("requests on the connections: %v", counts)
		}
	})
	t.Run("O-T9_max_age", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		b := sharing(t, webPool(o), func(s *Settings) { s.OneConnect.MaxAge = time.Second })
		expect(t, b.ask(get()), "s1", o)
		time.Sleep(1500 * time.Millisecond)
		expect(t, b.ask(get()), "s1", o)
		connections(t, o, 2)
	})
	t.Run("O-T10_max_size", func(t *testing.T) {
		arrived, answer := make(chan bool), make(chan bool)
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			for o.read(p) != "" {
				arrived <- true
				<-answer
				p.send(ok("s1"))
			}
		})
		b := sharing(t, webPool(o), func(s *Settings) { s.OneConnect.MaxSize = 1 })
		one, two := b.dial(), b.dial()
		for _, c := range []*peer{one, two} {
			c.send(get())
			<-arrived
		}
		for range 2 {
			answer <- true
		}
		expect(t, one.response(), "s1", o)
		expect(t, two.response(), "s1", o)
		b.spares(1)
		o.hasClosed(1)
		one.send(get())
		<-arrived
		answer <- true
		expect(t, one.response(), "s1", o)
		connections(t, o, 2)
	})
	t.Run("O-T12_client_closes", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		b := sharing(t, webPool(o), nil)
		c := b.dial()
		c.send(get("Connection: close"))
		r := c.response()
		expect(t, r, "s1", o)
		if !strings.Contains(r, "\r\nConnection: close\r\n") {
			t.Errorf("response %q", r)
		}
		c.closed()
		expect(t, b.ask(get()), "s1", o)
		connections(t, o, 1)
		if _, seen := o.seen(); seen[0] != get() {
			t.Errorf("the member got %q", seen[0])
		}
	})
	t.Run("O-10_HTTP_1.0", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", script("HTTP/1.0 200 OK\r\nX-Server: s1\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nok\n"))
		b := sharing(t, webPool(o), nil)
		for range 2 {
			c := b.dial()
			c.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
			expect(t, c.response(), "s1", o)
			c.closed()
		}
		connections(t, o, 1)
		if _, seen := o.seen(); seen[1] != "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n" {
			t.Errorf("the member got %q", seen[1])
		}
	})
	// The connection is free as soon as the member has done its part, however slowly the client takes the response.
	t.Run("slow_client_holds_none", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", script("HTTP/1.1 200 OK\r\nX-Server: s1\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 20000)))
		b := sharing(t, webPool(o), nil)
		c := b.narrow()
		c.send(get())
		b.spares(1)
		c.response()
	})
	// A limit of a member bounds the requests that are on their way, not the clients (rule O-8).
	t.Run("O-8_limit_of_requests", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		p := webPool(o)
		p.Members[0].Limit = new(uint32(1))
		b := sharing(t, p, nil)
		for range 3 {
			c := b.dial() // it stays
			c.send(get())
			expect(t, c.response(), "s1", o)
		}
		connections(t, o, 1)
	})
	t.Run("share_pools", func(t *testing.T) {
		for _, share := range []bool{false, true} {
			o := newOrigin(t, "s1", "127.0.0.11:0", nil)
			one := sharing(t, webPool(o), func(s *Settings) { s.OneConnect.Share = share })
			set := one.set
			set.Virtual = netip.MustParseAddrPort("10.0.0.2:80")
			l, err := Listen(one.table, netip.MustParseAddrPort("127.0.0.1:0"), set)
			if err != nil {
				t.Fatal(err)
			}
			two := *one
			two.l = l
			expect(t, one.ask(get()), "s1", o)
			expect(t, two.ask(get()), "s1", o)
			connections(t, o, map[bool]int{true: 1, false: 2}[share])
			l.Drain(t.Context())
		}
	})
}

// Rule O-9: the whole request must have been sent.
func TestDelivered(t *testing.T) {
	for _, c := range []struct{ sent, uploading, uploaded, want bool }{
		{true, false, false, true}, {false, false, false, false}, {true, true, true, true}, {true, true, false, false},
	} {
		x := exchange{f: &flow{settings: &Settings{OneConnect: shareAll()}}, sent: c.sent}
		text := []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if n, err := x.response.Parse(text); n != len(text) || err != nil {
			t.Fatal(err)
		}
		x.upload.started = c.uploading
		x.upload.sent.Store(c.uploaded)
		if got := x.reusable(); got != c.want {
			t.Errorf("%+v: reusable %v", c, got)
		}
	}
}

// Rule O-9: what is not used again.
func TestOneConnectCloses(t *testing.T) {
	length := "Content-Length: 3\r\n\r\nok\n"
	for name, response := range map[string]string{
		"O-T11_connection_close":   "HTTP/1.1 200 OK\r\nX-Server: s1\r\nConnection: close\r\n" + length,
		"HTTP_1.0":                 "HTTP/1.0 200 OK\r\nX-Server: s1\r\n" + length,
		"bytes_follow":             "HTTP/1.1 200 OK\r\nX-Server: s1\r\n" + length + "x",
		"a_response_follows":       "HTTP/1.1 200 OK\r\nX-Server: s1\r\n" + length + "HTTP/1.1 200 OK\r\nX-Server: evil\r\n" + length,
		"204_with_content_length":  "HTTP/1.1 204 No Content\r\nX-Server: s1\r\n" + length,
		"304_with_unasked_content": "HTTP/1.1 304 Not Modified\r\nX-Server: s1\r\n" + length,
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s1", "127.0.0.11:0", script(response))
			c := sharing(t, webPool(o), nil).dial()
			for i := range 2 {
				c.send(get())
				r := c.head()
				expect(t, r, "s1", o)
				if strings.Contains(r, "Content-Length: 3") && strings.Contains(r, " 200 ") {
					c.bytes(3)
				}
				o.hasClosed(i + 1)
			}
			connections(t, o, 2)
		})
	}
	t.Run("ends_with_the_connection", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send("HTTP/1.1 200 OK\r\nX-Server: s1\r\n\r\nall")
		})
		b := sharing(t, webPool(o), nil)
		for range 2 {
			c := b.dial()
			c.send(get())
			expect(t, c.head(), "s1", o)
			if text, err := c.rest(); text != "all" || err != nil {
				t.Errorf("body %q, %v", text, err)
			}
		}
		connections(t, o, 2)
	})
	t.Run("cut_body", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send("HTTP/1.1 200 OK\r\nX-Server: s1\r\nContent-Length: 10\r\n\r\nabc")
		})
		b := sharing(t, webPool(o), nil)
		c := b.dial()
		c.send(get())
		c.head()
		if text, _ := c.rest(); text != "abc" {
			t.Errorf("body %q", text)
		}
		b.spares(0)
	})
	t.Run("early_answer", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			p.head()
			p.send(ok("s1"))
			p.rest()
		})
		b := sharing(t, webPool(o), nil)
		c := b.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
		expect(t, c.response(), "s1", o)
		c.closed()
		o.hasClosed(1)
		b.spares(0)
	})
	t.Run("client_leaves_in_mid_body", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send("HTTP/1.1 200 OK\r\nX-Server: s1\r\nContent-Length: 100\r\n\r\nabc")
			p.rest()
		})
		b := sharing(t, webPool(o), nil)
		c := b.dial()
		c.send(get())
		c.head()
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
		for b.table.Len() > 0 { // it is found out when the next bytes cannot be written
			o.mu.Lock()
			for conn := range o.open {
				conn.Write([]byte("def"))
			}
			o.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
		b.spares(0)
		o.hasClosed(1)
	})
	t.Run("O-T13_upgrade", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send("HTTP/1.1 101 Switching Protocols\r\nX-Server: s1\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
			echoBytes(o, p)
		})
		b := sharing(t, webPool(o), nil)
		for range 2 {
			c := b.dial()
			c.send(get("Connection: upgrade", "Upgrade: echo"))
			expect(t, c.head(), "s1", o)
			c.send("hello")
			if got := c.bytes(5); got != "hello" {
				t.Errorf("echo %q", got)
			}
			c.Conn.(*net.TCPConn).CloseWrite()
			c.closed()
		}
		connections(t, o, 2)
		b.spares(0)
	})
	t.Run("O-T13_upgrade_declined", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		b := sharing(t, webPool(o), nil)
		for range 2 {
			c := b.dial()
			c.send(get("Connection: upgrade", "Upgrade: echo"))
			expect(t, c.response(), "s1", o)
		}
		connections(t, o, 2)
	})
}
