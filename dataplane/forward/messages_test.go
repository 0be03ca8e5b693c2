package forward

import (
	"io"
	"net"
	"strings"
	"testing"

	"bigpipe/dataplane/internal/edges"
)

// step is what the member does on one of its connections: it reads a request and answers.
type step struct {
	request string // that it gets, byte for byte
	answer  string
}

// conversation is what passes on one connection of a client. The client sends all at once.
type conversation struct {
	name    string
	client  string
	member  [][]step // each of its connections in order; it closes one after the last step
	answers string   // all that the client gets before its connection is closed
}

const (
	closeLine = "Connection: close"
	body3     = "Content-Length: 3"
)

var (
	getPlain  = edges.Get()
	getClose  = edges.Get(closeLine)
	headPlain = edges.Message("HEAD / HTTP/1.1", "Host: h")
	get10     = edges.Message("GET / HTTP/1.0")
	get10Keep = edges.Message("GET / HTTP/1.0", "Connection: keep-alive")
	get10Shut = edges.Message("GET / HTTP/1.0", closeLine)
	chunked3  = edges.OK(edges.Chunked) + "3\r\nabc\r\n0\r\n\r\n"
	noContent = edges.Message("HTTP/1.1 204 No Content")
	unchanged = edges.Message("HTTP/1.1 304 Not Modified", "ETag: x")
	headOnly  = edges.OK("Content-Length: 100")
	length3   = edges.OK(body3) + "abc"
	shut3     = edges.OK(body3, closeLine) + "abc"
)

var conversations = []conversation{
	{
		"HEAD_four_times", strings.Repeat(headPlain, 4) + getClose,
		[][]step{{{headPlain, headOnly}, {headPlain, headOnly}, {headPlain, headOnly}, {headPlain, headOnly}, {getClose, length3}}},
		strings.Repeat(headOnly, 4) + shut3,
	},
	{
		"POST_with_and_without_body", edges.Post(body3) + "abc" + edges.Post("Content-Length: 0") + edges.Post() + edges.Post(body3, closeLine) + "def",
		[][]step{{{edges.Post(body3) + "abc", length3}, {edges.Post("Content-Length: 0"), length3}, {edges.Post(), length3}, {edges.Post(body3, closeLine) + "def", length3}}},
		strings.Repeat(length3, 3) + shut3,
	},
	{
		"pipelined_in_order", getPlain + headPlain + getPlain + edges.Post(edges.Chunked) + "1\r\na\r\n0\r\n\r\n" + getPlain + getClose,
		[][]step{{{getPlain, chunked3}, {headPlain, headOnly}, {getPlain, noContent}, {edges.Post(edges.Chunked) + "1\r\na\r\n0\r\n\r\n", unchanged}, {getPlain, length3}, {getClose, length3}}},
		chunked3 + headOnly + noContent + unchanged + length3 + shut3,
	},
	{
		"bytes_behind_close_are_dropped", getClose + edges.Smuggled + "\x00\xff",
		[][]step{{{getClose, length3}}},
		shut3,
	},
	{
		"bytes_behind_HTTP10_are_dropped", get10 + edges.Smuggled,
		[][]step{{{get10Shut, length3}}},
		shut3,
	},
	{
		"HTTP10_keep_alive", get10Keep + get10,
		[][]step{{{get10Keep, length3}, {get10Shut, length3}}},
		edges.OK(body3, "Connection: keep-alive") + "abc" + shut3,
	},
	{
		"HTTP10_both_sides", get10Keep + get10Keep + edges.Smuggled,
		[][]step{{{get10Keep, edges.Message("HTTP/1.0 200 OK", body3) + "abc"}}, {{get10Keep, edges.Message("HTTP/1.0 200 OK") + "until the end"}}},
		edges.Message("HTTP/1.0 200 OK", body3, "Connection: keep-alive") + "abc" + edges.Message("HTTP/1.0 200 OK", closeLine) + "until the end",
	},
	{
		"HTTP10_member_keeps_alive", getPlain + getClose,
		[][]step{{{getPlain, edges.Message("HTTP/1.0 200 OK", body3, "Connection: Keep-Alive") + "abc"}, {getClose, length3}}},
		edges.Message("HTTP/1.0 200 OK", body3, "Connection: keep-alive") + "abc" + shut3,
	},
	{
		"HTTP10_gets_no_interim_response", get10,
		[][]step{{{get10Shut, edges.Message("HTTP/1.1 100 Continue") + edges.Message("HTTP/1.1 103 Early Hints") + chunked3}}},
		edges.OK(closeLine) + "abc",
	},
	{
		"member_closes_after_each", getPlain + getPlain + getClose,
		[][]step{{{getPlain, shut3}}, {{getPlain, shut3}}, {{getClose, shut3}}},
		length3 + length3 + shut3,
	},
	{
		"99_body_where_none_may_be", headPlain + getPlain + getPlain + getPlain + getClose,
		[][]step{
			{{headPlain, length3}},
			{{getPlain, edges.Message("HTTP/1.1 204 No Content", body3) + "abc"}},
			{{getPlain, edges.Message("HTTP/1.1 204 No Content", edges.Chunked) + "3\r\nabc\r\n0\r\n\r\n"}},
			{{getPlain, edges.Message("HTTP/1.1 304 Not Modified", body3) + "abc"}},
			{{getClose, length3}},
		},
		edges.OK(body3) + noContent + noContent + edges.Message("HTTP/1.1 304 Not Modified", body3) + shut3,
	},
	{
		"99_more_than_the_length", getPlain + getClose,
		[][]step{{{getPlain, length3 + "d"}}, {{getClose, length3}}},
		length3 + shut3,
	},
	{
		"100_continue_the_body_is_there", edges.Post("Expect: 100-continue", body3, closeLine) + "abc",
		[][]step{{{edges.Post("Expect: 100-continue", body3, closeLine) + "abc", edges.Message("HTTP/1.1 100 Continue") + length3}}},
		edges.Message("HTTP/1.1 100 Continue") + shut3,
	},
	{
		"CONNECT_is_refused", edges.Message("CONNECT h:443 HTTP/1.1", "Host: h:443") + "\x16\x03\x01",
		nil,
		edges.Message("HTTP/1.1 405 Method Not Allowed", "Content-Type: text/plain; charset=utf-8",
			"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS", "Content-Length: 49", closeLine) + "405 Method Not Allowed: CONNECT is not supported\n",
	},
	{
		"fault_behind_good_requests", getPlain + edges.Post(body3) + "abc" + "GET / HTTP/1.1\nHost: h\n\n" + edges.Smuggled,
		[][]step{{{getPlain, length3}, {edges.Post(body3) + "abc", length3}}},
		length3 + length3 + edges.Message("HTTP/1.1 400 Bad Request", "Content-Type: text/plain; charset=utf-8", "Content-Length: 40", closeLine) +
			"400 Bad Request: line ended by LF alone\n",
	},
}

