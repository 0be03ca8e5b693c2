package pool

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/jroute"
	pb "bigpipe/proto/bigpipe/v1"
)

// routed is pool p with persist_mode jroute, whose members have the routes R1, R2 and so on.
func routed(change func(*pb.Pool), members ...string) *pb.Pool {
	p := withMembers(&pb.Pool{Name: "p", PersistMode: pb.PersistMode_PERSIST_MODE_JROUTE.Enum()}, members...)
	for i, m := range p.Members {
		m.Route = proto.String([]string{"R1", "R2", "R3"}[i])
	}
	if change != nil {
		change(p)
	}
	return p
}

// asks is what a request for a target brings, with lines in its head.
func asks(target, lines string) (*Input, *http1.Request) {
	q := &http1.Request{}
	text := "GET " + target + " HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n"
	if n, err := q.Parse([]byte(text)); n != len(text) || err != nil {
		panic(text)
	}
	i := in(client, web)
	i.Request, i.Target = &q.Head, q.Target()
	return i, q
}

func TestJrouteCookies(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		name, lines string
		answered    []string
		want        string
	}{
		{"J-6_companion", "", []string{"Set-Cookie: JSESSIONID=a; Path=/app; HttpOnly"}, "Set-Cookie: JSESSIONID=a; Path=/app; HttpOnly\nSet-Cookie: JROUTE=R1; Path=/app; HttpOnly"},
		{"J-6_single_sign_on", "", []string{"Set-Cookie: JSESSIONIDSSO=a; Path=/"}, "Set-Cookie: JSESSIONIDSSO=a; Path=/\nSet-Cookie: JROUTE=R1; Path=/"},
		{"J-6_equal_attributes_once", "", []string{"Set-Cookie: JSESSIONID=a; Path=/", "Set-Cookie: JSESSIONIDSSO=b;path=/"}, "Set-Cookie: JSESSIONID=a; Path=/\nSet-Cookie: JSESSIONIDSSO=b;path=/\nSet-Cookie: JROUTE=R1; Path=/"},
		{"J-6_two_paths", "", []string{"Set-Cookie: JSESSIONID=a; Path=/a", "Set-Cookie: JSESSIONID=b; Path=/b"}, "Set-Cookie: JSESSIONID=a; Path=/a\nSet-Cookie: JSESSIONID=b; Path=/b\nSet-Cookie: JROUTE=R1; Path=/a\nSet-Cookie: JROUTE=R1; Path=/b"},
		{"J-6_the_end_of_a_session", "", []string{"Set-Cookie: JSESSIONID=; Max-Age=0; Path=/app"}, "Set-Cookie: JSESSIONID=; Max-Age=0; Path=/app\nSet-Cookie: JROUTE=R1; Max-Age=0; Path=/app"},
		{"J-6_other_names", "", []string{"Set-Cookie: jsessionid=a", "Set-Cookie: PHPSESSID=b"}, "Set-Cookie: jsessionid=a\nSet-Cookie: PHPSESSID=b"},
		{"J-5_a_member_that_does_it_itself", "", []string{"Set-Cookie: JSESSIONID=a; Path=/app", "Set-Cookie: JROUTE=R1;Path=/app"}, "Set-Cookie: JSESSIONID=a; Path=/app\nSet-Cookie: JROUTE=R1;Path=/app"},
		{"J-5_with_other_attributes", "", []string{"Set-Cookie: JSESSIONID=a; Path=/app", "Set-Cookie: JROUTE=R1;Path=/"}, "Set-Cookie: JSESSIONID=a; Path=/app\nSet-Cookie: JROUTE=R1;Path=/\nSet-Cookie: JROUTE=R1; Path=/app"},
		{"J-6_chained", "", []string{"Set-Cookie: JROUTE=in.er; Path=/"}, "Set-Cookie: JROUTE=R1.in.er; Path=/"},
		{"J-6_chained_already", "", []string{"Set-Cookie: JROUTE=R1.inner"}, "Set-Cookie: JROUTE=R1.inner"},
		{"J-6_chained_end", "", []string{"Set-Cookie: JROUTE=; Max-Age=0"}, "Set-Cookie: JROUTE=; Max-Age=0"},
		{"J-7_unknown_route_without_a_session", "Cookie: JROUTE=zzz\r\n", nil, ""},
		{"J-7_unknown_route_with_a_session", "Cookie: JROUTE=zzz; JSESSIONID=a\r\n", nil, "Set-Cookie: JROUTE=R1; Path=/"},
		{"J-7_a_session_alone", "Cookie: JSESSIONID=a\r\n", nil, ""},
		{"assigned", "Cookie: JSESSIONID=a; JROUTE=R1\r\n", nil, ""},
		{"quoted", "Cookie: JROUTE=\"R1\"\r\n", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.pools["p"] = nil // the rotation begins anew
			i, _ := asks("/", tt.lines)
			d := choose(t, b.set(routed(nil, s1, s2)), i)
			if got := answer(t, d, d.SetCookie(), tt.answered...); d.Member.Addr != at(s1) || got != tt.want {
				t.Errorf("%s answers\n%s\nwant\n%s", d.Member.Addr, got, tt.want)
			}
		})
	}
}

