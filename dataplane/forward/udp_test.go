package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
	pb "bigpipe/proto/bigpipe/v1"
)

func TestUDPDatagrams(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, member := range []string{"127.0.0.11:0", "[::1]:0"} {
			t.Run(listen+"_to_"+member, func(t *testing.T) {
				o := newUDPOrigin(t, "s", member, nil)
				p := compilePool(t, udpPool(o), nil)
				b := newUDPLab(t, listen, Settings{Pools: []*pool.Pool{p}})
				c := b.dial("")
				var bytesSent uint64
				for _, size := range []int{0, 1, 512, 1472, 9000, 65507} {
					data := bytes.Repeat([]byte{byte(size), 'x', 0, 0xff}, size/4+1)[:size]
					if got := c.ask(string(data)); got != string(data) {
						t.Errorf("%d bytes were sent, %d came back", size, len(got))
					}
					bytesSent += uint64(size)
				}
				if got, sockets := o.received(); len(got) != 6 || sockets != 1 {
					t.Errorf("the member got %d datagrams from %d sockets", len(got), sockets)
				}
				for what, counters := range map[string]*pool.Counters{"virtual": b.set.Counters, "member": p.Members()[0].Counters()} {
					eventually(t, what+" is counted", func() bool {
						n := counters.Counts()
						return n.In == bytesSent && n.Out == bytesSent && n.Total == 1 && n.Current == 1 && n.Max == 1
					})
				}
			})
		}
	}
}

// A listener on all addresses answers from the one that the client sent to; they are flows of their own.
func TestUDPWildcard(t *testing.T) {
	for _, tt := range []struct {
		listen   string
		contacts []string
	}{{"0.0.0.0:0", []string{"127.0.0.7", "127.0.0.8"}}, {"[::]:0", []string{"::1"}}} {
		t.Run(tt.listen, func(t *testing.T) {
			o := newUDPOrigin(t, "s", "127.0.0.11:0", nil)
			p := compilePool(t, udpPool(o), nil)
			b := newUDPLab(t, tt.listen, Settings{Pools: []*pool.Pool{p}})
			probe := dialUDP(t, "", netip.AddrPortFrom(netip.MustParseAddr(tt.contacts[0]), b.l.Addr().Port()))
			local := probe.LocalAddr().String()
			probe.Close()
			for _, contact := range tt.contacts {
				// A connected socket receives from its peer alone.
				c := dialUDP(t, local, netip.AddrPortFrom(netip.MustParseAddr(contact), b.l.Addr().Port()))
				for _, data := range []string{"one", "two " + strings.Repeat("x", 60000)} {
					if got := c.ask(data); got != data {
						t.Errorf("%s: %q", contact, got)
					}
				}
				c.Close()
			}
			if n := b.table.Len(); n != len(tt.contacts) {
				t.Errorf("%d flows, want %d", n, len(tt.contacts))
			}
		})
	}
}

// Datagrams of a flow keep their order, however many come at once.
func TestUDPOrder(t *testing.T) {
	o := newUDPOrigin(t, "s", "127.0.0.11:0", nil)
	c := udpLabOf(t, o).dial("")
	for round := range 5 {
		for i := range 100 {
			c.send(fmt.Sprint(round, i))
		}
		for i := range 100 {
			if got := c.receive(); got != fmt.Sprint(round, i) {
				t.Fatalf("%q instead of %d %d", got, round, i)
			}
		}
	}
}

// Round robin is by flow, and a flow stays where it is.
func TestUDPBalances(t *testing.T) {
	b := udpLabOf(t, threeUDP(t)...)
	for _, want := range []string{"s1", "s2", "s3", "s1"} {
		c := b.dial("")
		for range 3 {
			if got := c.ask("x"); got != want {
				t.Errorf("answered by %q, want %q", got, want)
			}
		}
	}
	var listed []string
	b.table.Range(func(c Connection) bool {
		if !c.UDP || c.Virtual != b.set.Virtual || c.Client.Addr() != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%+v", c)
		}
		listed = append(listed, c.Node.Addr().String())
		return true
	})
	slices.Sort(listed)
	if got := strings.Join(listed, " "); got != "127.0.0.11 127.0.0.11 127.0.0.12 127.0.0.13" {
		t.Errorf("members of the flows: %s", got)
	}
}

