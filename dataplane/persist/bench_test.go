package persist

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

var benchSizes = []int{1_000, 100_000, 1_000_000}

func filled(b *testing.B, n int) (*Table, []Key) {
	b.Helper()
	table := New(Options{})
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = client(i)
		visit(table, keys[i], web, n1)
	}
	rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	b.ReportAllocs()
	return table, keys
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table, keys := filled(b, n)
			b.ResetTimer()
			for i := range b.N {
				if _, ok := table.Lookup(keys[i%n]); !ok {
					b.Fatal("record not found")
				}
			}
			b.ReportMetric(float64(table.Stats().Bytes)/float64(n), "B/record")
		})
	}
}

// BenchmarkVisit is a connection of a client that has a record: bind, accepted, release.
func BenchmarkVisit(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table, keys := filled(b, n)
			b.ResetTimer()
			for i := range b.N {
				visit(table, keys[i%n], web, n2)
			}
		})
	}
}

// BenchmarkBind is the first connection of a client in a table that is full.
func BenchmarkBind(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table, _ := filled(b, n)
			table.SetLimit(n)
			var addr [16]byte
			b.ResetTimer()
			for i := range b.N {
				addr[0], addr[1], addr[2], addr[3] = 1, byte(i>>16), byte(i>>8), byte(i)
				key := AddrKey(Simple, ScopeOf(Globals{}, v1, webPool), Mask{}, netip.AddrFrom16(addr))
				visit(table, key, web, n2)
			}
		})
	}
}

func BenchmarkVisitParallel(b *testing.B) {
	table, keys := filled(b, 100_000)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(keys)); pb.Next(); i++ {
			visit(table, keys[i%len(keys)], web, n2)
		}
	})
}

// BenchmarkGoMap is the yardstick for BenchmarkLookup in the same run: Go's map under sharded locks, with the least that
// a record needs and none of limits, expiry and order.
func BenchmarkGoMap(b *testing.B) {
	type entry struct {
		node          netip.AddrPort
		used, timeout int64
		_             PoolID
		_             [3]int64 // created, open connections, generation
	}
	type part struct {
		mu sync.Mutex
		m  map[Key]entry
	}
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table, keys := filled(b, n)
			var parts [shardCount]part
			at := func(k *Key) *part { return &parts[k.hash(table.seed)>>40%shardCount] }
			for i := range keys {
				p := at(&keys[i])
				if p.m == nil {
					p.m = map[Key]entry{}
				}
				p.m[keys[i]] = entry{node: n1, timeout: int64(web.Timeout)}
			}
			b.ResetTimer()
			for i := range b.N {
				p := at(&keys[i%n])
				now := table.clock()
				p.mu.Lock()
				if e, ok := p.m[keys[i%n]]; !ok || e.used > now {
					b.Fatal("record not found")
				}
				p.mu.Unlock()
			}
		})
	}
}
