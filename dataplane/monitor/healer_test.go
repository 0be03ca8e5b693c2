package monitor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// healed is a node with a health checker of the usual times.
func healed(node string, active bool) Node {
	return Node{Addr: at(node), Instances: []Instance{{
		Monitor: "health_checker", Enabled: true, Target: at(node),
		Spec: Spec{Kind: Healer, Dial: at(node), Interval: 30 * time.Second, Timeout: 10 * time.Second, Active: active, Retries: 3},
	}}}
}

// fails has a connect of traffic to a member fail.
func fails(t *testing.T, h *pool.Healths, member string) {
	t.Helper()
	p, reasons := pool.Compile(&pb.Pool{Name: "p", Members: []*pb.Member{{Address: member}}}, &pool.Env{View: config.NewTree(), Health: h}, nil)
	if len(reasons) > 0 {
		t.Fatal(reasons)
	}
	var d pool.Decision
	if err := p.Choose(&d, &pool.Input{Client: at("10.9.9.9:1"), Virtual: at("10.0.0.1:80")}); err != nil {
		t.Fatal(err)
	}
	if err := d.Refused(); !errors.Is(err, pool.ErrNoMember) {
		t.Fatal(err)
	}
	d.Release()
}

// newHealedSet is a set that hears of what traffic meets.
func newHealedSet(t *testing.T, p Prober, nodes ...Node) (*Set, *pool.Healths) {
	h := &pool.Healths{}
	s := newTestSet(p, Options{Health: h})
	h.Marked = s.Marked
	t.Cleanup(s.Close)
	s.Apply(nodes)
	return s, h
}

func TestHealthChecker(t *testing.T) {
	const member = "10.1.1.1:80"
	t.Run("J-16_only_unhealthy_instances_are_probed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			s, h := newHealedSet(t, p, healed(member, false))
			p.set(at(member), time.Hour, nil)
			time.Sleep(time.Hour)
			wantState(t, h, member, pool.Unchecked)
			if n := len(p.startsOf(at(member))); n != 0 {
				t.Errorf("%d probes of a member that is well", n)
			}
			begin := time.Now()
			fails(t, h, member) // J-14: the first failure, in a pool that does not ask for passive_health
			wantState(t, h, member, pool.Down)
			time.Sleep(95 * time.Second)
			wantState(t, h, member, pool.Down)
			p.set(at(member), 0, nil)
			time.Sleep(30 * time.Second)
			wantState(t, h, member, pool.Up)
			if h.Of(at(member)).Marked() {
				t.Error("traffic still says that it is down")
			}
			time.Sleep(time.Hour)
			var at30 []time.Duration
			for _, start := range p.startsOf(at(member)) {
				at30 = append(at30, start.Sub(begin).Round(time.Second))
			}
			want := []time.Duration{30 * time.Second, 60 * time.Second, 90 * time.Second, 120 * time.Second}
			if !slices.Equal(at30, want) {
				t.Errorf("probes after %v, want %v", at30, want)
			}
			fails(t, h, member)
			wantState(t, h, member, pool.Down)
			list, _, _ := s.After(0)
			var lines []string
			for _, tr := range list {
				lines = append(lines, fmt.Sprintf("%s-%s %s %s", tr.From, tr.To, tr.Monitor, tr.Reason))
			}
			if got, want := strings.Join(lines, "|"), "unchecked-down health_checker traffic failed|down-up health_checker |up-down health_checker traffic failed"; got != want {
				t.Errorf("transitions %s, want %s", got, want)
			}
		})
	})
	t.Run("J-16_no_answer_within_10_s_is_a_failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			_, h := newHealedSet(t, p, healed(member, false))
			fails(t, h, member)
			p.set(at(member), 11*time.Second, nil)
			time.Sleep(50 * time.Second)
			wantState(t, h, member, pool.Down)
			p.set(at(member), 9*time.Second, nil)
			time.Sleep(20 * time.Second)
			wantState(t, h, member, pool.Up)
		})
	})
	t.Run("J-16_active_probes_all_and_three_failures_are_down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			_, h := newHealedSet(t, p, healed(member, true))
			wantState(t, h, member, pool.Unchecked)
			time.Sleep(time.Second)
			wantState(t, h, member, pool.Up)
			time.Sleep(60 * time.Second) // the rhythm has begun
			p.set(at(member), 0, errRefused)
			time.Sleep(60 * time.Second)
			wantState(t, h, member, pool.Up)
			p.set(at(member), 0, nil)
			time.Sleep(30 * time.Second)
			p.set(at(member), 0, errRefused)
			time.Sleep(60 * time.Second)
			wantState(t, h, member, pool.Up) // not one after the other
			time.Sleep(30 * time.Second)
			wantState(t, h, member, pool.Down)
			p.set(at(member), 0, nil)
			time.Sleep(30 * time.Second)
			wantState(t, h, member, pool.Up)
		})
	})
	t.Run("J-22_a_changed_monitor_keeps_the_state", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			p.set(at(member), 0, errRefused)
			s, h := newHealedSet(t, p, healed(member, false))
			fails(t, h, member)
			n := healed(member, false)
			n.Instances[0].Spec.Interval = 10 * time.Second
			s.Apply([]Node{n})
			time.Sleep(time.Minute)
			wantState(t, h, member, pool.Down)
			if n := len(p.startsOf(at(member))); n < 6 {
				t.Errorf("%d probes in a minute", n)
			}
		})
	})
	t.Run("beside_another_monitor_both_must_succeed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			n := healed(member, false)
			n.Instances = append(n.Instances, checked(member, "tcp").Instances...)
			_, h := newHealedSet(t, p, n)
			time.Sleep(time.Second)
			wantState(t, h, member, pool.Up)
			fails(t, h, member)
			time.Sleep(20 * time.Second)
			wantState(t, h, member, pool.Down)
			time.Sleep(20 * time.Second)
			wantState(t, h, member, pool.Up)
		})
	})
	t.Run("without_it_traffic_has_no_more_to_say", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			p.set(at(member), 0, errRefused)
			s, h := newHealedSet(t, p, healed(member, false))
			fails(t, h, member)
			s.Apply([]Node{{Addr: at(member)}})
			wantState(t, h, member, pool.Unchecked)
			if h.Of(at(member)).Marked() {
				t.Error("the mark stays")
			}
			fails(t, h, member)
			if h.Of(at(member)).Marked() {
				t.Error("one failure marks it")
			}
		})
	})
	t.Run("where_two_members_are_looked_at_in_one_place_only_the_dead_one_is_down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newScripted()
			p.set(at("10.1.1.9:8080"), 0, errRefused)
			other := "10.1.1.2:80"
			_, h := newHealedSet(t, p, looking(healed(member, false), "10.1.1.9:8080"), looking(healed(other, false), "10.1.1.9:8080"))
			fails(t, h, member)
			time.Sleep(time.Minute)
			wantState(t, h, member, pool.Down)
			wantState(t, h, other, pool.Unchecked)
		})
	})
}