func TestUDPPersist(t *testing.T) {
	t.Run("B-4_flows_of_one_client", func(t *testing.T) {
		b := newUDPLab(t, "127.0.0.1:0", Settings{Pools: []*pool.Pool{compilePool(t, simpleUDP(threeUDP(t)...), nil)}})
		for range 3 {
			for _, c := range []struct{ from, want string }{{"127.0.0.21:0", "s1"}, {"127.0.0.22:0", "s2"}} {
				if got := b.dial(c.from).ask("x"); got != c.want {
					t.Errorf("%s: answered by %q, want %q", c.from, got, c.want)
				}
			}
		}
	})
	t.Run("B-8_member_that_refuses", func(t *testing.T) {
		o := threeUDP(t)
		p := compilePool(t, simpleUDP(o...), nil)
		b := newUDPLab(t, "127.0.0.1:0", Settings{Pools: []*pool.Pool{p}})
		c := b.dial("127.0.0.21:0")
		if got := c.ask("x"); got != "s1" {
			t.Fatalf("answered by %q", got)
		}
		o[0].stop()
		c.send("lost")
		eventually(t, "the member that refused has no flow", func() bool { return p.Members()[0].Counters().Current() == 0 })
		for _, c := range []*udpClient{c, b.dial("127.0.0.21:0")} {
			if got := c.ask("x"); got != "s2" {
				t.Errorf("answered by %q", got)
			}
		}
	})
}

// A member that went away and came back is used again; meanwhile nobody answers.
func TestUDPMemberComesBack(t *testing.T) {
	o := newUDPOrigin(t, "s", "127.0.0.11:0", nil)
	b := udpLabOf(t, o)
	c := b.dial("")
	c.ask("x")
	o.stop()
	c.send("lost")
	eventually(t, "the flow ends", func() bool { return b.table.Len() == 0 })
	newUDPOrigin(t, "s", o.addr.String(), nil)
	if got := c.ask("y"); got != "y" {
		t.Errorf("%q", got)
	}
}

func TestUDPNoMember(t *testing.T) {
	b := udpLabOf(t)
	c := b.dial("")
	c.send("x")
	c.nothing()
	if n := b.set.Counters.Counts(); n.Total != 0 || n.Current != 0 {
		t.Errorf("%+v", n)
	}
}

// Rules see that it is UDP, and may discard it.
func TestUDPRule(t *testing.T) {
	o := threeUDP(t)
	use := &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: "p"}}}}}
	discard := &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{Discard: &pb.RuleDiscard{}}}
	for protocol, answered := range map[string]bool{"UDP": true, "TCP": false} {
		t.Run(protocol, func(t *testing.T) {
			cmp := &pb.RuleComparison{
				Variable: &pb.RuleVariable{Name: pb.RuleVariableName_RULE_VARIABLE_NAME_IP_PROTOCOL},
				Operator: pb.RuleOperator_RULE_OPERATOR_EQUALS, Value: &pb.RuleComparison_Protocol{Protocol: protocol},
			}
			r, err := rule.Compile(&pb.Rule{Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{
				Condition: &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: cmp}}, Then: use, Else: discard,
			}}}}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := newUDPLab(t, "127.0.0.1:0", Settings{Rule: r, Pools: []*pool.Pool{compilePool(t, udpPool(o...), nil)}}).dial("")
			if !answered {
				c.send("x")
				c.nothing()
			} else if got := c.ask("x"); got != "s1" {
				t.Errorf("answered by %q", got)
			}
		})
	}
}

