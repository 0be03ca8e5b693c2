package pool

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/token"
	pb "bigpipe/proto/bigpipe/v1"
)

// tokens is a bench with a wall clock that the test moves.
type tokens struct {
	*bench
	clock time.Time
}

func newTokens(t *testing.T) *tokens {
	b := &tokens{bench: newBench(t), clock: time.UnixMilli(1796083200123)}
	b.env.Now = func() time.Time { return b.clock }
	return b
}

// tokenPool is pool web with persist_mode token and a cookie x.
func tokenPool(change func(*pb.Pool), members ...string) *pb.Pool {
	p := &pb.Pool{Name: "web", PersistMode: pb.PersistMode_PERSIST_MODE_TOKEN.Enum(), TokenName: new("x")}
	if change != nil {
		change(p)
	}
	return withMembers(p, members...)
}

// clearToken is what begins a session at a member, where there are no keys.
func clearToken(member string) string {
	return string((&token.Codec{}).Append(nil, &token.Token{Addr: netip.MustParseAddrPort(member)}))
}

func inHeader(p *pb.Pool) {
	p.TokenType, p.TokenName = pb.TokenType_TOKEN_TYPE_HEADER.Enum(), new("X-Session-ID")
}

// visit makes one request, with the lines in its head, of which the member's response has others. It returns who answered and
// what the client gets.
func (b *tokens) visit(p *Pool, lines string, answered ...string) (member, got string) {
	b.t.Helper()
	i := in(client, web)
	i.Request = requestWith(lines)
	var d Decision
	if err := p.Choose(&d, i); err != nil {
		return err.Error(), ""
	}
	defer d.Release()
	d.Accepted()
	return d.Member.Addr.String(), answer(b.t, &d, d.SetCookie(), answered...)
}

// requestWith is the head of a request with more lines.
func requestWith(lines string) *http1.Head {
	var r http1.Request
	if n, err := r.Parse([]byte("GET / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n")); n == 0 || err != nil {
		panic(lines)
	}
	return &r.Head
}

// begin begins a session and returns its member and the line with which the client goes on.
func (b *tokens) begin(p *Pool) (member, line string) {
	b.t.Helper()
	member, got := b.visit(p, "")
	return member, b.next(got)
}

// next is the line of the next request of who got a response.
func (b *tokens) next(got string) string {
	b.t.Helper()
	if value, ok := strings.CutPrefix(got, "Set-Cookie: "); ok {
		pair, _, _ := strings.Cut(value, ";")
		return "Cookie: " + pair + "\r\n"
	}
	if !strings.HasPrefix(got, "X-Session-ID: v1.") {
		b.t.Fatalf("no token in %q", got)
	}
	return got + "\r\n"
}

// stays fails the test unless requests with a line reach a member, and get no new token.
func (b *tokens) stays(p *Pool, line, member string) {
	b.t.Helper()
	for range 3 {
		if m, got := b.visit(p, line); m != member || got != "" {
			b.t.Errorf("%sgot to %s with %q, want %s", line, m, got, member)
		}
	}
}

// moves fails the test unless a request with a line gets a new token.
func (b *tokens) moves(p *Pool, line string) (member, next string) {
	b.t.Helper()
	member, got := b.visit(p, line)
	return member, b.next(got)
}

