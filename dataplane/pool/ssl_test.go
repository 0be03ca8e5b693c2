package pool

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/tlshello"
	pb "bigpipe/proto/bigpipe/v1"
)

const (
	idA = "a0111111111111111111111111111111111111111111111111111111111111a1"
	idB = "b0222222222222222222222222222222222222222222222222222222222222b1"
)

func sslPool(name string, members ...string) *pb.Pool {
	return withMembers(&pb.Pool{Name: name, PersistMode: pb.PersistMode_PERSIST_MODE_SSL.Enum()}, members...)
}

// clientOf is the hello of a client that brings an ID, "" for none.
func clientOf(t *testing.T, id string) *tlshello.Client {
	t.Helper()
	return clientBringing(t, id, "")
}

// serverOf is the answer of a server that gives an ID, "" for none, under TLS 1.2, or in TLS 1.3.
func serverOf(t *testing.T, id string, tls13 bool) (*tlshello.Server, tlshello.News) {
	t.Helper()
	body := append(withSession(t, id), 0, 47, 0)
	if tls13 {
		body = append(body, 0, 6, 0, 43, 0, 2, 3, 4)
	}
	s := &tlshello.Server{}
	news := s.Feed(append([]byte{22, 3, 3, 0, byte(len(body) + 4), 2, 0, 0, byte(len(body))}, body...))
	if news != tlshello.NewSession {
		t.Fatal(news)
	}
	return s, news
}

// clientBringing is the hello of a client with a session ID in hex and a ticket, "" for none.
func clientBringing(t *testing.T, id, ticket string) *tlshello.Client {
	t.Helper()
	body := append(withSession(t, id), 0, 2, 0, 47, 1, 0)
	if ticket != "" {
		body = append(body, 0, byte(4+len(ticket)), 0, 35, 0, byte(len(ticket)))
		body = append(body, ticket...)
	}
	c := &tlshello.Client{}
	if state := c.Feed(append([]byte{22, 3, 1, 0, byte(len(body) + 4), 1, 0, 0, byte(len(body))}, body...)); state != tlshello.Complete {
		t.Fatal(state)
	}
	return c
}

// giving are the bytes of a server that gives a session ID in hex and a ticket.
func giving(t *testing.T, id, ticket string) []byte {
	t.Helper()
	body := append(withSession(t, id), 0, 47, 0, 0, 4, 0, 35, 0, 0)
	b := append([]byte{22, 3, 3, 0, byte(len(body) + 4), 2, 0, 0, byte(len(body))}, body...)
	n := byte(6 + len(ticket))
	return append(append(b, 22, 3, 3, 0, n+4, 4, 0, 0, n, 0, 0, 1, 0, 0, byte(len(ticket))), ticket...)
}

// withSession is the beginning of a hello, with a session ID in hex.
func withSession(t *testing.T, id string) []byte {
	t.Helper()
	session, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	return append(append(body, byte(len(session))), session...)
}

// handshake is a connection of a client that brings an ID, to a member that gives one; "" is none. It stays open.
func (b *bench) handshake(d *Decision, pool, virtual, brings, gives string) string {
	b.t.Helper()
	i := in(client, virtual)
	i.Hello = clientOf(b.t, brings)
	if err := b.pools[pool].Choose(d, i); err != nil {
		return err.Error()
	}
	d.Accepted()
	server, news := serverOf(b.t, gives, false)
	d.Learn(news, i.Hello, server)
	return d.Member.Addr.String()
}

// session is a handshake whose connection ends at once.
func (b *bench) session(pool, brings, gives string) string {
	b.t.Helper()
	var d Decision
	defer d.Release()
	return b.handshake(&d, pool, v1+":443", brings, gives)
}

