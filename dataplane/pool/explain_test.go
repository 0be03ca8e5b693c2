package pool

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/tlshello"
	"bigpipe/dataplane/token"
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

// explainable is a way to choose that is explained: a pool, and where it needs more than others, what its clients bring and what
// happens around it. For a new mode a line in explainables is enough.
type explainable struct {
	pool *pb.Pool
	// brings adds to what a client brings; nil: nothing.
	brings func(t *testing.T, i *Input, random *rand.Rand)
	// around happens before a choice; nil: nothing.
	around func(b *bench, random *rand.Rand)
}

var explainedMembers = []string{s1, s2, "127.0.0.3:18003"}

// anyone is the address of a member, or one that no member has.
func anyone(random *rand.Rand) string {
	return append(slices.Clone(explainedMembers), "127.0.0.9:9")[random.IntN(4)]
}

func explainables() map[string]explainable {
	pools := map[string]explainable{}
	add := func(name string, c *pb.Pool, change ...func(*pb.Pool)) {
		for _, f := range change {
			f(c)
		}
		pools[name] = explainable{pool: c}
	}
	members := explainedMembers
	for number, word := range pb.LbMode_name {
		mode := pb.LbMode(number)
		if mode == pb.LbMode_LB_MODE_UNSPECIFIED {
			continue
		}
		add(word, inMode("p", mode, members...))
		add(word+"_simple", simple("p", 60, members...), func(c *pb.Pool) {
			c.LbMode = mode.Enum()
			c.Members[2].Priority, c.MinActiveMembers = proto.Uint32(1), proto.Uint32(2)
			c.Members[0].Ratio, c.Members[0].Limit = proto.Uint32(3), proto.Uint32(4)
		})
	}
	for _, name := range []string{"LB_MODE_DYNAMIC_RATIO", "LB_MODE_DYNAMIC_RATIO_simple"} {
		x := pools[name]
		x.around = func(b *bench, random *rand.Rand) { // a program says other weights
			b.env.Health.Of(at(explainedMembers[random.IntN(3)])).SetWeight(uint32(random.IntN(5)))
			b.env.Health.SetAddress(at(s2).Addr(), Up).SetWeight(uint32(random.IntN(3)))
			time.Sleep(100 * time.Millisecond) // they are looked at so often
		}
		pools[name] = x
	}
	add("slow_start", simple("p", 60, members...), func(c *pb.Pool) { c.SlowStart = proto.Uint32(20) })
	add("sticky", byID(pb.PersistMode_PERSIST_MODE_STICKY, members...))
	add("cookie", inserting("p", members...))
	add("cookie_reserve", inserting("p", members...), func(c *pb.Pool) { c.CookieReserve = yes() })
	add("cookie_hash", hashing("p", members...))
	add("refuse", simple("p", 60, members...), func(c *pb.Pool) { c.PersistUnavailable = pb.Unavailable_UNAVAILABLE_REFUSE.Enum() })
	add("refuse_unknown", inserting("p", members...), func(c *pb.Pool) { c.PersistUnknown = pb.Unavailable_UNAVAILABLE_REFUSE.Enum() })
	shared := explainable{pool: simple("p", 60, members...)}
	shared.around = func(b *bench, random *rand.Rand) {
		b.global.PersistAcrossVirtuals = yes()
		q := b.set(simple("q", 30, "127.0.0.1:90", "127.0.0.3:90", "127.0.0.4:90"))
		var d Decision
		if q.Choose(&d, in(fmt.Sprintf("127.0.0.%d", random.IntN(12)+1), web)) == nil {
			d.Accepted()
		}
		d.Release()
	}
	pools["shared"] = shared

	lasting := func(c *pb.Pool) { c.Name, c.TokenTimeoutMs = "p", proto.Uint64(20_000) }
	pools["token"] = explainable{pool: tokenPool(lasting, members...), brings: func(_ *testing.T, i *Input, random *rand.Rand) {
		i.Request = requestWith("Cookie: x=" + clearToken(anyone(random)) + "; x=" + clearToken(anyone(random)) + "\r\n")
	}}
	ring := cookie.NewRing(key(1), key(2))
	codec := &token.Codec{Ring: ring, Name: "x-session-id"}
	pools["token_sealed_in_header"] = explainable{
		pool:   tokenPool(func(c *pb.Pool) { lasting(c); inHeader(c) }, members...),
		around: func(b *bench, _ *rand.Rand) { b.env.Keys = ring },
		brings: func(_ *testing.T, i *Input, random *rand.Rand) {
			ends := time.Now().Add(time.Duration(random.IntN(20)-5) * time.Second).UnixMilli()
			value := codec.Append(nil, &token.Token{Addr: at(anyone(random)), Expires: ends})
			if random.IntN(5) == 0 {
				value[len(value)/2] ^= 1
			}
			i.Request = requestWith("X-Session-ID: " + string(value) + "\r\n")
		},
	}
	pools["jroute"] = explainedRoutes(members...)
	session := func(t *testing.T, i *Input, random *rand.Rand) {
		i.Hello = clientBringing(t, fmt.Sprintf("%02x", random.IntN(6)), []string{"", "ta", "tb", "tc"}[random.IntN(4)])
	}
	pools["ssl"] = explainable{pool: sslPool("p", members...), brings: session}
	pools["ssl_tmout"] = explainable{pool: sslPool("p", members...), brings: session}
	pools["ssl_tmout"].pool.Members[1].Tmout = proto.Uint32(5)
	pools["ssl_fallback"] = explainable{pool: sslPool("p", members...), brings: session}
	pools["ssl_fallback"].pool.SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum()
	pools["sip"] = explainable{pool: byID(pb.PersistMode_PERSIST_MODE_SIP, members...), brings: func(_ *testing.T, i *Input, random *rand.Rand) {
		i.ID = []byte([]string{"", "one@h", "two@h", strings.Repeat("long", 30)}[random.IntN(4)])
	}}
	pools["msrdp"] = explainable{pool: byID(pb.PersistMode_PERSIST_MODE_MSRDP, members...), brings: func(_ *testing.T, i *Input, random *rand.Rand) {
		if random.IntN(3) == 0 {
			i.Named = at(anyone(random))
			return
		}
		i.ID = []byte([]string{"", "anna", "bert"}[random.IntN(3)])
	}}
	return pools
}

