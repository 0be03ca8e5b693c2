package persist

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

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
		{"pool", Filter{Pool: sslPool}, []int{1, 3}},
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
		if n := table.Clear(Filter{Pool: r.Pool, ID: r.Key.ID(), Client: r.Key.Prefix()}, nil); n != 1 {
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
	if n := table.Clear(Filter{Pool: webPool}, nil); n != 15_000 || table.Len() != 1 {
		t.Fatalf("cleared %d, left %d", n, table.Len())
	}
	wantNode(t, visit(table, client(1), web, n3), n3, Bound)
	if n := table.Clear(Filter{}, func(*Record) bool { return true }); n != 0 || table.Len() != 2 {
		t.Errorf("Clear removed %d of what is kept; %d left", n, table.Len())
	}
	table.Clear(Filter{}, nil)
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

// Connections go on while records are listed: no lock is held while the caller does something with a record, and a slice under a
// lock is 256 records at most.
func TestTrafficDuringListing(t *testing.T) {
	table, _ := newTable(t, 0)
	const n = 20_000
	for i := range n {
		visit(table, client(i), web, n1)
	}
	listed := map[Key]bool{}
	for r := range table.List(Filter{}) {
		if i := len(listed); i%64 == 0 { // of the shard that is listed, and of others
			visit(table, r.Key, web, n2)
			visit(table, client(i), web, n2)
			visit(table, client(n+i), web, n2)
			table.Sweep(10)
		}
		listed[r.Key] = true
	}
	for i := range n {
		if !listed[client(i)] {
			t.Fatalf("client %d was not listed", i)
		}
	}
	most := 0
	table.walk(func(_ *shard, refs []ref) { most = max(most, len(refs)) }, func() bool { return true })
	if most > 256 {
		t.Errorf("%d records under one lock", most)
	}
}
