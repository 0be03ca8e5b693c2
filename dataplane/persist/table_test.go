package persist

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestRules(t *testing.T) {
	sslV1 := netip.MustParseAddrPort("127.0.0.10:8443")
	ssl := Policy{Pool: sslPool, Timeout: 30 * time.Second}
	key := func(g Globals, vip netip.AddrPort, pool PoolID) Key {
		return AddrKey(Simple, ScopeOf(g, vip, pool), Mask{}, netip.MustParseAddr("127.0.0.9"))
	}

	t.Run("B-1_each_virtual_server_alone", func(t *testing.T) {
		table, _ := newTable(t, 0)
		wantNode(t, visit(table, key(Globals{}, v1, webPool), web, n1), n1, Bound)
		wantNode(t, visit(table, key(Globals{}, sslV1, sslPool), ssl, n2), n2, Bound)
		wantNode(t, visit(table, key(Globals{}, v1, webPool), web, n3), n1, Found)
	})
	t.Run("B-2_other_address_does_not_disturb", func(t *testing.T) {
		table, _ := newTable(t, 0)
		g := Globals{PersistOnAnyPortSameVIP: true}
		wantNode(t, visit(table, key(g, v1, webPool), web, n1), n1, Bound)
		wantNode(t, visit(table, key(g, v2, sslPool), ssl, n2), n2, Bound)
		b := visit(table, key(g, sslV1, sslPool), ssl, n3)
		wantNode(t, b, n1, Found)
		if b.Pool != webPool { // so that the caller matches the address alone, rule B-5
			t.Errorf("the record names pool %d, want the one that bound it", b.Pool)
		}
	})
	t.Run("B-3_all_virtual_servers", func(t *testing.T) {
		table, _ := newTable(t, 0)
		g := Globals{PersistOnAnyVIP: true}
		wantNode(t, visit(table, key(g, v1, webPool), web, n1), n1, Bound)
		for _, vip := range []netip.AddrPort{sslV1, v2} {
			wantNode(t, visit(table, key(g, vip, sslPool), ssl, n2), n1, Found)
		}
	})
	t.Run("B-7_shared_record_is_left_alone", func(t *testing.T) {
		table, clock := newTable(t, 0)
		shared := key(Globals{PersistOnAnyVIP: true}, v1, webPool)
		visit(table, shared, web, n1)
		clock.seconds(20)
		b := table.Bind(shared, ssl, pick(n2)) // ssl_pool lacks n1
		table.Release(&b.Handle)
		wantNode(t, visit(table, key(Globals{}, sslV1, sslPool), ssl, n2), n2, Bound)
		wantNode(t, visit(table, key(Globals{}, sslV1, sslPool), ssl, n3), n2, Found)
		if r, _ := table.Lookup(shared); r.Node != n1 || r.Idle != 20*time.Second || r.Refresher != webPool {
			t.Errorf("the shared record became %+v", r)
		}
	})
	t.Run("B-8_shared_record_moves", func(t *testing.T) {
		table, _ := newTable(t, 0)
		shared := key(Globals{PersistOnAnyVIP: true}, v1, webPool)
		visit(table, shared, web, n1)
		b := table.Bind(shared, ssl, pick(n3))
		if !table.Rebind(shared, ssl, &b, pick(n2)) {
			t.Fatal("not moved")
		}
		wantNode(t, b, n2, Moved)
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
		b = visit(table, shared, web, n1)
		wantNode(t, b, n2, Found)
		if b.Pool != sslPool || table.PoolStats(webPool).Records != 0 || table.PoolStats(sslPool).Records != 1 {
			t.Errorf("the record belongs to pool %d, want the one that moved it", b.Pool)
		}
	})
	t.Run("B-11_masks", func(t *testing.T) {
		table, _ := newTable(t, 0)
		class, _ := NewMask(24, 128)
		g := Globals{PersistOnAnyPortSameVIP: true}
		at := func(m Mask, addr string) Key {
			return AddrKey(Simple, ScopeOf(g, v1, webPool), m, netip.MustParseAddr(addr))
		}
		wantNode(t, visit(table, at(class, "127.0.0.1"), web, n1), n1, Bound)
		wantNode(t, visit(table, at(class, "127.0.0.77"), web, n2), n1, Found)
		wantNode(t, visit(table, at(class, "127.0.1.5"), web, n2), n2, Bound)
		wantNode(t, visit(table, at(Mask{}, "127.0.0.1"), ssl, n3), n3, Bound)
		wantNode(t, visit(table, at(Mask{}, "127.0.0.0"), ssl, n3), n3, Bound)
	})
	t.Run("B-13_limit_is_idle_time", func(t *testing.T) {
		table, clock := newTable(t, 0)
		for range 4 { // pains 57
			visit(table, client(1), web, n1)
			clock.seconds(40)
		}
		clock.seconds(20) // 60 s after the last
		wantNode(t, visit(table, client(1), web, n2), n2, Bound)
	})
	t.Run("B-13_timeout_is_fixed", func(t *testing.T) {
		table, clock := newTable(t, 0)
		fixed := web
		fixed.Timer = Fixed
		wantNode(t, visit(table, client(1), fixed, n1), n1, Bound)
		clock.seconds(40)
		b := table.Bind(client(1), fixed, pick(n2))
		wantNode(t, b, n1, Found)
		table.Accepted(&b.Handle)
		clock.seconds(20)
		if _, ok := table.Lookup(client(1)); ok {
			t.Error("a record that ran out is matched because a connection is open")
		}
		wantNode(t, visit(table, client(1), fixed, n2), n2, Bound)
		table.Accepted(&b.Handle) // of the record that ran out
		table.Release(&b.Handle)
		if r, _ := table.Lookup(client(1)); r.Node != n2 || r.Open != 0 {
			t.Errorf("the late close changed the new record: %+v", r)
		}
	})
	t.Run("B-14_timeout_of_the_last_pool", func(t *testing.T) {
		table, clock := newTable(t, 0)
		shared := key(Globals{PersistOnAnyVIP: true}, v1, webPool)
		visit(table, shared, web, n1)
		visit(table, shared, ssl, n1)
		if r, _ := table.Lookup(shared); r.Timeout != ssl.Timeout || r.Refresher != sslPool || r.Pool != webPool {
			t.Errorf("refreshed through ssl_pool: %+v", r)
		}
		clock.seconds(29.9)
		visit(table, shared, web, n1)
		clock.seconds(59.9)
		wantNode(t, visit(table, shared, ssl, n1), n1, Found)
		clock.seconds(30)
		wantNode(t, visit(table, shared, ssl, n2), n2, Bound)
	})
	t.Run("B-15_no_timeout_never_expires", func(t *testing.T) {
		table, clock := newTable(t, 0)
		visit(table, client(1), Policy{Pool: webPool}, n1)
		clock.add(100 * 365 * 24 * time.Hour)
		table.Sweep(10_000)
		wantNode(t, visit(table, client(1), Policy{Pool: webPool}, n2), n1, Found)
		if r, _ := table.Lookup(client(1)); r.Remaining != Forever {
			t.Errorf("remaining %v", r.Remaining)
		}
	})
}

