package pool

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	pb "bigpipe/proto/bigpipe/v1"
)

func explained(x Explanation) (*Member, string) { return x.Member, strings.Join(x.Steps, "\n") }

func TestExplain(t *testing.T) {
	b := newBench(t)
	p := b.set(inserting("web", s1, s2))
	for range 3 { // nothing moves
		m, text := explained(p.Explain(&Input{Client: at("127.0.0.9:1"), Virtual: at(web), Request: request()}))
		if m.Addr != at(s1) || !strings.Contains(text, "none") || !strings.Contains(text, "sets cookie BIGipServerweb to "+value1) {
			t.Errorf("%s:\n%s", m.Addr, text)
		}
	}
	m, text := explained(p.Explain(&Input{Client: at("127.0.0.9:1"), Virtual: at(web), Request: request(cookie2)}))
	if m.Addr != at(s2) || !strings.Contains(text, "names member "+s2) {
		t.Errorf("%s:\n%s", m.Addr, text)
	}
	if out := p.Outcomes(); out.GetNone()+out.GetValid()+out.GetBound() != 0 {
		t.Errorf("an explanation was counted: %v", out)
	}

	r := b.set(simple("simple", 60, s1, s2))
	if m, text := explained(r.Explain(in(client, web))); m.Addr != at(s1) || !strings.Contains(text, "no record of 127.0.0.9 on "+web) {
		t.Errorf("%s: %q", m.Addr, text)
	}
	if b.records() != 0 {
		t.Error("an explanation made a record")
	}
	b.want(b.visit("simple", client, web), s1)
	b.pass(10 * time.Second)
	m, text = explained(r.Explain(in(client, web)))
	if m.Addr != at(s1) || !strings.Contains(text, "names "+s1+", is 10s old and ends in 50s") {
		t.Errorf("%s: %s", m.Addr, text)
	}
	b.nodes[s1] = &pb.Node{Up: no()}
	r = b.set(r.Config)
	m, text = explained(r.Explain(in(client, web)))
	if m.Addr != at(s2) || !strings.Contains(text, "forced_down") || !strings.Contains(text, "the record moves") {
		t.Errorf("%s: %s", m.Addr, text)
	}
	if n := m.Counters().Counts(); n.Current != 0 || n.Max != 0 {
		t.Errorf("an explanation opened connections: %+v", n)
	}
}

// explainable are pools of each mode, and how clients ask them.
func explainable() map[string]*pb.Pool {
	pools := map[string]*pb.Pool{}
	members := []string{s1, s2, "127.0.0.3:18003"}
	for number, word := range pb.LbMode_name {
		mode := pb.LbMode(number)
		if mode == pb.LbMode_LB_MODE_UNSPECIFIED || mode == pb.LbMode_LB_MODE_DYNAMIC_RATIO {
			continue
		}
		pools[word] = inMode("p", mode, members...)
		c := simple("p", 60, members...)
		c.LbMode = mode.Enum()
		c.Members[2].Priority, c.MinActiveMembers = proto.Uint32(1), proto.Uint32(2)
		c.Members[0].Ratio, c.Members[0].Limit = proto.Uint32(3), proto.Uint32(4)
		pools[word+"_simple"] = c
	}
	pools["sticky"] = simple("p", 0, members...)
	pools["sticky"].PersistMode = pb.PersistMode_PERSIST_MODE_STICKY.Enum()
	pools["cookie"] = inserting("p", members...)
	pools["cookie_reserve"] = inserting("p", members...)
	pools["cookie_reserve"].CookieReserve = yes()
	pools["cookie_hash"] = hashing("p", members...)
	pools["token"] = tokenPool(func(c *pb.Pool) { c.Name = "p" }, members...)
	pools["ssl"] = sslPool("p", members...)
	pools["ssl_fallback"] = sslPool("p", members...)
	pools["ssl_fallback"].SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum()
	pools["refuse"] = simple("p", 60, members...)
	pools["refuse"].PersistUnavailable = pb.Unavailable_UNAVAILABLE_REFUSE.Enum()
	return pools
}

