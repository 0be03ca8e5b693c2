package forward

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// instances starts i1 and i2, which answer with the lines that a request asks for: "Answer: Set-Cookie: a=b".
func instances(t testing.TB) []*origin {
	serve := func(o *origin, p *peer) {
		for {
			r := o.read(p)
			if r == "" {
				return
			}
			extra := ""
			for line := range strings.SplitSeq(r, "\r\n") {
				if answer, ok := strings.CutPrefix(line, "Answer: "); ok {
					extra += answer + "\r\n"
				}
			}
			p.send(strings.Replace(ok(o.name), "\r\n", "\r\n"+extra, 1))
		}
	}
	return []*origin{newOrigin(t, "i1", "127.0.0.11:0", serve), newOrigin(t, "i2", "127.0.0.12:0", serve)}
}

// jroutePool is a pool of origins with the routes R1, R2 and so on.
func jroutePool(change func(*pb.Pool), origins ...*origin) *pb.Pool {
	p := &pb.Pool{Name: "app", PersistMode: pb.PersistMode_PERSIST_MODE_JROUTE.Enum()}
	for i, o := range origins {
		p.Members = append(p.Members, &pb.Member{Address: o.addr.String(), Route: new(fmt.Sprintf("R%d", i+1))})
	}
	if change != nil {
		change(p)
	}
	return p
}

func jrouteLab(t testing.TB, change func(*pb.Pool), origins ...*origin) *lab {
	t.Helper()
	p := compilePool(t, jroutePool(change, origins...), nil)
	return newLab(t, Settings{HTTP: true, PerRequest: p.PerRequest(), Pools: []*pool.Pool{p}})
}

// told says who answered, and the cookies that the response sets, one a line.
func told(response string) string {
	name, set := "", ""
	for line := range strings.SplitSeq(response, "\r\n") {
		if v, ok := strings.CutPrefix(line, "X-Server: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(line, "Set-Cookie: "); ok {
			set += "\n" + v
		}
	}
	if name == "" {
		status, _, _ := strings.Cut(strings.TrimPrefix(response, "HTTP/1.1 "), " ")
		return status
	}
	return name + set
}