func TestToken(t *testing.T) {
	b := newTokens(t)
	t.Run("G-2_first_response_carries_it_others_do_not", func(t *testing.T) {
		p := b.set(tokenPool(nil, s1, s2))
		m, got := b.visit(p, "")
		if !strings.HasPrefix(got, "Set-Cookie: x=v1.") || !strings.HasSuffix(got, "; Path=/; HttpOnly; SameSite=Strict") {
			t.Errorf("got %q", got)
		}
		b.stays(p, b.next(got), m)
	})
	t.Run("G-3_all_three_can_be_overridden", func(t *testing.T) {
		p := b.set(tokenPool(func(p *pb.Pool) {
			p.TokenHttponly, p.TokenPath = no(), new("/app")
			p.TokenSamesite, p.TokenSecure = pb.CookieSamesite_COOKIE_SAMESITE_LAX.Enum(), pb.TokenSecure_TOKEN_SECURE_ENABLE.Enum()
		}, s1))
		if _, got := b.visit(p, ""); !strings.HasSuffix(got, "; Path=/app; SameSite=Lax; Secure") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("G-9_name_of_a_cookie_without_one", func(t *testing.T) {
		p := b.set(tokenPool(func(p *pb.Pool) { p.Name, p.TokenName = "namespace/backend", nil }, s1))
		if _, got := b.visit(p, ""); !strings.HasPrefix(got, "Set-Cookie: gwsp-9acd8adcdb=v1.") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("G-6_header", func(t *testing.T) {
		p := b.set(tokenPool(inHeader, s1, s2))
		m, line := b.begin(p)
		value := strings.TrimSpace(strings.TrimPrefix(line, "X-Session-ID: "))
		other, _ := b.begin(p)
		if other == m {
			t.Fatal("both sessions began at one member")
		}
		for _, lines := range []string{
			line, "x-session-id: " + value + "\r\n", "X-SESSION-ID: bad, " + value + "\r\n",
			"X-Session-ID: bad\r\nx-session-id:\r\nx-session-id:  " + value + "\r\n",
		} {
			b.stays(p, lines, m)
		}
		b.moves(p, "Cookie: X-Session-ID="+value+"\r\n")
	})
	t.Run("persist_none_begins_anew", func(t *testing.T) {
		p := b.set(tokenPool(nil, s1, s2))
		m, line := b.begin(p)
		i := in(client, web)
		i.Request, i.Fresh = requestWith(line), true
		if d := choose(t, p, i); d.Member.Addr.String() == m || !d.SetCookie() {
			t.Errorf("at %s", d.Member.Addr)
		}
	})
	t.Run("no_record_is_made", func(t *testing.T) {
		if n := b.records(); n != 0 {
			t.Errorf("%d records", n)
		}
	})
}

// Rules G-4 and G-5.
func TestTokenLife(t *testing.T) {
	timeout := func(ms uint64) func(*pb.Pool) { return func(p *pb.Pool) { p.TokenTimeoutMs = &ms } }
	permanent := func(ms uint64) func(*pb.Pool) {
		return func(p *pb.Pool) {
			p.TokenTimeoutMs, p.TokenLifetime = &ms, pb.TokenLifetime_TOKEN_LIFETIME_PERMANENT.Enum()
		}
	}
	t.Run("G-4_session", func(t *testing.T) {
		b := newTokens(t)
		if _, got := b.visit(b.set(tokenPool(timeout(2000), s1)), ""); strings.Contains(got, "Max-Age") || strings.Contains(strings.ToLower(got), "expires") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("G-4_permanent_rounds_up", func(t *testing.T) {
		b := newTokens(t)
		for ms, want := range map[uint64]string{1: "Max-Age=1;", 1000: "Max-Age=1;", 1001: "Max-Age=2;", 300000: "Max-Age=300;"} {
			if _, got := b.visit(b.set(tokenPool(permanent(ms), s1)), ""); !strings.Contains(got, "; Path=/; "+want) {
				t.Errorf("%d ms: %q, want %s", ms, got, want)
			}
		}
	})
	t.Run("G-5_use_does_not_extend_it", func(t *testing.T) {
		b := newTokens(t)
		p := b.set(tokenPool(permanent(2000), s1, s2))
		m, line := b.begin(p)
		for range 3 {
			b.clock = b.clock.Add(600 * time.Millisecond)
			b.stays(p, line, m)
		}
		b.clock = b.clock.Add(199 * time.Millisecond)
		b.stays(p, line, m)
		b.clock = b.clock.Add(time.Millisecond)
		if _, next := b.moves(p, line); next == line {
			t.Error("the new session has the old token")
		}
		if n := p.Outcomes().GetExpired(); n != 1 {
			t.Errorf("expired %d", n)
		}
	})
	t.Run("G-5_without_a_timeout_it_lasts", func(t *testing.T) {
		b := newTokens(t)
		p := b.set(tokenPool(nil, s1, s2))
		m, line := b.begin(p)
		b.clock = b.clock.AddDate(50, 0, 0)
		b.stays(p, line, m)
	})
	t.Run("a_restart_changes_nothing", func(t *testing.T) {
		b := newTokens(t)
		_, _ = b.begin(b.set(tokenPool(timeout(2000), s1, s2)))
		m, line := b.begin(b.pools["web"])
		again := newTokens(t)
		again.stays(again.set(tokenPool(timeout(2000), s2, s1)), line, m)
	})
}

// Rule G-8.
func TestTokenConflict(t *testing.T) {
	backend := func(p *pb.Pool) { p.TokenOnConflict = pb.TokenOnConflict_TOKEN_ON_CONFLICT_BACKEND.Enum() }
	private := func(p *pb.Pool) { p.CachePrivate = yes() }
	tests := []struct {
		name     string
		change   func(*pb.Pool)
		returns  bool // with a token
		answered []string
		want     string // %: our line
	}{
		{"cookies_of_the_member_stay_in_order", nil, false, []string{"Set-Cookie: b=1", "A: 1", "Set-Cookie: a=2"}, "Set-Cookie: b=1\nA: 1\nSet-Cookie: a=2\n%"},
		{"ours_last", nil, false, []string{"Set-Cookie: x=theirs", "Set-Cookie: a=2"}, "Set-Cookie: x=theirs\nSet-Cookie: a=2\n%"},
		{"ours_is_said_again", nil, true, []string{"Set-Cookie: x=theirs"}, "Set-Cookie: x=theirs\n%"},
		{"names_of_cookies_differ_in_case", nil, true, []string{"Set-Cookie: X=theirs"}, "Set-Cookie: X=theirs"},
		{"backend", backend, false, []string{"Set-Cookie: x=theirs"}, "Set-Cookie: x=theirs"},
		{"backend_returning", backend, true, []string{"Set-Cookie: x=theirs"}, "Set-Cookie: x=theirs"},
		{"backend_without_conflict", backend, false, []string{"Set-Cookie: a=1"}, "Set-Cookie: a=1\n%"},
		{"header_replaced", inHeader, false, []string{"x-session-id: theirs", "A: 1"}, "A: 1\n%"},
		{"header_replaced_again", inHeader, true, []string{"x-session-id: theirs"}, "%"},
		{"header_backend", func(p *pb.Pool) { inHeader(p); backend(p) }, false, []string{"x-session-id: theirs"}, "x-session-id: theirs"},
		{"cache_private", private, false, nil, "%\nCache-Control: private"},
		{"cache_private_without_a_token", private, true, nil, ""},
		{"cache_private_already", private, false, []string{"Cache-Control: no-store"}, "Cache-Control: no-store\n%"},
	}
	for _, tt := range tests {
		t.Run("G-8_"+tt.name, func(t *testing.T) {
			b := newTokens(t)
			var log strings.Builder
			b.env.Log = slog.New(slog.NewTextHandler(&log, nil))
			p := b.set(tokenPool(tt.change, s1))
			lines := ""
			_, line := b.begin(p)
			if tt.returns {
				lines = line
			}
			_, got := b.visit(p, lines, tt.answered...)
			_, _ = b.visit(p, lines, tt.answered...)
			ours := "Set-Cookie: " + strings.TrimSuffix(strings.TrimPrefix(line, "Cookie: "), "\r\n") + "; Path=/; HttpOnly; SameSite=Strict"
			if p.tokens.header != "" {
				ours = strings.TrimSuffix(line, "\r\n")
			}
			if want := strings.Replace(tt.want, "%", ours, 1); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			told, collides := strings.Count(log.String(), "carries the pool's token"), 0
			if strings.Contains(strings.Join(tt.answered, "\n"), "theirs") && !strings.Contains(tt.name, "case") {
				collides = 1
			}
			if told != collides {
				t.Errorf("told %d times, want %d", told, collides)
			}
		})
	}
	t.Run("G-5_what_is_said_again_ends_when_it_did", func(t *testing.T) {
		b := newTokens(t)
		p := b.set(tokenPool(func(p *pb.Pool) {
			p.TokenTimeoutMs, p.TokenLifetime = new(uint64(10000)), pb.TokenLifetime_TOKEN_LIFETIME_PERMANENT.Enum()
		}, s1))
		_, line := b.begin(p)
		b.clock = b.clock.Add(4 * time.Second)
		_, got := b.visit(p, line, "Set-Cookie: x=theirs")
		ours := strings.TrimPrefix(got, "Set-Cookie: x=theirs\n")
		if b.next(ours) != line || !strings.Contains(ours, "Max-Age=6;") {
			t.Errorf("got %q for %q", got, line)
		}
	})
}

// Rules G-11 to G-13.
func TestTokenMembers(t *testing.T) {
	t.Run("G-11_draining", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		b.nodes[m] = &pb.Node{Enabled: no()}
		b.again()
		b.stays(b.pools["web"], line, m)
		for range 4 {
			if other, _ := b.visit(b.pools["web"], ""); other == m {
				t.Error("a new session at a draining member")
			}
		}
	})
	t.Run("G-11_down", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		b.nodes[m] = &pb.Node{Up: no()}
		b.again()
		other, next := b.moves(b.pools["web"], line)
		b.nodes[m] = &pb.Node{}
		b.again()
		b.stays(b.pools["web"], next, other)
		if n := b.pools["web"].Outcomes().GetDown(); n != 1 {
			t.Errorf("down %d", n)
		}
	})
	t.Run("G-11_refuses_connections", func(t *testing.T) {
		b := newTokens(t)
		p := b.set(tokenPool(nil, s1, s2))
		m, line := b.begin(p)
		i := in(client, web)
		i.Request = requestWith(line)
		d := choose(t, p, i)
		if err := d.Refused(); err != nil || d.Member.Addr.String() == m || !d.SetCookie() {
			t.Errorf("%v %v", err, d.Member)
		}
	})
	t.Run("B-16_at_its_limit_the_token_stays", func(t *testing.T) {
		b := newTokens(t)
		c := tokenPool(nil, s1, s2)
		c.Members[0].Limit = new(uint32(1))
		p := b.set(c)
		_, line := b.begin(p)
		i := in(client, web)
		i.Request = requestWith(line)
		choose(t, p, i)
		if m, got := b.visit(p, line); m != s2 || got != "" {
			t.Errorf("at %s with %q", m, got)
		}
	})
	t.Run("G-12_removed", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		p := b.set(tokenPool(nil, s2))
		b.clock = b.clock.Add(599 * time.Second)
		b.stays(p, line, m)
		p = b.set(tokenPool(nil, s2)) // further changes do not extend it
		b.stays(p, line, m)
		for range 4 {
			if other, _ := b.visit(p, ""); other != s2 {
				t.Errorf("a new session at %s", other)
			}
		}
		b.clock = b.clock.Add(time.Second)
		b.moves(p, line)
		if len(b.set(tokenPool(nil, s2)).retained) != 0 {
			t.Error("it is still kept")
		}
	})
	t.Run("G-12_token_retain", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		b.stays(b.set(tokenPool(func(p *pb.Pool) { p.TokenRetain = new(uint32(1)) }, s2)), line, m)
		b.moves(b.set(tokenPool(func(p *pb.Pool) { p.TokenRetain = new(uint32(0)) }, s2)), line)
	})
	t.Run("G-12_not_longer_than_the_session", func(t *testing.T) {
		b := newTokens(t)
		life := func(p *pb.Pool) { p.TokenTimeoutMs = new(uint64(1000)) }
		_, line := b.begin(b.set(tokenPool(life, s1, s2)))
		b.clock = b.clock.Add(time.Second)
		b.moves(b.set(tokenPool(life, s2)), line)
	})
	t.Run("G-12_removed_refuses_the_last_one_serves", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		p := b.set(tokenPool(nil, s2))
		i := in(client, web)
		i.Request = requestWith(line)
		d := choose(t, p, i)
		if d.Member.Addr.String() != m {
			t.Fatalf("at %s", d.Member.Addr)
		}
		if err := d.Refused(); err != nil || d.Member.Addr.String() != s2 || !d.SetCookie() {
			t.Errorf("%v %v", err, d.Member)
		}
		if err := d.Refused(); !errors.Is(err, ErrNoMember) {
			t.Error(err)
		}
	})
	t.Run("G-12_removed_and_disabled_or_down", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		b.nodes[m] = &pb.Node{Enabled: no()}
		b.stays(b.set(tokenPool(nil, s2)), line, m)
		b.nodes[m] = &pb.Node{Up: no()}
		b.moves(b.set(tokenPool(nil, s2)), line)
	})
	t.Run("epoch_new_is_another_machine", func(t *testing.T) {
		b := newTokens(t)
		_, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		b.set(tokenPool(nil, s2))
		c := tokenPool(nil, s1, s2)
		c.Members[0].Epoch = new(uint64(1))
		p := b.set(c)
		b.moves(p, line)
		if n := p.Outcomes().GetUnknownMember(); n != 1 {
			t.Errorf("unknown %d", n)
		}
	})
	t.Run("added_again_it_is_the_same", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		b.set(tokenPool(nil, s2))
		b.clock = b.clock.Add(time.Hour)
		b.stays(b.set(tokenPool(nil, s2, s1)), line, m)
	})
}

