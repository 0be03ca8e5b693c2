package pool

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bigpipe/dataplane/balance"
	pb "bigpipe/proto/bigpipe/v1"
)

const n3 = "127.0.1.3"

// hold makes connections of a client that stay open, and spells where they went by the last byte of the member's address.
func (b *bench) hold(pool string, n int) (where string, held []*Decision) {
	b.t.Helper()
	var s strings.Builder
	for range n {
		d := &Decision{}
		if b.pools[pool].Choose(d, in(client, v1+":80")) != nil {
			s.WriteByte('-')
			continue
		}
		d.Accepted()
		addr := d.Member.Addr.Addr().As4()
		s.WriteByte('0' + addr[3])
		held = append(held, d)
	}
	return s.String(), held
}

// visits is hold with connections that are closed at once.
func (b *bench) visits(pool string, n int) string {
	var s strings.Builder
	for range n {
		where, held := b.hold(pool, 1)
		s.WriteString(where)
		for _, d := range held {
			d.Release()
		}
	}
	return s.String()
}

func inMode(name string, mode pb.LbMode, members ...string) *pb.Pool {
	return withMembers(&pb.Pool{Name: name, LbMode: mode.Enum()}, members...)
}

func TestModes(t *testing.T) {
	t.Run("every_mode_of_the_language", func(t *testing.T) {
		for number, word := range pb.LbMode_name {
			mode := pb.LbMode(number)
			if mode == 0 {
				continue
			}
			if _, err := balance.ParseMode(pb.EnumWord(mode)); err != nil {
				t.Errorf("%s: %v", word, err)
			}
		}
	})
	t.Run("3.x_the_global_mode_is_the_default", func(t *testing.T) {
		b := newBench(t)
		b.global.Lb = pb.LbMode_LB_MODE_LEAST_CONN.Enum()
		if p := b.set(withMembers(&pb.Pool{Name: "p"}, n1+":80")); p.mode != balance.LeastConn {
			t.Errorf("mode %v", p.mode)
		}
	})
	t.Run("least_conn_counts_the_node_in_all_pools", func(t *testing.T) {
		for mode, want := range map[pb.LbMode]string{pb.LbMode_LB_MODE_LEAST_CONN: "222", pb.LbMode_LB_MODE_LEAST_CONN_MEMBER: "121"} {
			b := newBench(t)
			b.set(inMode("other", mode, n1+":81"))
			b.hold("other", 3)
			b.set(inMode("p", mode, n1+":80", n2+":80"))
			where, _ := b.hold("p", 3)
			b.want(where, want)
		}
	})
	t.Run("J-2_persisted_traffic_does_not_move_the_rotation", func(t *testing.T) {
		for _, mode := range []pb.LbMode{pb.LbMode_LB_MODE_ROUND_ROBIN, pb.LbMode_LB_MODE_RATIO_MEMBER, pb.LbMode_LB_MODE_LEAST_CONN_MEMBER} {
			b := newBench(t)
			c := simple("p", 60, n1+":80", n2+":80", n3+":80")
			c.LbMode = mode.Enum()
			b.set(c)
			b.want(b.visit("p", "127.0.0.1", v1+":80"), n1+":80")
			for range 5 {
				b.want(b.visit("p", "127.0.0.1", v1+":80"), n1+":80")
			}
			b.want(b.visit("p", "127.0.0.2", v1+":80"), n2+":80")
			b.again()
			b.want(b.visit("p", "127.0.0.3", v1+":80"), n3+":80")
		}
	})
	t.Run("J-T10_weights_100_and_400_over_500", func(t *testing.T) {
		b := newBench(t)
		c := inMode("p", pb.LbMode_LB_MODE_RATIO_MEMBER, n1+":80", n2+":80")
		c.Members[0].Ratio, c.Members[1].Ratio = new(uint32(100)), new(uint32(400))
		b.set(c)
		if n := strings.Count(b.visits("p", 500), "1"); n != 100 {
			t.Errorf("%d of 500, want 100", n)
		}
	})
}

