package pool

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// bench is a dataplane without traffic: pools, a table and a clock that the test moves.
type bench struct {
	t      *testing.T
	now    atomic.Int64
	env    Env
	nodes  map[string]*pb.Node
	ports  map[uint16]bool
	pools  map[string]*Pool
	global *pb.Global
	also   []*pb.Pool // that the configuration has
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, nodes: map[string]*pb.Node{}, ports: map[uint16]bool{}, pools: map[string]*Pool{}, global: &pb.Global{}}
	b.env.Health, b.env.Log = &Healths{}, slog.New(slog.DiscardHandler)
	b.env.Table = persist.New(persist.Options{Clock: b.now.Load, Limit: 1000})
	b.configure()
	return b
}

func (b *bench) pass(d time.Duration) { b.now.Add(int64(d)) }

func simple(name string, timeout uint32, members ...string) *pb.Pool {
	p := &pb.Pool{Name: name, PersistMode: pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), SimpleTimeout: &timeout}
	return withMembers(p, members...)
}

func inserting(name string, members ...string) *pb.Pool {
	p := &pb.Pool{Name: name, PersistMode: pb.PersistMode_PERSIST_MODE_COOKIE.Enum(), CookieMode: pb.CookieMode_COOKIE_MODE_INSERT.Enum()}
	return withMembers(p, members...)
}

func withMembers(p *pb.Pool, members ...string) *pb.Pool {
	for _, m := range members {
		p.Members = append(p.Members, &pb.Member{Address: m})
	}
	return p
}

// configure makes the configuration around the pools.
func (b *bench) configure() {
	objects := []*pb.Object{{Kind: &pb.Object_Global{Global: b.global}}}
	for address, n := range b.nodes {
		if n == nil {
			continue
		}
		n.Address = address
		objects = append(objects, &pb.Object{Kind: &pb.Object_Node{Node: n}})
	}
	for port, disabled := range b.ports {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Service{Service: &pb.Service{Port: uint32(port), Tcp: new(!disabled)}}})
	}
	for _, p := range b.also {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Pool{Pool: p}})
	}
	b.env.View = config.NewTree(objects...)
}

// set compiles a pool, after the one that had its name.
func (b *bench) set(config *pb.Pool) *Pool {
	b.t.Helper()
	b.configure()
	p, reasons := Compile(config, &b.env, b.pools[config.GetName()])
	if len(reasons) > 0 {
		b.t.Fatalf("pool %s: %v", config.GetName(), reasons)
	}
	b.pools[config.GetName()] = p
	return p
}

// again compiles all pools anew, after a change around them.
func (b *bench) again() {
	for _, p := range b.pools {
		b.set(p.Config)
	}
}

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// in is an input for a client address and a virtual server.
func in(client, virtual string) *Input {
	return &Input{Client: netip.AddrPortFrom(netip.MustParseAddr(client), 40000), Virtual: at(virtual)}
}

// visit makes one connection of a client and closes it; it returns where it went.
func (b *bench) visit(pool, client, virtual string) string {
	b.t.Helper()
	var d Decision
	if err := b.pools[pool].Choose(&d, in(client, virtual)); err != nil {
		return err.Error()
	}
	defer d.Release()
	d.Accepted()
	return d.Member.Addr.String()
}

func (b *bench) want(got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("got %s, want %s", got, want)
	}
}

func (b *bench) records() int { return b.env.Table.Len() }

const (
	n1, n2 = "127.0.1.1", "127.0.1.2"
	v1, v2 = "127.0.0.10", "127.0.0.20"
	client = "127.0.0.9"
)

// seedBench has the pools of seed 002: http_pool on :8080, ssl_pool on :8443.
func seedBench(t *testing.T) *bench {
	b := newBench(t)
	b.set(simple("http_pool", 300, n1+":8080", n2+":8080"))
	b.set(simple("ssl_pool", 300, n1+":8443", n2+":8443"))
	return b
}

