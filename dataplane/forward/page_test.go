package forward

import (
	"errors"
	"fmt"
	"net"
	"net/http/httputil"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	pb "bigpipe/proto/bigpipe/v1"
)

// routedPool is a pool of origins with routes R1, R2, ...
func routedPool(origins ...*origin) *pb.Pool {
	p := &pb.Pool{Name: "app", PersistMode: pb.PersistMode_PERSIST_MODE_JROUTE.Enum()}
	for i, o := range origins {
		route := fmt.Sprintf("R%d", i+1)
		p.Members = append(p.Members, &pb.Member{Address: o.addr.String(), Route: &route})
	}
	return p
}

// routedLab is a virtual server for such a pool.
func routedLab(t testing.TB, change func(*pb.Pool), origins ...*origin) *lab {
	t.Helper()
	p := routedPool(origins...)
	if change != nil {
		change(p)
	}
	return sharing(t, p, func(s *Settings) { s.OneConnect = nil })
}

const (
	// link is a link of a page, and routed what becomes of it.
	link   = `<a href="/app/q;jsessionid=abc?x=1">q</a>`
	routed = `<a href="/app/q;jsessionid=abc:R1?x=1">q</a>`

	getHTTP10 = "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"
	html      = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	coded     = "Transfer-Encoding: chunked\r\n"
	length    = "Content-Length: 41\r\n"
)