func TestConnections(t *testing.T) {
	t.Run("pains_58_timer_starts_at_the_last_close", func(t *testing.T) {
		table, clock := newTable(t, 0)
		five := Policy{Pool: webPool, Timeout: 5 * time.Second}
		long := table.Bind(client(1), five, pick(n1))
		table.Accepted(&long.Handle)
		clock.seconds(11)
		table.Sweep(10_000)
		wantNode(t, visit(table, client(1), five, n2), n1, Found)
		clock.seconds(1)
		table.Release(&long.Handle)
		clock.seconds(4)
		wantNode(t, visit(table, client(1), five, n2), n1, Found)
		clock.seconds(5.1)
		wantNode(t, visit(table, client(1), five, n2), n2, Bound)
	})
	t.Run("pains_38_failing_attempts_do_not_refresh", func(t *testing.T) {
		table, clock := newTable(t, 0)
		visit(table, client(1), web, n1)
		for range 5 {
			clock.seconds(11)
			b := table.Bind(client(1), web, pick(n2))
			wantNode(t, b, n1, Found)
			table.Release(&b.Handle)
		}
		clock.seconds(5)
		wantNode(t, visit(table, client(1), web, n2), n2, Bound)
	})
	t.Run("pains_38_never_accepted_never_recorded", func(t *testing.T) {
		table, _ := newTable(t, 0)
		a := table.Bind(client(1), web, pick(n1))
		b := table.Bind(client(1), web, pick(n2))
		wantNode(t, b, n1, Found)
		table.Release(&a.Handle)
		if r, ok := table.Lookup(client(1)); !ok || r.Accepted || r.Open != 1 {
			t.Errorf("while an attempt is under way: %+v", r)
		}
		table.Release(&b.Handle)
		if table.Len() != 0 {
			t.Error("the record of a member that never accepted stayed")
		}
	})
	t.Run("pains_35_down_moves_and_stays_moved", func(t *testing.T) {
		table, clock := newTable(t, 0)
		old := table.Bind(client(1), web, pick(n2))
		table.Accepted(&old.Handle)
		clock.seconds(10)
		b := table.Bind(client(1), web, pick(n3))
		if !table.Rebind(client(1), web, &b, pick(n1)) {
			t.Fatal("not moved")
		}
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
		clock.seconds(30)
		table.Accepted(&old.Handle) // the connection to the old member says nothing about the new one
		table.Release(&old.Handle)
		if r, _ := table.Lookup(client(1)); r.Node != n1 || r.Idle != 30*time.Second || r.Age != 30*time.Second {
			t.Errorf("the moved record: %+v", r)
		}
	})
	t.Run("pains_63_twelve_first_connections", func(t *testing.T) {
		table, _ := newTable(t, 0)
		nodes := []netip.AddrPort{n1, n2, n3}
		asked := 0
		choose := func(not netip.AddrPort) func() (netip.AddrPort, bool) {
			return func() (netip.AddrPort, bool) {
				asked++
				for nodes[asked%3] == not {
					asked++
				}
				return nodes[asked%3], true
			}
		}
		conns := make([]Binding, 12)
		for i := range conns {
			conns[i] = table.Bind(client(1), web, choose(netip.AddrPort{}))
		}
		first := conns[0].Node
		for i := range conns {
			if !table.Rebind(client(1), web, &conns[i], choose(first)) { // it refuses
				t.Fatal("not moved")
			}
		}
		for i := range conns {
			if conns[i].Node != conns[0].Node || conns[i].Node == first {
				t.Errorf("connection %d is on %v, the first on %v", i, conns[i].Node, conns[0].Node)
			}
		}
		if r, _ := table.Lookup(client(1)); r.Open != 12 || table.Len() != 1 {
			t.Errorf("%d records, %+v", table.Len(), r)
		}
		if s := table.Stats(); s.Bound != 1 || s.Moved != 1 {
			t.Errorf("bound %d, moved %d, want 1 and 1", s.Bound, s.Moved)
		}
		for i := range conns {
			table.Release(&conns[i].Handle)
		}
		if table.Len() != 0 {
			t.Error("nobody accepted, and a record is left")
		}
	})
	t.Run("no_other_member", func(t *testing.T) {
		table, _ := newTable(t, 0)
		visit(table, client(1), web, n1)
		b := table.Bind(client(1), web, pick(n1))
		if table.Rebind(client(1), web, &b, pickNone) {
			t.Error("moved to nothing")
		}
		table.Release(&b.Handle)
		wantNode(t, visit(table, client(1), web, n2), n1, Found)
	})
	t.Run("A-4_acquire_makes_no_record", func(t *testing.T) {
		table, _ := newTable(t, 0)
		wantNode(t, table.Acquire(client(1), web), netip.AddrPort{}, NoNode)
		visit(table, client(1), web, n1)
		b := table.Acquire(client(1), web)
		wantNode(t, b, n1, Found)
		if r, _ := table.Lookup(client(1)); r.Open != 1 {
			t.Errorf("not held: %+v", r)
		}
		table.Release(&b.Handle)
	})
	t.Run("cleared_under_a_connection", func(t *testing.T) {
		table, _ := newTable(t, 0)
		b := table.Bind(client(1), web, pick(n1))
		if n := table.Clear(Filter{}); n != 1 {
			t.Fatalf("cleared %d", n)
		}
		again := table.Bind(client(1), web, pick(n2))
		wantNode(t, again, n2, Bound)
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
		if r, _ := table.Lookup(client(1)); r.Open != 1 || r.Accepted {
			t.Errorf("the old handle changed the new record: %+v", r)
		}
		table.Release(&again.Handle)
	})
	t.Run("panic_in_choose", func(t *testing.T) {
		table, _ := newTable(t, 4)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			table.Bind(client(1), web, func() (netip.AddrPort, bool) { panic("no pool") })
		}()
		wantNode(t, visit(table, client(1), web, n1), n1, Bound)
	})
}

