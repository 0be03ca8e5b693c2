package forward

import (
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
	pb "bigpipe/proto/bigpipe/v1"
)

// The pains of reading a cookie, by their numbers: what the client gets and what the member gets, whole.
func TestPainsOfReading(t *testing.T) {
	balanced, followed := answered("s1", set1), answered("s2")
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("Cookie: a%d=%d", i, i)
	}
	many[38] = line(c2)
	for _, tt := range []struct {
		name  string
		want  string
		lines []string
	}{
		{"pain_1_semicolon_first", followed, []string{"Cookie: ;" + name + "=" + c2}},
		{"pain_1_comma_first", balanced, []string{"Cookie: ," + name + "=" + c2}},
		{"pain_1_semicolons", balanced, []string{"Cookie: ;;;;"}},
		{"pain_1_empty", balanced, []string{"Cookie:"}},
		{"pain_5_two_lines", followed, []string{"Cookie: a=1", line(c2)}},
		{"pain_5_line_39_of_40", followed, many},
		{"pain_6_garbage_first", followed, []string{line("garbage") + "; " + name + "=" + c2}},
		{"pain_6_no_member_first", followed, []string{line(cx) + "; " + name + "=" + c2}},
		{"pain_6_first_of_two", answered("s1"), []string{line(c1) + "; " + name + "=" + c2}},
		{"pain_10_four_zeros", followed, []string{line("201326719.16671.0000")}},
		{"pain_10_three_zeros", followed, []string{line("201326719.16671.000")}},
		{"pain_10_two_zeros", followed, []string{line("201326719.16671.00")}},
		{"pain_10_one_zero", followed, []string{line("201326719.16671.0")}},
		{"pain_10_no_third_field", followed, []string{line("201326719.16671")}},
		{"3a_quotes", followed, []string{line(`"` + c2 + `"`)}},
		{"3a_blanks", followed, []string{"Cookie: a=1; " + name + " = " + c2 + " ; b=2"}},
		{"3a_long_cookie_first", followed, []string{"Cookie: a=" + strings.Repeat("x", 7000) + "; " + name + "=" + c2}},
		{"3a_other_case", balanced, []string{"Cookie: bigipserverweb_pool=" + c2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t, "R", nil, nil)
			x.asks(tt.want, tt.lines...)
			o := x.origins[0]
			if tt.want == followed {
				o = x.origins[1]
			}
			if _, seen := o.seen(); len(seen) != 1 || seen[0] != get(tt.lines...) {
				t.Errorf("the member got %q", seen)
			}
		})
	}
	t.Run("pain_6_first_names_a_member_that_is_down", func(t *testing.T) {
		x := newFixture(t, "R", nil, nil)
		x.apply(&pb.Node{Address: "127.0.0.12:8001", Up: new(false)})
		x.asks(answered("s1", set1), line(c2)+"; "+name+"="+c3)
	})
}

// Pain 11: what is broken is replaced once, counted, and the client is bound from then on.
func TestPain11(t *testing.T) {
	for _, value := range []string{
		"", "x", "201326719", "201326719.16671.0001", "-1.16671.0000", "201326719.65536.0000", "4294967296.16671.0000",
		"201326719.16671.0000x", "0xC00007F.16671.0000", " 201326719 .16671.0000",
	} {
		t.Run("pain_11_"+value, func(t *testing.T) {
			x := newFixture(t, "R", nil, nil)
			first := x.ask(get(line(value)))
			same(t, "first", first, answered("s1", set1))
			if out := x.set.Pools[0].Outcomes(); out.GetMalformed() != 1 || out.GetBound() != 1 {
				t.Errorf("outcomes %v", out)
			}
			for range 5 {
				x.asks(answered("s1"), line(kept(first)))
			}
			if out := x.set.Pools[0].Outcomes(); out.GetMalformed() != 1 || out.GetBound() != 1 || out.GetValid() != 5 {
				t.Errorf("outcomes %v", out)
			}
		})
	}
}