// Rule J-23: links in heads and pages get the route, in every framing; all else passes as it came.
func TestLinks(t *testing.T) {
	head := "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, c := range map[string]struct {
		request, in, want string
	}{
		"J-T8_redirect": {
			get(),
			"HTTP/1.1 302 Found\r\nLocation: /app/q;jsessionid=abc?x=1#y\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 302 Found\r\nLocation: /app/q;jsessionid=abc:R1?x=1#y\r\nContent-Length: 0\r\n\r\n",
		},
		"J-23_other_fields": {
			get(),
			"HTTP/1.1 200 OK\r\nContent-Location: http://h/q;jsessionid=abc\r\nRefresh: 1; url=q;jsessionid=abc\r\nX: q;jsessionid=abc\r\n" + length + "\r\n" + link,
			"HTTP/1.1 200 OK\r\nContent-Location: http://h/q;jsessionid=abc:R1\r\nRefresh: 1; url=q;jsessionid=abc:R1\r\nX: q;jsessionid=abc\r\n" + length + "\r\n" + link,
		},
		"J-23_other_host": {
			get(),
			"HTTP/1.1 302 Found\r\nLocation: http://h.example/q;jsessionid=abc\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 302 Found\r\nLocation: http://h.example/q;jsessionid=abc\r\nContent-Length: 0\r\n\r\n",
		},
		"length_whole": {
			get(),
			html + "ETag: \"x\"\r\nContent-MD5: m\r\nAccept-Ranges: bytes\r\n" + length + "\r\n" + link,
			html + "ETag: W/\"x\"\r\nContent-Length: 44\r\n\r\n" + routed,
		},
		"length_in_pieces": {
			get(), html + "ETag: \"x\"\r\n" + length + "\r\n<a href=\"/app/q;jsess" + then + link[21:],
			html + "ETag: W/\"x\"\r\n" + coded + "\r\n15\r\n<a href=\"/app/q;jsess\r\n" + then + "17\r\n" + routed[21:] + "\r\n0\r\n\r\n",
		},
		"length_without_links": {
			get(),
			html + "ETag: \"x\"\r\nContent-MD5: m\r\nAccept-Ranges: bytes\r\n" + length + "\r\n" + strings.ToUpper(link),
			html + "ETag: \"x\"\r\nContent-MD5: m\r\nAccept-Ranges: bytes\r\n" + length + "\r\n" + strings.ToUpper(link),
		},
		"length_HTTP10_client": {
			getHTTP10,
			html + length + "\r\n" + link,
			html + "Content-Length: 44\r\nConnection: keep-alive\r\n\r\n" + routed,
		},
		"length_ends_with_the_session": {
			get(),
			html + "Content-Length: 15\r\n\r\n" + then + ";jsessionid=abc",
			html + coded + "\r\n" + then + "12\r\n;jsessionid=abc:R1\r\n0\r\n\r\n",
		},
		"chunked_trailers": {
			get(), html + coded + "\r\n" + then + "15;x=y\r\n<a href=\"/app/q;jsess\r\n" + then + "14\r\n" + link[21:] + "\r\n0\r\nSum: 1\r\nDigest: d\r\n\r\n",
			html + coded + "\r\n" + then + "15\r\n<a href=\"/app/q;jsess\r\n" + then + "17\r\n" + routed[21:] + "\r\n0\r\nSum: 1\r\n\r\n",
		},
		"chunked_nothing": {get(), html + coded + "\r\n0\r\n\r\n", html + coded + "\r\n0\r\n\r\n"},
		"HEAD": {
			head, html + "ETag: \"x\"\r\nContent-Location: /q;jsessionid=abc\r\n" + length + "\r\n",
			html + "ETag: W/\"x\"\r\nContent-Location: /q;jsessionid=abc:R1\r\n\r\n",
		},
		"HEAD_of_an_image": {
			head, "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nETag: \"x\"\r\n" + length + "\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nETag: \"x\"\r\n" + length + "\r\n",
		},
		"304": {get(), "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nETag: W/\"x\"\r\n\r\n"},
		"204": {get(), "HTTP/1.1 204 No Content\r\nETag: \"x\"\r\n\r\n", "HTTP/1.1 204 No Content\r\nETag: \"x\"\r\n\r\n"},
		"206": {
			get("Range: bytes=0-40"),
			"HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\nContent-Range: bytes 0-40/99\r\nLocation: q;jsessionid=abc\r\n" + length + "\r\n" + link,
			"HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\nContent-Range: bytes 0-40/99\r\nLocation: q;jsessionid=abc:R1\r\n" + length + "\r\n" + link,
		},
		"404": {
			get(), "HTTP/1.1 404 Not Found\r\nContent-Type: Text/HTML ;charset=utf-8\r\n" + length + "\r\n" + link,
			"HTTP/1.1 404 Not Found\r\nContent-Type: Text/HTML ;charset=utf-8\r\nContent-Length: 44\r\n\r\n" + routed,
		},
		"not_compressed": {
			get(), html + "Content-Encoding: Identity\r\n" + length + "\r\n" + link, html + "Content-Encoding: Identity\r\nContent-Length: 44\r\n\r\n" + routed,
		},
		"not_ASCII": {
			get(), "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\"UTF-16LE\"\r\n" + length + "\r\n" + link,
			"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\"UTF-16LE\"\r\n" + length + "\r\n" + link,
		},
		"other_type": {
			get(), "HTTP/1.1 200 OK\r\nContent-Type: text/html-not\r\n" + length + "\r\n" + link,
			"HTTP/1.1 200 OK\r\nContent-Type: text/html-not\r\n" + length + "\r\n" + link,
		},
		"two_types": {
			get(), html + "Content-Type: text/html\r\n" + length + "\r\n" + link, html + "Content-Type: text/html\r\n" + length + "\r\n" + link,
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan bool)
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				for o.read(p) != "" && sendInSteps(p, c.in, next) {
				}
			})
			t.Cleanup(func() { close(next) })
			p := routedLab(t, nil, o).dial()
			for range 2 { // the connections are kept, and the next response begins where it should
				p.send(c.request)
				p.expectInSteps(c.want, next)
			}
			if n := p.r.Buffered(); n > 0 {
				t.Errorf("%d more bytes", n)
			}
			connections(t, o, 1)
		})
	}
}

// then stands between two steps of a text: a member sends the next one when the client has what became of those before.
const then = "\x00"

// sendInSteps sends a text; false: the test is over.
func sendInSteps(p *peer, text string, next <-chan bool) bool {
	for i, piece := range strings.Split(text, then) {
		if i > 0 && !<-next {
			return false
		}
		p.send(piece)
	}
	return true
}

