package persist

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	left := func(table *Table, n int) (ids []int) {
		for i := range n {
			if _, ok := table.Lookup(client(i)); ok {
				ids = append(ids, i)
			}
		}
		return ids
	}
	t.Run("pains_72_keys_0_to_5_in_a_table_of_4", func(t *testing.T) {
		table, clock := newTable(t, 4)
		for i := range 6 {
			visit(table, client(i), web, n1)
			clock.add(1)
		}
		if got := left(table, 6); !slices.Equal(got, []int{2, 3, 4, 5}) {
			t.Errorf("left: %v", got)
		}
		visit(table, client(2), web, n1)
		clock.add(1)
		visit(table, client(6), web, n1)
		if got := left(table, 7); !slices.Equal(got, []int{2, 4, 5, 6}) {
			t.Errorf("after a use of 2, left: %v", got)
		}
		if s := table.Stats(); s.Evicted != 3 || s.Full != 0 || s.Limit != 4 || s.Records != 4 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("pains_72_all_in_use", func(t *testing.T) {
		table, _ := newTable(t, 1000)
		conns := make([]Binding, 1000)
		for i := range conns {
			conns[i] = table.Bind(client(i), web, pick(n1))
			table.Accepted(&conns[i].Handle)
		}
		for i := range 50_000 {
			wantNode(t, visit(table, client(1000+i), web, n2), n2, Full)
		}
		if got := table.PoolStats(webPool); got.Full != 50_000 || got.Evicted != 0 || got.Records != 1000 {
			t.Errorf("%+v", got)
		}
		table.Release(&conns[7].Handle)
		wantNode(t, visit(table, client(5000), web, n2), n2, Bound)
		if _, ok := table.Lookup(client(7)); ok {
			t.Error("the only idle record is still there")
		}
	})
	t.Run("pool_limit", func(t *testing.T) {
		table, clock := newTable(t, 0)
		for i := range 3 {
			visit(table, client(i), Policy{Pool: sslPool, Timeout: time.Minute}, n1)
			clock.add(1)
		}
		table.SetPoolLimit(webPool, 2)
		for i := range 4 {
			visit(table, client(10+i), web, n1)
			clock.add(1)
		}
		if got := left(table, 20); !slices.Equal(got, []int{0, 1, 2, 12, 13}) {
			t.Errorf("left: %v", got)
		}
		if s := table.PoolStats(webPool); s.Evicted != 2 || s.Limit != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("lowered", func(t *testing.T) {
		table, clock := newTable(t, 0)
		for i := range 100 {
			visit(table, client(i), web, n1)
			clock.add(1)
		}
		table.SetLimit(10)
		if n := table.Sweep(50); n != 50 {
			t.Errorf("one sweep removed %d", n)
		}
		table.Sweep(1000)
		if got := left(table, 100); !slices.Equal(got, []int{90, 91, 92, 93, 94, 95, 96, 97, 98, 99}) {
			t.Errorf("left: %v", got)
		}
		table.SetPoolLimit(webPool, 3)
		table.Sweep(1000)
		if got := left(table, 100); !slices.Equal(got, []int{97, 98, 99}) {
			t.Errorf("left: %v", got)
		}
	})
	t.Run("failing_attempts_do_not_keep_a_place", func(t *testing.T) {
		table, clock := newTable(t, 3)
		for i := range 3 {
			visit(table, client(i), web, n1)
			clock.add(1)
		}
		b := table.Bind(client(0), web, pick(n1))
		table.Release(&b.Handle)
		visit(table, client(3), web, n1)
		if got := left(table, 4); !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("left: %v", got)
		}
	})
}

func TestSweep(t *testing.T) {
	t.Run("gone_within_two_seconds", func(t *testing.T) {
		for _, timeout := range []time.Duration{time.Second, time.Minute, 1000 * time.Second, 3 * time.Hour} {
			table, clock := newTable(t, 0)
			visit(table, client(1), Policy{Pool: webPool, Timeout: timeout}, n1)
			for clock.now() < int64(timeout) {
				table.Sweep(10_000)
				if table.Len() != 1 {
					t.Fatalf("timeout %v: gone after %v", timeout, time.Duration(clock.now()))
				}
				clock.add(min(10*time.Second, timeout-time.Duration(clock.now())))
			}
			clock.seconds(2)
			if n := table.Sweep(10_000); n != 1 || table.Len() != 0 {
				t.Errorf("timeout %v: swept %d, left %d", timeout, n, table.Len())
			}
		}
	})
	t.Run("small_budgets", func(t *testing.T) {
		table, clock := newTable(t, 0)
		for i := range 5000 {
			visit(table, client(i), web, n1)
		}
		clock.seconds(62)
		most, calls := 0, 0
		for ; table.Len() > 0 && calls < 100_000; calls++ {
			most = max(most, table.Sweep(100))
		}
		if most > 100 || table.Len() > 0 || calls > 1000 {
			t.Errorf("%d calls, %d left, %d at most", calls, table.Len(), most)
		}
		if s := table.Stats(); s.Expired != 5000 {
			t.Errorf("expired: %d", s.Expired)
		}
	})
	t.Run("pains_53_changed_timeout", func(t *testing.T) {
		table, clock := newTable(t, 0)
		visit(table, client(1), web, n1)
		visit(table, client(2), Policy{Pool: sslPool, Timeout: time.Minute}, n1)
		open := table.Bind(client(3), web, pick(n1))
		table.Accepted(&open.Handle)
		clock.seconds(6)
		changed := table.Retime(func(r *Record) (Policy, bool) {
			return Policy{Timeout: 5 * time.Second}, r.Refresher == webPool
		})
		if changed != 2 {
			t.Errorf("changed %d", changed)
		}
		if _, ok := table.Lookup(client(1)); ok {
			t.Error("idle for longer than the new timeout, and still there")
		}
		if r, _ := table.Lookup(client(2)); r.Timeout != time.Minute {
			t.Errorf("the other pool's record: %+v", r)
		}
		if r, _ := table.Lookup(client(3)); r.Timeout != 5*time.Second || r.Remaining != 5*time.Second {
			t.Errorf("the open record: %+v", r)
		}
		clock.seconds(2)
		table.Sweep(10_000)
		if table.Len() != 2 {
			t.Errorf("%d records", table.Len())
		}
		table.Accepted(&open.Handle)
		table.Release(&open.Handle) // it came with the old timeout
		if r, _ := table.Lookup(client(3)); r.Timeout != 5*time.Second {
			t.Errorf("after the close: %+v", r)
		}
	})
}

// Pain 61: no clock makes a record live too long or die too early.
func TestPain61Clock(t *testing.T) {
	for name, at := range map[string]int64{
		"zero": 0, "2^31_ms": 1 << 31 * int64(time.Millisecond), "2^32_ms": 1 << 32 * int64(time.Millisecond),
		"2^63_ns_less_an_hour": 1<<63 - 1 - int64(time.Hour),
	} {
		for _, timer := range []Timer{Idle, Fixed} {
			for _, off := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
				t.Run(fmt.Sprintf("%s%+d_%v", name, off.Milliseconds(), timer), func(t *testing.T) {
					table, clock := newTable(t, 0)
					p := Policy{Pool: webPool, Timeout: 2 * time.Hour, Timer: timer}
					visit(table, client(1), p, n1)
					clock.set(at + int64(off))
					table.Sweep(10_000)
					visit(table, client(2), p, n1)
					clock.add(2*time.Hour - 1) // behind 2^63 ns in one case
					table.Sweep(10_000)
					if _, ok := table.Lookup(client(2)); !ok {
						t.Fatal("gone too early")
					}
					clock.add(1)
					if _, ok := table.Lookup(client(2)); ok {
						t.Error("older than its timeout")
					}
					clock.seconds(2)
					table.Sweep(10_000)
					if table.Len() != 0 {
						t.Errorf("%d records left", table.Len())
					}
				})
			}
		}
	}
}