// TestHealthCheckerDefaults: rule J-16, J-T15: the template has what loadbalancer.xml leaves out.
func TestHealthCheckerDefaults(t *testing.T) {
	v := config.NewTree(
		&pb.Object{Kind: &pb.Object_Pool{Pool: &pb.Pool{Name: "p", Members: []*pb.Member{{Address: "10.1.1.1:8080"}}}}},
		&pb.Object{Kind: &pb.Object_MonitorUse{MonitorUse: &pb.MonitorUse{Target: "10.1.1.1:8080", Monitors: []string{"health_checker"}}}},
		&pb.Object{Kind: &pb.Object_MonitorUse{MonitorUse: &pb.MonitorUse{Target: "10.1.1.1", Monitors: []string{"health_checker"}}}},
	)
	n := Compile(v, "10.1.1.1:8080", plainAddresses{})
	want := Spec{
		Kind: Healer, Dial: at("10.1.1.1:8080"), Interval: 30 * time.Second, Timeout: 10 * time.Second,
		Send: "GET /", Host: "10.1.1.1:8080", Retries: 3,
	}
	if len(n.Instances) != 1 || n.Instances[0].Fault != "" || n.Instances[0].Spec != want {
		t.Errorf("%+v, want %+v", n.Instances, want)
	}
	if n := Compile(v, "10.1.1.1", plainAddresses{}); !strings.Contains(n.Instances[0].Fault, "ADDRESS:PORT") {
		t.Errorf("an address: %+v", n.Instances)
	}
}

// plainAddresses maps nothing.
type plainAddresses struct{}

func (plainAddresses) Local(a netip.AddrPort) (netip.AddrPort, error) { return a, nil }
func (plainAddresses) LocalAddr(a netip.Addr) (netip.Addr, error)     { return a, nil }