// expectInSteps reads what must come, and asks the member for the next step after each.
func (p *peer) expectInSteps(text string, next chan<- bool) {
	p.t.Helper()
	for i, want := range strings.Split(text, then) {
		if i > 0 {
			next <- true
		}
		if got := p.bytes(len(want)); got != want {
			p.t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}

// Pages whose end is that of the connection, for the member or for a client that knows no chunks.
func TestLinksUntilClose(t *testing.T) {
	for name, c := range map[string]struct {
		request, in, want string
	}{
		"from_the_member": {
			get(), html + "\r\n" + link[:21] + then + link[21:], html + "Connection: close\r\n\r\n" + link[:21] + then + routed[21:],
		},
		"ends_with_session": {
			get(), html + "\r\n;jsession" + then + "id=abc", html + "Connection: close\r\n\r\n;jsession" + then + "id=abc:R1",
		},
		"to_HTTP10": {getHTTP10, html + length + "\r\n" + then + link, html + "Connection: close\r\n\r\n" + then + routed},
		"to_HTTP10_chunked": {
			getHTTP10, html + coded + "\r\n" + then + "29\r\n" + link + "\r\n0\r\nSum: 1\r\n\r\n", html + "Connection: close\r\n\r\n" + then + routed,
		},
		"from_HTTP10_length": {
			get(), "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n" + length + "\r\n" + then + link,
			"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + then + routed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan bool)
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				o.read(p)
				sendInSteps(p, c.in, next)
			})
			t.Cleanup(func() { close(next) })
			p := routedLab(t, nil, o).dial()
			p.send(c.request)
			p.expectInSteps(c.want, next)
			p.closed()
		})
	}
}

// Rule J-23: links of compressed pages stay, and are counted; jroute_rewrite says which links get the route at all.
func TestLinksSwitchedOff(t *testing.T) {
	location := "Location: q;jsessionid=abc\r\n"
	withRoute := "Location: q;jsessionid=abc:R1\r\n"
	mode := func(r pb.JrouteRewrite) func(*pb.Pool) { return func(p *pb.Pool) { p.JrouteRewrite = r.Enum() } }
	for name, c := range map[string]struct {
		change     func(*pb.Pool)
		in, out    string
		compressed uint64
	}{
		"gzip":    {nil, location + "Content-Encoding: gzip\r\n", withRoute + "Content-Encoding: gzip\r\n", 2},
		"headers": {mode(pb.JrouteRewrite_JROUTE_REWRITE_HEADERS), location, withRoute, 0},
		"none":    {mode(pb.JrouteRewrite_JROUTE_REWRITE_NONE), location + "Content-Encoding: gzip\r\n", location + "Content-Encoding: gzip\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", script(html+c.in+length+"\r\n"+link))
			b := routedLab(t, c.change, o)
			p := b.dial()
			for range 2 {
				p.send(get())
				if got, want := p.response(), html+c.out+length+"\r\n"+link; got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			}
			if n := b.set.Pools[0].Outcomes().GetCompressed(); n != c.compressed {
				t.Errorf("%d compressed pages counted, want %d", n, c.compressed)
			}
		})
	}
}

// manyLinks is a page with n links and what becomes of it.
func manyLinks(n int) (page, want string) {
	return strings.Repeat(link+strings.Repeat(" ", 61), n), strings.Repeat(routed+strings.Repeat(" ", 61), n)
}

// Large pages of every framing, pipelined on one connection between requests for other things.
func TestLargePages(t *testing.T) {
	page, want := manyLinks(3000)
	var chunks strings.Builder
	for i := 0; i < len(page); i += 7000 {
		piece := page[i:min(i+7000, len(page))]
		fmt.Fprintf(&chunks, "%x\r\n%s\r\n", len(piece), piece)
	}
	sized := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", html, len(page), page)
	image := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
	o := newOrigin(t, "s", "127.0.0.11:0", answers(
		[]string{sized}, []string{ok("s")}, []string{html + coded + "\r\n", chunks.String() + "0\r\nSum: 1\r\n\r\n"}, []string{image}, []string{sized}, []string{ok("s")},
	))
	p := routedLab(t, nil, o).dial()
	p.send(strings.Repeat(get(), 6))
	for i, ending := range []string{"\r\n0\r\n\r\n", "", "\r\n0\r\nSum: 1\r\n\r\n", "", "\r\n0\r\n\r\n", ""} {
		got := p.response()
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		switch {
		case ending == "" && i == 3:
			if got != image {
				t.Errorf("response %d: %d bytes, %q", i, len(got), head)
			}
		case ending == "":
			if got != ok("s") {
				t.Errorf("response %d: %.200q", i, got)
			}
		default:
			if data := unchunked(body); data != want || !strings.HasSuffix(body, ending) {
				t.Errorf("response %d: %d bytes of %d, ends with %q: %q", i, len(data), len(want), body[len(body)-30:], head)
			}
		}
	}
	connections(t, o, 1)
}