// goes says who answers a request and what of cookies the response gets.
func goes(t *testing.T, p *Pool, target, lines string) string {
	t.Helper()
	i, _ := asks(target, lines)
	d := choose(t, p, i)
	defer d.Release()
	return strings.TrimSpace(d.Member.Addr.String() + " " + answer(t, d, d.SetCookie()))
}

func TestJrouteFailover(t *testing.T) {
	down := func(b *bench, members ...string) *Pool {
		for _, m := range members {
			b.env.Health.SetService(at(m), Down)
		}
		return b.pools["p"]
	}
	const s3 = "127.0.0.3:18003"
	t.Run("J-7_the_path_is_the_context", func(t *testing.T) {
		b := newBench(t)
		b.set(routed(func(p *pb.Pool) { p.JrouteContext = []string{"/app", "/"} }, s1, s2))
		p := down(b, s1)
		b.want(goes(t, p, "/app/x", "Cookie: JROUTE=R1\r\n"), s2+" Set-Cookie: JROUTE=R2; Path=/app")
		b.want(goes(t, p, "/x", "Cookie: JROUTE=R1\r\n"), s2+" Set-Cookie: JROUTE=R2; Path=/")
		b.want(goes(t, p, "/x;jsessionid=a:R1", ""), s2)
		b.want(goes(t, p, "/x", "Cookie: JSESSIONID=a.R1\r\n"), s2+" Set-Cookie: JROUTE=R2; Path=/")
	})
	t.Run("J-7_the_route_that_can_be_used_counts", func(t *testing.T) { // the older cookie has a longer path
		b := newBench(t)
		b.set(routed(nil, s1, s2, s3))
		p := down(b, s1)
		for range 4 {
			b.want(goes(t, p, "/", "Cookie: JROUTE=R1; JROUTE=R3\r\n"), s3)
			b.want(goes(t, p, "/;jsessionid=a:R3", "Cookie: JROUTE=R1\r\n"), s3+" Set-Cookie: JROUTE=R3; Path=/")
		}
	})
	t.Run("J-7_refused", func(t *testing.T) {
		b := newBench(t)
		p := b.set(routed(func(p *pb.Pool) { p.CachePrivate = yes() }, s1, s2))
		i, _ := asks("/", "Cookie: JROUTE=R1\r\n")
		d := choose(t, p, i)
		b.want(d.Member.Addr.String(), s1)
		if err := d.Refused(); err != nil {
			t.Fatal(err)
		}
		b.want(d.Member.Addr.String()+" "+answer(t, d, d.SetCookie()), s2+" Set-Cookie: JROUTE=R2; Path=/\nCache-Control: private")
		b.want(p.Members()[0].State().String(), "down") // rule J-14: the first failure is enough
		if _, did := d.Outcome(); did != OutcomeMoved {
			t.Errorf("did %s", did)
		}
	})
	t.Run("B-16_at_the_limit_the_client_stays_bound", func(t *testing.T) {
		b := newBench(t)
		p := b.set(routed(func(p *pb.Pool) { p.Members[0].Limit = proto.Uint32(1) }, s1, s2))
		i, _ := asks("/", "Cookie: JROUTE=R1\r\n")
		b.want(choose(t, p, i).Member.Addr.String(), s1)
		b.want(goes(t, p, "/", "Cookie: JROUTE=R1\r\n"), s2)
	})
	t.Run("J-11_refuse", func(t *testing.T) {
		b := newBench(t)
		b.set(routed(func(p *pb.Pool) {
			p.PersistUnavailable, p.PersistUnknown = pb.Unavailable_UNAVAILABLE_REFUSE.Enum(), pb.Unavailable_UNAVAILABLE_REFUSE.Enum()
		}, s1, s2))
		p := down(b, s1)
		for _, route := range []string{"R1", "zzz"} {
			i, _ := asks("/", "Cookie: JROUTE="+route+"\r\n")
			if err := p.Choose(&Decision{}, i); err != ErrRefused {
				t.Errorf("%s: %v", route, err)
			}
		}
	})
	t.Run("J-13_nobody_is_healthy", func(t *testing.T) {
		b := newBench(t)
		b.set(routed(nil, s1, s2, s3))
		p := down(b, s1, s2, s3)
		for _, route := range []string{"R3", "R1", "R2"} {
			i, _ := asks("/", "Cookie: JROUTE="+route+"\r\n")
			var d Decision
			if err := p.Choose(&d, i); err != nil {
				t.Fatal(err)
			}
			b.want(d.Member.Addr.String(), p.jroutes.routes[route].Addr.String())
			seen := map[string]bool{d.Member.Addr.String(): true}
			for d.Refused() == nil {
				if seen[d.Member.Addr.String()] {
					t.Fatalf("%s is tried twice", d.Member.Addr)
				}
				seen[d.Member.Addr.String()] = true
			}
			if len(seen) != 3 {
				t.Errorf("tried: %v", seen)
			}
			d.Release()
		}
		x := p.Explain(func() *Input { i, _ := asks("/", "Cookie: JROUTE=R2\r\n"); return i }())
		if x.Member == nil || x.Member.Addr != at(s2) || !strings.Contains(strings.Join(x.Steps, "\n"), "that of the route is tried first") {
			t.Errorf("%+v", x)
		}
		b.nodes[s1], b.nodes[s2], b.nodes[s3] = &pb.Node{Up: no()}, &pb.Node{Up: no()}, &pb.Node{Up: no()}
		b.again()
		i, _ := asks("/", "Cookie: JROUTE=R1\r\n")
		if err := b.pools["p"].Choose(&Decision{}, i); err != ErrNoMember { // what the operator says stands
			t.Errorf("forced down: %v", err)
		}
		b = newBench(t)
		b.set(inserting("p", s1, s2))
		if err := down(b, s1, s2).Choose(&Decision{}, in(client, web)); err != ErrNoMember {
			t.Errorf("a cookie pool: %v", err)
		}
	})
	t.Run("J-13_a_healthy_one_that_is_full", func(t *testing.T) {
		b := newBench(t)
		b.set(routed(func(p *pb.Pool) { p.Members[1].Limit = proto.Uint32(1) }, s1, s2))
		p := down(b, s1)
		i, _ := asks("/", "")
		choose(t, p, i)
		if err := p.Choose(&Decision{}, i); err != ErrNoMember {
			t.Errorf("%v", err)
		}
	})
}

