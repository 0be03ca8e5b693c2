package forward

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"bigpipe/dataplane/pool"
)

// rawServer answers requests without allocating.
func rawServer(_ *origin, p *peer) {
	b, answer := make([]byte, 4096), []byte(ok("s"))
	for n := 0; ; {
		k, err := p.Read(b[n:])
		if err != nil {
			return
		}
		if n += k; bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
			n = 0
			if _, err := p.Write(answer); err != nil {
				return
			}
		}
	}
}

// asker returns a function that sends a request on a kept connection and reads the response, without allocating.
func asker(t testing.TB, b *lab, request string) func() {
	c := b.dial()
	buf, out := make([]byte, 4096), []byte(request)
	return func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], []byte("ok\n")); {
			k, err := c.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}
}

const browser = "GET /a/path?with=query HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0)\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br\r\nCookie: a=1; b=2\r\nConnection: keep-alive\r\n\r\n"

func BenchmarkKeepAlive(b *testing.B) {
	o := newOrigin(b, "s", "127.0.0.11:0", rawServer)
	for name, set := range map[string]Settings{
		"per_connection": {}, "per_request": {PerRequest: true}, "oneconnect": {PerRequest: true, OneConnect: shareAll()},
		"jroute": {PerRequest: true, Pools: []*pool.Pool{compilePool(b, jroutePool(nil, o), nil)}},
	} {
		b.Run(name, func(b *testing.B) {
			set.HTTP, set.XForwardedFor = true, true
			request := browser
			if set.Pools == nil {
				set.Pools = []*pool.Pool{compilePool(b, webPool(o), nil)}
			} else {
				request = strings.Replace(browser, "b=2", "JSESSIONID=0123456789ABCDEF; JROUTE=R1", 1)
			}
			ask := asker(b, newLab(b, set), request)
			ask()
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				ask()
			}
		})
	}
}

// No allocation for a request on a kept connection, whatever is switched on. The odd one belongs to the collector emptying
// the pools.
func TestKeepAliveAllocatesNothing(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", rawServer)
	proxied := strings.Replace(browser, "\r\nCookie", "\r\nX-Forwarded-For: 192.0.2.1, 127.0.0.9\r\nCookie", 1)
	for name, set := range map[string]Settings{
		"per_connection": {},
		"oneconnect":     {PerRequest: true, OneConnect: shareAll()},
		"behind_a_proxy": {PerRequest: true, OneConnect: shareAll(), TrustedProxies: networks("127.0.0.0/8")},
		"jroute":         {PerRequest: true, Pools: []*pool.Pool{compilePool(t, jroutePool(withAll, o), nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			set.HTTP, set.XForwardedFor = true, true
			request := proxied
			if set.Pools == nil {
				set.Pools = []*pool.Pool{compilePool(t, webPool(o), nil)}
			} else {
				request = strings.NewReplacer("/a/path", "/app/p;jsessionid=abc:R1", "b=2", "JSESSIONID=x.y; JROUTE=R1.R2").Replace(proxied)
			}
			ask := asker(t, newLab(t, set), request)
			if n := testing.AllocsPerRun(2000, ask); n >= 1 && !raceEnabled {
				t.Errorf("%v allocations a request", n)
			}
		})
	}
}

func BenchmarkConnect(b *testing.B) {
	o := newOrigin(b, "s", "127.0.0.11:0", rawServer)
	l := httpLab(b, webPool(o))
	buf := make([]byte, 4096)
	request := []byte(get("Connection: close"))
	b.ReportAllocs()
	for b.Loop() {
		c, err := net.Dial("tcp", l.l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		c.Write(request)
		for {
			if _, err := c.Read(buf); err != nil {
				break
			}
		}
		c.Close()
	}
}

// BenchmarkPages relays a page whose links get the route, and an image of the same bytes.
func BenchmarkPages(b *testing.B) {
	page, _ := manyLinks(80)
	for name, answer := range map[string]string{
		"chunked": fmt.Sprintf("%s%s\r\n%x\r\n%s\r\n0\r\n\r\n", html, coded, len(page), page),
		"image":   fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", coded, len(page), page),
	} {
		b.Run(name, func(b *testing.B) {
			o := newOrigin(b, "s", "127.0.0.11:0", script(answer))
			p := routedLab(b, nil, o).dial()
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				p.send(get())
				if got := p.response(); len(got) < len(page) {
					b.Fatal(len(got))
				}
			}
		})
	}
}
