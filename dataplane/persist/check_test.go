package persist

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// fakeClock is a monotonic clock that stands still until it is moved.
type fakeClock struct{ ns atomic.Int64 }

func (c *fakeClock) now() int64            { return c.ns.Load() }
func (c *fakeClock) add(d time.Duration)   { c.ns.Add(int64(d)) }
func (c *fakeClock) set(ns int64)          { c.ns.Store(ns) }
func (c *fakeClock) seconds(after float64) { c.add(time.Duration(after * float64(time.Second))) }

// newTable makes a table on a fake clock; the test ends with a check of every invariant.
func newTable(t testing.TB, limit int) (*Table, *fakeClock) {
	t.Helper()
	clock := &fakeClock{}
	table := New(Options{Clock: clock.now, Limit: limit})
	t.Cleanup(func() { check(t, table) })
	return table, clock
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check compares everything in the table that is held twice.
func check(t failer, table *Table) {
	t.Helper()
	if size := unsafe.Sizeof(slot{}); size != 40 {
		t.Fatalf("a slot has %d bytes, want 40", size)
	}
	total := 0
	pools := map[uint32]int{}
	oldest := map[*marks]map[int]uint64{&table.marks: {}}
	for i := range table.shards {
		s := &table.shards[i]
		s.mu.Lock()
		total += checkShard(t, s, pools, oldest)
		s.mu.Unlock()
	}
	if table.Len() != total {
		t.Fatalf("the table counts %d records and holds %d", table.Len(), total)
	}
	for _, p := range table.pools.all() {
		if int(p.count.Load()) != pools[p.number] {
			t.Fatalf("pool %d counts %d records and has %d", p.number, p.count.Load(), pools[p.number])
		}
	}
	for m, shards := range oldest {
		for i, used := range shards {
			if m[i].Load() > used {
				t.Fatalf("shard %d: the mark %d is later than the oldest use %d", i, m[i].Load(), used)
			}
		}
	}
}

func checkShard(t failer, s *shard, pools map[uint32]int, oldest map[*marks]map[int]uint64) int {
	t.Helper()
	live, listed, wheeled := 0, 0, 0
	for n := range s.slab.chunks {
		c, p := &s.slab.chunks[n], s.slab.pages[n]
		if p == nil {
			continue
		}
		used := 0
		for i := range p.slots {
			sl, r, open := &p.slots[i], refOf(n, i), p.rests[i].open
			if p.rests[i].gen == 0 {
				continue
			}
			used++
			var k Key
			s.keyInto(&k, r)
			if k.wide() != (c.tails != nil) {
				t.Fatalf("key %v of length %d is in the wrong kind of chunk", k, k.length)
			}
			if got := s.find(&k, k.hash(s.table.seed)); got != r {
				t.Fatalf("key %v is in slot %d, the index says %d", k, r, got)
			}
			if s.table.shardOf(k.hash(s.table.seed)) != s {
				t.Fatalf("key %v is in the wrong shard", k)
			}
			if (open == 0) != (sl.flags&flagListed != 0) || (open == 0) != (sl.flags&flagOpen == 0) {
				t.Fatalf("key %v has %d open connections, flags %b", k, open, sl.flags)
			}
			if open == 0 && sl.flags&flagAccepted == 0 {
				t.Fatalf("key %v stayed without an accepted connection", k)
			}
			if (s.classOf(sl).timeout > 0) != (sl.flags&flagWheel != 0) {
				t.Fatalf("key %v: timeout %v, in the wheel: %v", k, s.classOf(sl).timeout, sl.flags&flagWheel != 0)
			}
			if sl.flags&flagWheel != 0 {
				wheeled++
			}
			pool := s.table.pool(s.classOf(sl).pool)
			pools[pool.number]++
			if open == 0 {
				listed++
				lowest(oldest[&s.table.marks], s.number, sl.used)
				if m := pool.marks.Load(); m != nil {
					if oldest[m] == nil {
						oldest[m] = map[int]uint64{}
					}
					lowest(oldest[m], s.number, sl.used)
				}
			}
		}
		if used != int(c.live) {
			t.Fatalf("chunk counts %d slots in use and has %d", c.live, used)
		}
		live += used
	}
	if s.index.live != live {
		t.Fatalf("the index counts %d slots, the slab %d", s.index.live, live)
	}
	for number, l := range s.recency.lists {
		before := ref(0)
		for r := l.oldest; r != 0; r = s.slab.rest(r).newer {
			sl := s.slab.at(r)
			if s.slab.rest(r).older != before || s.classOf(sl).pool != uint32(number) {
				t.Fatalf("recency list of pool %d is broken at %d", number, r)
			}
			before = r
			listed--
		}
		if l.newest != before || before != 0 && l.floor == 0 {
			t.Fatalf("recency list of pool %d ends at %d, says %d, floor %d", number, before, l.newest, l.floor)
		}
	}
	if s.wheel.buckets != nil {
		for n, first := range s.wheel.buckets {
			before := ref(0)
			for r := first; r != 0; r = s.slab.rest(r).next {
				if s.slab.rest(r).prev != before || int(s.slab.at(r).bucket) != n {
					t.Fatalf("wheel bucket %d is broken at %d", n, r)
				}
				before = r
				wheeled--
			}
		}
	}
	if listed != 0 || wheeled != 0 {
		t.Fatalf("%d records missing in the lists, %d in the wheel", listed, wheeled)
	}
	return live
}

func lowest(m map[int]uint64, i int, v uint64) {
	if old, ok := m[i]; !ok || v < old {
		m[i] = v
	}
}

var (
	v1 = netip.MustParseAddrPort("127.0.0.10:8080")
	v2 = netip.MustParseAddrPort("127.0.0.20:8080")
	n1 = netip.MustParseAddrPort("127.0.1.1:8080")
	n2 = netip.MustParseAddrPort("127.0.1.2:8080")
	n3 = netip.MustParseAddrPort("127.0.1.3:8080")

	webPool = PoolIDOf("http_pool")
	sslPool = PoolIDOf("ssl_pool")

	web = Policy{Pool: webPool, Timeout: 60 * time.Second}
)

func pick(node netip.AddrPort) func() (netip.AddrPort, bool) {
	return func() (netip.AddrPort, bool) { return node, true }
}

func pickNone() (netip.AddrPort, bool) { return netip.AddrPort{}, false }

// client is the simple key of the n-th client on v1.
func client(n int) Key {
	addr := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	return AddrKey(Simple, ScopeOf(Globals{}, v1, webPool), Mask{}, addr)
}

// visit is a whole connection: bound to the record's node, or to fresh, accepted and closed.
func visit(table *Table, k Key, p Policy, fresh netip.AddrPort) Binding {
	b := table.Bind(k, p, pick(fresh))
	table.Accepted(&b.Handle)
	table.Release(&b.Handle)
	return b
}

func wantNode(t *testing.T, b Binding, node netip.AddrPort, how Outcome) {
	t.Helper()
	if b.Node != node || b.Outcome != how {
		t.Fatalf("got node %v (%v), want %v (%v)", b.Node, b.Outcome, node, how)
	}
}

func collect(table *Table, f Filter) map[Key]Record {
	m := map[Key]Record{}
	for r := range table.List(f) {
		m[r.Key] = r
	}
	return m
}
