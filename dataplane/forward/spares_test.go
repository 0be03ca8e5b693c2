package forward

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// Rule O-11: a connection that was kept is found dead.
func TestSpareIsDead(t *testing.T) {
	// The first request is answered, the second never: the connection ends.
	second := func(o *origin, p *peer) {
		if o.read(p) != "" {
			p.send(ok(o.name))
			o.read(p)
		}
	}
	for method, again := range map[string]bool{"GET": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false} {
		t.Run("O-11_"+method, func(t *testing.T) {
			o := newOrigin(t, "s1", "127.0.0.11:0", second)
			b := sharing(t, webPool(o), nil)
			request := method + " / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
			expect(t, b.ask(request), "s1", o)
			r := b.ask(request)
			conns, seen := o.seen()
			if again {
				expect(t, r, "s1", o)
			} else if !strings.HasPrefix(r, "HTTP/1.1 502 ") || strings.Contains(r, "Set-Cookie") {
				t.Errorf("answer %q", r)
			}
			if want := map[bool]int{true: 3, false: 2}[again]; len(seen) != want || conns != want-1 {
				t.Errorf("%d requests on %d connections", len(seen), conns)
			}
		})
	}
	t.Run("O-11_body_that_is_uploaded", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			if o.read(p) != "" {
				p.send(ok(o.name))
				p.head()
			}
		})
		b := sharing(t, webPool(o), nil)
		expect(t, b.ask(get()), "s1", o)
		c := b.dial()
		c.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nab")
		if r := c.head(); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
		connections(t, o, 1)
	})
	// Several are dead: the request is repeated once, and on a new connection.
	t.Run("O-11_once", func(t *testing.T) {
		arrived, answer := make(chan bool), make(chan bool)
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			if o.read(p) != "" {
				arrived <- true
				<-answer
				p.send(ok(o.name))
				o.read(p)
			}
		})
		b := sharing(t, webPool(o), nil)
		clients := []*peer{b.dial(), b.dial(), b.dial()}
		for _, c := range clients {
			c.send(get())
			<-arrived
		}
		for range clients {
			answer <- true
		}
		for _, c := range clients {
			expect(t, c.response(), "s1", o)
		}
		b.spares(3)
		clients[0].send(get())
		<-arrived
		answer <- true
		expect(t, clients[0].response(), "s1", o)
		if conns, seen := o.seen(); conns != 4 || len(seen) != 5 {
			t.Errorf("%d requests on %d connections", len(seen), conns)
		}
	})
	t.Run("partial_answer_is_not_repeated", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			o.read(p)
			p.send(ok(o.name))
			o.read(p)
			p.send("H")
		})
		b := sharing(t, webPool(o), nil)
		expect(t, b.ask(get()), "s1", o)
		if r := b.ask(get()); !strings.HasPrefix(r, "HTTP/1.1 502 ") {
			t.Errorf("answer %q", r)
		}
		connections(t, o, 1)
	})
	// A connection whose end has arrived is not used, so that no request is lost on it.
	t.Run("closed_before_use", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", closer(1))
		b := sharing(t, webPool(o), nil)
		for i := range 5 {
			expect(t, b.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"), "s1", o)
			o.hasClosed(i + 1)
		}
	})
}

// What a member says unasked is never an answer.
func TestSpareSpeaks(t *testing.T) {
	stale := make(chan bool)
	o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
		for o.read(p) != "" {
			p.send(ok("s1"))
			if <-stale {
				p.send(ok("stale"))
			}
			stale <- true
		}
	})
	b := sharing(t, webPool(o), nil)
	ask := func(speaks bool) {
		t.Helper()
		expect(t, b.ask(get()), "s1", o)
		stale <- speaks
		<-stale
	}
	ask(false)
	ask(true)
	ask(true) // at once
	connections(t, o, 2)
	b.spares(0) // noticed while it rests
	ask(false)
	connections(t, o, 3)
	b.spares(1)
}