// J-T10: weights are shares of what is unassigned.
func TestJrouteWeights(t *testing.T) {
	b := newBench(t)
	p := b.set(routed(func(p *pb.Pool) {
		p.LbMode = pb.LbMode_LB_MODE_RATIO_MEMBER.Enum()
		p.Members[0].Ratio, p.Members[1].Ratio = proto.Uint32(100), proto.Uint32(400)
	}, s1, s2))
	count := map[string]int{}
	for range 500 {
		count[goes(t, p, "/", "")]++
		b.want(goes(t, p, "/", "Cookie: JROUTE=R1\r\n"), s1) // rule J-2
	}
	if count[s1] != 100 || count[s2] != 400 {
		t.Errorf("%v", count)
	}
}

func TestJrouteLinks(t *testing.T) {
	b := newBench(t)
	want := &jroute.Links{Parameter: "jsessionid", Separator: ":", Route: "R2", Body: true}
	headers := *want
	headers.Body = false
	tests := []struct {
		name, target, lines string
		change              func(*pb.Pool)
		want                *jroute.Links
	}{
		{"J-23_no_cookie", "/;jsessionid=a:R2", "Cookie: a=b\r\n", nil, want},
		{"J-23_headers", "/;jsessionid=a:R2", "", func(p *pb.Pool) { p.JrouteRewrite = pb.JrouteRewrite_JROUTE_REWRITE_HEADERS.Enum() }, &headers},
		{"J-23_none", "/;jsessionid=a:R2", "", func(p *pb.Pool) { p.JrouteRewrite = pb.JrouteRewrite_JROUTE_REWRITE_NONE.Enum() }, nil},
		{"J-23_route_cookie", "/", "Cookie: JROUTE=R2\r\n", nil, nil},
		{"J-23_session_cookie", "/;jsessionid=a:R2", "Cookie: JSESSIONID=a\r\n", nil, nil},
		{"J-21_outside", "/;jsessionid=a:R2", "", func(p *pb.Pool) { p.JrouteContext = []string{"/x"} }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, _ := asks(tt.target, tt.lines)
			d := choose(t, b.set(routed(tt.change, s1, s2)), i)
			if got := d.Links(); (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("links %+v, want %+v", got, tt.want)
			}
		})
	}
	b = newBench(t)
	other := routed(func(p *pb.Pool) {
		p.JrouteCookie, p.JrouteSessionCookie, p.Members[0].Route = proto.String("R"), proto.String("SessId"), nil
	}, s1, s2)
	i, q := asks("/;sessid=a:x", "Cookie: JROUTE=R2; JSESSIONID=a\r\nproxy-jroute: R2\r\n")
	d := choose(t, b.set(other), i)
	if l := d.Links(); l == nil || l.Parameter != "sessid" || len(l.Route) != 16 {
		t.Errorf("links %+v", l)
	}
	d.EditRequest(q, nil)
	head := string(d.AppendRequestFields(q.AppendHead(nil, http1.KeepAlive)))
	b.want(head, "GET /;sessid=a HTTP/1.1\r\nHost: h\r\nCookie: JROUTE=R2; JSESSIONID=a\r\nProxy-jroute: "+d.Links().Route+"\r\n")
	b.want(answer(t, d, false, "Set-Cookie: SessId=a"), "Set-Cookie: SessId=a\nSet-Cookie: R="+d.Links().Route)
}