// Pain 13: what a client writes is never dialled, though something listens there.
func TestPain13(t *testing.T) {
	trap, err := net.Listen("tcp", "127.0.0.99:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	caught := make(chan bool, 1)
	done := make(chan bool)
	go func() {
		defer close(done)
		if c, err := trap.Accept(); err == nil {
			c.Close()
			caught <- true
		}
	}()
	listening := string(cookie.AppendValue(nil, parseAddrPort(trap.Addr().String())))
	x := newFixture(t, "R", nil, nil)
	values := []string{listening, ce, cx, "0.0.0000", "4294967295.65535.0000"}
	for i, v := range values {
		x.asks([]string{answered("s1", set1), answered("s2", set2), answered("s3", set3)}[i%3], line(v))
	}
	if out := x.set.Pools[0].Outcomes(); out.GetUnknownMember() != uint64(len(values)) || out.GetBound() != uint64(len(values)) {
		t.Errorf("outcomes %v", out)
	}
	trap.Close()
	<-done
	if len(caught) > 0 {
		t.Error("the address of a cookie was dialled")
	}
}

// Pain 2, from the server's side: lines of the old kind, twice, and a cookie of our name between two others.
func TestPain2(t *testing.T) {
	x := newFixture(t, "R", nil, says("Set-Cookie2: a=1", "Set-Cookie2: a=1"))
	x.asks(answered("s1", "Set-Cookie2: a=1", "Set-Cookie2: a=1", set1))
	x = newFixture(t, "R", nil, says("Set-Cookie: a=1", "Set-Cookie: "+name+"=zz", "Set-Cookie: b=2"))
	x.asks(answered("s1", "Set-Cookie: a=1", "Set-Cookie: b=2", set1))
	x.asks(answered("s2", "Set-Cookie: a=1", "Set-Cookie: b=2"), line(c2))
}

// Pain 7: two pools of one host have their own cookies, and of two balancers in series the first leaves the other's cookie alone.
func TestPain7(t *testing.T) {
	t.Run("pain_7_two_pools", func(t *testing.T) {
		web, app := newFixture(t, "R", nil, nil), newFixture(t, "R", func(p *pb.Pool) { p.Name = "app_pool" }, nil)
		use := func(p string) *pb.RuleStatement {
			return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: p}}}}}
		}
		starts := &pb.RuleComparison{
			Variable: &pb.RuleVariable{Name: pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_URI},
			Operator: pb.RuleOperator_RULE_OPERATOR_STARTS_WITH, Value: &pb.RuleComparison_Text{Text: "/app"},
		}
		r, err := rule.Compile(&pb.Rule{Name: "r", Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{
			Condition: &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: starts}}, Then: use("app_pool"), Else: use("web_pool"),
		}}}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		set := web.set
		set.Rule, set.ByRule, set.Pools = r, true, nil
		for _, name := range r.Pools() {
			set.Pools = append(set.Pools, map[string]*fixture{"web_pool": web, "app_pool": app}[name].set.Pools[0])
		}
		b := newLab(t, set)
		appSet := strings.Replace(set1, "web_pool", "app_pool", 1)
		jar := "Cookie: session=1"
		for i := range 10 {
			for path, set := range map[string]string{"/web": set1, "/app": appSet} {
				got := b.ask(strings.Replace(get(jar), "GET /", "GET "+path, 1))
				if i > 0 {
					same(t, path, got, answered("s1"))
					continue
				}
				same(t, path, got, answered("s1", set))
				pair, _, _ := strings.Cut(strings.TrimPrefix(set, "Set-Cookie: "), ";")
				jar += "; " + pair
			}
		}
	})
	t.Run("pain_7_two_balancers", func(t *testing.T) {
		inner := newFixture(t, "R", nil, nil)
		outer := newFixture(t, "R", func(p *pb.Pool) {
			p.Name, p.Members = "outer", []*pb.Member{{Address: inner.l.Addr().String()}}
		}, nil)
		outer.env.Dial = nil
		outer.apply()
		outerValue := string(cookie.AppendValue(nil, parseAddrPort(inner.l.Addr().String())))
		outerSet := "Set-Cookie: BIGipServerouter=" + outerValue + "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"
		outer.asks(answered("s1", set1, outerSet))
		both := "Cookie: a=b;  BIGipServerouter=" + outerValue + " ; " + name + "=" + c2
		outer.asks(answered("s2"), both)
		outer.asks(answered("s2", outerSet), line(c2))
		if _, seen := inner.origins[1].seen(); len(seen) != 2 || seen[0] != get(both) {
			t.Errorf("the member got %q", seen)
		}
	})
}