// TestTimed: the modes that look at times, with those that traffic meets and with those of monitors.
func TestTimed(t *testing.T) {
	serve := func(t *testing.T, b *bench, took map[string]time.Duration, n int) (where string) {
		for range n {
			var d Decision
			if err := b.pools["p"].Choose(&d, in(client, v1+":80")); err != nil {
				t.Fatal(err)
			}
			start := d.Start()
			time.Sleep(took[d.Member.Addr.Addr().String()])
			d.Took(start)
			addr := d.Member.Addr.Addr().As4()
			where += fmt.Sprint(addr[3])
			d.Release()
		}
		return where
	}
	t.Run("fastest_and_who_was_slow_is_tried_again", func(t *testing.T) {
		for _, mode := range []pb.LbMode{pb.LbMode_LB_MODE_FASTEST, pb.LbMode_LB_MODE_FASTEST_APP_RESP} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.global.FastestMaxIdleTime = new(uint32(5))
				b.set(inMode("p", mode, n1+":80", n2+":80"))
				slow := map[string]time.Duration{n1: 40 * time.Millisecond, n2: 20 * time.Millisecond}
				b.want(serve(t, b, slow, 6), "122222")
				time.Sleep(6 * time.Second)
				b.want(serve(t, b, slow, 4), "1222")
			})
		}
	})
	t.Run("A-T21_response_by_live_traffic_20_and_40_ms", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.set(inMode("p", pb.LbMode_LB_MODE_RESPONSE, n1+":80", n2+":80"))
			took := map[string]time.Duration{n1: 20 * time.Millisecond, n2: 40 * time.Millisecond}
			serve(t, b, took, 100) // more than a second
			if n := strings.Count(serve(t, b, took, 300), "1"); n < 170 || n > 230 {
				t.Errorf("%d of 300, want 200 within 15 %%", n)
			}
		})
	})
	t.Run("A-T21_response_by_monitors", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.env.Health = &Healths{}
			p := b.set(inMode("p", pb.LbMode_LB_MODE_RESPONSE, n1+":80", n2+":80"))
			p.Member(at(n1 + ":80")).health.SetProbed(20 * time.Millisecond)
			p.Member(at(n2 + ":80")).health.SetProbed(40 * time.Millisecond)
			serve(t, b, map[string]time.Duration{n1: time.Second, n2: time.Millisecond}, 10) // says nothing
			if n := strings.Count(b.visits("p", 300), "1"); n != 200 {
				t.Errorf("%d of 300, want 200", n)
			}
		})
	})
	t.Run("fastest_by_monitors_until_traffic_is_measured", func(t *testing.T) {
		for _, mode := range []pb.LbMode{pb.LbMode_LB_MODE_FASTEST, pb.LbMode_LB_MODE_FASTEST_APP_RESP} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.env.Health = &Healths{}
				p := b.set(inMode("p", mode, n1+":80", n2+":80"))
				p.Member(at(n1 + ":80")).health.SetProbed(20 * time.Millisecond)
				p.Member(at(n2 + ":80")).health.SetProbed(10 * time.Millisecond)
				b.want(serve(t, b, map[string]time.Duration{n1: 15 * time.Millisecond, n2: 40 * time.Millisecond}, 6), "211111")
			})
		}
	})
	t.Run("A-T22_bandwidth", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.set(inMode("p", pb.LbMode_LB_MODE_BANDWIDTH, n1+":80", n2+":80"))
			p.Member(at(n1+":80")).counters.Add(0, 1<<20, 1<<20, 1)
			p.Member(at(n2+":80")).counters.Add(0, 1<<10, 1<<20-1<<10, 1)
			time.Sleep(2 * time.Second)
			if n := strings.Count(b.visits("p", 300), "1"); n != 100 {
				t.Errorf("%d of 300, want 100", n)
			}
		})
	})
}

func TestHashKey(t *testing.T) {
	tests := []struct {
		name         string
		bits         uint32
		client, dest string
		want         string
	}{
		{"M-4_the_client", 0, "10.1.2.3", "", "10.1.2.3"},
		{"M-4_the_destination_of_a_wildcard", 0, "10.1.2.3", "192.0.2.1:80", "192.0.2.1"},
		{"M-5_24_bits", 24, "10.1.2.3", "", "10.1.2.0"},
		{"M-5_32_bits", 32, "10.1.2.3", "", "10.1.2.3"},
		{"24_bits_of_ipv6", 24, "2001:db8:1:2:3::4", "", "2001:db8:1:2::"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			c := inMode("p", pb.LbMode_LB_MODE_HASH, n1+":80")
			if tt.bits > 0 {
				c.HashBits = &tt.bits
			}
			i := in(tt.client, v1+":80")
			if tt.dest != "" {
				i.Destination = at(tt.dest)
			}
			b.want(b.set(c).key(i).String(), tt.want)
		})
	}
}