func TestUDPIdle(t *testing.T) {
	o := newUDPOrigin(t, "s", "127.0.0.11:0", nil)
	b := udpLabOf(t, o)
	set := b.set
	c := b.dial("")
	c.ask("x")
	set.IdleTimeout = time.Millisecond
	b.l.Set(set)
	eventually(t, "the flow ends", func() bool { return b.table.Len() == 0 && b.set.Counters.Current() == 0 })
	set.IdleTimeout = time.Hour
	b.l.Set(set)
	if got := c.ask("y"); got != "y" {
		t.Errorf("%q", got)
	}
	if _, sockets := o.received(); sockets != 2 {
		t.Errorf("%d sockets at the member, want one for each flow", sockets)
	}
}

func TestUDPLimits(t *testing.T) {
	t.Run("virtual_server", func(t *testing.T) {
		b := newUDPLab(t, "127.0.0.1:0", Settings{Limit: 1, Pools: []*pool.Pool{compilePool(t, udpPool(threeUDP(t)...), nil)}})
		one, two := b.dial(""), b.dial("")
		one.ask("x")
		two.send("x")
		two.nothing()
		one.ask("x")
	})
	t.Run("source", func(t *testing.T) { // edges 5a-26, for flows
		b := newUDPLab(t, "127.0.0.1:0", Settings{SourceLimit: 1, Pools: []*pool.Pool{compilePool(t, udpPool(threeUDP(t)...), nil)}})
		one, two := b.dial("127.0.0.21:0"), b.dial("127.0.0.21:0")
		one.ask("x")
		two.send("x")
		two.nothing()
		b.dial("127.0.0.22:0").ask("x")
		set := b.set
		set.IdleTimeout = time.Millisecond
		b.l.Set(set)
		eventually(t, "the flows end", func() bool { return b.table.Len() == 0 })
		two.ask("x")
	})
	t.Run("process", func(t *testing.T) { // the flow goes that was used longest ago
		b := udpLabOf(t, newUDPOrigin(t, "s", "127.0.0.11:0", nil))
		b.table.udp.limit.Store(2)
		one, two, three := b.dial(""), b.dial(""), b.dial("")
		one.ask("1")
		two.ask("2")
		eventually(t, "time passes", func() bool { return b.table.clock.now() > b.lastUse() })
		one.ask("1")
		three.ask("3")
		clients := map[string]bool{}
		b.table.Range(func(c Connection) bool { clients[c.Client.String()] = true; return true })
		if len(clients) != 2 || clients[two.LocalAddr().String()] {
			t.Errorf("%v, without %s", clients, two.LocalAddr())
		}
		if n := b.table.EvictedFlows(); n != 1 {
			t.Errorf("%d flows counted as evicted", n)
		}
		if b.table.ResetCounts(); b.table.EvictedFlows() != 0 {
			t.Error("not counted from zero again")
		}
	})
	t.Run("other_virtual_server", func(t *testing.T) { // whose clients take all places, which are another worker's
		b := udpLabOf(t, newUDPOrigin(t, "s", "127.0.0.11:0", nil))
		b.table.udp.limit.Store(32)
		for range 33 {
			b.dial("").ask("x")
		}
		other := b.beside()
		for range 8 {
			other.dial("").ask("x")
		}
		if n := b.table.Len(); n > 34 {
			t.Errorf("%d flows", n)
		}
		b.dial("").ask("x")
		if n := b.table.Len(); n > 32 {
			t.Errorf("%d flows stay", n)
		}
	})
}

// lastUse is when any flow was used last.
func (b *udpLab) lastUse() instant {
	b.l.worker.mu.Lock()
	defer b.l.worker.mu.Unlock()
	return b.l.flows.newest.active
}