func yes() *bool { t := true; return &t }

func no() *bool { f := false; return &f }

func TestScopes(t *testing.T) {
	t.Run("B-T1_across_services_the_node_address_is_shared", func(t *testing.T) {
		b := seedBench(t)
		b.global.PersistAcrossServices = yes()
		b.again()
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("ssl_pool", client, v2+":443"), n1+":8443") // its own first choice
		b.want(b.visit("ssl_pool", "127.0.0.8", v2+":443"), n2+":8443")
		b.want(b.visit("ssl_pool", client, v1+":443"), n1+":8443")
	})
	t.Run("B-T2_a_visit_elsewhere_does_not_disturb_the_record", func(t *testing.T) {
		b := seedBench(t)
		b.global.PersistAcrossServices = yes()
		b.again()
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("ssl_pool", "127.0.0.77", v2+":443"), n1+":8443") // moves the rotation
		b.want(b.visit("ssl_pool", client, v2+":443"), n2+":8443")
		b.want(b.visit("ssl_pool", client, v1+":443"), n1+":8443")
		b.want(b.visit("ssl_pool", client, v2+":443"), n2+":8443")
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
	})
	t.Run("B-T3_across_virtuals_all_four_meet", func(t *testing.T) {
		for _, both := range []bool{false, true} {
			b := newBench(t)
			b.global.PersistAcrossVirtuals = yes()
			if both {
				b.global.PersistAcrossServices = yes()
			}
			b.set(simple("a", 300, n1+":8080", n2+":8080"))
			b.set(simple("b", 300, n2+":8443", n1+":8443"))
			b.set(simple("c", 300, n2+":8080", n1+":8080"))
			b.set(simple("d", 300, n2+":8443", n1+":8443"))
			b.want(b.visit("a", client, v1+":80"), n1+":8080")
			b.want(b.visit("b", client, v1+":443"), n1+":8443")
			b.want(b.visit("c", client, v2+":80"), n1+":8080")
			b.want(b.visit("d", client, v2+":443"), n1+":8443")
			if b.records() != 1 {
				t.Errorf("%d records, want one for all", b.records())
			}
		}
	})
	t.Run("B-T4_without_them_each_decides_alone", func(t *testing.T) {
		b := seedBench(t)
		b.visit("ssl_pool", "127.0.0.77", v1+":443") // n1, so the client gets n2
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("ssl_pool", client, v1+":443"), n2+":8443")
		b.want(b.visit("http_pool", client, v2+":80"), n2+":8080")
		for range 3 {
			b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
			b.want(b.visit("ssl_pool", client, v1+":443"), n2+":8443")
			b.want(b.visit("http_pool", client, v2+":80"), n2+":8080")
		}
	})
	t.Run("B-T5_without_persistence_no_record_is_read_or_written", func(t *testing.T) {
		b := seedBench(t)
		b.global.PersistAcrossServices = yes()
		b.again()
		b.set(withMembers(&pb.Pool{Name: "plain"}, n1+":8443", n2+":8443"))
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("plain", client, v1+":443"), n1+":8443")
		b.want(b.visit("plain", client, v1+":443"), n2+":8443")
		b.want(b.visit("plain", client, v1+":443"), n1+":8443")
		if b.records() != 1 {
			t.Errorf("%d records, want 1", b.records())
		}
	})
	t.Run("B-T6_a_third_service_uses_its_own_port", func(t *testing.T) {
		b := seedBench(t)
		b.global.PersistAcrossServices = yes()
		b.set(simple("third", 300, n2+":8445", n1+":8445"))
		b.again()
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("ssl_pool", client, v1+":443"), n1+":8443")
		b.want(b.visit("third", client, v1+":8445"), n1+":8445")
	})
	t.Run("B-T7_a_pool_without_the_node_keeps_a_choice_of_its_own", func(t *testing.T) {
		b := newBench(t)
		b.global.PersistAcrossServices = yes()
		b.set(simple("http_pool", 300, n1+":8080", n2+":8080"))
		b.set(simple("ssl_pool", 300, "127.0.1.3:8443", n2+":8443"))
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.visit("ssl_pool", "127.0.0.77", v2+":443") // moves the rotation
		for range 4 {
			b.want(b.visit("ssl_pool", client, v1+":443"), n2+":8443")
			b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		}
		if n := b.pools["ssl_pool"].Outcomes().GetOtherPool(); n != 1 {
			t.Errorf("other_pool %d, want 1: the choice of its own is valid afterwards", n)
		}
	})
	t.Run("B-T8_of_several_ports_the_recorded_one_then_the_virtuals_then_the_lowest", func(t *testing.T) {
		b := newBench(t)
		b.global.PersistAcrossServices = yes()
		b.set(simple("http_pool", 300, n1+":8080", n2+":8080"))
		b.set(simple("ssl_pool", 300, n2+":8443", n1+":9443", n1+":8443"))
		b.set(simple("both", 300, n2+":8443", n1+":9443", n1+":8080"))
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("ssl_pool", client, v1+":9443"), n1+":9443")
		b.want(b.visit("ssl_pool", client, v1+":443"), n1+":8443")
		b.want(b.visit("both", client, v1+":9443"), n1+":8080")
	})
}