// TestExplainIsTrue makes the same choices in two pools, and in one explains each before, several times: the explanation is what
// then happens, and it changes nothing.
func TestExplainIsTrue(t *testing.T) {
	for name, c := range explainable() {
		t.Run(name, func(t *testing.T) {
			quiet, asked := newBench(t), newBench(t)
			benches := []*bench{quiet, asked}
			random := rand.New(rand.NewPCG(1, 2))
			var held [2][]*Decision
			for range 150 {
				at := fmt.Sprintf("127.0.0.%d", random.IntN(12)+1)
				i := in(at, []string{web, "127.0.0.20:80"}[random.IntN(2)])
				if random.IntN(2) == 0 {
					i.Request = request("Apache="+at, fmt.Sprintf("BIGipServerp=%s", []string{value1, value2, "1.1.0000", "x"}[random.IntN(4)]),
						"x="+clearToken([]string{s1, s2, "127.0.0.9:9"}[random.IntN(3)]))
				}
				i.Hello = clientOf(t, fmt.Sprintf("%02x", random.IntN(6)))
				given := fmt.Sprintf("%02x", random.IntN(6))
				node := fmt.Sprintf("127.0.0.%d", random.IntN(3)+1)
				state := &pb.Node{Enabled: proto.Bool(random.IntN(3) > 0), Up: proto.Bool(random.IntN(4) > 0)}
				change, end, wait := random.IntN(4) == 0, random.IntN(3) > 0, time.Duration(random.IntN(9))*time.Second
				var got []string
				for n, b := range benches {
					if change || b.pools["p"] == nil {
						b.nodes[node] = state
						b.set(c)
					}
					b.pass(wait)
					p := b.pools["p"]
					var x Explanation
					if b == asked {
						before, records := p.Outcomes(), b.records()
						for range 3 {
							x = p.Explain(i)
						}
						if after := p.Outcomes(); !proto.Equal(before, after) || b.records() != records {
							t.Fatalf("explanations are counted: %v, %v", before, after)
						}
					}
					d := &Decision{}
					err := p.Choose(d, i)
					where := fmt.Sprint(err)
					if err == nil {
						d.Accepted()
						server, news := serverOf(t, given, false)
						d.Learn(news, i.Hello, server)
						where = d.Member.Addr.String()
					}
					found, _ := d.Outcome()
					got = append(got, where+" "+found.String())
					if b == asked {
						var told string
						if x.Member != nil {
							told = x.Member.Addr.String()
						} else {
							told = x.Steps[len(x.Steps)-1]
						}
						if told != where || x.Outcome != found {
							t.Fatalf("explained %s %s, then it was %s %s:\n%s", told, x.Outcome, where, found, strings.Join(x.Steps, "\n"))
						}
					}
					held[n] = append(held[n], d)
					if end {
						held[n][0].Release()
						held[n] = held[n][1:]
					}
				}
				if got[0] != got[1] {
					t.Fatalf("without explanations %s, with them %s", got[0], got[1])
				}
			}
			for _, d := range slices.Concat(held[0], held[1]) {
				d.Release()
			}
			if n := asked.pools["p"].Members()[0].Counters().Current(); n != 0 {
				t.Errorf("%d connections are left open", n)
			}
		})
	}
}

func TestExplainSteps(t *testing.T) {
	b := newBench(t)
	c := simple("p", 60, s1, s2, "127.0.0.3:18003", "127.0.0.4:18004")
	c.MinActiveMembers = proto.Uint32(1)
	c.Members[0].Priority, c.Members[1].Priority, c.Members[2].Priority = proto.Uint32(2), proto.Uint32(2), proto.Uint32(2)
	c.Members[2].Limit = proto.Uint32(1)
	b.nodes["127.0.0.1"] = &pb.Node{Enabled: no()}
	p := b.set(c)
	m := p.Member(at("127.0.0.3:18003"))
	if !m.open(m.limits()) {
		t.Fatal("no connection")
	}
	want := []string{
		"no record of 127.0.0.9 on " + web,
		"the groups of priority 2 and above take the traffic",
		"passed over: member " + s1 + " is address_disabled, member 127.0.0.3:18003 has as many connections as it may, member 127.0.0.4:18004 has priority 0",
		"round_robin chooses member " + s2,
		"persistence: none",
	}
	if x := p.Explain(in(client, web)); x.Member.Addr != at(s2) || !slices.Equal(x.Steps, want) {
		t.Errorf("%s", strings.Join(x.Steps, "\n"))
	}
}