// Spares cost no goroutine, and go when their time is over or what they were kept for is no more.
func TestSparesEnd(t *testing.T) {
	no := false
	start := func(t *testing.T, change func(*Settings)) (*lab, *origin, *origin) {
		o := three(t, nil)
		b := sharing(t, webPool(o[:2]...), change)
		for i := range 2 {
			expect(t, b.ask(get(cookieOf(o[i]))), o[i].name, nil)
		}
		b.spares(2)
		return b, o[0], o[1]
	}
	set := func(b *lab, change func(*Settings)) {
		next := b.set
		one := *next.OneConnect
		next.OneConnect = &one
		change(&next)
		b.l.Set(next)
	}
	for name, c := range map[string]struct {
		change func(b *lab, s *Settings, s1, s2 *origin)
		left   int
	}{
		"same": {func(b *lab, s *Settings, s1, s2 *origin) {
			s.Pools = []*pool.Pool{compilePool(t, webPool(s1, s2), b.set.Pools[0])}
		}, 2},
		"member_removed": {func(b *lab, s *Settings, _, s2 *origin) {
			s.Pools = []*pool.Pool{compilePool(t, webPool(s2), b.set.Pools[0])}
		}, 1},
		"member_down": {func(b *lab, s *Settings, s1, s2 *origin) {
			node := &pb.Node{Address: s1.addr.String(), Up: &no}
			s.Pools = []*pool.Pool{compilePool(t, webPool(s1, s2), b.set.Pools[0], node)}
		}, 1},
		"member_disabled": {func(b *lab, s *Settings, s1, s2 *origin) {
			node := &pb.Node{Address: s1.addr.String(), Enabled: &no}
			s.Pools = []*pool.Pool{compilePool(t, webPool(s1, s2), b.set.Pools[0], node)}
		}, 2},
		"pool_removed":     {func(_ *lab, s *Settings, _, _ *origin) { s.Pools = []*pool.Pool{nil} }, 0},
		"switched_off":     {func(_ *lab, s *Settings, _, _ *origin) { s.OneConnect, s.PerRequest = nil, false }, 0},
		"max_size_lowered": {func(_ *lab, s *Settings, _, _ *origin) { s.OneConnect.MaxSize = 1 }, 1},
		"max_reuse_0":      {func(_ *lab, s *Settings, _, _ *origin) { s.OneConnect.MaxReuse = 0 }, 0},
		"max_age_lowered":  {func(_ *lab, s *Settings, _, _ *origin) { s.OneConnect.MaxAge = time.Millisecond }, 0},
		"mask":             {func(_ *lab, s *Settings, _, _ *origin) { s.OneConnect.SourceMask = persist.Mask{} }, 0},
		"share":            {func(_ *lab, s *Settings, _, _ *origin) { s.OneConnect.Share = true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, s1, s2 := start(t, nil)
			set(b, func(s *Settings) { c.change(b, s, s1, s2) })
			b.spares(c.left)
			eventually(t, "the member sees the end", func() bool {
				s1.mu.Lock()
				defer s1.mu.Unlock()
				s2.mu.Lock()
				defer s2.mu.Unlock()
				return s1.closed+s2.closed == 2-c.left
			})
			time.Sleep(3 * tick)
			b.spares(c.left)
		})
	}
	t.Run("O-8_idle", func(t *testing.T) {
		b, s1, s2 := start(t, func(s *Settings) { s.IdleTimeout = 300 * time.Millisecond })
		b.spares(0)
		s1.hasClosed(1)
		s2.hasClosed(1)
	})
	t.Run("member_closes", func(t *testing.T) {
		b, s1, _ := start(t, nil)
		s1.stop()
		b.spares(1)
	})
	for _, share := range []bool{false, true} {
		t.Run(fmt.Sprintf("drained_share_%v", share), func(t *testing.T) {
			b, s1, s2 := start(t, func(s *Settings) { s.OneConnect.Share = share })
			b.l.Drain(t.Context())
			if n := b.table.Spares(); n != 0 {
				t.Errorf("%d are left", n)
			}
			s1.hasClosed(1)
			s2.hasClosed(1)
		})
	}
	t.Run("no_goroutine", func(t *testing.T) {
		b, _, _ := start(t, nil)
		eventually(t, "no flow", func() bool { return b.table.Len() == 0 })
		eventually(t, "no goroutine but that of the table and of the listener", func() bool {
			var stacks bytes.Buffer
			if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
				t.Fatal(err)
			}
			return !strings.Contains(stacks.String(), "forward.(*flow)") && !strings.Contains(stacks.String(), "forward.(*conn)")
		})
		b.spares(2)
	})
	t.Run("given_back_to_other_settings", func(t *testing.T) {
		arrived, answer := make(chan bool), make(chan bool)
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			for o.read(p) != "" {
				arrived <- true
				<-answer
				p.send(ok("s1"))
			}
		})
		b := sharing(t, webPool(o), nil)
		c := b.dial()
		c.send(get())
		<-arrived
		set(b, func(s *Settings) { s.Pools = []*pool.Pool{compilePool(t, webPool(), b.set.Pools[0])} })
		answer <- true
		expect(t, c.response(), "s1", o)
		b.spares(0)
		o.hasClosed(1)
	})
}