// TestToken_G-T12: what names no member of the pool is never followed (rule G-13).
func TestTokenHostile(t *testing.T) {
	for name, ring := range map[string]*cookie.Ring{"clear": nil, "encrypted": cookie.NewRing(cookie.Key{9})} {
		t.Run("G-T12_"+name, func(t *testing.T) {
			b := newTokens(t)
			b.env.Keys = ring
			p := b.set(tokenPool(nil, s1, s2))
			mint := func(addr string) string {
				return string(p.tokens.codec.Append(nil, &token.Token{Addr: netip.MustParseAddrPort(addr)}))
			}
			good := mint(s2)
			for _, value := range []string{
				"", `"`, "%", "AAAA", "1.2.3.4:80", "MS4yLjMuNDo4MA==", mint("10.9.9.9:80"), mint("127.0.0.1:18002"),
				strings.Repeat("a", 4096), good + good, good[:len(good)-1], `"` + good + `"`,
			} {
				m, got := b.visit(p, "Cookie: x="+value+"\r\n")
				if m != s1 && m != s2 || !strings.HasPrefix(got, "Set-Cookie: x=v1.") {
					t.Errorf("%.40q: at %s with %q", value, m, got)
				}
			}
			b.stays(p, "Cookie: other=1; x=bad; x="+good+"; JSESSIONID=z\r\n", s2)
			b.stays(p, "Cookie: x=bad\r\nCookie: a=b; x="+mint("10.9.9.9:80")+"; x="+good+"\r\n", s2)
			b.stays(p, "Cookie: x="+mint(s1)+"; x="+good+"\r\n", s1)
		})
	}
	t.Run("persist_unknown_refuse", func(t *testing.T) {
		b := newTokens(t)
		p := b.set(tokenPool(func(p *pb.Pool) { p.PersistUnknown = pb.Unavailable_UNAVAILABLE_REFUSE.Enum() }, s1))
		if m, _ := b.visit(p, "Cookie: x="+clearToken("10.9.9.9:80")+"\r\n"); m != ErrRefused.Error() {
			t.Error(m)
		}
	})
}