// Pains 71: nothing to persist on is no key.
func TestKeyless(t *testing.T) {
	table, _ := newTable(t, 0)
	for range 30 {
		b := table.Bind(IDKey(SSL, Scope{}, nil), web, pick(n1))
		wantNode(t, b, n1, Keyless)
		if !table.Rebind(Key{}, web, &b, pick(n2)) || b.Node != n2 {
			t.Fatalf("no second choice: %v", b)
		}
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
	}
	if _, ok := table.Lookup(Key{}); ok || table.Len() != 0 || table.Import(Record{Node: n1, Accepted: true}) {
		t.Error("a record of nothing")
	}
	if b := table.Acquire(Key{}, web); b.Outcome != NoNode {
		t.Errorf("acquired %v", b)
	}
}

// Pains 90: zero bytes count.
func TestBinaryIDs(t *testing.T) {
	table, _ := newTable(t, 0)
	ids := [][]byte{make([]byte, 32), append(make([]byte, 31), 1), append([]byte{1}, make([]byte, 31)...), make([]byte, 16), make([]byte, 17), {0}}
	for i, id := range ids {
		visit(table, IDKey(SSL, Scope{}, id), web, netip.AddrPortFrom(n1.Addr(), uint16(i+1)))
	}
	for i, id := range ids {
		if r, ok := table.Lookup(IDKey(SSL, Scope{}, id)); !ok || int(r.Node.Port()) != i+1 || !slices.Equal(r.Key.ID(), id) {
			t.Errorf("ID %x: %v %+v", id, ok, r)
		}
	}
}

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