func TestPriorityGroups(t *testing.T) {
	grouped := func(minimum uint32) *pb.Pool {
		c := inMode("p", pb.LbMode_LB_MODE_ROUND_ROBIN, n1+":80", n2+":80", n3+":80")
		c.Members[0].Priority, c.Members[1].Priority, c.Members[2].Priority = new(uint32(1)), new(uint32(10)), new(uint32(10))
		if minimum > 0 {
			c.MinActiveMembers = &minimum
		}
		return c
	}
	down := func(b *bench, nodes ...string) {
		clear(b.nodes)
		for _, n := range nodes {
			b.nodes[n] = &pb.Node{Up: new(false)}
		}
		b.again()
	}
	t.Run("4.3_a_group_is_added_and_leaves_again", func(t *testing.T) {
		b := newBench(t)
		b.set(grouped(2))
		b.want(b.visits("p", 4), "2323")
		down(b, n2)
		if got := b.visits("p", 4); strings.Count(got, "1") != 2 || strings.Count(got, "3") != 2 {
			t.Errorf("went to %s", got)
		}
		down(b)
		if got := b.visits("p", 4); strings.Contains(got, "1") {
			t.Errorf("went to %s", got)
		}
		down(b, n2, n3)
		b.want(b.visits("p", 2), "11")
	})
	t.Run("without_a_minimum_all_are_alike", func(t *testing.T) {
		b := newBench(t)
		b.set(grouped(0))
		b.want(b.visits("p", 3), "123")
	})
	t.Run("3.x_priority_takes_the_highest", func(t *testing.T) {
		for _, mode := range []pb.LbMode{pb.LbMode_LB_MODE_PRIORITY, pb.LbMode_LB_MODE_PRIORITY_MEMBER} {
			b := newBench(t)
			c := grouped(0)
			c.LbMode = mode.Enum()
			c.Members[2].Priority = new(uint32(9))
			b.set(c)
			b.want(b.visits("p", 3), "222")
			down(b, n2)
			b.want(b.visits("p", 3), "333")
		}
	})
	t.Run("who_is_full_does_not_count", func(t *testing.T) {
		b := newBench(t)
		c := grouped(1)
		c.Members[1].Limit, c.Members[2].Limit = new(uint32(1)), new(uint32(1))
		b.set(c)
		where, held := b.hold("p", 3)
		b.want(where, "231")
		held[0].Release()
		b.want(b.visits("p", 2), "22")
	})
	t.Run("refused_by_the_whole_group", func(t *testing.T) {
		b := newBench(t)
		p := b.set(grouped(1))
		var d Decision
		if err := p.Choose(&d, in(client, v1+":80")); err != nil || d.Refused() != nil || d.Refused() != nil {
			t.Fatal("no member is left")
		}
		b.want(d.Member.Addr.String(), n1+":80")
	})
	t.Run("pain_44_persist_lower_priority", func(t *testing.T) {
		for _, keep := range []bool{true, false} {
			b := newBench(t)
			c := grouped(1)
			c.PersistMode, c.SimpleTimeout = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), new(uint32(60))
			c.PersistLowerPriority = &keep
			b.set(c)
			down(b, n2, n3)
			b.want(b.visit("p", client, v1+":80"), n1+":80")
			down(b)
			got := b.visit("p", client, v1+":80")
			if stayed := got == n1+":80"; stayed != keep {
				t.Errorf("persist_lower_priority %t: went to %s", keep, got)
			}
			b.want(b.visit("p", client, v1+":80"), got)
		}
	})
}

// TestTriedAgain: who refused before another member accepted may be chosen when that one refuses later.
func TestTriedAgain(t *testing.T) {
	for _, c := range []*pb.Pool{simple("p", 60, n1+":80", n2+":80"), inMode("p", pb.LbMode_LB_MODE_ROUND_ROBIN, n1+":80", n2+":80")} {
		b := newBench(t)
		p := b.set(c)
		var d Decision
		if err := p.Choose(&d, in(client, v1+":80")); err != nil {
			t.Fatal(err)
		}
		for _, next := range []string{n2, n1, n2, n1} {
			if err := d.Refused(); err != nil {
				t.Fatal(err)
			}
			b.want(d.Member.Addr.String(), next+":80")
			d.Accepted()
		}
		if d.Refused() != nil || d.Refused() == nil {
			t.Error("a member was tried twice, or none was")
		}
		d.Release()
	}
}

