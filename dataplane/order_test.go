package dataplane

import (
	"fmt"
	"net/netip"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// recordsOf draws a table with records of all kinds and scopes, and the pools of some.
func recordsOf(t *rapid.T) (*persist.Table, *recordOrder) {
	table := persist.New(persist.Options{})
	byte4 := func(name string) netip.Addr {
		return netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 5).Draw(t, name))})
	}
	for range rapid.IntRange(0, 60).Draw(t, "records") {
		id := persist.PoolIDOf(rapid.SampledFrom([]string{"a", "b", "c", "gone"}).Draw(t, "pool"))
		g := persist.Globals{PersistOnAnyVIP: rapid.Bool().Draw(t, "any"), PersistOnAnyPortSameVIP: rapid.Bool().Draw(t, "same")}
		scope := persist.ScopeOf(g, netip.AddrPortFrom(byte4("virtual"), uint16(rapid.IntRange(79, 81).Draw(t, "port"))), id)
		kind := rapid.SampledFrom([]persist.Kind{persist.Simple, persist.Sticky, persist.SSL, persist.SIP}).Draw(t, "kind")
		var key persist.Key
		if kind == persist.Simple || kind == persist.Sticky {
			mask, err := persist.NewMask(rapid.SampledFrom([]int{24, 31, 32}).Draw(t, "mask"), 128)
			if err != nil {
				t.Fatal(err)
			}
			key = persist.AddrKey(kind, scope, mask, byte4("client"))
		} else {
			key = persist.IDKey(kind, scope, rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "id"))
		}
		b := table.Bind(key, persist.Policy{Pool: id}, func() (netip.AddrPort, bool) { return netip.AddrPortFrom(byte4("node"), 80), true })
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
	}
	r := &runtime{pools: map[string]*pool.Pool{}}
	for _, name := range []string{"b", "a", "c"} {
		r.pools[name] = &pool.Pool{Name: name, ID: persist.PoolIDOf(name)}
	}
	return table, r.recordOrder()
}

// TestRecordOrder holds a few records at a time, and lists each once and in order all the same.
func TestRecordOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, order := recordsOf(t)
		size := rapid.IntRange(1, 70).Draw(t, "size")
		walks := 0
		walk := func(yield func(persist.Record) bool) {
			walks++
			table.List(persist.Filter{})(yield)
		}
		var got []persist.Record
		for r := range order.listed(walk, size) {
			got = append(got, *r)
		}
		if len(got) != table.Len() || walks != table.Len()/size+1 {
			t.Fatalf("%d of %d records in %d walks of %d", len(got), table.Len(), walks, size)
		}
		for i := range got[min(1, len(got)):] {
			if order.compare(&got[i], &got[i+1]) >= 0 {
				t.Fatalf("%v is not before %v", got[i], got[i+1])
			}
		}
		if n := len(got); n > 1 {
			left := n / 2
			order.listed(walk, size)(func(*persist.Record) bool { left--; return left > 0 })
		}
		names := make([]persist.PoolID, 0, len(got))
		for _, r := range got {
			names = append(names, r.Pool)
		}
		want := []persist.PoolID{persist.PoolIDOf("a"), persist.PoolIDOf("b"), persist.PoolIDOf("c"), persist.PoolIDOf("gone")}
		if !slices.IsSortedFunc(names, func(a, b persist.PoolID) int { return slices.Index(want, a) - slices.Index(want, b) }) {
			t.Fatalf("pools %v", names)
		}
	})
}