// last is the last request that an origin got.
func (o *origin) last() string {
	if _, list := o.seen(); len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

func wants(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func underApp(p *pb.Pool) { p.JrouteContext = []string{"/app"} }

// withAll configures what a request has to pass.
func withAll(p *pb.Pool) {
	p.JrouteContext = []string{"/", "/app"}
	p.JrouteIdempotent = []*pb.IdempotentPattern{{Pattern: "*.html"}}
}

func path(target string, lines ...string) string {
	return strings.Replace(get(lines...), "GET / ", "GET "+target+" ", 1)
}

func TestJroute(t *testing.T) {
	t.Run("J-T1_without_sessions_the_rotation_and_no_routes", func(t *testing.T) {
		o := instances(t)
		c := jrouteLab(t, nil, o...).dial()
		for i := range 4 {
			c.send(get())
			r := c.response()
			wants(t, told(r), o[i%2].name)
			if strings.Contains(r, "JROUTE") {
				t.Errorf("a route in %q", r)
			}
		}
	})
	t.Run("J-T2_a_session_gets_its_route", func(t *testing.T) {
		o := instances(t)
		r := jrouteLab(t, nil, o...).ask(get("Answer: Set-Cookie: JSESSIONID=abc; Path=/app; HttpOnly", "proxy-JROUTE: R2"))
		wants(t, told(r), "i1\nJSESSIONID=abc; Path=/app; HttpOnly\nJROUTE=R1; Path=/app; HttpOnly")
		if seen := o[0].last(); strings.Count(strings.ToLower(seen), "proxy-jroute:") != 1 || !strings.Contains(seen, "\r\nProxy-jroute: R1\r\n") {
			t.Errorf("the member saw %q", seen)
		}
	})
	t.Run("J-T3_assigned_requests_leave_the_rotation", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, nil, o...)
		c := b.dial() // rule O-14: on one kept connection
		for i := range 20 {
			c.send(get("Cookie: JSESSIONID=abc; JROUTE=R1"))
			wants(t, told(c.response()), "i1")
			c.send(get())
			wants(t, told(c.response()), o[i%2].name)
		}
	})
	t.Run("J-T4_route_in_the_path", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, nil, o...)
		c := b.dial()
		for range 3 {
			c.send(path("/app/p;jsessionid=abc:R2?x=1"))
			wants(t, told(c.response()), "i2")
			if seen := o[1].last(); !strings.HasPrefix(seen, "GET /app/p;jsessionid=abc?x=1 HTTP/1.1\r\n") {
				t.Errorf("the member saw %q", seen)
			}
		}
		c.send("GET http://h/app/p;jsessionid=abc:R2?x=1 HTTP/1.1\r\nHost: h\r\n\r\n")
		wants(t, told(c.response()), "i2")
		if seen := o[1].last(); !strings.HasPrefix(seen, "GET /app/p;jsessionid=abc?x=1 HTTP/1.1\r\n") {
			t.Errorf("the member saw %q", seen)
		}
	})
	t.Run("J-T4_jroute_strip_disable", func(t *testing.T) {
		o := instances(t)
		jrouteLab(t, func(p *pb.Pool) { p.JrouteStrip = new(false) }, o...).ask(path("/app/p;jsessionid=abc:R2?x=1"))
		if seen := o[1].last(); !strings.HasPrefix(seen, "GET /app/p;jsessionid=abc:R2?x=1 HTTP/1.1\r\n") {
			t.Errorf("the member saw %q", seen)
		}
	})
	t.Run("J-T5_cookie_wins", func(t *testing.T) {
		o := instances(t)
		c := jrouteLab(t, nil, o...).dial()
		for range 3 {
			c.send(path("/app/p;jsessionid=abc:R2", "Cookie: JROUTE=R1"))
			wants(t, told(c.response()), "i1")
		}
	})
	t.Run("J-T6_failover", func(t *testing.T) {
		o := instances(t)
		config := jroutePool(underApp, o...)
		p := compilePool(t, config, nil)
		b := newLab(t, Settings{HTTP: true, PerRequest: true, Pools: []*pool.Pool{p}})
		o[0].stop()
		c := b.dial()
		c.send(path("/app/p", "Cookie: JSESSIONID=abc; JROUTE=R1"))
		wants(t, told(c.response()), "i2\nJROUTE=R2; Path=/app")
		wants(t, p.Members()[0].State().String(), "down") // by the first refusal, without passive_health: rule J-14
		back := newOrigin(t, "i1", o[0].addr.String(), nil)
		p.Members()[0].Health().Retry()
		c.send(path("/app/p", "Cookie: JSESSIONID=abc; JROUTE=R2"))
		wants(t, told(c.response()), "i2")
		c.send(path("/app/p", "Cookie: JROUTE=R1"))
		wants(t, told(c.response()), "i1")
		back.stop()
	})
	t.Run("J-T7_unknown_route", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, nil, o...)
		c := b.dial()
		for i := range 4 {
			c.send(get("Cookie: JROUTE=zzzz"))
			wants(t, told(c.response()), o[i%2].name)
		}
		c.send(path("/;jsessionid=abc:zzzz"))
		wants(t, told(c.response()), "i1")
		c.send(get("Cookie: JROUTE=zzzz; JSESSIONID=abc")) // there is a session to keep
		wants(t, told(c.response()), "i2\nJROUTE=R2; Path=/")
		if n := b.set.Pools[0].Outcomes().GetUnknownMember(); n != 6 {
			t.Errorf("%d unknown", n)
		}
	})
	t.Run("J-T9_long_targets", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, nil, o...)
		fits := "/" + strings.Repeat("a", 8191)
		wants(t, told(b.ask(path(fits))), "i1")
		wants(t, told(b.ask(path(fits+"b"))), "414")
		_, one := o[0].seen()
		_, two := o[1].seen()
		if len(one) != 1 || len(two) != 0 {
			t.Errorf("%d and %d requests", len(one), len(two))
		}
		if n := b.table.LongTargets(); n != 1 {
			t.Errorf("%d counted", n)
		}
	})
	t.Run("J-T11_quiesced", func(t *testing.T) {
		o := instances(t)
		off := &pb.Node{Address: o[0].addr.String(), Enabled: new(false)}
		b := newLab(t, Settings{HTTP: true, PerRequest: true, Pools: []*pool.Pool{compilePool(t, jroutePool(func(p *pb.Pool) {
			p.Members[0].DrainTimeout = new(uint32(60))
		}, o...), nil, off)}})
		c := b.dial()
		for range 3 {
			c.send(get("Cookie: JROUTE=R1"))
			wants(t, told(c.response()), "i1")
			c.send(get())
			wants(t, told(c.response()), "i2")
		}
		if ended := b.set.Pools[0].Drain(time.Now().Add(61 * time.Second)); len(ended) != 1 {
			t.Fatalf("%d ended", len(ended))
		}
		c.send(get("Cookie: JROUTE=R1"))
		wants(t, told(c.response()), "i2\nJROUTE=R2; Path=/")
	})
	t.Run("J-6_chained_proxies", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, nil, o...)
		c := b.dial()
		c.send(get("Answer: Set-Cookie: JSESSIONID=a; Path=/", "Answer: Set-Cookie: JROUTE=inner; Path=/"))
		wants(t, told(c.response()), "i1\nJSESSIONID=a; Path=/\nJROUTE=R1.inner; Path=/")
		c.send(get("Cookie: x=1; JROUTE=R2.inner;  y=2"))
		wants(t, told(c.response()), "i2")
		if seen := o[1].last(); !strings.Contains(seen, "\r\nCookie: x=1; JROUTE=inner;  y=2\r\n") {
			t.Errorf("the member saw %q", seen)
		}
	})
	t.Run("J-21_contexts", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, underApp, o...)
		c := b.dial()
		for i, target := range []string{"/apple", "/", "/APP/x", "/apple;jsessionid=a:R2"} {
			c.send(path(target, "Cookie: JROUTE=R2", "Answer: Set-Cookie: JSESSIONID=a; Path=/", "Proxy-jroute: R9"))
			wants(t, told(c.response()), o[i%2].name+"\nJSESSIONID=a; Path=/")
			if seen := o[i%2].last(); strings.Contains(seen, "roxy-jroute") || !strings.HasPrefix(seen, "GET "+target+" ") {
				t.Errorf("the member saw %q", seen)
			}
		}
		for _, target := range []string{"/app", "/app/x", "/app;jsessionid=a:R2", "/app?x"} {
			c.send(path(target, "Cookie: JROUTE=R2"))
			wants(t, told(c.response()), "i2")
		}
	})
	t.Run("jroute_suffix", func(t *testing.T) {
		o := instances(t)
		b := jrouteLab(t, nil, o...)
		c := b.dial()
		for range 3 {
			c.send(get("Cookie: JSESSIONID=x.R2"))
			wants(t, told(c.response()), "i2")
			c.send(path("/p;jsessionid=x.R2"))
			wants(t, told(c.response()), "i2")
			if seen := o[1].last(); !strings.HasPrefix(seen, "GET /p;jsessionid=x.R2 ") {
				t.Errorf("the member saw %q", seen)
			}
		}
	})
}