// The pains of writing a cookie: the bytes of each option, whole.
func TestPainsOfWriting(t *testing.T) {
	base := strings.TrimSuffix(set1, "; path=/")
	for _, tt := range []struct {
		name   string
		change func(*pb.Pool)
		want   string
	}{
		{"pain_8_path", nil, set1},
		{"pain_17_off", nil, set1},
		{"pain_17_on", func(p *pb.Pool) {
			p.CookieSecure, p.CookieHttponly, p.CookieSamesite = new(true), new(true), pb.CookieSamesite_COOKIE_SAMESITE_LAX.Enum()
		}, set1 + "; Secure; HttpOnly; SameSite=Lax"},
		{"pain_18_domain", func(p *pb.Pool) { p.CookieDomain = new(".example.com") }, set1 + "; domain=.example.com"},
		{"pain_19_ten_days", func(p *pb.Pool) { p.CookieExpiration = new(uint64(864000)) }, strings.Replace(set1, "30-Nov-2026 19", "10-Dec-2026 18", 1)},
		{"pain_19_none", func(p *pb.Pool) { p.CookieExpiration = nil }, "Set-Cookie: " + name + "=" + c1 + "; path=/"},
		{"pain_19_zero", func(p *pb.Pool) { p.CookieExpiration = new(uint64(0)) }, "Set-Cookie: " + name + "=" + c1 + "; path=/"},
		{"cookie_path", func(p *pb.Pool) { p.CookiePath = new("/app") }, base + "; path=/app"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t, "R", tt.change, nil)
			if strings.HasPrefix(tt.name, "pain_19_ten") {
				tt.want = strings.Replace(tt.want, "Mon", "Thu", 1)
			}
			for _, path := range []string{"/a/b/", "/a/c/", "/"} {
				x.set.Pools = []*pool.Pool{x.compile(t, nil)} // its first decision again
				x.l.Set(x.set)
				same(t, path, x.ask(strings.Replace(get(), "GET /", "GET "+path, 1)), answered("s1", tt.want))
			}
		})
	}
	t.Run("pain_23_zero_is_no_end", func(t *testing.T) {
		x := newFixture(t, "R", func(p *pb.Pool) { p.CookieExpiration = new(uint64(0)) }, nil)
		x.asks(answered("s1", "Set-Cookie: "+name+"="+c1+"; path=/"))
		x.pass(30 * 24 * time.Hour)
		x.asks(answered("s2"), line(c2))
	})
}