// Pages of any size, framing and pace on one connection become what they should, whether the member's connection is the client's own
// or shared.
func TestAnyPages(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared_%t", shared), func(t *testing.T) {
			pages := make(chan []string, 1)
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				for o.read(p) != "" {
					for _, piece := range <-pages {
						p.send(piece)
					}
				}
			})
			b := sharing(t, routedPool(o), func(s *Settings) {
				if !shared {
					s.OneConnect = nil
				}
			})
			p := b.dial()
			rapid.Check(t, func(t *rapid.T) {
				var page, want strings.Builder
				for range rapid.IntRange(0, 40).Draw(t, "links") {
					fill := strings.Repeat(" ", rapid.IntRange(0, 3000).Draw(t, "fill"))
					page.WriteString(fill + link)
					want.WriteString(fill + routed)
				}
				pages <- drawSent(t, page.String())
				p.send(get())
				head, body, _ := strings.Cut(p.response(), "\r\n\r\n")
				if strings.Contains(head, "Transfer-Encoding") {
					body = unchunked(body)
				}
				if body != want.String() {
					t.Fatalf("%d bytes became %d, not %d: %q", page.Len(), len(body), want.Len(), head)
				}
			})
			connections(t, o, 1)
		})
	}
}

// drawSent draws how a member sends a page: its framing, and the pieces.
func drawSent(t *rapid.T, page string) (pieces []string) {
	text := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", html, len(page), page)
	if rapid.Bool().Draw(t, "chunked") {
		var b strings.Builder
		b.WriteString(html + coded + "\r\n")
		for len(page) > 0 {
			n := min(len(page), rapid.IntRange(1, 20_000).Draw(t, "chunk"))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, page[:n])
			page = page[n:]
		}
		text = b.String() + "0\r\n\r\n"
	}
	for len(text) > 0 {
		n := min(len(text), rapid.IntRange(1, 40_000).Draw(t, "piece"))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// unchunked is what a chunked body holds.
func unchunked(body string) string {
	var b strings.Builder
	r := httputil.NewChunkedReader(strings.NewReader(body))
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// A member that sends its pages byte by byte: every byte is forwarded as it comes, and the links are whole.
func TestLinksByteByByte(t *testing.T) {
	for name, c := range map[string]struct{ in, data string }{
		"length":  {html + length + "\r\n" + link, routed},
		"chunked": {html + coded + "\r\n29\r\n" + link + "\r\n0\r\n\r\n", routed},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				p.Conn.(*net.TCPConn).SetNoDelay(true)
				for o.read(p) != "" {
					for i := range len(c.in) {
						p.send(c.in[i : i+1])
						time.Sleep(time.Millisecond)
					}
				}
			})
			p := routedLab(t, nil, o).dial()
			for range 2 {
				p.send(get())
				if _, body, _ := strings.Cut(p.response(), "\r\n\r\n"); unchunked(body) != c.data {
					t.Errorf("body %q", body)
				}
			}
		})
	}
}