// hangs answers what it is asked for under /fast, and nothing else.
func hangs(o *origin, p *peer) {
	for r := o.read(p); strings.Contains(r, " /fast"); r = o.read(p) {
		p.send(ok(o.name))
	}
	_, _ = p.Read(make([]byte, 1))
}

func impatient(p *pb.Pool) {
	p.ResponseTimeout = new(uint32(1))
	p.JrouteIdempotent = []*pb.IdempotentPattern{{Pattern: "/ro/*"}, {Pattern: "/once/*", Retries: new(int32(1))}, {Pattern: "/never/*", Retries: new(int32(0))}}
}

func TestJrouteReplay(t *testing.T) {
	tests := []struct{ name, request, want string }{
		{"idempotent", path("/ro/x", "Cookie: JROUTE=R1"), "i2\nJROUTE=R2; Path=/"},
		{"idempotent_by_the_path", path("/ro/x;jsessionid=a:R1?q=1"), "i2"},
		{"idempotent_with_a_body", "POST /ro/x HTTP/1.1\r\nHost: h\r\nCookie: JROUTE=R1\r\nContent-Length: 2\r\n\r\nab", "i2\nJROUTE=R2; Path=/"},
		{"others", "POST /rw HTTP/1.1\r\nHost: h\r\nCookie: JROUTE=R1\r\nContent-Length: 2\r\n\r\nab", "504"},
		{"get_is_no_pattern", path("/rw", "Cookie: JROUTE=R1"), "504"},
		{"pattern_without_retries", path("/never/x", "Cookie: JROUTE=R1"), "504"},
	}
	for _, tt := range tests {
		t.Run("J-T12_"+tt.name, func(t *testing.T) {
			t.Parallel()
			two := instances(t)[1]
			o := []*origin{newOrigin(t, "i1", "127.0.0.11:0", hangs), two}
			b := jrouteLab(t, impatient, o...)
			wants(t, told(b.ask(tt.request)), tt.want)
			wants(t, b.set.Pools[0].Members()[0].State().String(), "down")
			if _, seen := two.seen(); tt.want == "504" && len(seen) != 0 {
				t.Errorf("replayed: %q", seen)
			}
			if strings.HasSuffix(tt.request, "ab") && tt.want != "504" && !strings.HasSuffix(two.last(), "\r\n\r\nab") {
				t.Errorf("the body is lost: %q", two.last())
			}
		})
	}
	t.Run("J-15_no_more_than_n", func(t *testing.T) {
		t.Parallel()
		var o []*origin
		for i := range 3 {
			o = append(o, newOrigin(t, fmt.Sprint("i", i), fmt.Sprintf("127.0.0.1%d:0", i+1), hangs))
		}
		b := jrouteLab(t, impatient, o...)
		wants(t, told(b.ask(path("/once/x"))), "504")
		if _, seen := o[2].seen(); len(seen) != 0 {
			t.Errorf("the third one saw %q", seen)
		}
	})
	t.Run("J-15_nothing_left", func(t *testing.T) {
		t.Parallel()
		o := []*origin{newOrigin(t, "i1", "127.0.0.11:0", hangs), newOrigin(t, "i2", "127.0.0.12:0", hangs)}
		wants(t, told(jrouteLab(t, impatient, o...).ask(path("/ro/x"))), "503")
	})
	t.Run("J-15_a_body_in_transit_is_not_repeated", func(t *testing.T) {
		t.Parallel()
		two := instances(t)[1]
		b := jrouteLab(t, impatient, newOrigin(t, "i1", "127.0.0.11:0", func(o *origin, p *peer) {
			p.head()
			p.bytes(1)
		}), two)
		c := b.dial()
		c.send("POST /ro/x HTTP/1.1\r\nHost: h\r\nCookie: JROUTE=R1\r\nContent-Length: 2\r\n\r\na")
		wants(t, told(c.response()), "502")
		if _, seen := two.seen(); len(seen) != 0 {
			t.Errorf("replayed: %q", seen)
		}
	})
	t.Run("error_url", func(t *testing.T) {
		t.Parallel()
		one := newOrigin(t, "i1", "127.0.0.11:0", hangs)
		b := jrouteLab(t, func(p *pb.Pool) {
			impatient(p)
			p.JrouteErrorUrl = new("http://sorry/%h")
		}, one)
		c := b.dial()
		for _, request := range []string{path("/rw"), path("/ro/x")} { // then it is down, and tried all the same
			c.send(request)
			if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 302 ") || !strings.Contains(r, "\r\nLocation: http://sorry/%h\r\n") {
				t.Errorf("answer %q", r)
			}
		}
		one.stop()
		c.send(path("/rw"))
		if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 302 ") {
			t.Errorf("answer %q", r)
		}
	})
}