// TestExplainIsTrue makes the same choices twice, the second time explaining each before, several times: the explanation is what
// then happens, and it changes nothing.
func TestExplainIsTrue(t *testing.T) {
	for name, x := range explainables() {
		t.Run(name, func(t *testing.T) {
			var quiet, explained []string
			synctest.Test(t, func(t *testing.T) { quiet = x.choices(t, false) })
			synctest.Test(t, func(t *testing.T) { explained = x.choices(t, true) })
			for n := range quiet {
				if quiet[n] != explained[n] {
					t.Fatalf("choice %d: without explanations %s, with them %s", n, quiet[n], explained[n])
				}
			}
		})
	}
}

// choices are what becomes of some connections, always the same ones.
func (x *explainable) choices(t *testing.T, explain bool) (got []string) {
	b, random := newBench(t), rand.New(rand.NewPCG(1, 2))
	var held []*Decision
	for range 100 {
		if x.around != nil {
			x.around(b, random)
		}
		b.pools["p"] = x.next(b, random)
		i := x.input(t, random)
		wait := time.Duration(random.IntN(9)) * time.Second
		b.pass(wait)
		time.Sleep(wait)
		d := &Decision{}
		told := ""
		if explain {
			told = x.explained(b, i)
		}
		made := x.make(b, d, i, random)
		if explain && told != made {
			t.Fatalf("explained as %s, then it was %s:\n%s", told, made, strings.Join(b.pools["p"].Explain(i).Steps, "\n"))
		}
		got = append(got, made)
		if held = append(held, d); random.IntN(3) > 0 {
			held[0].Release()
			held = held[1:]
		}
	}
	for _, d := range held {
		d.Release()
	}
	for _, m := range b.pools["p"].Members() {
		if n := m.Counters().Current(); n != 0 {
			t.Errorf("%d connections to %s are left open", n, m.Addr)
		}
	}
	return got
}

// next is the pool from now on: at times a node is in another state, or a member has gone.
func (x *explainable) next(b *bench, random *rand.Rand) *Pool {
	node := fmt.Sprintf("127.0.0.%d", random.IntN(3)+1)
	state := &pb.Node{Enabled: proto.Bool(random.IntN(3) > 0), Up: proto.Bool(random.IntN(4) > 0)}
	gone := random.IntN(4) == 0
	if b.pools["p"] != nil && random.IntN(4) > 0 {
		return b.pools["p"]
	}
	b.nodes[node] = state
	c := x.pool
	if gone {
		c = proto.CloneOf(c)
		c.Members = c.Members[:2]
	}
	return b.set(c)
}

func (x *explainable) input(t *testing.T, random *rand.Rand) *Input {
	from := fmt.Sprintf("127.0.0.%d", random.IntN(12)+1)
	i := in(from, []string{web, "127.0.0.20:80"}[random.IntN(2)])
	if random.IntN(2) == 0 {
		i.Request = request("Apache="+from, fmt.Sprintf("BIGipServerp=%s", []string{value1, value2, "1.1.0000", "x"}[random.IntN(4)]))
	}
	if x.brings != nil {
		x.brings(t, i, random)
	}
	return i
}

// explained is what the pool says of a connection, asked several times, which nothing may count.
func (x *explainable) explained(b *bench, i *Input) string {
	p := b.pools["p"]
	before, records := p.Outcomes(), b.records()
	var e Explanation
	for range 3 {
		e = p.Explain(i)
	}
	if after := p.Outcomes(); !proto.Equal(before, after) || b.records() != records {
		b.t.Fatalf("explanations are counted: %v, %v", before, after)
	}
	if e.Member == nil {
		return e.Steps[len(e.Steps)-1] + " " + e.Outcome.String()
	}
	return e.Member.Addr.String() + " " + e.Outcome.String()
}