func TestNodeLimit(t *testing.T) {
	b := newBench(t)
	b.nodes[n1] = &pb.Node{Limit: new(uint32(2))}
	override := simple("bound", 60, n1+":80", n2+":80")
	b.set(override)
	b.set(inMode("p", pb.LbMode_LB_MODE_ROUND_ROBIN, n1+":80", n2+":80"))
	b.want(b.visit("bound", client, v1+":80"), n1+":80")
	where, held := b.hold("p", 5)
	b.want(where, "12122")
	// Rule B-16: reselected at once, the record is kept.
	b.want(b.visit("bound", client, v1+":80"), n2+":80")
	override.PersistLimitOverride = new(true)
	b.again()
	b.want(b.visit("bound", client, v1+":80"), n1+":80")
	for _, d := range held {
		d.Release()
	}
	for _, p := range b.pools {
		for _, m := range p.members {
			if n := m.health.node.connections.Current() + m.counters.Current(); n != 0 {
				t.Errorf("%s: %d connections are open for ever", m.Addr, n)
			}
		}
	}
}

// TestStateTable is the table of pain 34: where a client gets whose turn is a member's, and who is bound to it or not, by its state.
func TestStateTable(t *testing.T) {
	const own, other = n1 + ":80", n2 + ":80"
	modes := map[string]func() *pb.Pool{
		"simple": func() *pb.Pool { return simple("p", 60, own, other) },
		"sticky": func() *pb.Pool {
			p := withMembers(&pb.Pool{Name: "p", PersistMode: pb.PersistMode_PERSIST_MODE_STICKY.Enum()}, own, other)
			p.StickyTimeout = new(uint32(60))
			return p
		},
		"cookie": func() *pb.Pool { return inserting("p", own, other) },
	}
	states := map[string]struct {
		node                 *pb.Node
		fresh, live, expired string
	}{
		"enabled":  {nil, own, own, own},
		"disabled": {&pb.Node{Enabled: new(false)}, other, own, other},
		"down":     {&pb.Node{Up: new(false)}, other, other, other},
	}
	for name, configured := range modes {
		for state, want := range states {
			begin := func(t *testing.T) (b *bench, mine *Input, visit func(*Input) *Decision, change func()) {
				b = newBench(t)
				b.set(configured())
				visit = func(i *Input) *Decision {
					d := &Decision{}
					if err := b.pools["p"].Choose(d, i); err != nil {
						t.Fatal(err)
					}
					d.Accepted()
					return d
				}
				change = func() {
					if want.node != nil {
						b.nodes[n1] = want.node
					}
					b.again()
				}
				return b, in(client, v1+":80"), visit, change
			}
			bind := func(b *bench, mine *Input, visit func(*Input) *Decision) *Decision {
				d := visit(mine)
				b.want(d.Member.Addr.String(), own)
				if name == "cookie" {
					mine.Request = request("BIGipServerp=" + string(d.Member.cookie))
				}
				visit(in("127.0.0.1", v2+":80")).Release() // the turn is its own again
				return d
			}
			t.Run("pain_34/"+name+"/"+state+"/no_record", func(t *testing.T) {
				b, mine, visit, change := begin(t)
				change()
				b.want(visit(mine).Member.Addr.String(), want.fresh)
			})
			t.Run("pain_34/"+name+"/"+state+"/live_record", func(t *testing.T) {
				b, mine, visit, change := begin(t)
				bind(b, mine, visit).Release()
				change()
				b.want(visit(mine).Member.Addr.String(), want.live)
			})
			t.Run("pain_34/"+name+"/"+state+"/expired_record", func(t *testing.T) {
				b, mine, visit, change := begin(t)
				bind(b, mine, visit).Release()
				b.pass(2 * time.Minute)
				mine.Request = nil // a client sends no cookie that has expired
				change()
				b.want(visit(mine).Member.Addr.String(), want.expired)
			})
			t.Run("pain_34/"+name+"/"+state+"/open_connection", func(t *testing.T) {
				b, mine, visit, change := begin(t)
				open := bind(b, mine, visit)
				change()
				m := b.pools["p"].Member(at(own))
				if n := m.Counters().Current(); n != 1 || open.Member.Addr != m.Addr {
					t.Errorf("%d connections are open, want 1", n)
				}
				open.Release()
				if n := m.Counters().Current(); n != 0 {
					t.Errorf("%d connections are open, want none", n)
				}
			})
		}
	}
}