func TestStates(t *testing.T) {
	t.Run("B-T9_disabled_is_honoured", func(t *testing.T) {
		b := seedBench(t)
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		for _, node := range []string{n1, n1 + ":8080"} {
			b.nodes[node] = &pb.Node{Enabled: no()}
			b.again()
			b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
			b.want(b.visit("http_pool", "127.0.0.66", v1+":80"), n2+":8080")
			b.want(b.visit("http_pool", "127.0.0.67", v1+":80"), n2+":8080")
			delete(b.nodes, node)
		}
		if n := b.pools["http_pool"].Outcomes().GetDisabledHonoured(); n != 2 {
			t.Errorf("disabled_honoured %d, want 2", n)
		}
	})
	t.Run("B-T9_B-8_down_moves_the_record_which_stays", func(t *testing.T) {
		for _, node := range []string{n1, n1 + ":8080"} {
			b := seedBench(t)
			b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
			b.nodes[node] = &pb.Node{Up: no()}
			b.again()
			b.want(b.visit("http_pool", client, v1+":80"), n2+":8080")
			delete(b.nodes, node)
			b.again()
			b.want(b.visit("http_pool", client, v1+":80"), n2+":8080")
			if got := b.pools["http_pool"].Outcomes(); got.GetDown() != 1 || got.GetMoved() != 1 || got.GetValid() != 1 {
				t.Errorf("outcomes %v", got)
			}
		}
	})
	t.Run("B-8_a_shared_record_moves_for_all", func(t *testing.T) {
		b := seedBench(t)
		b.global.PersistAcrossServices = yes()
		b.again()
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.nodes[n1+":8443"] = &pb.Node{Up: no()}
		b.again()
		b.want(b.visit("ssl_pool", client, v1+":443"), n2+":8443")
		b.want(b.visit("http_pool", client, v1+":80"), n2+":8080")
	})
	t.Run("4.7_words", func(t *testing.T) {
		tests := []struct {
			want        State
			new, bound  bool
			address     *pb.Node
			service     *pb.Node
			port, maint bool
		}{
			{want: Unchecked, new: true, bound: true},
			{want: Disabled, bound: true, service: &pb.Node{Enabled: no()}},
			{want: AddressDisabled, bound: true, address: &pb.Node{Enabled: no()}},
			{want: PortDisabled, bound: true, port: true},
			{want: ForcedDown, service: &pb.Node{Up: no()}},
			{want: AddressDown, address: &pb.Node{Up: no()}},
			{want: ForcedDown, service: &pb.Node{Up: no(), Enabled: no()}},
			{want: AddressDown, address: &pb.Node{Up: no()}, service: &pb.Node{Enabled: no()}},
			{want: Maintenance, maint: true, service: &pb.Node{Up: no()}},
			{want: Unchecked, new: true, bound: true, service: &pb.Node{Up: yes(), Enabled: yes()}},
		}
		for _, tt := range tests {
			b := newBench(t)
			b.nodes[n1], b.nodes[n1+":80"], b.ports[80], b.global.Maint = tt.address, tt.service, tt.port, &tt.maint
			m := b.set(simple("p", 10, n1+":80")).Members()[0]
			s := m.State()
			if s != tt.want || s.UsableForNew() != tt.new || s.UsableForPersisted() != tt.bound {
				t.Errorf("%s: got %s, new %t, persisted %t", tt.want, s, s.UsableForNew(), s.UsableForPersisted())
			}
			if word := strings.ToLower(strings.TrimPrefix(s.Message().String(), "MEMBER_STATE_")); word != s.String() {
				t.Errorf("state %s is %s in messages", s, word)
			}
		}
	})
	t.Run("all_down", func(t *testing.T) {
		b := seedBench(t)
		b.nodes[n1], b.nodes[n2] = &pb.Node{Up: no()}, &pb.Node{Up: no()}
		b.again()
		b.want(b.visit("http_pool", client, v1+":80"), ErrNoMember.Error())
		if b.records() != 0 {
			t.Errorf("%d records of nobody", b.records())
		}
	})
}

