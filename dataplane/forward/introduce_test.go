package forward

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"bigpipe/dataplane/pool"
)

func TestProxyHeaderBytes(t *testing.T) {
	const signature = "0d0a0d0a000d0a515549540a"
	tests := []struct {
		name, from, to, want string
	}{
		{"IPv4", "192.0.2.1:51000", "198.51.100.7:443", signature + "2111000c" + "c0000201" + "c6336407" + "c738" + "01bb"},
		{"IPv6", "[2001:db8::1]:51000", "[2001:db8::2]:80", signature + "21210024" +
			"20010db8000000000000000000000001" + "20010db8000000000000000000000002" + "c738" + "0050"},
		{"IPv4_mapped", "[::ffff:192.0.2.1]:1", "198.51.100.7:2", signature + "2111000c" + "c0000201" + "c6336407" + "0001" + "0002"},
		{"mixed", "192.0.2.1:1", "[2001:db8::2]:2", signature + "21210024" +
			"00000000000000000000ffffc0000201" + "20010db8000000000000000000000002" + "0001" + "0002"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := appendProxyHeader(nil, netip.MustParseAddrPort(tt.from), netip.MustParseAddrPort(tt.to))
			if hex.EncodeToString(got) != tt.want {
				t.Errorf("%x\nwant %s", got, tt.want)
			}
		})
	}
}

// header is the header that a client of the lab brings.
func (b *lab) header(c *peer) string {
	from := netip.MustParseAddrPort(c.LocalAddr().String())
	return string(appendProxyHeader(nil, from, b.set.Virtual))
}

func proxied(t testing.TB, set Settings, o ...*origin) *lab {
	set.ProxyProtocol = true
	set.Pools = []*pool.Pool{compilePool(t, plain(o...), nil)}
	return newLab(t, set)
}

// The member gets the header before anything else, also when it speaks first and the client never does.
func TestProxyProtocolTCP(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
		p.send("hello ")
		header := p.bytes(28)
		p.send(header)
		rest, _ := p.rest()
		p.send(rest)
	})
	b := proxied(t, Settings{}, o)
	c := b.dial()
	if got, want := c.bytes(34), "hello "+b.header(c); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.send("data")
	c.Conn.(*net.TCPConn).CloseWrite()
	if got, err := c.rest(); got != "data" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := b.set.Counters.Counts(); n.In != 4 {
		t.Errorf("the header is counted as the client's: %+v", n)
	}
}

// The header goes to the member that accepted, not to one that refused.
func TestProxyProtocolNextMember(t *testing.T) {
	o := three(t, func(o *origin, p *peer) { p.send(o.name + " " + p.bytes(28)) })
	o[0].stop()
	b := proxied(t, Settings{}, o[0], o[1])
	c := b.dial()
	if got, want := c.bytes(31), "s2 "+b.header(c); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProxyProtocolIPv6(t *testing.T) {
	o := newOrigin(t, "s", "[::1]:0", func(_ *origin, p *peer) { p.send(p.bytes(52)) })
	table := NewTable(slog.New(slog.DiscardHandler))
	defer table.Close()
	virtual := netip.MustParseAddrPort("[2001:db8::80]:80")
	l, err := Listen(table, netip.MustParseAddrPort("[::1]:0"), Settings{
		ProxyProtocol: true, Virtual: virtual, Pools: []*pool.Pool{compilePool(t, plain(o), nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Drain(context.Background())
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	want := string(appendProxyHeader(nil, netip.MustParseAddrPort(nc.LocalAddr().String()), virtual))
	if got := newPeer(t, nc).bytes(52); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// echoHeader answers requests with the header of their connection, in hex, and says how many requests it has had.
func echoHeader(o *origin, p *peer) {
	header := p.bytes(28)
	for n := 1; o.read(p) != ""; n++ {
		body := fmt.Sprintf("%x %d", header, n)
		p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
}

func body(response string) string {
	_, b, _ := strings.Cut(response, "\r\n\r\n")
	return b
}

// A connection to a member carries one client's requests alone, also with oneconnect.
func TestProxyProtocolHTTP(t *testing.T) {
	for name, set := range map[string]Settings{
		"plain":      {HTTP: true},
		"oneconnect": {HTTP: true, PerRequest: true, OneConnect: &OneConnect{MaxSize: 10, MaxReuse: 10, MaxAge: 1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", echoHeader)
			b := proxied(t, set, o)
			one, two := b.dial(), b.dial()
			for i, c := range []*peer{one, two, one, two} {
				c.send(get())
				want := fmt.Sprintf("%x %d", b.header(c), i/2+1)
				if got := body(c.response()); got != want {
					t.Errorf("request %d: %s, want %s", i, got, want)
				}
			}
			if conns, _ := o.seen(); conns != 2 {
				t.Errorf("%d connections to the member", conns)
			}
			if n := b.table.Spares(); n != 0 {
				t.Errorf("%d connections are shared", n)
			}
		})
	}
}

// What a connection was made with does not serve a client of settings that say otherwise.
func TestProxyProtocolSwitchedOn(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
		header := ""
		if b, _ := p.r.Peek(1); string(b) == "\r" {
			header = p.bytes(28)
		}
		for o.read(p) != "" {
			body := fmt.Sprintf("%x", header)
			p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	})
	b := newLab(t, Settings{HTTP: true, PerRequest: true, Pools: []*pool.Pool{compilePool(t, plain(o), nil)}})
	c := b.dial()
	c.send(get())
	if got := body(c.response()); got != "" {
		t.Errorf("%q before", got)
	}
	set := b.set
	set.ProxyProtocol = true
	b.l.Set(set)
	c.send(get())
	if got, want := body(c.response()), fmt.Sprintf("%x", b.header(c)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
