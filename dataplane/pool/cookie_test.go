package pool

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	pb "bigpipe/proto/bigpipe/v1"
)

const (
	s1, s2       = "127.0.0.1:18001", "127.0.0.2:18002"
	value1       = "16777343.20806.0000"
	value2       = "33554559.21062.0000"
	web          = "127.0.0.10:80"
	cookie1      = "BIGipServerweb=" + value1
	cookie2      = "BIGipServerweb=" + value2
	setCookieEnd = "; path=/\r\n"
)

// ask makes one decision for a request; got is the member, then the Set-Cookie line if there is one.
func ask(t *testing.T, p *Pool, head *http1.Head) (got string) {
	t.Helper()
	i := in(client, web)
	i.Request = head
	var d Decision
	if err := p.Choose(&d, i); err != nil {
		return err.Error()
	}
	defer d.Release()
	d.Accepted()
	got = d.Member.Addr.String()
	if d.SetCookie() {
		got += " " + string(d.AppendSetCookie(nil, time.Unix(0, 0)))
	}
	return got
}

func set1() string { return s1 + " Set-Cookie: " + cookie1 + setCookieEnd }

func TestCookie(t *testing.T) {
	b := newBench(t)
	b.set(inserting("web", s1, s2))
	tests := []struct {
		name    string
		cookies []string
		want    string
	}{
		{"C-1_O-2_no_cookie", nil, set1()},
		{"O-4_valid_no_set_cookie", []string{cookie2}, s2},
		{"C-4_short_third_field", []string{"BIGipServerweb=33554559.21062.0"}, s2},
		{"C-4_no_third_field", []string{"BIGipServerweb=33554559.21062"}, s2},
		{"C-4_printed_order_of_seed_002", []string{"BIGipServerweb=2130706434.21062.0000"}, s2},
		{"C-5_name_of_another_pool", []string{"BIGipServerother=" + value2}, set1()},
		{"C-5_case", []string{"bigipserverweb=" + value2}, set1()},
		{"C-8_not_a_member", []string{"BIGipServerweb=151587082.5632.0000"}, set1()},
		{"C-8_another_port", []string{"BIGipServerweb=33554559.20806.0000"}, set1()},
		{"O-T15_999", []string{"BIGipServerweb=999.80.0000"}, set1()},
		{"O-T15_abc", []string{"BIGipServerweb=abc"}, set1()},
		{"O-T15_out_of_range", []string{"BIGipServerweb=4294967296.1.0000"}, set1()},
		{"O-T15_short_ipv6", []string{"BIGipServerweb=vi00.1"}, set1()},
		{"O-T15_empty", []string{"BIGipServerweb="}, set1()},
		{"O-T16_second_value_used", []string{"BIGipServerweb=abc; " + cookie2}, s2},
		{"O-T16_second_line_used", []string{"a=b", "BIGipServerweb=999.80.0000", cookie2 + "; c=d"}, s2},
		{"first_member_wins", []string{cookie1 + "; " + cookie2}, s1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.pools = map[string]*Pool{}
			p := b.set(inserting("web", s1, s2))
			got := ask(t, p, request(tt.cookies...))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The printed byte order of seed 002 is told of once per pool, where the pools are told to.
func TestPrintedOrderIsLogged(t *testing.T) {
	b := newBench(t)
	var log strings.Builder
	b.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		b.want(ask(t, b.set(inserting("web", s1, s2)), request("BIGipServerweb=2130706434.21062.0000")), s2)
	}
	if n := strings.Count(log.String(), "cookie=BIGipServerweb"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

func TestCookieStates(t *testing.T) {
	t.Run("C-7_down_gives_a_new_decision_and_cookie", func(t *testing.T) {
		b := newBench(t)
		b.nodes[s2] = &pb.Node{Up: no()}
		p := b.set(inserting("web", s1, s2))
		b.want(ask(t, p, request(cookie2)), set1())
		b.want(ask(t, p, request(cookie2+"; "+cookie1)), set1()) // the first that names a member decides
		if n := p.Outcomes().GetDown(); n != 2 {
			t.Errorf("down %d", n)
		}
	})
	t.Run("C-7_disabled_is_honoured", func(t *testing.T) {
		b := newBench(t)
		b.nodes[s2] = &pb.Node{Enabled: no()}
		p := b.set(inserting("web", s1, s2))
		b.want(ask(t, p, request(cookie2)), s2)
		b.want(ask(t, p, request()), set1())
		b.want(ask(t, p, request()), set1())
	})
	t.Run("the_member_that_answers_is_named_once", func(t *testing.T) {
		b := newBench(t)
		p := b.set(inserting("web", s1, s2))
		i := in(client, web)
		i.Request = request(cookie1)
		var d Decision
		if err := p.Choose(&d, i); err != nil {
			t.Fatal(err)
		}
		if d.SetCookie() {
			t.Error("a valid cookie is set again")
		}
		if err := d.Refused(); err != nil {
			t.Fatal(err)
		}
		if got := string(d.AppendSetCookie(nil, time.Now())); !d.SetCookie() || got != "Set-Cookie: "+cookie2+setCookieEnd {
			t.Errorf("after a refusal: %t, %q", d.SetCookie(), got)
		}
		d.Release()
	})
	t.Run("B-16_at_its_limit_the_binding_stays", func(t *testing.T) {
		for _, override := range []bool{false, true} {
			b := newBench(t)
			c := inserting("web", s1, s2)
			one := uint32(1)
			c.Members[1].Limit, c.PersistLimitOverride = &one, &override
			p := b.set(c)
			i := in(client, web)
			i.Request = request(cookie2)
			var first, second Decision
			if err := p.Choose(&first, i); err != nil {
				t.Fatal(err)
			}
			if err := p.Choose(&second, i); err != nil {
				t.Fatal(err)
			}
			if got := second.Member.Addr.String(); (got == s2) != override || second.SetCookie() {
				t.Errorf("override %t: went to %s, sets a cookie: %t", override, got, second.SetCookie())
			}
			second.Release()
			first.Release()
			b.want(ask(t, p, request(cookie2)), s2)
		}
	})
	t.Run("persist_unavailable_refuse", func(t *testing.T) {
		b := newBench(t)
		b.nodes[s2] = &pb.Node{Up: no()}
		c := inserting("web", s1, s2)
		c.PersistUnavailable = pb.Unavailable_UNAVAILABLE_REFUSE.Enum()
		b.want(ask(t, b.set(c), request(cookie2)), ErrRefused.Error())
		delete(b.nodes, s2)
		i := in(client, web)
		i.Request = request(cookie2)
		var d Decision
		if err := b.set(c).Choose(&d, i); err != nil {
			t.Fatal(err)
		}
		if err := d.Refused(); !errors.Is(err, ErrRefused) {
			t.Errorf("moved in spite of the configuration: %v", err)
		}
	})
	t.Run("all_down_never_a_cookie", func(t *testing.T) {
		b := newBench(t)
		b.nodes["127.0.0.1"], b.nodes["127.0.0.2"] = &pb.Node{Up: no()}, &pb.Node{Up: no()}
		b.want(ask(t, b.set(inserting("web", s1, s2)), request()), ErrNoMember.Error())
	})
}

func TestCookieForms(t *testing.T) {
	t.Run("C-6_expiration_from_the_wall_clock", func(t *testing.T) {
		c := inserting("my_pool", "192.170.1.11:80")
		hour := uint64(3600)
		c.CookieExpiration = &hour
		b := newBench(t)
		var d Decision
		if err := b.set(c).Choose(&d, in(client, web)); err != nil {
			t.Fatal(err)
		}
		now := time.Date(2000, 8, 19, 18, 35, 45, 0, time.UTC)
		b.want(string(d.AppendSetCookie(nil, now)),
			"Set-Cookie: BIGipServermy_pool=184658624.20480.0000; expires=Sat, 19-Aug-2000 19:35:45 GMT; path=/\r\n")
	})
	t.Run("passive_reads_both_names_and_writes_nothing", func(t *testing.T) {
		c := inserting("web", s1, s2)
		c.CookieMode = pb.CookieMode_COOKIE_MODE_PASSIVE.Enum()
		b := newBench(t)
		p := b.set(c)
		b.want(ask(t, p, request(cookie2)), s2)
		b.want(ask(t, p, request("BIGipServer web="+value2)), s2)
		b.want(ask(t, p, request()), s1)
		var d Decision
		if err := p.Choose(&d, in(client, web)); err != nil {
			t.Fatal(err)
		}
		server := "Set-Cookie: BIGipServerweb=" + value2
		b.want(answer(t, &d, false, server), server)
	})
	t.Run("modes_that_are_not_there_are_named", func(t *testing.T) {
		tests := []struct {
			change func(*pb.Pool)
			want   string
		}{
			{func(p *pb.Pool) { p.CookieEncryption = pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED.Enum() }, "persist_mode cookie with cookie_encryption required"},
			{func(p *pb.Pool) { p.PersistMode = pb.PersistMode(99).Enum() }, "persist_mode"},
		}
		for _, tt := range tests {
			c := inserting("web", s1, s2)
			tt.change(c)
			p, reasons := Compile(c, &newBench(t).env, nil)
			if len(reasons) != 1 || !strings.HasPrefix(reasons[0], tt.want) {
				t.Errorf("reasons %q, want %q", reasons, tt.want)
			}
			if got := ask(t, p, request()); !strings.HasPrefix(got, s1) {
				t.Errorf("%s: the pool does not balance: %s", tt.want, got)
			}
		}
	})
}

func TestHandOver(t *testing.T) {
	b := newBench(t)
	p := b.set(simple("p", 60, n1+":80", n2+":80"))
	var d Decision
	if err := p.Choose(&d, in(client, v1+":80")); err != nil {
		t.Fatal(err)
	}
	d.Accepted()
	d.Count(10, 20, 1)
	next := b.set(simple("p", 60, "127.0.1.3:80", n2+":80", n1+":80"))
	m := next.Member(at(n1 + ":80"))
	if n := m.Counters().Counts(); n != (Counts{Current: 1, Max: 1, Total: 1, In: 10, Out: 20, Requests: 1}) {
		t.Errorf("counts %+v", n)
	}
	b.want(b.visit("p", "127.0.0.8", v1+":80"), n2+":80") // the rotation goes on
	b.want(b.visit("p", client, v1+":80"), n1+":80")
	d.Release()
	if n := m.Counters().Counts(); n.Current != 0 || n.Total != 2 {
		t.Errorf("counts %+v", n)
	}
	m.Counters().Reset()
	if n := m.Counters().Counts(); n != (Counts{}) {
		t.Errorf("after a reset: %+v", n)
	}
	if out := next.Outcomes(); out.GetBound() != 2 || out.GetValid() != 1 {
		t.Errorf("outcomes %v", out)
	}
	next.ResetOutcomes()
	if out := next.Outcomes(); out.GetBound()+out.GetValid()+out.GetNone() != 0 {
		t.Errorf("outcomes after a reset %v", out)
	}
}

func TestLimits(t *testing.T) {
	b := newBench(t)
	one := uint32(1)
	b.nodes[n1+":80"] = &pb.Node{Limit: &one}
	p := b.set(withMembers(&pb.Pool{Name: "p"}, n1+":80", n2+":80"))
	var held [3]Decision
	var got []string
	for i := range held {
		if err := p.Choose(&held[i], in(client, v1+":80")); err != nil {
			t.Fatal(err)
		}
		got = append(got, held[i].Member.Addr.String())
	}
	b.want(strings.Join(got, " "), n1+":80 "+n2+":80 "+n2+":80")
	held[0].Release()
	b.want(b.visit("p", client, v1+":80"), n1+":80")
}

func TestNoAllocation(t *testing.T) {
	check := func(name string, p *Pool, i *Input) {
		var d Decision
		run := func() {
			if p.Choose(&d, i) != nil {
				t.Error(name, "no member")
			}
			d.Accepted()
			d.Count(1, 2, 1)
			d.Release()
		}
		run()
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	b := newBench(t)
	check("balance", b.set(withMembers(&pb.Pool{Name: "plain"}, n1+":80", n2+":80")), in(client, v1+":80"))
	check("record", b.set(simple("simple", 60, n1+":80", n2+":80")), in(client, v1+":80"))
	with := in(client, web)
	with.Request = request("a=b; c=d", cookie2)
	check("cookie", b.set(inserting("web", s1, s2)), with)
	check("hash", b.set(hashing("hash", s1, s2)), asking("a=b; Apache=0123456789"))
	b.env.Keys = cookie.NewRing(key(1), key(2))
	closed := b.set(sealed(pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED, nil))
	check("encrypted", closed, asking("a=b", setCookie(t, closed)))
	joined := inserting("joined", s1, s2)
	joined.CookieAcrossServices, joined.CookieReserve = proto.Bool(true), proto.Bool(true)
	check("across", b.set(joined), asking("BIGipServerjoined="+value2))

	d, r := choose(t, b.set(inserting("web", s1, s2)), asking(cookie1)), response(t, "Set-Cookie: a=1")
	var buffer []byte
	if n := testing.AllocsPerRun(200, func() { _, buffer = d.EditResponse(&r.Head, false, buffer[:0]) }); n != 0 {
		t.Errorf("a response without a change: %v allocations", n)
	}
	if n := testing.AllocsPerRun(200, func() { _, buffer = d.EditResponse(&r.Head, true, buffer[:0]) }); n != 0 {
		t.Errorf("a response with a cookie: %v allocations", n)
	}
}

func BenchmarkChoose(b *testing.B) {
	env := newBench(&testing.T{})
	p, _ := Compile(simple("simple", 60, n1+":80", n2+":80"), &env.env, nil)
	i := in(client, v1+":80")
	b.RunParallel(func(pb *testing.PB) {
		var d Decision
		for pb.Next() {
			if p.Choose(&d, i) == nil {
				d.Accepted()
			}
			d.Release()
		}
	})
}
