package pool

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// TestDrainTimeout: rule J-17: a disabled member serves its clients until its time is over, and nobody afterwards.
func TestDrainTimeout(t *testing.T) {
	quiesced := func(b *bench, seconds uint32) *pb.Pool {
		b.nodes[n1+":80"] = &pb.Node{Enabled: new(false)}
		c := simple("p", 300, n1+":80", n2+":80")
		c.Members[0].DrainTimeout = &seconds
		return c
	}
	t.Run("J-T11_quiesced_for_a_minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.set(simple("p", 300, n1+":80", n2+":80"))
			b.want(b.visit("p", client, v1+":80"), n1+":80")
			p := b.set(quiesced(b, 60))
			if !p.Drains() {
				t.Error("nothing is drained")
			}
			time.Sleep(59 * time.Second)
			if ended := p.Drain(time.Now()); len(ended) > 0 {
				t.Error("it ends too early")
			}
			b.want(b.visit("p", client, v1+":80"), n1+":80")
			b.want(b.visit("p", "127.0.0.2", v1+":80"), n2+":80")
			time.Sleep(time.Second)
			if ended := p.Drain(time.Now()); len(ended) != 1 || ended[0].Addr != at(n1+":80") || !ended[0].Over() {
				t.Errorf("ended %v", ended)
			}
			if ended := p.Drain(time.Now()); len(ended) != 0 || p.Drains() {
				t.Error("it ends twice")
			}
			if s := p.Member(at(n1 + ":80")).State(); s != ForcedDown {
				t.Errorf("it is %s", s)
			}
			b.want(b.visit("p", client, v1+":80"), n2+":80")
			b.nodes[n1+":80"] = nil
			b.set(simple("p", 300, n1+":80", n2+":80")) // enabled again; the record has moved
			b.want(b.visit("p", client, v1+":80"), n2+":80")
		})
	})
	t.Run("J-22_a_change_of_something_else_does_not_begin_it_anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.set(quiesced(b, 60))
			time.Sleep(40 * time.Second)
			c := quiesced(b, 60)
			c.Members[1].Ratio = new(uint32(2))
			p := b.set(c)
			time.Sleep(20 * time.Second)
			if ended := p.Drain(time.Now()); len(ended) != 1 {
				t.Errorf("ended %v", ended)
			}
			p = b.set(quiesced(b, 60))
			if s := p.Member(at(n1 + ":80")).State(); s != ForcedDown {
				t.Errorf("after another change it is %s", s)
			}
		})
	})
	t.Run("zero_and_none_are_never", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.set(quiesced(b, 0))
			time.Sleep(1000 * time.Hour)
			if p.Drains() || len(p.Drain(time.Now())) > 0 || p.Member(at(n1+":80")).State() != Disabled {
				t.Error("it ends")
			}
		})
	})
	t.Run("by_address_and_by_service", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			c := simple("p", 300, n1+":80", n2+":81", n3+":80")
			for _, m := range c.Members {
				m.DrainTimeout = new(uint32(10))
			}
			b.nodes[n1], b.ports[81] = &pb.Node{Enabled: new(false)}, true
			p := b.set(c)
			time.Sleep(10 * time.Second)
			if ended := p.Drain(time.Now()); len(ended) != 2 || p.Member(at(n3+":80")).State() != Unchecked {
				t.Errorf("ended %v", ended)
			}
		})
	})
}