func TestMasks(t *testing.T) {
	b := newBench(t)
	c := simple("classc_pool", 300, n1+":80", n2+":80", "127.0.1.3:80")
	mask := "255.255.255.0"
	c.SimpleMask = &mask
	b.set(c)
	t.Run("B-T10_a_network_counts_as_one", func(t *testing.T) {
		b.want(b.visit("classc_pool", "127.0.0.1", v1+":80"), n1+":80")
		b.want(b.visit("classc_pool", "127.0.0.77", v1+":80"), n1+":80")
		b.want(b.visit("classc_pool", "127.0.1.5", v1+":80"), n2+":80")
		b.want(b.visit("classc_pool", "::ffff:127.0.0.5", v1+":80"), n1+":80")
	})
	t.Run("B-T11_different_masks_do_not_meet", func(t *testing.T) {
		b := newBench(t)
		b.global.PersistAcrossServices = yes()
		h := simple("http_pool", 300, n1+":8080", n2+":8080")
		h.SimpleMask = &mask
		b.set(h)
		b.set(simple("ssl_pool", 300, n2+":8443", n1+":8443"))
		b.want(b.visit("http_pool", client, v1+":80"), n1+":8080")
		b.want(b.visit("ssl_pool", client, v1+":443"), n2+":8443")
	})
	t.Run("simple_mask6", func(t *testing.T) {
		b := newBench(t)
		c := simple("p", 300, n1+":80", n2+":80")
		bits := uint32(64)
		c.SimpleMask6 = &bits
		b.set(c)
		b.want(b.visit("p", "2001:db8::1", v1+":80"), n1+":80")
		b.want(b.visit("p", "2001:db8::2", v1+":80"), n1+":80")
		b.want(b.visit("p", "2001:db8:0:1::2", v1+":80"), n2+":80")
	})
}