// The choice may stand for more requests than one: what they carry counts for each.
func TestJrouteResume(t *testing.T) {
	b := newBench(t)
	i, _ := asks("/", "Cookie: JROUTE=R2\r\n")
	d := choose(t, b.set(routed(nil, s1, s2)), i)
	_, q := asks("/", "")
	d.Resume(q)
	if d.Links() == nil || d.SetCookie() {
		t.Error("the request before counts")
	}
	var none Decision
	none.Resume(q)
}

func TestJrouteFresh(t *testing.T) {
	b := newBench(t)
	p := b.set(routed(nil, s1, s2))
	i, _ := asks("/", "Cookie: JROUTE=R2; JSESSIONID=a\r\n")
	if !p.Knows(i) {
		t.Error("the client is not known")
	}
	i.Fresh = true
	d := choose(t, p, i)
	b.want(d.Member.Addr.String()+answer(t, d, d.SetCookie()), s1)
	if p.Knows(i) {
		t.Error("persist none: known")
	}
}

// Rule J-12: an unknown route is a warning.
func TestJrouteUnknownWarns(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	b.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	goes(t, b.set(routed(nil, s1)), "/", "Cookie: JROUTE=zzzz\r\n")
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "outcome=unknown_member") {
		t.Errorf("log: %s", log.String())
	}
}