// Another dataplane with the same keys goes on with a session, whatever the order of its keys and members.
func TestTokenKeys(t *testing.T) {
	first, second := cookie.Key{1}, cookie.Key{2}
	one, two, without := newTokens(t), newTokens(t), newTokens(t)
	one.env.Keys, two.env.Keys = cookie.NewRing(first, second), cookie.NewRing(second, first)
	life := func(p *pb.Pool) {
		p.TokenTimeoutMs, p.TokenLifetime = new(uint64(10000)), pb.TokenLifetime_TOKEN_LIFETIME_PERMANENT.Enum()
	}
	m, line := one.begin(one.set(tokenPool(life, s1, s2)))
	one.stays(one.pools["web"], line, m)
	without.moves(without.set(tokenPool(life, s2, s1)), line)

	// A token of a key that is not the first any more is made anew, with the same end; without that key it is nothing.
	two.clock = two.clock.Add(4 * time.Second)
	at, got := two.visit(two.set(tokenPool(life, s2, s1)), line)
	renewed := two.next(got)
	if at != m || renewed == line || !strings.Contains(got, "Max-Age=6;") {
		t.Errorf("at %s with %q, want %s", at, got, m)
	}
	if n := two.pools["web"].Outcomes().GetBound(); n != 0 {
		t.Errorf("counted as %d new sessions", n)
	}
	two.env.Keys = cookie.NewRing(second)
	p := two.set(tokenPool(life, s2, s1))
	two.stays(p, renewed, m)
	two.moves(p, line)
	two.clock = two.clock.Add(6 * time.Second)
	two.moves(p, renewed)
}