func TestConversations(t *testing.T) {
	for _, talk := range conversations {
		for _, m := range manners {
			t.Run(talk.name+"/"+m.name, func(t *testing.T) {
				conns := make(chan []step, len(talk.member))
				for _, steps := range talk.member {
					conns <- steps
				}
				close(conns)
				o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
					steps, any := <-conns
					if !any {
						t.Error("one connection too many")
					}
					for _, s := range steps {
						if got, want := o.read(p), m.toMember(s.request); got != want {
							t.Errorf("the member got\n%q, want\n%q", got, want)
						}
						p.send(s.answer)
					}
				})
				c := m.lab(t, plain(o)).dial()
				c.send(talk.client)
				if got, err := c.rest(); got != talk.answers || err != nil {
					t.Errorf("the client got %v\n%q, want\n%q", err, got, talk.answers)
				}
				if n, _ := o.seen(); n != len(talk.member) {
					t.Errorf("%d connections at the member, want %d", n, len(talk.member))
				}
			})
		}
	}
}

// Pain 95: a fault in a body that comes later ends the member's connection, although it has served a request before.
func TestFaultEndsMembersConnection(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			const begin = "1\r\na\r\n"
			began := make(chan string, 1)
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				o.read(p)
				p.send(ok(o.name))
				began <- p.head() + p.bytes(len(begin))
				rest, _ := p.rest()
				began <- rest
			})
			c := m.lab(t, plain(o)).dial()
			c.send(getPlain)
			expect(t, c.response(), "s", nil)
			c.send(edges.Post(edges.Chunked) + begin)
			if got := <-began; got != edges.Post(edges.Chunked)+begin {
				t.Errorf("the member got %q", got)
			}
			c.send("1\nZ\r\n0\r\n\r\n" + edges.Smuggled)
			if text, _ := c.rest(); !strings.HasPrefix(text, "HTTP/1.1 400 ") || strings.Count(text, "HTTP/1.") != 1 {
				t.Errorf("answer %q", text)
			}
			if got := <-began; got != "" {
				t.Errorf("then the member got %q", got)
			}
			o.hasClosed(1)
			if conns, _ := o.seen(); conns != 1 {
				t.Errorf("%d connections", conns)
			}
		})
	}
}

// An upgrade may be asked for with a body; behind the 101 nothing is read as a message (edges 3c).
func TestUpgradeWithBody(t *testing.T) {
	request := edges.Post(body3, "Connection: upgrade", "Upgrade: chat") + "abc"
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		if got := o.read(p); got != request {
			t.Errorf("the member got %q", got)
		}
		p.send(edges.Message("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: chat") + "HTTP/1.1 999 no\n")
		_, _ = io.Copy(p, p.r)
		_ = p.Conn.(*net.TCPConn).CloseWrite()
	})
	c := httpLab(t, plain(o)).dial()
	c.send(request + edges.Smuggled + "\n\n\x00")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	want := edges.Message("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: chat") + "HTTP/1.1 999 no\n" + edges.Smuggled + "\n\n\x00"
	if got, err := c.rest(); got != want || err != nil {
		t.Errorf("the client got %v\n%q, want\n%q", err, got, want)
	}
}

// An upgrade that the member does not take leaves an ordinary connection.
func TestUpgradeNotTaken(t *testing.T) {
	request := edges.Get("Connection: upgrade", "Upgrade: chat")
	o := newOrigin(t, "s", "127.0.0.11:0", script(length3))
	c := httpLab(t, plain(o)).dial()
	c.send(request + getPlain + getClose)
	if got, err := c.rest(); got != length3+length3+shut3 || err != nil {
		t.Errorf("the client got %v %q", err, got)
	}
	if conns, seen := o.seen(); conns != 1 || strings.Join(seen, "") != request+getPlain+getClose {
		t.Errorf("%d connections, the member got %q", conns, seen)
	}
}

// The client leaves while its member is connected to.
func TestClientLeavesWhileConnecting(t *testing.T) {
	b := httpLab(t, plain(&origin{addr: fullListener(t)}))
	c := b.dial()
	c.send(getPlain)
	eventually(t, "a connection", func() bool { return b.table.Len() == 1 })
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	eventually(t, "the connection ends", func() bool { return b.table.Len() == 0 })
}