// Pain 15: passive mode, rewrite without a blank cookie, and hash add nothing, whatever the server says.
func TestPain15(t *testing.T) {
	passive := func(p *pb.Pool) { p.CookieMode = pb.CookieMode_COOKIE_MODE_PASSIVE.Enum() }
	hash := func(p *pb.Pool) {
		p.CookieMode, p.CookieHashName = pb.CookieMode_COOKIE_MODE_HASH.Enum(), new("Apache")
	}
	for name, tt := range map[string]struct {
		change func(*pb.Pool)
		lines  []string
	}{
		"passive":         {passive, []string{"Set-Cookie: " + name + "=" + c2 + "; path=/"}},
		"passive_nothing": {passive, nil},
		"rewrite_nothing": {rewriting, []string{"Set-Cookie: a=1"}},
		"hash":            {hash, []string{blank(120)}},
	} {
		for _, mode := range []string{"L", "R"} {
			t.Run("pain_15_"+name+"_"+mode, func(t *testing.T) {
				x := newFixture(t, mode, tt.change, says(tt.lines...))
				x.asks(answered("s1", tt.lines...))
				if name != "hash" {
					x.asks(answered("s2", tt.lines...), line(c2))
					return
				}
				first := x.ask(get("Cookie: Apache=x.1"))
				server, _ := server(t, first)
				for range 3 {
					x.asks(answered(server, tt.lines...), "Cookie: Apache=x.1")
				}
			})
		}
	}
}

// Pains 21, 22 and 24, in whole messages: an encrypted cookie shows nothing, is refused when one bit is changed, and ends when
// the server says so, by the wall clock.
func TestEncryptedCookie(t *testing.T) {
	required := func(p *pb.Pool) {
		p.CookieEncryption = pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED.Enum()
		p.CookieLifetime = pb.CookieLifetime_COOKIE_LIFETIME_SERVER.Enum()
	}
	sealed := func(t *testing.T) *fixture {
		x := newFixture(t, "R", nil, nil)
		x.seal(1)
		required(x.config)
		x.apply()
		return x
	}
	one, two := sealed(t), sealed(t)
	minted := kept(one.ask(get()))
	// The second unit was started a day later; it knows the wall clock alone.
	two.pass(time.Hour)
	two.asks(answered("s1"), line(minted))
	one.pass(time.Hour + time.Second)
	over := one.ask(get(line(minted)))
	if name, set := server(t, over); name != "s2" || len(set) != cookie.SealedSize || set == minted {
		t.Errorf("pain_21: after its life %q", over)
	}
	if n := one.set.Pools[0].Outcomes().GetExpired(); n != 1 {
		t.Errorf("pain_21: %d expired", n)
	}

	one = sealed(t)
	one.config.Members = one.config.Members[1:2]
	one.apply()
	// The address as text, as numbers in both orders, and as bytes in both orders.
	texts := []string{"127.0.0.12", "12.0.0.127", "201326719", "2130706444", "7f00000c", "0c00007f"}
	raws := []string{"\x7f\x00\x00\x0c", "\x0c\x00\x00\x7f"}
	seen := map[string]bool{}
	c := one.dial()
	for range 1000 {
		c.send(get())
		value := kept(c.response())
		if len(value) != cookie.SealedSize || seen[value] {
			t.Fatalf("pain_24: cookie %q", value)
		}
		seen[value] = true
		raw, err := base64.RawURLEncoding.DecodeString(value[1:])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(texts, raws...) {
			if strings.Contains(strings.ToLower(value), text) || strings.Contains(string(raw), text) {
				t.Errorf("pain_24: %q shows %q", value, text)
			}
		}
	}
	for value := range seen {
		raw, err := base64.RawURLEncoding.DecodeString(value[1:])
		if err != nil {
			t.Fatal(err)
		}
		bits := len(raw) * 8
		for bit := range bits {
			raw[bit/8] ^= 1 << (bit % 8)
			c.send(get(line("!" + base64.RawURLEncoding.EncodeToString(raw))))
			if again := kept(c.response()); len(again) != cookie.SealedSize {
				t.Errorf("pain_24: bit %d is changed and the cookie counts", bit)
			}
			raw[bit/8] ^= 1 << (bit % 8)
		}
		if n := one.set.Pools[0].Outcomes().GetMalformed(); n != uint64(bits) {
			t.Errorf("pain_24: %d malformed, want %d", n, bits)
		}
		break
	}
}

