package pool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	pb "bigpipe/proto/bigpipe/v1"
)

// response is the head of a server's response with the lines.
func response(t *testing.T, lines ...string) *http1.Response {
	t.Helper()
	var r http1.Response
	r.Reset(http1.Asked{KeepAlive: true})
	text := "HTTP/1.1 200 OK\r\n" + strings.Join(append(lines, "Content-Length: 0", "", ""), "\r\n")
	if n, err := r.Parse([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%q: %d, %v", text, n, err)
	}
	return &r
}

// answer is what becomes of the lines of a server's response.
func answer(t *testing.T, d *Decision, due bool, lines ...string) string {
	t.Helper()
	r := response(t, lines...)
	e, _ := d.EditResponse(&r.Head, due, nil)
	out := string(r.AppendHead(nil, http1.KeepAlive)) + string(e.Lines)
	out = strings.TrimPrefix(out, "HTTP/1.1 200 OK\r\n")
	return strings.ReplaceAll(strings.TrimSuffix(strings.Replace(out, "Content-Length: 0\r\n", "", 1), "\r\n"), "\r\n", "\n")
}

// choose makes one decision, which the test releases at its end.
func choose(t *testing.T, p *Pool, i *Input) *Decision {
	t.Helper()
	d := &Decision{}
	if err := p.Choose(d, i); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Release)
	d.Accepted()
	return d
}

func asking(cookies ...string) *Input {
	i := in(client, web)
	i.Request = request(cookies...)
	return i
}

func mode(c *pb.Pool, m pb.CookieMode) *pb.Pool {
	c.CookieMode = m.Enum()
	return c
}

// t0 is the time of the pains' fixture.
var t0 = time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)

func TestRewrite(t *testing.T) {
	blank := func(n int) string { return "Set-Cookie: BIGipCookie=" + strings.Repeat("0", n) }
	ours := "Set-Cookie: BIGipServerweb=" + value1
	for _, tt := range []struct {
		name   string
		byRule bool
		change func(*pb.Pool)
		lines  []string
		want   string
	}{
		{"O-T20_120_zeros", false, nil, []string{blank(120)}, ours + "; path=/"},
		{"O-T20_75_zeros_with_pool", false, nil, []string{blank(75)}, ours + "; path=/"},
		{"O-T20_75_zeros_with_rule", true, nil, []string{blank(75)}, blank(75)},
		{"C-10_120_zeros_with_rule", true, nil, []string{blank(120)}, ours + "; path=/"},
		{"O-T20_abc", false, nil, []string{"Set-Cookie: BIGipCookie=abc"}, "Set-Cookie: BIGipCookie=abc"},
		{"C-10_no_blank_cookie", false, nil, []string{"X: y"}, "X: y"},
		{"C-10_other_attributes_stay", false, nil, []string{"set-cookie:" + blank(120)[11:] + ";Path=/app ;  Priority=High; expires=x"}, "set-cookie: BIGipServerweb=" + value1 + "; path=/;  Priority=High; expires=x"},
		{"C-10_our_expires", false, func(c *pb.Pool) { c.CookieExpiration = proto.Uint64(864000) }, []string{blank(120) + "; Expires=x; max-age=3"}, ours + "; expires=Thu, 10-Dec-2026 18:00:00 GMT; path=/"},
		{"pain_2_only_one", false, nil, []string{"Set-Cookie: a=1", blank(120), blank(120), "Set-Cookie2: a=1", "Set-Cookie: b=1"}, "Set-Cookie: a=1\n" + ours + "; path=/\nSet-Cookie2: a=1\nSet-Cookie: b=1"},
		{"cache_private", false, func(c *pb.Pool) { c.CachePrivate = proto.Bool(true) }, []string{blank(120)}, ours + "; path=/\nCache-Control: private"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.env.Now = func() time.Time { return t0 }
			c := mode(inserting("web", s1, s2), pb.CookieMode_COOKIE_MODE_REWRITE)
			if tt.change != nil {
				tt.change(c)
			}
			i := asking()
			i.ByRule = tt.byRule
			d := choose(t, b.set(c), i)
			if d.SetCookie() {
				t.Error("a cookie is due without a blank one")
			}
			b.want(answer(t, d, false, tt.lines...), tt.want)
		})
	}
	for _, n := range []int{1, 74, 119, 121, 4000} {
		t.Run(fmt.Sprintf("pain_4_%d_zeros", n), func(t *testing.T) {
			d := choose(t, newBench(t).set(mode(inserting("web", s1, s2), pb.CookieMode_COOKIE_MODE_REWRITE)), asking())
			if got := answer(t, d, false, blank(n), "X-After: ok"); got != blank(n)+"\nX-After: ok" {
				t.Errorf("became %q", got)
			}
		})
	}
	t.Run("reads_its_cookie", func(t *testing.T) {
		b := newBench(t)
		b.want(ask(t, b.set(mode(inserting("web", s1, s2), pb.CookieMode_COOKIE_MODE_REWRITE)), request(cookie2)), s2)
	})
}