// TestRecordFilter/pain-71: each record is chosen by the text that is printed of it, and by that of its address.
func TestRecordFilter(t *testing.T) {
	t.Run("pain-71_text_of_each", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			table, _ := recordsOf(t)
			names := map[persist.PoolID]string{}
			for _, name := range []string{"a", "b", "c", "gone"} {
				names[persist.PoolIDOf(name)] = name
			}
			for r := range table.List(persist.Filter{}) {
				m := recordMessage(&r, names)
				f, err := newRecordFilter(&pb.RecordFilter{Pool: &m.Pool, Mode: &m.Mode, Client: &m.Key, Virtual: &m.Virtual, Node: &m.Node})
				if err != nil || !f.table.Match(&r) || !f.match(&r) {
					t.Fatalf("%v: not chosen by its own text: %v", m, err)
				}
			}
		})
	})
	in := func(g persist.Globals, virtual string) *persist.Record {
		id := persist.PoolIDOf("p")
		scope := persist.ScopeOf(g, netip.MustParseAddrPort(virtual), id)
		return &persist.Record{Key: persist.AddrKey(persist.Simple, scope, persist.Mask{}, netip.MustParseAddr("10.9.9.9")), Pool: id}
	}
	alone, same, all := persist.Globals{}, persist.Globals{PersistOnAnyPortSameVIP: true}, persist.Globals{PersistOnAnyVIP: true}
	records := []*persist.Record{
		in(alone, "10.0.0.1:80"), in(alone, "10.0.0.1:0"), in(same, "10.0.0.1:80"), in(all, "10.0.0.1:80"),
		in(alone, "[2001:db8::1]:80"), in(same, "[2001:db8::1]:80"),
	}
	for text, want := range map[string]string{
		"10.0.0.1:80": "0", "10.0.0.1:0": "1", "10.0.0.1:*": "2", "": "3", "10.0.0.1": "012",
		"[2001:db8::1]:80": "4", "[2001:db8:0::1]:*": "5", "2001:db8::1": "45", "10.0.0.2": "", "::ffff:10.0.0.1": "012",
	} {
		f, err := newRecordFilter(&pb.RecordFilter{Virtual: &text})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := ""
		for i, r := range records {
			if f.match(r) {
				got += fmt.Sprint(i)
			}
		}
		if got != want {
			t.Errorf("%q chooses %q, want %q", text, got, want)
		}
	}
	for _, bad := range []string{"*", "10.0.0.1:80:*", "fe80::zz", "10.0.0.1:x", "10.0.0.300"} {
		if _, err := newRecordFilter(&pb.RecordFilter{Virtual: &bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// BenchmarkRecordOrder lists a table whole and in order, a part at a time.
func BenchmarkRecordOrder(b *testing.B) {
	table := persist.New(persist.Options{})
	policy := persist.Policy{Pool: persist.PoolIDOf("p")}
	const n = 200_000
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		key := persist.AddrKey(persist.Simple, persist.Scope{Pool: policy.Pool}, persist.Mask{}, addr)
		bound := table.Bind(key, policy, func() (netip.AddrPort, bool) { return netip.AddrPortFrom(netip.IPv6Loopback(), 80), true })
		table.Accepted(&bound.Handle)
		table.Release(&bound.Handle)
	}
	order := (&runtime{}).recordOrder()
	walk := table.List(persist.Filter{})
	for b.Loop() {
		found := 0
		for range order.listed(walk, n/pages) {
			found++
		}
		if found != n {
			b.Fatal(found)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}

// A listing of many records sorts in small steps: on one processor connections go on between them.
func TestListingGivesWay(t *testing.T) {
	const n = 20_000
	table := persist.New(persist.Options{})
	visit := func(i int) {
		key := persist.AddrKey(persist.Simple, persist.Scope{}, persist.Mask{}, netip.AddrFrom4([4]byte{10, byte(i * 7), byte(i >> 8), byte(i)}))
		b := table.Bind(key, persist.Policy{Pool: 1}, func() (netip.AddrPort, bool) { return netip.MustParseAddrPort("10.0.0.1:80"), true })
		table.Accepted(&b.Handle)
		table.Release(&b.Handle)
	}
	for i := range n {
		visit(i)
	}
	all := slices.Collect(table.List(persist.Filter{}))
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	var over atomic.Bool
	var visits atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !over.Load(); i++ {
			visit(i % n)
			visits.Add(1)
			goruntime.Gosched()
		}
	}()
	page := new(recordOrder).page(slices.Values(all), nil, n)
	got := visits.Load()
	over.Store(true)
	<-done
	if len(page) != n {
		t.Errorf("%d records", len(page))
	}
	if got < 50 { // of about 250 steps
		t.Errorf("%d connections came while %d records were sorted", got, n)
	}
}