func TestTimers(t *testing.T) {
	run := func(t *testing.T, timer pb.PersistTimer, want []string) {
		b := newBench(t)
		b.global.PersistTimer = &timer
		b.set(simple("p", 2, n1+":80", n2+":80"))
		for i, w := range want {
			if got := b.visit("p", client, v1+":80"); got != w+":80" {
				t.Errorf("second %d: %s, want %s", i, got, w)
			}
			b.pass(time.Second)
		}
	}
	t.Run("B-T12_B-13_limit_restarts_with_every_use", func(t *testing.T) {
		run(t, pb.PersistTimer_PERSIST_TIMER_LIMIT, []string{n1, n1, n1, n1, n1, n1})
	})
	t.Run("B-T12_B-13_timeout_counts_from_creation", func(t *testing.T) {
		run(t, pb.PersistTimer_PERSIST_TIMER_TIMEOUT, []string{n1, n1, n2, n2, n1, n1})
	})
	t.Run("B-14_the_last_pool_to_refresh_sets_the_timeout", func(t *testing.T) {
		b := newBench(t)
		b.global.PersistAcrossServices = yes()
		b.set(simple("long", 100, n1+":8080", n2+":8080"))
		b.set(simple("short", 2, n2+":8443", n1+":8443"))
		b.want(b.visit("long", client, v1+":80"), n1+":8080")
		b.pass(50 * time.Second)
		b.want(b.visit("short", client, v1+":443"), n1+":8443")
		b.pass(3 * time.Second)
		b.want(b.visit("short", client, v1+":443"), n2+":8443")
	})
	t.Run("B-15_no_timeout_no_persistence", func(t *testing.T) {
		b := newBench(t)
		b.set(simple("p", 0, n1+":80", n2+":80"))
		b.want(b.visit("p", client, v1+":80"), n1+":80")
		b.want(b.visit("p", client, v1+":80"), n2+":80")
	})
	t.Run("a_record_lives_while_a_connection_is_open", func(t *testing.T) {
		b := newBench(t)
		b.set(simple("p", 2, n1+":80", n2+":80"))
		var d Decision
		if err := b.pools["p"].Choose(&d, in(client, v1+":80")); err != nil {
			t.Fatal(err)
		}
		d.Accepted()
		b.pass(time.Minute)
		b.want(b.visit("p", client, v1+":80"), n1+":80")
		d.Release()
		b.pass(time.Second)
		b.want(b.visit("p", client, v1+":80"), n1+":80")
		b.pass(3 * time.Second)
		b.want(b.visit("p", client, v1+":80"), n2+":80")
	})
}

func TestSticky(t *testing.T) {
	b := newBench(t)
	c := withMembers(&pb.Pool{Name: "caches", PersistMode: pb.PersistMode_PERSIST_MODE_STICKY.Enum()}, n1+":80", n2+":80")
	mask := "255.255.255.0"
	c.StickyMask = &mask
	p := b.set(c)
	t.Run("B-12_W-7_one_destination_is_one_member", func(t *testing.T) {
		b.want(b.visit("caches", "127.0.0.1", v1+":80"), n1+":80")
		b.want(b.visit("caches", "127.0.0.2", v1+":80"), n1+":80")
		b.pass(1000 * time.Hour) // B-15: without a timeout it never ends
		b.want(b.visit("caches", "127.0.0.3", v1+":80"), n1+":80")
	})
	t.Run("B-12_key_is_the_masked_destination", func(t *testing.T) {
		go1 := func(dest string) string {
			i := in("127.0.0.1", v2+":80")
			i.Destination = at(dest)
			var d Decision
			if err := p.Choose(&d, i); err != nil {
				t.Fatal(err)
			}
			defer d.Release()
			d.Accepted()
			return d.Member.Addr.String()
		}
		b.want(go1("10.0.0.1:80"), n2+":80")
		b.want(go1("10.0.0.2:80"), n2+":80")
		b.want(go1("10.0.1.2:80"), n1+":80")
	})
}

func request(cookies ...string) *http1.Head {
	var r http1.Request
	text := "GET / HTTP/1.1\r\nHost: h\r\n"
	for _, c := range cookies {
		text += "Cookie: " + c + "\r\n"
	}
	if n, err := r.Parse([]byte(text + "\r\n")); n == 0 || err != nil {
		panic(fmt.Sprint("request: ", n, err))
	}
	return &r.Head
}