// Rule J-13: where all are unhealthy the member of the route is tried first, once, then any.
func TestJrouteAllUnhealthy(t *testing.T) {
	o := instances(t)
	b := jrouteLab(t, nil, o...)
	p := b.set.Pools[0]
	c := b.dial()
	for _, origin := range o {
		origin.stop()
	}
	c.send(get())
	wants(t, told(c.response()), "503")
	for _, m := range p.Members() {
		wants(t, m.State().String(), "down")
	}
	back := newOrigin(t, "i2", o[1].addr.String(), nil)
	for range 3 {
		c.send(get("Cookie: JROUTE=R2"))
		wants(t, told(c.response()), "i2")
	}
	c.send(get("Cookie: JROUTE=R1"))
	wants(t, told(c.response()), "i2\nJROUTE=R2; Path=/")
	c.send(get())
	wants(t, told(c.response()), "i2")
	back.stop()
}

// Pain 79: what a client invents makes no record and leads nowhere.
func TestJrouteInventedSessions(t *testing.T) {
	o := instances(t)
	b := jrouteLab(t, nil, o...)
	c := b.dial()
	count := map[string]int{}
	for i := range 300 {
		session := "same"
		if i%2 == 1 {
			session = fmt.Sprint("random", i)
		}
		c.send(get("Cookie: JSESSIONID=" + session))
		count[told(c.response())]++
	}
	if count["i1"] != 150 || count["i2"] != 150 || b.set.Pools[0].Records() != 0 {
		t.Errorf("%v, %d records", count, b.set.Pools[0].Records())
	}
}