func TestInsertEdits(t *testing.T) {
	set := strings.TrimSuffix(strings.TrimPrefix(set1(), s1+" "), "\r\n")
	for _, tt := range []struct {
		name   string
		change func(*pb.Pool)
		lines  []string
		want   string
	}{
		{"pain_2_order_and_bytes", nil, []string{"Set-Cookie:a=1", "Set-Cookie: BIGipServerweb=zz", "SET-COOKIE:  b=2 "}, "Set-Cookie:a=1\nSET-COOKIE:  b=2 \n" + set},
		{"pain_14_not_set", func(c *pb.Pool) { c.CookieOnlyWhen = proto.String("JSESSIONID") }, []string{"Set-Cookie: other=1"}, "Set-Cookie: other=1"},
		{"pain_14_set", func(c *pb.Pool) { c.CookieOnlyWhen = proto.String("JSESSIONID") }, []string{"Set-Cookie: JSESSIONID=1"}, "Set-Cookie: JSESSIONID=1\n" + set},
		{"cache_private", func(c *pb.Pool) { c.CachePrivate = proto.Bool(true) }, []string{"Cache-Control: public"}, "Cache-Control: public\n" + set + "\nCache-Control: private"},
		{"cache_private_already", func(c *pb.Pool) { c.CachePrivate = proto.Bool(true) }, []string{"cache-control: max-age=3 , No-Store"}, "cache-control: max-age=3 , No-Store\n" + set},
		{"pain_17_attributes", func(c *pb.Pool) {
			c.CookieSecure, c.CookieHttponly, c.CookieSamesite = proto.Bool(true), proto.Bool(true), pb.CookieSamesite_COOKIE_SAMESITE_LAX.Enum()
		}, nil, set + "; Secure; HttpOnly; SameSite=Lax"},
		{"pain_18_domain", func(c *pb.Pool) { c.CookieDomain = proto.String(".example.com") }, nil, set + "; domain=.example.com"},
		{"path", func(c *pb.Pool) { c.CookiePath = proto.String("/shop") }, nil, strings.Replace(set, "path=/", "path=/shop", 1)},
		{"name", func(c *pb.Pool) { c.CookieName = proto.String("lb") }, []string{"Set-Cookie: lb=1"}, strings.Replace(set, "BIGipServerweb", "lb", 1)},
		{"pain_19_expiration", func(c *pb.Pool) { c.CookieExpiration = proto.Uint64(3600) }, nil, strings.Replace(set, ";", "; expires=Mon, 30-Nov-2026 19:00:00 GMT;", 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.env.Now = func() time.Time { return t0 }
			c := inserting("web", s1, s2)
			if tt.change != nil {
				tt.change(c)
			}
			d := choose(t, b.set(c), asking())
			b.want(answer(t, d, true, tt.lines...), tt.want)
			private := strings.HasPrefix(tt.name, "cache_private")
			if got := answer(t, d, false, "X: y"); got != "X: y" && !private {
				t.Errorf("a cookie that is not due: %q", got)
			}
		})
	}
}

