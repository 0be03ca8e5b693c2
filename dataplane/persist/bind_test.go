package persist

import (
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
		if n := table.Clear(Filter{}, nil); n != 1 {
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
