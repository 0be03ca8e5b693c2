package forward

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// Edges 3c: what is done to Set-Cookie lines and where ours goes.
func TestSetCookie(t *testing.T) {
	t.Run("servers_own_is_dropped", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 200 OK\r\nX-Server: s\r\nSet-Cookie: a=1\r\nset-cookie: BIGipServerweb_pool=zz; path=/\r\n"+
			"Set-Cookie: BIGipServerweb_pool2=1\r\nSet-Cookie2: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"))
		b := httpLab(t, webPool(o))
		kept := "Set-Cookie: a=1\r\nSet-Cookie: BIGipServerweb_pool2=1\r\nSet-Cookie2: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n"
		want := "HTTP/1.1 200 OK\r\nX-Server: s\r\n" + kept
		c := b.dial()
		c.send(get())
		if r := c.response(); r != want+"Set-Cookie: BIGipServerweb_pool="+value(o)+"; path=/\r\n\r\n" {
			t.Errorf("first response %q", r)
		}
		c.send(get())
		if r := c.response(); r != want+"\r\n" {
			t.Errorf("second response %q", r)
		}
	})
	t.Run("passive_untouched", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", nil)
		p := webPool(o)
		p.CookieMode = pb.CookieMode_COOKIE_MODE_PASSIVE.Enum()
		expect(t, httpLab(t, p).ask(get()), "s", nil)
	})
	t.Run("1xx", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+ok("s")))
		b := httpLab(t, webPool(o))
		c := b.dial()
		c.send(get())
		if h := c.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Errorf("first %q", h)
		}
		if h := c.head(); h != "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" {
			t.Errorf("second %q", h)
		}
		expect(t, c.response(), "s", o)
		expect(t, b.ask("GET / HTTP/1.0\r\n\r\n"), "s", o)
	})
	t.Run("1xx_flood", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", script(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 9)+ok("s")))
		c := httpLab(t, webPool(o)).dial()
		c.send(get("Connection: close"))
		text, _ := c.rest()
		if strings.Count(text, "HTTP/1.1 103") != 8 || !strings.Contains(text, "HTTP/1.1 502 ") || strings.Contains(text, "Set-Cookie") {
			t.Errorf("answer %q", text)
		}
	})
	for status, method := range map[string]string{"204 No Content": "GET", "304 Not Modified": "GET", "200 OK": "HEAD", "500 Oops": "GET"} {
		t.Run(status+"_"+method, func(t *testing.T) {
			end := "\r\n"
			if status == "500 Oops" {
				end = "Content-Length: 0\r\n\r\n"
			}
			o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 "+status+"\r\nX-Server: s\r\n"+end))
			c := httpLab(t, webPool(o)).dial()
			for i := range 2 {
				c.send(method + " / HTTP/1.1\r\nHost: h\r\n\r\n")
				want := o
				if i > 0 {
					want = nil
				}
				expect(t, c.head(), "s", want)
			}
			if conns, _ := o.seen(); conns != 1 {
				t.Errorf("%d connections", conns)
			}
		})
	}
}

func TestUpgrade(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		o.read(p)
		p.send("HTTP/1.1 101 Switching Protocols\r\nX-Server: s\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\nhello")
		io.Copy(p, p.r)
		p.Conn.(*net.TCPConn).CloseWrite()
	})
	c := httpLab(t, webPool(o)).dial()
	c.send(get("Upgrade: chat", "Connection: Upgrade") + "early")
	expect(t, c.head(), "s", o)
	if got := c.bytes(10); got != "helloearly" {
		t.Errorf("tunnel %q", got)
	}
	c.send("GET / HTTP/1.1\r\n\r\n\x00\xff")
	c.Conn.(*net.TCPConn).CloseWrite()
	if got, err := c.rest(); got != "GET / HTTP/1.1\r\n\r\n\x00\xff" || err != nil {
		t.Errorf("tunnel %q, %v", got, err)
	}
}