// make makes a connection, whose member gives a session and a ticket, and answers after a while.
func (x *explainable) make(b *bench, d *Decision, i *Input, random *rand.Rand) string {
	id, ticket, took := fmt.Sprintf("%02x", random.IntN(6)), []string{"ta", "tb", "tc"}[random.IntN(3)], time.Duration(random.IntN(50))*time.Millisecond
	err := b.pools["p"].Choose(d, i)
	found, _ := d.Outcome()
	if err != nil {
		return err.Error() + " " + found.String()
	}
	d.Accepted()
	start := d.Start()
	time.Sleep(took)
	d.Took(start)
	if i.Hello != nil {
		server := &tlshello.Server{Tickets: true}
		d.Learn(server.Feed(giving(b.t, id, ticket)), i.Hello, server)
	}
	return d.Member.Addr.String() + " " + found.String()
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

// A record that ran out and was not swept away yet is told as expired, and counted once; one that is gone is none.
func TestExplainExpiredRecord(t *testing.T) {
	overTLS := func(b *bench) *Input {
		i := in(client, web)
		i.Hello = clientOf(b.t, idA)
		return i
	}
	tests := map[string]struct {
		pool  *pb.Pool
		input func(*bench) *Input
		bind  func(*bench)
	}{
		"simple": {simple("p", 60, s1, s2), func(*bench) *Input { return in(client, web) }, func(b *bench) { b.visit("p", client, web) }},
		"ssl": {sslPool("p", s1, s2), overTLS, func(b *bench) {
			var d Decision
			defer d.Release()
			b.handshake(&d, "p", web, "", idA)
		}},
	}
	for name, tt := range tests {
		t.Run("pain-100_"+name, func(t *testing.T) {
			b := newBench(t)
			p := b.set(tt.pool)
			explained := func(want string) {
				t.Helper()
				if x := p.Explain(tt.input(b)); x.Outcome.String() != want || !slices.Contains(x.Steps, "persistence: "+want) {
					t.Errorf("explained as %s, want %s:\n%s", x.Outcome, want, strings.Join(x.Steps, "\n"))
				}
			}
			connect := func(i *Input) {
				t.Helper()
				var d Decision
				defer d.Release()
				if err := p.Choose(&d, i); err != nil {
					t.Fatal(err)
				}
				d.Accepted()
			}
			tt.bind(b)
			explained("valid")
			b.pass(time.Hour)
			p.ResetOutcomes()
			explained("expired")
			explained("expired") // it has changed nothing
			if out := p.Outcomes(); out.GetExpired() != 0 {
				t.Errorf("explaining has counted: %v", out)
			}
			connect(tt.input(b))
			if out := p.Outcomes(); out.GetExpired() != 1 || out.GetNone() != 0 || out.GetValid() != 0 {
				t.Errorf("%v", out)
			}

			b.env.Table.Clear(persist.Filter{}, nil)
			tt.bind(b)
			p.ResetOutcomes()
			b.pass(time.Hour)
			for b.env.Table.Sweep(1000) > 0 || b.records() > 0 {
				b.pass(time.Second)
			}
			explained("none")
			connect(tt.input(b))
			if out := p.Outcomes(); out.GetExpired() != 1 || out.GetNone() != 1 {
				t.Errorf("%v", out)
			}
		})
	}
	t.Run("fallback_of_ssl_goes_on", func(t *testing.T) {
		b := newBench(t)
		c := sslPool("p", s1, s2)
		c.SslFallback, c.SimpleTimeout = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum(), proto.Uint32(7200)
		p := b.set(c)
		b.visit("p", client, web)
		tests["ssl"].bind(b)
		b.pass(time.Hour)
		if x := p.Explain(overTLS(b)); x.Outcome != OutcomeValid {
			t.Errorf("explained as %s:\n%s", x.Outcome, strings.Join(x.Steps, "\n"))
		}
	})
}

// A client that is many, behind a proxy, shows as the key of nearly all connections.
func TestLargestKey(t *testing.T) {
	b := newBench(t)
	p := b.set(simple("p", 60, s1, s2))
	b.visit("p", client, web)
	if key, share := p.LargestKey(); key != "" || share != 0 {
		t.Errorf("of one connection it says %s %v", key, share)
	}
	t.Run("pain-83_one_address", func(t *testing.T) {
		for range 300 {
			b.visit("p", client, web)
		}
		if key, share := p.LargestKey(); key != client || share != 1 {
			t.Errorf("%s %v", key, share)
		}
	})
	t.Run("pain-83_many_addresses", func(t *testing.T) {
		for i := range 3000 {
			b.visit("p", fmt.Sprintf("127.1.%d.%d", i/250, i%250), web)
		}
		if _, share := p.LargestKey(); share > 0.05 {
			t.Errorf("%v", share)
		}
	})
	if key, share := b.set(inserting("c", s1)).LargestKey(); key != "" || share != 0 {
		t.Errorf("without records: %s %v", key, share)
	}
}