// Pains 61: no clock makes a record live too long or die too early.
func TestClock(t *testing.T) {
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

func TestFilters(t *testing.T) {
	table, clock := newTable(t, 0)
	addr := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	narrow, vip := ScopeOf(Globals{}, v1, webPool), ScopeOf(Globals{PersistOnAnyPortSameVIP: true}, v1, sslPool)
	keys := []Key{
		AddrKey(Simple, narrow, Mask{}, addr("10.0.0.1")),
		AddrKey(Simple, vip, Mask{}, addr("10.0.0.2")),
		AddrKey(Sticky, Scope{}, Mask{}, addr("fd00::1")),
		IDKey(SSL, ScopeOf(Globals{}, v2, sslPool), []byte{1, 2, 3}),
	}
	visit(table, keys[0], web, n1)
	visit(table, keys[1], Policy{Pool: sslPool, Timeout: time.Hour}, n1)
	clock.seconds(5)
	visit(table, keys[2], web, n2)
	visit(table, keys[3], Policy{Pool: sslPool, Timeout: time.Hour}, netip.AddrPortFrom(n1.Addr(), 443))
	for _, tc := range []struct {
		name string
		f    Filter
		want []int
	}{
		{"all", Filter{}, []int{0, 1, 2, 3}},
		{"client", Filter{Client: netip.MustParsePrefix("10.0.0.1/32")}, []int{0}},
		{"network", Filter{Client: netip.MustParsePrefix("10.0.0.0/24")}, []int{0, 1}},
		{"id", Filter{ID: []byte{1, 2, 3}}, []int{3}},
		{"node", Filter{Node: n1}, []int{0, 1}},
		{"node_any_port", Filter{Node: netip.AddrPortFrom(n1.Addr(), 0)}, []int{0, 1, 3}},
		{"virtual", Filter{Virtual: v1}, []int{0, 1}},
		{"virtual_other_port", Filter{Virtual: netip.AddrPortFrom(v1.Addr(), 9)}, []int{1}},
		{"virtual_any_port", Filter{Virtual: netip.AddrPortFrom(v2.Addr(), 0)}, []int{3}},
		{"pool", Filter{Pool: sslPool}, []int{1, 3}},
		{"kind", Filter{Kind: Sticky}, []int{2}},
		{"older", Filter{Older: 5 * time.Second}, []int{0, 1}},
		{"two", Filter{Older: 5 * time.Second, Pool: webPool}, []int{0}},
		{"none", Filter{Older: time.Hour}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []int
			for k := range collect(table, tc.f) {
				got = append(got, slices.Index(keys, k))
			}
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("chose %v, want %v", got, tc.want)
			}
		})
	}
	for r := range table.List(Filter{}) { // stops early
		if n := table.Clear(Filter{Pool: r.Pool, Kind: r.Key.Kind()}); n != 1 {
			t.Errorf("cleared %d while listing", n)
		}
		break
	}
	if s := table.Stats(); s.Records != 3 || s.Cleared != 1 {
		t.Errorf("%+v", s)
	}
}