// TestSlowStart: who comes up, is added or enabled begins with little of its weight; who was there at the beginning does not.
func TestSlowStart(t *testing.T) {
	slow := func(members ...string) *pb.Pool {
		c := withMembers(&pb.Pool{Name: "p", SlowStart: new(uint32(100))}, members...)
		return c
	}
	third := func(b *bench, n int) int { return strings.Count(b.visits("p", n), "3") }
	for name, rise := range map[string]func(b *bench, begin func()){
		"added": func(b *bench, begin func()) {
			b.set(slow(n1+":80", n2+":80"))
			time.Sleep(time.Hour)
			begin()
			b.set(slow(n1+":80", n2+":80", n3+":80"))
		},
		"added_and_checked_for_the_first_time": func(b *bench, begin func()) {
			b.set(slow(n1+":80", n2+":80"))
			held := b.env.Health.SetService(at(n3+":80"), Checking)
			b.set(slow(n1+":80", n2+":80", n3+":80"))
			time.Sleep(time.Minute)
			begin()
			held.service.set(Up)
		},
		"enabled": func(b *bench, begin func()) {
			b.nodes[n3] = &pb.Node{Enabled: new(false)}
			b.set(slow(n1+":80", n2+":80", n3+":80"))
			time.Sleep(time.Hour)
			begin()
			b.nodes[n3] = nil
			b.set(slow(n1+":80", n2+":80", n3+":80"))
		},
		"up_after_down": func(b *bench, begin func()) {
			p := b.set(slow(n1+":80", n2+":80", n3+":80"))
			p.Member(at(n3 + ":80")).health.service.set(Down)
			b.visits("p", 50)
			time.Sleep(time.Hour)
			begin()
			p.Member(at(n3 + ":80")).health.service.set(Up)
		},
		"its_address_up_after_down": func(b *bench, begin func()) {
			p := b.set(slow(n1+":80", n2+":80", n3+":80"))
			b.env.Health.SetAddress(at(n3+":80").Addr(), Down)
			b.visits("p", 50)
			time.Sleep(time.Hour)
			begin()
			p.Member(at(n3 + ":80")).health.node.found.set(Up)
		},
		"tried_again_by_passive_health": func(b *bench, begin func()) {
			c := slow(n1+":80", n2+":80", n3+":80")
			c.PassiveHealth = new(true)
			p := b.set(c)
			for range passiveFailures {
				p.Member(at(n3 + ":80")).health.refused(passiveFailures)
			}
			time.Sleep(passiveDown - time.Nanosecond)
			begin()
			time.Sleep(time.Nanosecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				var begun time.Time
				rise(b, func() { begun = time.Now() })
				synctest.Wait()
				// 5 % of a weight beside two whole ones is 1 of 41; 20 %, 1 of 11; half, 1 of 5.
				for _, c := range []struct {
					after time.Duration
					n     int
					want  int
				}{{0, 410, 10}, {20 * time.Second, 110, 10}, {50 * time.Second, 100, 20}, {100 * time.Second, 90, 30}, {time.Hour, 90, 30}} {
					time.Sleep(time.Until(begun.Add(c.after)))
					if n := third(b, c.n); n < c.want-1 || n > c.want+1 {
						t.Errorf("after %v: %d of %d, want %d", c.after, n, c.n, c.want)
					}
				}
			})
		})
	}
	t.Run("not_at_the_beginning_nor_over_a_change", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.set(slow(n1+":80", n2+":80", n3+":80"))
			if n := third(b, 90); n != 30 {
				t.Errorf("%d of 90 at the beginning", n)
			}
			p.Member(at(n3 + ":80")).health.service.set(Checking)
			p.Member(at(n3 + ":80")).health.service.set(Up)
			b.set(slow(n1+":80", n2+":80", n3+":80"))
			if n := third(b, 90); n < 29 || n > 31 {
				t.Errorf("%d of 90 after a change", n)
			}
		})
	})
	t.Run("a_clock_that_is_set_back_warms", func(t *testing.T) {
		b := newBench(t)
		p := b.set(slow(n1+":80", n2+":80", n3+":80"))
		p.Member(at(n3 + ":80")).course.began.Store(time.Now().Add(time.Hour).UnixNano())
		if n := third(b, 90); n != 30 {
			t.Errorf("%d of 90", n)
		}
	})
	t.Run("persisted_clients_are_served_at_once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			c := simple("p", 300, n1+":80")
			c.SlowStart = new(uint32(100))
			p := b.set(c)
			b.visit("p", client, v1+":80")
			p.Member(at(n1 + ":80")).health.service.set(Down)
			p.Member(at(n1 + ":80")).health.service.set(Up)
			for range 10 {
				b.want(b.visit("p", client, v1+":80"), n1+":80")
			}
		})
	})
}

// TestDynamicRatio: the weights are what programs say that monitor the members or their addresses, else the ratios of addresses.
func TestDynamicRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.nodes[n3] = &pb.Node{Ratio: new(uint32(2))}
		p := b.set(inMode("p", pb.LbMode_LB_MODE_DYNAMIC_RATIO, n1+":80", n2+":80", n3+":80"))
		shares := func(one, two, three int) {
			t.Helper()
			time.Sleep(time.Second)
			b.visits("p", one+two+three) // a turn or two are left of the weights before
			got := b.visits("p", 10*(one+two+three))
			if strings.Count(got, "1") != 10*one || strings.Count(got, "2") != 10*two || strings.Count(got, "3") != 10*three {
				t.Errorf("%d, %d and %d, want tens of %d, %d and %d", strings.Count(got, "1"), strings.Count(got, "2"), strings.Count(got, "3"), one, two, three)
			}
		}
		shares(1, 1, 2)
		first := b.env.Health.Of(at(n1 + ":80"))
		address := b.env.Health.SetAddress(netip.MustParseAddr(n2), Up)
		first.SetWeight(5)
		address.SetWeight(3)
		shares(5, 3, 2)
		b.env.Health.Of(at(n2 + ":80")).SetWeight(4) // its own stands above its address's
		shares(5, 4, 2)
		first.SetWeight(0)
		shares(1, 4, 2)
		_ = p
	})
}