func TestStrip(t *testing.T) {
	b := newBench(t)
	c := inserting("web", s1, s2)
	c.CookieStrip = proto.Bool(true)
	text := "GET / HTTP/1.1\r\nHost: h\r\nCookie: " + cookie1 + "\r\nCookie: a=1; " + cookie2 + ";  b=\"2\"\r\ncookie:c=3;;\r\n\r\n"
	var q http1.Request
	if _, err := q.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	d := choose(t, b.set(c), &Input{Client: at("127.0.0.9:1"), Virtual: at(web), Request: &q.Head})
	d.EditRequest(&q, nil)
	b.want(string(q.AppendHead(nil, http1.KeepAlive)), "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1;  b=\"2\"\r\ncookie:c=3;;\r\n")
}

func key(n byte) (k cookie.Key) {
	k[0] = n
	return k
}

// sealed is a pool with cookie_encryption, and its cookie for s2.
func sealed(e pb.CookieEncryption, change func(*pb.Pool)) *pb.Pool {
	c := inserting("web", s1, s2)
	c.CookieEncryption = e.Enum()
	if change != nil {
		change(c)
	}
	return c
}

// setCookie returns the pair that a decision sets.
func setCookie(t *testing.T, p *Pool, cookies ...string) string {
	t.Helper()
	d := choose(t, p, asking(cookies...))
	if !d.SetCookie() {
		t.Fatalf("no cookie is due; %s", d.outcome)
	}
	pair, _, _ := strings.Cut(answer(t, d, true), ";")
	return strings.TrimPrefix(pair, "Set-Cookie: ")
}