// Rule O-13: a connection that was authenticated for a client is nobody else's.
func TestAuthenticatedConnection(t *testing.T) {
	// Each response says which connection it came on; who is not known there is asked to say who he is.
	ntlm := func(challenge string) func(*origin, *peer) {
		return func(o *origin, p *peer) {
			o.mu.Lock()
			name := fmt.Sprintf("c%d", o.conns)
			o.mu.Unlock()
			for known := challenge == ""; ; {
				r := o.read(p)
				if r == "" {
					return
				}
				known = known || strings.Contains(r, "uthorization: ")
				if known {
					p.send(ok(name))
				} else {
					p.send("HTTP/1.1 " + challenge + "\r\nX-Server: " + name + "\r\nContent-Length: 0\r\n\r\n")
				}
			}
		}
	}
	for name, c := range map[string]struct{ challenge, answer string }{
		"NTLM":              {"401 Who\r\nWWW-Authenticate: NTLM", "Authorization: NTLM abc"},
		"Negotiate":         {"401 Who\r\nwww-authenticate: Negotiate", "authorization: negotiate abc"},
		"among_others":      {"401 Who\r\nWWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Digest y, ntlm", "Authorization: NTLM abc"},
		"proxy":             {"407 Who\r\nProxy-Authenticate: NTLM", "Proxy-Authorization: NTLM abc"},
		"without_challenge": {"", "Authorization: Negotiate abc"},
	} {
		t.Run("O-13_pain_67_"+name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", ntlm(c.challenge))
			b := sharing(t, plain(o), nil)
			first, second := b.dial(), b.dial()
			if c.challenge != "" {
				first.send(get())
				if r := first.response(); !strings.HasPrefix(r, "HTTP/1.1 "+c.challenge[:3]) {
					t.Fatalf("response %q", r)
				}
			}
			first.send(get(c.answer))
			expect(t, first.response(), "c1", nil)
			for range 3 {
				second.send(get("Authorization: Basic YTpi"))
				expect(t, second.response(), "c2", nil)
				first.send(get())
				expect(t, first.response(), "c1", nil)
			}
			connections(t, o, 2)
			b.spares(1)
			first.Close()
			o.hasClosed(1)
			third := b.dial()
			third.send(get("Authorization: Basic YTpi"))
			expect(t, third.response(), "c2", nil)
			connections(t, o, 2)
		})
	}
	t.Run("ends_with_its_connection", func(t *testing.T) {
		o := three(t, func(o *origin, p *peer) {
			if o.read(p) != "" {
				p.send("HTTP/1.1 401 Who\r\nX-Server: " + o.name + "\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n")
			}
		})
		c := sharing(t, plain(o...), nil).dial()
		for i := range 3 { // each time a decision, because there is no connection to stay on
			c.send(get())
			expect(t, c.response(), o[i].name, nil)
			o[i].hasClosed(1)
		}
	})
}

func TestConnectionBound(t *testing.T) {
	for value, want := range map[string]bool{
		"NTLM": true, "ntlm TlRMTVNTUAAB": true, "Negotiate": true, "NEGOTIATE YII=": true, "Basic realm=x, Negotiate": true,
		" ,,\tNTLM": true, "": false, "Basic YTpi": false, "Bearer NTLM": false, "NTLMX": false, "Digest username=\"NTLM\"": false,
	} {
		if connectionBound([]byte(value)) != want {
			t.Errorf("%q: want %v", value, want)
		}
	}
}