func TestJrouteAllocatesNothing(t *testing.T) {
	b := newBench(t)
	p := b.set(routed(func(p *pb.Pool) { p.JrouteContext = []string{"/app", "/"} }, s1, s2))
	for name, ask := range map[string][2]string{
		"cookies": {"/app/x", "Cookie: a=b; JSESSIONID=abc; JROUTE=R2\r\n"}, "path": {"/app/x;jsessionid=abc:R2?x", ""}, "nothing": {"/", ""},
		"chained": {"/", "Cookie: JROUTE=R2.x.y\r\n"}, "unknown": {"/", "Cookie: JROUTE=zz; JSESSIONID=a.b\r\n"},
	} {
		i, q := asks(ask[0], ask[1])
		r := response(t, "Set-Cookie: JSESSIONID=a; Path=/", "Set-Cookie: JROUTE=inner; Path=/x")
		var d Decision
		var out, edits []byte
		run := func() {
			if p.Choose(&d, i) != nil {
				t.Error("no member")
			}
			d.Accepted()
			out = d.AppendRequestFields(out[:0])
			edits = d.EditRequest(q, edits[:0])
			d.Idempotent(q)
			d.Links()
			_, edits = d.EditResponse(&r.Head, d.SetCookie(), edits[:0])
			d.Release()
		}
		run()
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestJrouteExplained(t *testing.T) {
	b := newBench(t)
	p := b.set(routed(underShop, s1, s2))
	for _, tt := range []struct{ target, lines, want string }{
		{"/shop", "", "no route\nround_robin chooses member " + s1 + "\npersistence: none\nthe route of member " + s1 + " is R1"},
		{"/shop;jsessionid=a:R2", "", "route R2 in the path names member " + s2 + ", which is unchecked\npersistence: valid\nthe route of member " + s2 + " is R2"},
		{"/shop", "Cookie: JSESSIONID=a.R2\r\n", "route R2 in cookie JSESSIONID names member " + s2 + ", which is unchecked\npersistence: valid\nthe route of member " + s2 + " is R2"},
		{"/shop", "Cookie: JROUTE=x\r\n", "the route names no member\nround_robin chooses member " + s1 + "\npersistence: unknown_member\nthe route of member " + s1 + " is R1"},
		{"/shopping", "Cookie: JROUTE=R2\r\n", "the path is in no jroute_context\nround_robin chooses member " + s1 + "\npersistence: none"},
	} {
		i, _ := asks(tt.target, tt.lines)
		if x := p.Explain(i); strings.Join(x.Steps, "\n") != tt.want {
			t.Errorf("%s: %s", tt.target, strings.Join(x.Steps, "\n"))
		}
	}
}

func underShop(p *pb.Pool) { p.JrouteContext = []string{"/shop"} }

// explainedRoutes is for TestExplainIsTrue: routes of all kinds, while traffic marks members down.
func explainedRoutes(members ...string) explainable {
	var held []*Health // marks last as long as somebody holds them
	return explainable{
		pool: routed(nil, members...),
		brings: func(_ *testing.T, i *Input, random *rand.Rand) {
			route := func() string { return []string{"R1", "R2", "R3", "zz", "R2.x", ""}[random.IntN(6)] }
			target, lines := "/", "Cookie: JROUTE="+route()+"; JROUTE="+route()+"; JSESSIONID=x."+route()+"\r\n"
			if random.IntN(2) == 0 {
				target, lines = "/p;jsessionid=x:"+route(), ""
			}
			with, _ := asks(target, lines)
			i.Request, i.Target = with.Request, with.Target
		},
		around: func(b *bench, random *rand.Rand) {
			time.Sleep(time.Millisecond) // so that no mark ends in the moment of a choice
			for _, m := range members {
				if random.IntN(3) == 0 {
					h := b.env.Health.Of(at(m))
					h.mark()
					held = append(held, h)
				}
			}
		},
	}
}