// Pain 99: what a member that breaks off, or says too much, does to its client and to its connection.
func TestBrokenResponses(t *testing.T) {
	once := func(text string, reset bool) func(*origin, *peer) {
		return func(o *origin, p *peer) {
			o.read(p)
			p.send(text)
			if reset {
				time.Sleep(50 * time.Millisecond)
				p.Conn.(*net.TCPConn).SetLinger(0)
			}
		}
	}
	t.Run("pain_99_short_body", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("HTTP/1.1 200 OK\r\nX-Server: s\r\nContent-Length: 100\r\n\r\nhello", false))
		c := httpLab(t, webPool(o)).dial()
		c.send(get())
		expect(t, c.head(), "s", o)
		if r, _ := c.rest(); r != "hello" {
			t.Errorf("body %q", r)
		}
	})
	t.Run("pain_99_short_chunks", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false))
		c := httpLab(t, plain(o)).dial()
		c.send(get())
		c.head()
		if r, _ := c.rest(); strings.Contains(r, "0\r\n\r\n") || !strings.Contains(r, "hello") {
			t.Errorf("body %q", r)
		}
	})
	t.Run("pain_99_until_close", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("HTTP/1.1 200 OK\r\nX-Server: s\r\n\r\nhello", false))
		c := httpLab(t, webPool(o)).dial()
		c.send(get())
		if h := c.head(); !strings.Contains(h, "\r\nConnection: close\r\n") {
			t.Errorf("head %q", h)
		}
		if r, err := c.rest(); r != "hello" || err != nil {
			t.Errorf("body %q, %v", r, err)
		}
	})
	t.Run("pain_99_until_close_reset", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("HTTP/1.1 200 OK\r\n\r\nhello", true))
		c := httpLab(t, plain(o)).dial()
		c.send(get())
		c.head()
		if r, err := c.rest(); err == nil {
			t.Errorf("body %q and a clean end", r)
		}
	})
	t.Run("pain_99_no_reply", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("", false))
		if r := httpLab(t, webPool(o)).ask(get()); !strings.HasPrefix(r, "HTTP/1.1 502 ") || strings.Contains(r, "Set-Cookie") {
			t.Errorf("answer %q", r)
		}
		if conns, _ := o.seen(); conns != 1 {
			t.Errorf("tried %d times", conns)
		}
	})
	t.Run("half_a_head", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("HTTP/1.1 200 OK\r\nX-", false))
		if r := httpLab(t, webPool(o)).ask(get()); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
	})
	t.Run("not_HTTP", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", once("SSH-2.0-x\r\n", false))
		if r := httpLab(t, webPool(o)).ask(get()); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
	})
	for name, c := range map[string]struct{ method, text string }{
		"HEAD_with_body":   {"HEAD", "HTTP/1.1 200 OK\r\nX-Server: s\r\nContent-Length: 5\r\n\r\nhello"},
		"HEAD_extra_reply": {"HEAD", "HTTP/1.1 200 OK\r\nX-Server: s\r\nContent-Length: 5\r\n\r\n" + ok("stale")},
		"204_with_body":    {"GET", "HTTP/1.1 204 No Content\r\nX-Server: s\r\n\r\nhello"},
		"304_with_body":    {"GET", "HTTP/1.1 304 Not Modified\r\nX-Server: s\r\n\r\n" + ok("stale")},
	} {
		for mode, start := range map[string]func() (*lab, *origin){
			"": func() (*lab, *origin) {
				o := newOrigin(t, "s", "127.0.0.11:0", script(c.text))
				return httpLab(t, webPool(o)), o
			},
			"_shared": func() (*lab, *origin) {
				o := newOrigin(t, "s", "127.0.0.11:0", script(c.text))
				return sharing(t, webPool(o), nil), o
			},
		} {
			t.Run("pain_99_"+name+mode, func(t *testing.T) {
				b, o := start()
				client := b.dial()
				for range 2 {
					client.send(c.method + " / HTTP/1.1\r\nHost: h\r\n\r\n")
					if h := client.head(); !strings.HasPrefix(h, "HTTP/1.1 ") || !strings.Contains(h, "X-Server: s\r\n") {
						t.Errorf("head %q", h)
					}
				}
				if n := client.r.Buffered(); n > 0 {
					t.Errorf("%d bytes of a body that there is not", n)
				}
				connections(t, o, 2)
			})
		}
	}
	t.Run("unasked_bytes_between_requests", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", script(ok("s")+ok("stale")))
		c := httpLab(t, webPool(o)).dial()
		for range 3 {
			c.send(get())
			if n, _ := server(t, c.response()); n != "s" {
				t.Errorf("answered by %q", n)
			}
		}
	})
}