// Pains 39: a pool that is gone leaves nothing behind.
func TestPoolRemoved(t *testing.T) {
	table, _ := newTable(t, 0)
	empty := table.Stats().Bytes
	for i := range 10_000 {
		visit(table, client(i), web, n1)
		if i%2 == 0 {
			visit(table, IDKey(SSL, Scope{}, fmt.Appendf(nil, "session %d of more than sixteen", i)), web, n1)
		}
	}
	visit(table, client(10_000), Policy{Pool: sslPool, Timeout: time.Hour}, n2)
	if n := table.Clear(Filter{Pool: webPool}); n != 15_000 || table.Len() != 1 {
		t.Fatalf("cleared %d, left %d", n, table.Len())
	}
	wantNode(t, visit(table, client(1), web, n3), n3, Bound)
	table.Clear(Filter{})
	table.Sweep(100)
	if got := table.Stats(); got.Bytes != empty || got.Records != 0 {
		t.Errorf("empty: %d bytes, then %+v", empty, got)
	}
}

func TestImport(t *testing.T) {
	minute := Policy{Pool: webPool, Timeout: time.Minute}
	table, clock := newTable(t, 0)
	visit(table, client(1), minute, n1)
	clock.seconds(20)
	visit(table, client(2), Policy{Pool: webPool, Timeout: time.Minute, Timer: Fixed}, n2)
	clock.seconds(10)
	visit(table, client(2), Policy{Pool: webPool, Timeout: time.Minute, Timer: Fixed}, n2)
	visit(table, client(3), Policy{Pool: sslPool}, n3)
	pending := table.Bind(client(4), minute, pick(n1))
	open := table.Bind(client(5), minute, pick(n1))
	table.Accepted(&open.Handle)
	clock.seconds(1)

	t.Run("after_a_restart", func(t *testing.T) {
		next, later := newTable(t, 0)
		later.seconds(1e6)
		for r := range table.List(Filter{}) {
			if next.Import(r) != r.Accepted {
				t.Errorf("%+v", r)
			}
		}
		got, want := collect(next, Filter{}), collect(table, Filter{})
		delete(want, client(4))
		for k, w := range want {
			w.Open = 0
			if got[k] != w {
				t.Errorf("\n got %+v\nwant %+v", got[k], w)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d records, want %d", len(got), len(want))
		}
		later.seconds(29) // 60 s after the only use of client 1
		if _, ok := next.Lookup(client(1)); ok {
			t.Error("the restart prolonged the record")
		}
	})
	t.Run("pains_62_capped_at_the_timeout", func(t *testing.T) {
		next, later := newTable(t, 0)
		r, _ := table.Lookup(client(1))
		r.Remaining = 10 * 365 * 24 * time.Hour
		next.Import(r)
		later.seconds(60)
		if _, ok := next.Lookup(client(1)); ok {
			t.Error("older than the pool's timeout")
		}
	})
	t.Run("newer_wins_and_open_stays", func(t *testing.T) {
		next, later := newTable(t, 0)
		visit(next, client(1), minute, n3)
		later.seconds(50)
		r, _ := table.Lookup(client(1)) // used 31 s ago
		if !next.Import(r) {
			t.Error("the later use was not taken")
		}
		wantNode(t, visit(next, client(1), minute, n2), n1, Found)
		if next.Import(r) {
			t.Error("the earlier use was taken")
		}
		b := next.Bind(client(1), minute, pick(n2))
		later.seconds(40)
		if next.Import(r) {
			t.Error("a record with an open connection was replaced")
		}
		next.Release(&b.Handle)
	})
	t.Run("what_is_not_taken", func(t *testing.T) {
		next, _ := newTable(t, 1)
		good, _ := table.Lookup(client(1))
		for name, spoil := range map[string]func(*Record){
			"run_out": func(r *Record) { r.Remaining = 0 }, "forever_with_timeout": func(r *Record) { r.Remaining = Forever },
			"no_node": func(r *Record) { r.Node = netip.AddrPort{} }, "no_key": func(r *Record) { r.Key = Key{} },
		} {
			bad := good
			spoil(&bad)
			if next.Import(bad) {
				t.Errorf("%s: taken", name)
			}
		}
		second, _ := table.Lookup(client(2))
		if !next.Import(good) || next.Import(second) {
			t.Error("a table of one takes one")
		}
	})
	table.Release(&pending.Handle)
	table.Release(&open.Handle)
}

func TestNoAllocation(t *testing.T) {
	table, _ := newTable(t, 0)
	for i := range 1000 {
		visit(table, client(i), web, n1)
	}
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		i++
		k := client(i % 1000)
		b := table.Bind(k, web, func() (netip.AddrPort, bool) { return n2, i > 0 })
		table.Accepted(&b.Handle)
		table.Rebind(k, web, &b, func() (netip.AddrPort, bool) { return n3, i > 0 })
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
		if _, ok := table.Lookup(k); !ok {
			t.Error("no record")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a connection", n)
	}
}