func TestSSLTimes(t *testing.T) {
	timeout := func(name string, seconds uint32) *pb.Pool {
		p := sslPool(name, n1+":443", n2+":443")
		p.SslTimeout = &seconds
		return p
	}
	t.Run("A-T10_idle_time", func(t *testing.T) {
		for _, timer := range []pb.PersistTimer{pb.PersistTimer_PERSIST_TIMER_LIMIT, pb.PersistTimer_PERSIST_TIMER_TIMEOUT} { // rule B-13
			b := newBench(t)
			b.global.PersistTimer = timer.Enum()
			b.set(timeout("p", 2))
			b.want(b.session("p", "", idA), n1+":443")
			for range 2 {
				b.pass(1500 * time.Millisecond)
				b.want(b.session("p", idA, idA), n1+":443")
			}
			b.pass(2500 * time.Millisecond)
			b.want(b.session("p", idA, ""), n2+":443")
		}
	})
	t.Run("A-T11_open_connection", func(t *testing.T) {
		b := newBench(t)
		b.set(timeout("p", 2))
		var open Decision
		b.want(b.handshake(&open, "p", v1+":443", idB, idA), n1+":443")
		b.pass(5 * time.Second)
		b.want(b.session("p", idA, idA), n1+":443")
		open.Release()
		b.pass(1500 * time.Millisecond)
		b.want(b.session("p", idA, idA), n1+":443")
	})
	t.Run("A-6_both_IDs_of_an_open_connection", func(t *testing.T) {
		b := newBench(t)
		b.set(timeout("p", 2))
		b.want(b.session("p", "", idA), n1+":443")
		var open Decision
		b.want(b.handshake(&open, "p", v1+":443", idA, idB), n1+":443")
		b.pass(5 * time.Second)
		b.want(b.session("p", idA, ""), n1+":443")
		b.want(b.session("p", idB, ""), n1+":443")
		open.Release()
		b.pass(3 * time.Second)
		b.want(b.session("p", idA, ""), n2+":443")
		b.want(b.session("p", idB, ""), n1+":443")
		if n := b.records(); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
	t.Run("A-T12_of_the_member", func(t *testing.T) { // rule M-9
		b := newBench(t)
		p := timeout("p", 5)
		p.Members[0].Tmout, p.Members[1].Tmout = new(uint32(1)), new(uint32(10))
		b.set(p)
		b.want(b.session("p", "", idA), n1+":443")
		b.want(b.session("p", "", idB), n2+":443")
		b.pass(2 * time.Second)
		b.want(b.session("p", idB, idB), n2+":443")
		b.want(b.session("p", idA, ""), n1+":443") // the next of the rotation
		b.want(b.session("p", idA, ""), n2+":443")
		b.pass(9 * time.Second)
		b.want(b.session("p", idB, idB), n2+":443")
	})
	t.Run("A-T12_of_the_member_that_it_moves_to", func(t *testing.T) {
		b := newBench(t)
		p := timeout("p", 5)
		p.Members[1].Tmout = new(uint32(100))
		b.set(p)
		b.want(b.session("p", "", idA), n1+":443")
		b.nodes[n1] = &pb.Node{Up: no()}
		b.again()
		b.want(b.session("p", idA, ""), n2+":443")
		delete(b.nodes, n1)
		b.again()
		b.pass(90 * time.Second)
		b.want(b.session("p", idA, ""), n2+":443")
	})
}

func TestSSLMembers(t *testing.T) {
	t.Run("A-10_limit", func(t *testing.T) {
		b := newBench(t)
		p := sslPool("p", n1+":443", n2+":443")
		p.Members[0].Limit = new(uint32(1))
		b.set(p)
		var open Decision
		b.want(b.handshake(&open, "p", v1+":443", "", idA), n1+":443")
		b.want(b.session("p", idA, idB), n2+":443")
		b.want(b.session("p", idB, ""), n2+":443")
		b.want(b.session("p", idA, idA), n2+":443") // the server knows the session, and the record stays all the same
		open.Release()
		b.want(b.session("p", idA, ""), n1+":443")

		p.PersistLimitOverride = yes()
		b.set(p)
		b.want(b.handshake(&open, "p", v1+":443", idA, ""), n1+":443")
		b.want(b.session("p", idA, ""), n1+":443")
		open.Release()
	})
	t.Run("A-9_refused", func(t *testing.T) {
		b := newBench(t)
		p := b.set(sslPool("p", n1+":443", n2+":443"))
		b.want(b.session("p", "", idA), n1+":443")
		for _, brings := range []string{idA, idB} { // with a record, and without one
			var d Decision
			i := in(client, v1+":443")
			i.Hello = clientOf(t, brings)
			if err := p.Choose(&d, i); err != nil {
				t.Fatal(err)
			}
			before := d.Member
			if err := d.Refused(); err != nil || d.Member == before {
				t.Errorf("%v, member %s again", err, d.Member.Addr)
			}
			d.Accepted()
			d.Release()
		}
		b.want(b.session("p", idA, ""), n2+":443")
	})
	t.Run("persist_unavailable_refuse", func(t *testing.T) {
		b := newBench(t)
		p := sslPool("p", n1+":443", n2+":443")
		p.PersistUnavailable = pb.Unavailable_UNAVAILABLE_REFUSE.Enum()
		b.set(p)
		b.want(b.session("p", "", idA), n1+":443")
		b.nodes[n1] = &pb.Node{Up: no()}
		b.again()
		b.want(b.session("p", idA, ""), ErrRefused.Error())
		b.want(b.session("p", "", ""), n2+":443")
	})
	t.Run("the_member_that_gave_an_ID_last_has_it", func(t *testing.T) {
		b := newBench(t)
		b.set(sslPool("p", n1+":443", n2+":443"))
		b.want(b.session("p", "", idA), n1+":443")
		b.want(b.session("p", "", idA), n2+":443")
		b.want(b.session("p", idA, ""), n2+":443")
	})
	t.Run("A-15_table_full", func(t *testing.T) {
		b := newBench(t)
		b.env.Table.SetLimit(1)
		p := b.set(sslPool("p", n1+":443", n2+":443"))
		var open Decision
		b.want(b.handshake(&open, "p", v1+":443", "", idA), n1+":443")
		b.want(b.session("p", "", idB), n2+":443")
		if out := p.Outcomes(); out.GetTableFull() != 1 || out.GetBound() != 1 || out.GetNone() != 2 {
			t.Errorf("counted %v", out)
		}
		open.Release()
		b.want(b.session("p", "", idB), n1+":443")
		if out := p.Outcomes(); out.GetEvicted() != 1 || b.records() != 1 {
			t.Errorf("counted %v, %d records", out, b.records())
		}
	})
	t.Run("use_pool_persist_none", func(t *testing.T) {
		b := newBench(t)
		p := b.set(sslPool("p", n1+":443", n2+":443"))
		b.want(b.session("p", "", idA), n1+":443")
		i := in(client, v1+":443")
		i.Hello, i.Fresh = clientOf(t, idA), true
		var d Decision
		if err := p.Choose(&d, i); err != nil {
			t.Fatal(err)
		}
		b.want(d.Member.Addr.String(), n2+":443")
		d.Accepted()
		d.Release()
		b.want(b.session("p", idA, ""), n2+":443")
	})
}

// TestSSLKnows: a pool knows the clients whose session it has, and with ssl_fallback simple those by their address.
func TestSSLKnows(t *testing.T) {
	b := newBench(t)
	c := sslPool("p", n1+":443", n2+":443")
	c.SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum()
	p := b.set(c)
	knows := func(from, id string) bool {
		i := in(from, v1+":443")
		i.Hello = clientOf(t, id)
		return p.Knows(i)
	}
	if knows(client, idA) {
		t.Error("nobody was here")
	}
	b.session("p", "", idA)
	for _, tt := range []struct {
		from, id string
		want     bool
	}{{"127.0.0.1", idA, true}, {"127.0.0.1", idB, false}, {client, idB, true}, {client, "", true}} {
		if got := knows(tt.from, tt.id); got != tt.want {
			t.Errorf("client %s with %s: %t", tt.from, tt.id, got)
		}
	}
}

// TestSSLFallbackRecords: rule A-13: the fallback's records have the mask and the time of simple persistence.
func TestSSLFallbackRecords(t *testing.T) {
	for _, tt := range []struct {
		name          string
		simple, after uint32
	}{{"simple_timeout", 60, 60}, {"without_it_ssl_timeout", 0, 600}} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := sslPool("p", n1+":443", n2+":443")
			c.SslFallback, c.SimpleTimeout = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum(), &tt.simple
			c.SimpleMask = new("255.255.255.0")
			b.set(c)
			b.want(b.session("p", "", ""), n1+":443")
			n := 0
			for r := range b.env.Table.List(persist.Filter{}) {
				n++
				if r.Key.String() != "127.0.0.0" || r.Timeout != time.Duration(tt.after)*time.Second {
					t.Errorf("record of %s for %v", r.Key, r.Timeout)
				}
			}
			if n != 1 {
				t.Errorf("%d records", n)
			}
			b.want(b.session("p", idA, ""), n1+":443")
		})
	}
}

// TestSSLUnfollowed: rule A-13: that sessions of TLS 1.3 are not persisted is said once for each pool, unless there is a fallback.
func TestSSLUnfollowed(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		var log bytes.Buffer
		b := newBench(t)
		b.env.Log = slog.New(slog.NewTextHandler(&log, nil))
		c := sslPool("p", n1+":443")
		if fallback {
			c.SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum()
		}
		for range 3 {
			p := b.set(c)
			i := in(client, v1+":443")
			i.Hello = clientOf(t, idA)
			var d Decision
			if err := p.Choose(&d, i); err != nil {
				t.Fatal(err)
			}
			d.Accepted()
			server, news := serverOf(t, idA, true)
			d.Learn(news, i.Hello, server)
			d.Release()
		}
		want := 1
		if fallback {
			want = 0
		}
		if n := strings.Count(log.String(), "ssl_fallback simple"); n != want {
			t.Errorf("said %d times, want %d:\n%s", n, want, &log)
		}
	}
}
