package pool

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
)

func TestBinding(t *testing.T) {
	t.Run("twelve_simultaneous_first_connections_reach_one_member", func(t *testing.T) {
		b := newBench(t)
		p := b.set(simple("p", 60, n1+":80", n2+":80", "127.0.1.3:80"))
		var wg sync.WaitGroup
		decisions := make([]Decision, 12)
		for i := range decisions {
			wg.Go(func() {
				if err := p.Choose(&decisions[i], in(client, v1+":80")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range decisions {
			if decisions[i].Member != decisions[0].Member {
				t.Errorf("connection %d went to %s, the first to %s", i, decisions[i].Member.Addr, decisions[0].Member.Addr)
			}
		}
		if b.records() != 1 {
			t.Errorf("%d records", b.records())
		}
		out := p.Outcomes()
		if out.GetBound() != 1 || out.GetNone()+out.GetValid() != 12 {
			t.Errorf("outcomes %v", out)
		}
	})
	t.Run("B-8_simultaneous_failures_move_to_one_member", func(t *testing.T) {
		b := newBench(t)
		p := b.set(simple("p", 60, n1+":80", n2+":80", "127.0.1.3:80", "127.0.1.4:80"))
		b.want(b.visit("p", client, v1+":80"), n1+":80")
		decisions := make([]Decision, 12)
		for i := range decisions {
			if err := p.Choose(&decisions[i], in(client, v1+":80")); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for i := range decisions {
			wg.Go(func() {
				if err := decisions[i].Refused(); err != nil {
					t.Error(err)
				}
				decisions[i].Accepted()
			})
		}
		wg.Wait()
		for i := range decisions {
			if m := decisions[i].Member; m != decisions[0].Member || m.Addr == at(n1+":80") {
				t.Errorf("connection %d moved to %s, the first to %s", i, m.Addr, decisions[0].Member.Addr)
			}
		}
		if n := p.Outcomes().GetMoved(); n != 1 {
			t.Errorf("moved %d times", n)
		}
		moved := decisions[0].Member.Addr.String()
		for i := range decisions {
			decisions[i].Release()
		}
		b.want(b.visit("p", client, v1+":80"), moved)
		for _, m := range p.Members() {
			if n := m.Counters().Current(); n != 0 {
				t.Errorf("%s: %d connections are open for ever", m.Addr, n)
			}
		}
	})
	t.Run("a_failing_attempt_refreshes_nothing", func(t *testing.T) {
		b := newBench(t)
		p := b.set(simple("p", 10, n1+":80"))
		b.visit("p", client, v1+":80")
		for range 3 {
			b.pass(4 * time.Second)
			var d Decision
			if err := p.Choose(&d, in(client, v1+":80")); err != nil {
				t.Fatal(err)
			}
			if err := d.Refused(); !errors.Is(err, ErrNoMember) {
				t.Errorf("the only member was refused: %v", err)
			}
			d.Release()
		}
		if _, ok := b.env.Table.Lookup(p.persisted.(*recordMethod).key(in(client, v1+":80"), persist.Globals{})); ok {
			t.Error("the record outlived its time")
		}
	})
	t.Run("retries_each_remaining_member_once", func(t *testing.T) {
		for _, config := range []*pb.Pool{
			withMembers(&pb.Pool{Name: "plain"}, n1+":80", n2+":80", "127.0.1.3:80"),
			simple("simple", 10, n1+":80", n2+":80", "127.0.1.3:80"),
			inserting("cookie", n1+":80", n2+":80", "127.0.1.3:80"),
		} {
			b := newBench(t)
			p := b.set(config)
			var d Decision
			var tried []string
			err := p.Choose(&d, in(client, v1+":80"))
			for ; err == nil; err = d.Refused() {
				tried = append(tried, d.Member.Addr.String())
			}
			if got := strings.Join(tried, " "); got != n1+":80 "+n2+":80 127.0.1.3:80" || !errors.Is(err, ErrNoMember) {
				t.Errorf("%s: tried %s, then %v", p.Name, got, err)
			}
			d.Release()
		}
	})
	t.Run("reselect_tries", func(t *testing.T) {
		for _, tries := range []uint32{0, 1} {
			b := newBench(t)
			c := simple("p", 10, n1+":80", n2+":80", "127.0.1.3:80")
			c.ReselectTries = &tries
			var d Decision
			n := uint32(0)
			for err := b.set(c).Choose(&d, in(client, v1+":80")); err == nil; err = d.Refused() {
				n++
			}
			if n != tries+1 {
				t.Errorf("reselect_tries %d: %d members tried", tries, n)
			}
		}
	})
	t.Run("persist_none_replaces_the_record", func(t *testing.T) {
		b := newBench(t)
		p := b.set(simple("p", 60, n1+":80", n2+":80"))
		b.want(b.visit("p", client, v1+":80"), n1+":80")
		fresh := in(client, v1+":80")
		fresh.Fresh = true
		var d Decision
		if err := p.Choose(&d, fresh); err != nil {
			t.Fatal(err)
		}
		b.want(d.Member.Addr.String(), n2+":80")
		d.Accepted()
		d.Release()
		b.want(b.visit("p", client, v1+":80"), n2+":80")
	})
	t.Run("table_full", func(t *testing.T) {
		b := newBench(t)
		b.env.Table.SetLimit(1)
		p := b.set(simple("p", 60, n1+":80", n2+":80"))
		var first, second Decision
		if err := p.Choose(&first, in(client, v1+":80")); err != nil {
			t.Fatal(err)
		}
		if err := p.Choose(&second, in("127.0.0.8", v1+":80")); err != nil {
			t.Fatal(err)
		}
		if found, _ := second.Outcome(); found != OutcomeTableFull || p.Outcomes().GetTableFull() != 1 {
			t.Errorf("outcome %s, counted %v", found, p.Outcomes())
		}
		second.Release()
		first.Release()
	})
}