func TestTokenExplained(t *testing.T) {
	b := newTokens(t)
	m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
	p := b.set(tokenPool(nil, s2))
	explain := func(lines string) string {
		i := in(client, web)
		i.Request = requestWith(lines)
		_, text := explained(p.Explain(i))
		return text
	}
	if got := explain(line); got != "the token in cookie x names member "+m+", which is unchecked and was removed\npersistence: valid" {
		t.Error(got)
	}
	if got := explain("Cookie: x=1\r\n"); got != "token in cookie x: malformed\nround_robin chooses member "+s2+"\npersistence: malformed\nthe response carries a token in cookie x" {
		t.Error(got)
	}
	if sum := p.Outcomes(); sum.GetValid() != 0 || sum.GetMalformed() != 0 {
		t.Errorf("counted: %v", sum)
	}
}

// A request with a token allocates nothing.
func TestTokenAllocates(t *testing.T) {
	b := newTokens(t)
	p := b.set(tokenPool(nil, s1, s2))
	_, line := b.begin(p)
	i := in(client, web)
	i.Request = requestWith("Cookie: a=b; x=bad\r\n" + line)
	var d Decision
	if n := testing.AllocsPerRun(100, func() {
		if p.Choose(&d, i) != nil || d.SetCookie() || !p.Knows(i) {
			t.Fatal("not followed")
		}
		d.Release()
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// Knows tells of each method whether it has met the client, and changes nothing.
func TestKnows(t *testing.T) {
	t.Run("token", func(t *testing.T) {
		b := newTokens(t)
		m, line := b.begin(b.set(tokenPool(nil, s1, s2)))
		i, none := in(client, web), in(client, web)
		i.Request, none.Request = requestWith(line), requestWith("")
		if p := b.pools["web"]; !p.Knows(i) || p.Knows(none) {
			t.Error("of two members")
		}
		b.nodes[m] = &pb.Node{Up: no()}
		b.again()
		if !b.pools["web"].Knows(i) {
			t.Error("the other member can serve")
		}
		b.nodes[s1], b.nodes[s2] = &pb.Node{Up: no()}, &pb.Node{Up: no()}
		b.again()
		if b.pools["web"].Knows(i) {
			t.Error("nobody can serve")
		}
	})
	t.Run("cookie", func(t *testing.T) {
		b := newBench(t)
		if p := b.set(inserting("web", s1, s2)); !p.Knows(asking(cookie2)) || p.Knows(asking("BIGipServerweb=1.1.0000")) {
			t.Error("by the cookie")
		}
	})
	t.Run("hash_knows_nobody", func(t *testing.T) {
		b := newBench(t)
		c := mode(inserting("web", s1, s2), pb.CookieMode_COOKIE_MODE_HASH)
		c.CookieHashName = new("A")
		if b.set(c).Knows(asking("A=b")) {
			t.Error("it does")
		}
	})
	t.Run("simple", func(t *testing.T) {
		b := newBench(t)
		p := b.set(simple("web", 10, s1, s2))
		if p.Knows(in(client, web)) {
			t.Error("before the first connection")
		}
		b.visit("web", client, web)
		if !p.Knows(in(client, web)) || p.Knows(in("127.0.0.99", web)) || b.records() != 1 {
			t.Error("after it")
		}
		b.pass(11 * time.Second)
		if p.Knows(in(client, web)) {
			t.Error("after its end")
		}
	})
	t.Run("no_pool_and_no_persistence", func(t *testing.T) {
		var none *Pool
		if none.Knows(in(client, web)) || newBench(t).set(withMembers(&pb.Pool{Name: "web"}, s1)).Knows(in(client, web)) {
			t.Error("it does")
		}
	})
}