// Nothing of a page is held back: the client has what the member has sent, while the page goes on.
func TestLinksAreNotHeldBack(t *testing.T) {
	next := make(chan bool)
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		o.read(p)
		sendInSteps(p, html+coded+"\r\n3\r\n;js\r\n"+then+"c\r\nessionid=abc\r\n"+then+"0\r\n\r\n", next)
	})
	t.Cleanup(func() { close(next) })
	p := routedLab(t, nil, o).dial()
	p.send(get())
	p.expectInSteps(html+coded+"\r\n3\r\n;js\r\n"+then+"c\r\nessionid=abc\r\n"+then+"3\r\n:R1\r\n0\r\n\r\n", next)
}

// Pain 99: a page that breaks off never looks whole; a fault before anything was forwarded is answered.
func TestLinksCutShort(t *testing.T) {
	begun := "\r\n15\r\n" + link[:21] + "\r\n"
	http10 := "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n"
	for name, c := range map[string]struct {
		request, in, want string
		reset             bool
	}{
		"pain_99_length":      {get(), html + length + "\r\n" + link[:21] + then, html + coded + begun, false},
		"pain_99_chunked":     {get(), html + coded + "\r\n29\r\n" + link[:21] + then, html + coded + begun, false},
		"pain_99_bad_chunk":   {get(), html + coded + begun + then + "x", html + coded + begun, false},
		"pain_99_until_close": {get(), html + "\r\n" + link[:21] + then + "\x01", html + "Connection: close\r\n\r\n" + link[:21], true},
		"pain_99_to_HTTP10":   {getHTTP10, html + length + "\r\n" + link[:21] + then, html + "Connection: close\r\n\r\n" + link[:21], true},
		"pain_99_from_HTTP10": {get(), http10 + length + "\r\n" + link[:21] + then, http10 + "Connection: close\r\n\r\n" + link[:21], true},
		"fault_at_once":       {get("Connection: close"), html + coded + "\r\nx", "HTTP/1.1 502 ", false},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan bool)
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				o.read(p)
				in, reset := strings.CutSuffix(c.in, "\x01")
				sendInSteps(p, in, next)
				if reset {
					p.Conn.(*net.TCPConn).SetLinger(0)
				}
			})
			t.Cleanup(func() { close(next) })
			p := routedLab(t, nil, o).dial()
			p.send(c.request)
			p.expectInSteps(c.want, next)
			if strings.Contains(c.in, then) {
				next <- true
			}
			got, err := p.rest()
			if strings.HasSuffix(got, "0\r\n\r\n") || (err != nil) != c.reset || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("then %q, %v", got, err)
			}
		})
	}
}

// A client that goes away in the middle of a page takes its member's connection with it, and nothing is left (the lab looks).
func TestLinksClientGone(t *testing.T) {
	page, _ := manyLinks(100)
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		o.read(p)
		p.send(html + coded + "\r\n")
		for range 100_000 {
			if _, err := fmt.Fprintf(p, "%x\r\n%s\r\n", len(page), page); err != nil {
				return
			}
		}
	})
	p := routedLab(t, nil, o).dial()
	p.send(get())
	p.bytes(100_000)
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
	o.hasClosed(1)
}

// The host that was asked is known though the head of the request is not held any more: a redirect after a form that was long
// under way.
func TestLinksAfterUpload(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 303 See Other\r\nLocation: http://shop.example/q;jsessionid=abc\r\nContent-Length: 0\r\n\r\n"))
	p := routedLab(t, nil, o).dial()
	for range 2 {
		p.send("POST /form HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 100000\r\n\r\n")
		time.Sleep(20 * time.Millisecond)
		p.send(strings.Repeat("Host: other.example ", 5000))
		if got := p.response(); got != "HTTP/1.1 303 See Other\r\nLocation: http://shop.example/q;jsessionid=abc:R1\r\nContent-Length: 0\r\n\r\n" {
			t.Errorf("%q", got)
		}
	}
}

// What follows an upgrade is no page.
func TestLinksUpgrade(t *testing.T) {
	answer := "HTTP/1.1 101 Switching Protocols\r\nContent-Type: text/html\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n" + link
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		o.read(p)
		p.send(answer)
	})
	p := routedLab(t, nil, o).dial()
	p.send(get("Upgrade: chat", "Connection: Upgrade"))
	if got := p.bytes(len(answer)); got != answer {
		t.Errorf("%q", got)
	}
}