// TestResponseElsewhere: M-6: what a member weighs in a pool of mode response multiplies into its weight in others.
func TestResponseElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c := inMode("p", pb.LbMode_LB_MODE_ROUND_ROBIN, n1+":80", n2+":80", n3+":80")
		answering := inMode("r", pb.LbMode_LB_MODE_RESPONSE, n1+":80", n2+":80")
		// The pools know each other from the configuration.
		b.also = []*pb.Pool{c, answering}
		p := b.set(c)
		p.Member(at(n1 + ":80")).health.SetProbed(10 * time.Millisecond)
		p.Member(at(n2 + ":80")).health.SetProbed(20 * time.Millisecond)
		p.Member(at(n3 + ":80")).health.SetProbed(40 * time.Millisecond) // says nothing: no such pool has it
		time.Sleep(time.Second)
		got := b.visits("p", 500)
		if one, two, three := strings.Count(got, "1"), strings.Count(got, "2"), strings.Count(got, "3"); one < 199 || one > 201 || two < 99 || two > 101 || three < 199 || three > 201 {
			t.Errorf("%d, %d and %d of 500, want 200, 100 and 200", one, two, three)
		}
		b.also = nil
		b.set(c)
		if got := b.visits("p", 300); strings.Count(got, "2") != 100 {
			t.Errorf("without the other pool %d of 300", strings.Count(got, "2"))
		}
	})
}

// TestServiceLimit: a limit of node ADDRESS:PORT counts the connections of all pools that have the member.
func TestServiceLimit(t *testing.T) {
	b := newBench(t)
	b.nodes[n1+":80"] = &pb.Node{Limit: new(uint32(2))}
	p, q := b.set(withMembers(&pb.Pool{Name: "p"}, n1+":80")), b.set(withMembers(&pb.Pool{Name: "q"}, n1+":80", n1+":81"))
	var held [4]Decision
	choose := func(d *Decision, p *Pool, want string) {
		t.Helper()
		got := "none"
		if p.Choose(d, in(client, v1+":80")) == nil {
			got = d.Member.Addr.String()
		}
		if got != want {
			t.Errorf("chosen %s, want %s", got, want)
		}
	}
	choose(&held[0], p, n1+":80")
	choose(&held[1], q, n1+":80")
	choose(&held[2], p, "none")
	choose(&held[3], q, n1+":81")
	held[1].Release()
	choose(&held[2], p, n1+":80")
	p = b.set(withMembers(&pb.Pool{Name: "p"}, n1+":80")) // another snapshot counts on
	choose(&held[1], p, "none")
}

// TestWeekOfFlapping: a week of members that come and go under traffic leaves what is counted right, and the memory flat, in every mode.
func TestWeekOfFlapping(t *testing.T) {
	for mode := pb.LbMode_LB_MODE_ROUND_ROBIN; pb.LbMode_name[int32(mode)] != ""; mode++ {
		t.Run(pb.EnumWord(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { weekOfFlapping(t, mode) })
		})
	}
}

func weekOfFlapping(t *testing.T, mode pb.LbMode) {
	b := newBench(t)
	addresses := []string{n1 + ":80", n2 + ":80", n3 + ":80"}
	c := simple("p", 300, addresses...)
	c.LbMode, c.SlowStart, c.PassiveHealth = mode.Enum(), new(uint32(120)), new(true)
	b.nodes[n1+":80"] = &pb.Node{Limit: new(uint32(3))}
	p := b.set(c)
	const days, steps = 7, 24 * 6
	var held []Decision // what is open, the oldest first
	var chosen uint64
	var after [2]uint64 // heap, after a day and at the end
	for step := range days * steps {
		down := step % 4 // one is down in turn, and at times nobody is
		for i, a := range addresses {
			state := Up
			if i == down {
				state = Down
			}
			b.env.Health.SetService(at(a), state)
		}
		for i := range 5 {
			b.pass(2 * time.Minute)
			time.Sleep(2 * time.Minute)
			var d Decision
			err := p.Choose(&d, in(netip.AddrFrom4([4]byte{10, 9, byte(step), byte(i)}).String(), v1+":80"))
			if err == nil && i == 4 && down == 3 { // one does not accept
				err = d.Refused()
			}
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if d.Member.Addr == at(addresses[min(down, 2)]) && down < 3 {
				t.Fatalf("step %d: %s is chosen, which is down", step, d.Member.Addr)
			}
			d.Accepted()
			chosen++
			held = append(held, d)
			if len(held) > 6 {
				held[0].Release()
				held = held[1:]
			}
		}
		if step%steps == 0 {
			p = b.set(c) // another snapshot
		}
		if step == steps-1 {
			after[0] = heapInUse()
		}
	}
	after[1] = heapInUse()
	for i := range held {
		held[i].Release()
	}
	total := uint64(0)
	for _, m := range p.Members() {
		n := m.Counters().Counts()
		total += n.Total
		if n.Current != 0 || m.health.connections.Current() != 0 || m.health.node.connections.Current() != 0 {
			t.Errorf("%s has %d, %d and %d connections", m.Addr, n.Current, m.health.connections.Current(), m.health.node.connections.Current())
		}
		if n.Total < chosen/10 && mode != pb.LbMode_LB_MODE_HASH && mode != pb.LbMode_LB_MODE_MINMISSES {
			t.Errorf("%s was chosen %d times of %d", m.Addr, n.Total, chosen)
		}
	}
	if total != chosen || p.Unserved() != 0 {
		t.Errorf("%d connections are counted and %d unserved, want %d and none", total, p.Unserved(), chosen)
	}
	if after[1] > after[0]+256<<10 {
		t.Errorf("%d bytes after a day, %d after a week", after[0], after[1])
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