func TestUDPDrain(t *testing.T) {
	o := newUDPOrigin(t, "s", "127.0.0.11:0", nil)
	b := udpLabOf(t, o)
	old, addr := b.dial(""), b.l.Addr()
	old.ask("x")
	b.l.wanted = addr // as if it had been asked for
	b.l.Close()
	if old.ask("y") != "y" {
		t.Error("an open flow ended")
	}
	c := b.dial("")
	c.send("x")
	c.nothing()
	drained := make(chan struct{})
	go func() {
		b.l.Drain(context.Background())
		close(drained)
	}()

	// Who listens at the address again takes over what is there.
	next, err := ListenUDP(b.table, addr, b.set)
	if err != nil {
		t.Fatal(err)
	}
	<-drained
	for _, c := range []*udpClient{old, c} {
		if got := c.ask("z"); got != "z" {
			t.Errorf("%q", got)
		}
	}
	if _, sockets := o.received(); sockets != 2 {
		t.Errorf("%d sockets at the member, want 2", sockets)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	next.Drain(ended)
	if n := b.table.Len(); n != 0 {
		t.Errorf("%d flows left", n)
	}
	if again, err := ListenUDP(b.table, addr, b.set); err != nil {
		t.Errorf("the address is not free: %v", err)
	} else {
		again.Drain(ended)
	}
}

// Another process takes the socket; until it resumes, datagrams wait.
func TestUDPSocketChangesHands(t *testing.T) {
	b := udpLabOf(t, newUDPOrigin(t, "s", "127.0.0.11:0", nil))
	c := b.dial("")
	c.ask("x")
	b.l.Pause()
	c.send("waits")
	c.nothing()
	file, err := b.l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table := NewTable(slog.New(slog.DiscardHandler))
	defer table.Close()
	l, err := ListenUDPOn(table, file, b.set)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	defer l.Drain(ended)
	c.nothing()
	l.Resume()
	if got := c.receive(); got != "waits" {
		t.Errorf("%q", got)
	}
	if l.Addr() != b.l.Addr() || table.Len() != 1 {
		t.Errorf("%s, %d flows", l.Addr(), table.Len())
	}

	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	other, err := stream.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := ListenUDPOn(table, other, b.set); err == nil {
		t.Error("a stream socket was taken")
	}
}

func TestUDPAddresses(t *testing.T) {
	b := udpLabOf(t)
	if _, err := ListenUDP(b.table, b.l.Addr(), b.set); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("taken: %v", err)
	}
	if _, err := ListenUDP(b.table, netip.MustParseAddrPort("192.0.2.1:53"), b.set); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("not there: %v", err)
	}
}

// The table agrees with a plain map and a plain list, whatever is done to it.
func TestUDPTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table udpTable
		model := map[udpKey]*udpFlow{}
		var order []*udpFlow // oldest first
		now := instant(1)
		keys := rapid.Custom(func(t *rapid.T) udpKey {
			var k udpKey
			k.peer[7] = rapid.Byte().Draw(t, "peer") % 8
			k.contact[15] = rapid.Byte().Draw(t, "contact") % 2
			return k
		})
		leave := func(f *udpFlow) { order = slices.DeleteFunc(order, func(x *udpFlow) bool { return x == f }) }
		t.Repeat(map[string]func(*rapid.T){
			"use": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				f := table.lookup(&k)
				if f != model[k] {
					t.Fatalf("lookup: %p, want %p", f, model[k])
				}
				if f == nil {
					f = &udpFlow{key: k, active: now}
					table.insert(f)
					model[k] = f
					order = append(order, f)
					return
				}
				if f.active != now {
					leave(f)
					order = append(order, f)
				}
				table.touch(f, now)
			},
			"remove": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				if f := model[k]; f != nil {
					table.remove(f)
					delete(model, k)
					leave(f)
				}
			},
			"tick": func(*rapid.T) { now++ },
			"": func(t *rapid.T) {
				if table.len() != len(model) {
					t.Fatalf("%d flows, want %d", table.len(), len(model))
				}
				var got, back []*udpFlow
				for f := table.oldest; f != nil; f = f.newer {
					got = append(got, f)
				}
				for f := table.newest; f != nil; f = f.older {
					back = append(back, f)
				}
				slices.Reverse(back)
				if !slices.Equal(got, order) || !slices.Equal(back, order) {
					t.Fatalf("order %v and %v, want %v", got, back, order)
				}
			},
		})
	})
}