// TestOutcomes/pain-100: each outcome has its counter and its word in the log, and an explanation says the same word.
func TestOutcomes(t *testing.T) {
	member3 := "127.0.0.3:18003"
	visit := func(b *bench, i *Input) {
		var d Decision
		if b.pools["p"].Choose(&d, i) == nil {
			d.Accepted()
		}
		d.Release()
	}
	cookies := func(values ...string) *Input {
		i := in(client, web)
		i.Request = request(values...)
		return i
	}
	tests := map[string]struct {
		pool    *pb.Pool
		prepare func(b *bench)
		in      *Input
		did     string // what else is counted
	}{
		"none":           {pool: simple("p", 60, s1, s2), did: "bound"},
		"valid":          {pool: simple("p", 60, s1, s2), prepare: func(b *bench) { visit(b, in(client, web)) }},
		"malformed":      {pool: inserting("p", s1, s2), in: cookies("BIGipServerp=x")},
		"unknown_member": {pool: inserting("p", s1, s2), in: cookies("BIGipServerp=50331903.21318.0000")},
		"down": {pool: simple("p", 60, s1, s2), did: "moved", prepare: func(b *bench) {
			visit(b, in(client, web))
			b.nodes["127.0.0.1"] = &pb.Node{Up: no()}
			b.again()
		}},
		"disabled_honoured": {pool: simple("p", 60, s1, s2), prepare: func(b *bench) {
			visit(b, in(client, web))
			b.nodes["127.0.0.1"] = &pb.Node{Enabled: no()}
			b.again()
		}},
		"expired": {pool: sealed(pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED, func(c *pb.Pool) {
			c.Name, c.CookieLifetime, c.CookieExpiration = "p", pb.CookieLifetime_COOKIE_LIFETIME_SERVER.Enum(), proto.Uint64(60)
		})},
		"other_pool": {pool: simple("p", 60, s1, s2), did: "bound", prepare: func(b *bench) {
			b.global.PersistAcrossVirtuals = yes()
			b.set(simple("q", 60, member3))
			b.again()
			b.visit("q", client, web)
		}},
		"table_full": {pool: simple("p", 60, s1, s2), prepare: func(b *bench) {
			b.env.Table.SetLimit(1)
			var d Decision
			if err := b.pools["p"].Choose(&d, in("127.0.0.8", web)); err != nil {
				b.t.Fatal(err)
			}
			d.Accepted() // and stays
		}},
	}
	for word, tt := range tests {
		t.Run("pain-100_"+word, func(t *testing.T) {
			b := newBench(t)
			now := t0
			b.env.Now = func() time.Time { return now }
			b.env.Keys = cookie.NewRing(key(1))
			var log strings.Builder
			b.env.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			p := b.set(tt.pool)
			i := tt.in
			if i == nil {
				i = in(client, web)
			}
			if word == "expired" {
				i = cookies(setCookie(t, p))
				now = now.Add(time.Hour)
			}
			if tt.prepare != nil {
				tt.prepare(b)
				p = b.pools["p"]
			}
			p.ResetOutcomes()
			log.Reset()
			now = now.Add(time.Minute)
			if x := p.Explain(i); x.Outcome.String() != word || !slices.Contains(x.Steps, "persistence: "+word) {
				t.Errorf("explained as %s:\n%s", x.Outcome, strings.Join(x.Steps, "\n"))
			}
			for range 3 {
				visit(b, i)
				if tt.did != "" {
					break
				}
			}
			counts := p.Outcomes().ProtoReflect()
			fields := counts.Descriptor().Fields()
			for n := range fields.Len() {
				name, want := string(fields.Get(n).Name()), uint64(0)
				switch {
				case name == word && tt.did == "":
					want = 3
				case name == word, name == tt.did:
					want = 1
				}
				if got := counts.Get(fields.Get(n)).Uint(); got != want {
					t.Errorf("%s is %d, want %d", name, got, want)
				}
			}
			line := fmt.Sprintf("msg=persistence pool=p outcome=%s times=1 client=127.0.0.9\n", word)
			if n := strings.Count(log.String(), line); n != 1 || strings.Count(log.String(), "outcome="+word) != 1 {
				t.Errorf("%d lines %q in\n%s", n, line, log.String())
			}
			if tt.did == "" { // those that were not logged are counted in the next line
				now = now.Add(tellEvery)
				visit(b, i)
				if !strings.Contains(log.String(), "outcome="+word+" times=3 client=127.0.0.9\n") {
					t.Errorf("%s", log.String())
				}
			}
		})
	}
	t.Run("pain-100_evicted_and_expired_records", func(t *testing.T) {
		b := newBench(t)
		var log strings.Builder
		b.env.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		b.env.Table.SetLimit(2)
		p := b.set(simple("p", 60, s1, s2))
		for n := range 5 {
			b.visit("p", fmt.Sprintf("127.0.0.%d", n), web)
		}
		b.pass(2 * time.Minute)
		for b.env.Table.Sweep(1000) > 0 {
			b.pass(time.Second)
		}
		if out := p.Outcomes(); out.GetEvicted() != 3 || out.GetExpired() != 2 {
			t.Errorf("%v", out)
		}
		p.Tell()
		p.Tell()
		for _, want := range []string{"pool=p outcome=evicted times=3\n", "pool=p outcome=expired times=2\n"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("no %q in\n%s", want, log.String())
			}
		}
	})
}