func TestEncryption(t *testing.T) {
	const preferred, required = pb.CookieEncryption_COOKIE_ENCRYPTION_PREFERRED, pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED
	keyed := func(t *testing.T, keys ...cookie.Key) *bench {
		b := newBench(t)
		b.env.Keys = cookie.NewRing(keys[0], keys[1:]...)
		return b
	}
	where := func(t *testing.T, p *Pool, cookies ...string) string {
		t.Helper()
		d := choose(t, p, asking(cookies...))
		return fmt.Sprint(d.Member.Addr, " ", d.outcome, " ", d.SetCookie())
	}
	t.Run("O-T19_required", func(t *testing.T) {
		b, other := keyed(t, key(1)), keyed(t, key(2))
		p := b.set(sealed(required, nil))
		b.want(where(t, p, cookie2), s1+" malformed true")
		ours, theirs := setCookie(t, p), setCookie(t, other.set(sealed(required, nil)))
		b.want(where(t, p, ours), s2+" valid false")
		b.want(where(t, p, theirs), s1+" malformed true")
	})
	t.Run("C-9_preferred_renews_clear_cookies", func(t *testing.T) {
		b := keyed(t, key(1))
		p := b.set(sealed(preferred, nil))
		b.want(where(t, p, cookie2), s2+" valid true")
		renewed := setCookie(t, p, cookie2)
		b.want(where(t, p, renewed), s2+" valid false")
	})
	t.Run("C-9_ring_first_encrypts_all_decrypt", func(t *testing.T) {
		before, after := keyed(t, key(1)), keyed(t, key(2), key(1))
		old := setCookie(t, before.set(sealed(required, nil)))
		p := after.set(sealed(required, nil))
		after.want(where(t, p, old), s1+" valid true") // it is renewed
		renewed := setCookie(t, p, old)
		after.want(where(t, p, renewed), s1+" valid false")
		before.want(where(t, before.pools["web"], renewed), s2+" malformed true")
		alone := keyed(t, key(2))
		alone.want(where(t, alone.set(sealed(required, nil)), renewed), s1+" valid false")
		// What ends by itself keeps its end.
		p = after.set(sealed(required, func(c *pb.Pool) {
			c.CookieLifetime, c.CookieExpiration = pb.CookieLifetime_COOKIE_LIFETIME_SERVER.Enum(), proto.Uint64(3600)
		}))
		after.want(where(t, p, setCookie(t, before.pools["web"])), s1+" valid false")
	})
	t.Run("pain_24_nothing_shows", func(t *testing.T) {
		b := keyed(t, key(1))
		p := b.set(sealed(required, func(c *pb.Pool) { c.Members = c.Members[1:] }))
		seen := map[string]bool{}
		for range 1000 {
			pair := setCookie(t, p)
			_, value, _ := strings.Cut(pair, "=")
			if len(value) != cookie.SealedSize || seen[value] || strings.Contains(value, "33554559") || strings.Contains(value, "127.0.0.2") {
				t.Fatalf("cookie %q", value)
			}
			seen[value] = true
		}
		pair := []byte(setCookie(t, p))
		for i := len("BIGipServerweb=!"); i < len(pair); i++ {
			pair[i] ^= 1
			if d := choose(t, p, asking(string(pair))); d.outcome != OutcomeMalformed {
				t.Errorf("flipped byte %d: %s", i, d.outcome)
			}
			pair[i] ^= 1
		}
	})
	t.Run("another_name_is_another_cookie", func(t *testing.T) {
		b := keyed(t, key(1))
		p := b.set(sealed(required, nil))
		_, value, _ := strings.Cut(setCookie(t, b.set(sealed(required, func(c *pb.Pool) { c.Name = "other" }))), "=")
		b.want(where(t, p, "BIGipServerweb="+value), s1+" malformed true")
	})
	t.Run("member_epoch", func(t *testing.T) {
		b := keyed(t, key(1))
		old := setCookie(t, b.set(sealed(required, nil)))
		p := b.set(sealed(required, func(c *pb.Pool) { c.Members[0].Epoch = proto.Uint64(1) }))
		d := choose(t, p, asking(old))
		if d.outcome != OutcomeUnknownMember || !d.SetCookie() {
			t.Errorf("%s, cookie %t", d.outcome, d.SetCookie())
		}
	})
	t.Run("pain_21_22_23_server_ends_its_life", func(t *testing.T) {
		now := t0
		b, other := keyed(t, key(1)), keyed(t, key(1))
		b.env.Now = func() time.Time { return now }
		other.env.Now = b.env.Now
		hour := func(c *pb.Pool) {
			c.CookieLifetime, c.CookieExpiration = pb.CookieLifetime_COOKIE_LIFETIME_SERVER.Enum(), proto.Uint64(3600)
		}
		p := b.set(sealed(required, hour))
		pair := setCookie(t, p)
		now = t0.Add(time.Hour)
		b.want(where(t, other.set(sealed(required, hour)), pair), s1+" valid false")
		now = t0.Add(time.Hour + time.Second)
		b.want(where(t, p, pair), s2+" expired true")
		if n := p.Outcomes().GetExpired(); n != 1 {
			t.Errorf("%d expired", n)
		}
		now = t0.AddDate(0, 0, 30)
		p = b.set(sealed(required, func(c *pb.Pool) { c.CookieLifetime = pb.CookieLifetime_COOKIE_LIFETIME_SERVER.Enum() }))
		b.want(where(t, p, pair), s1+" valid false")
	})
	t.Run("without_a_key", func(t *testing.T) {
		for e, want := range map[pb.CookieEncryption]string{preferred: s2 + " valid false", required: s1 + " off false"} {
			p, reasons := Compile(sealed(e, nil), &newBench(t).env, nil)
			if len(reasons) != 1 || !strings.Contains(reasons[0], "no cookie_key") {
				t.Errorf("%s: reasons %q", e, reasons)
			}
			if got := where(t, p, cookie2); got != want {
				t.Errorf("%s: %s, want %s", e, got, want)
			}
			if d := choose(t, p, asking()); d.SetCookie() {
				t.Errorf("%s: a clear cookie", e)
			}
		}
	})
	t.Run("not_possible", func(t *testing.T) {
		for want, c := range map[string]*pb.Pool{
			"cookie_lifetime server": sealed(0, func(c *pb.Pool) { c.CookieLifetime = pb.CookieLifetime_COOKIE_LIFETIME_SERVER.Enum() }),
			"cookie_mode passive":    mode(sealed(required, nil), pb.CookieMode_COOKIE_MODE_PASSIVE),
		} {
			b := keyed(t, key(1))
			p, reasons := Compile(c, &b.env, nil)
			if len(reasons) != 1 || !strings.Contains(reasons[0], want) {
				t.Errorf("reasons %q, want %s", reasons, want)
			}
			b.want(where(t, p, cookie2), s2+" valid false")
		}
	})
}