// Pain 24: preferred reads clear cookies and answers with an encrypted one; required refuses them.
func TestPain24Modes(t *testing.T) {
	for mode, want := range map[pb.CookieEncryption]string{
		pb.CookieEncryption_COOKIE_ENCRYPTION_PREFERRED: "s2", pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED: "s1",
	} {
		x := newFixture(t, "R", nil, nil)
		x.seal(1)
		x.config.CookieEncryption = mode.Enum()
		x.apply()
		r := x.ask(get(line(c2)))
		value := kept(r)
		if len(value) != cookie.SealedSize || value[0] != '!' {
			t.Errorf("%s: cookie %q", mode, value)
		}
		same(t, mode.String(), r, answered(want, strings.Replace(set1, c1, value, 1)))
		x.asks(answered(want), line(value))
	}
}

// Pain 64: a browser opens two connections before it has a cookie.
func TestPain64(t *testing.T) {
	t.Run("pain_64_per_connection", func(t *testing.T) {
		x := newFixture(t, "L", nil, nil)
		one, two := x.dial(), x.dial()
		one.send(get())
		same(t, "first", one.response(), answered("s1", set1))
		two.send(get())
		same(t, "second", two.response(), answered("s2", set2))
		for range 4 { // the last cookie wins in the browser, the connections stay where they are
			for _, c := range []*peer{one, two} {
				c.send(get(line(c2)))
			}
			same(t, "first again", one.response(), answered("s1"))
			same(t, "second again", two.response(), answered("s2"))
		}
	})
	t.Run("pain_64_reserved", func(t *testing.T) {
		held, answer := make(chan bool), make(chan bool)
		x := newFixture(t, "L", func(p *pb.Pool) { p.CookieReserve = new(true) }, func(o *origin, p *peer) {
			for o.read(p) != "" {
				held <- true
				<-answer
				p.send(answered(o.name))
			}
		})
		var all []*peer
		for range 12 { // pain 63's number of them
			c := x.dial()
			c.send(get())
			all = append(all, c)
		}
		for range all {
			<-held
		}
		for _, c := range all {
			answer <- true
			defer c.Close()
		}
		for _, c := range all {
			same(t, "each", c.response(), answered("s1", set1))
		}
	})
}

// Pain 65: many users share one client connection.
func TestPain65(t *testing.T) {
	for mode, want := range map[string][]string{
		"L": {answered("s1", set1), answered("s1"), answered("s1"), answered("s1")},
		"R": {answered("s1", set1), answered("s2"), answered("s3"), answered("s2", set2)},
	} {
		t.Run("pain_65_"+mode, func(t *testing.T) {
			c := newFixture(t, mode, nil, nil).dial()
			for i, request := range []string{get(), get(line(c2)), get(line(c3)), get()} {
				c.send(request)
				same(t, fmt.Sprint("response ", i+1), c.response(), want[i])
			}
		})
	}
}

// Pain 82: cookie_across_services carries a client over to the members of another port, in whole messages.
func TestPain82(t *testing.T) {
	a := newFixture(t, "R", func(p *pb.Pool) { p.CookieAcrossServices = new(true) }, nil)
	b := newFixture(t, "R", func(p *pb.Pool) {
		p.Name, p.CookieAcrossServices, p.CookieExpiration = "B", new(true), nil
		for _, m := range p.Members {
			m.Address = strings.Replace(m.Address, ":8001", ":8443", 1)
		}
	}, nil)
	dial := a.env.Dial
	b.env.Dial = func(to addrPort) (addrPort, error) {
		for i, o := range b.origins {
			if to == parseAddrPort(fmt.Sprintf("127.0.0.%d:8443", 11+i)) {
				return o.addr, nil
			}
		}
		return dial(to)
	}
	b.env.View = viewOf(a.config, b.config)
	b.set.Pools = []*pool.Pool{b.compile(t, nil)}
	b.l.Set(b.set)
	b.asks(answered("s2", "Set-Cookie: BIGipServerB=201326719.64288.0000; path=/"), line(c2))
	b.asks(answered("s2"), line(c2)+"; BIGipServerB=201326719.64288.0000")
}
