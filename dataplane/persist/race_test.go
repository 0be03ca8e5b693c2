package persist

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// Pain 69: never two live records for a key, whatever happens at once.
func TestPain69Stress(t *testing.T) {
	table, clock := newTable(t, 600)
	table.SetPoolLimit(sslPool, 300)
	nodes := []netip.AddrPort{n1, n2, n3}
	policies := []Policy{{Pool: webPool, Timeout: 2 * time.Second}, {Pool: sslPool, Timeout: 3 * time.Second, Timer: Fixed}, {Pool: sslPool}}
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			held := make([]Binding, 8)
			for range rounds {
				k, p := client(rand.IntN(1000)), policies[rand.IntN(3)]
				b := &held[rand.IntN(len(held))]
				table.Release(&b.Handle)
				*b = table.Bind(k, p, pick(nodes[rand.IntN(3)]))
				if rand.IntN(4) == 0 {
					table.Rebind(k, p, b, pick(nodes[rand.IntN(3)]))
				}
				if rand.IntN(8) != 0 {
					table.Accepted(&b.Handle)
				}
				if rand.IntN(2) == 0 {
					table.Release(&b.Handle)
				}
			}
			for i := range held {
				table.Release(&held[i].Handle)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	working := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	for i := 0; working(); i++ {
		clock.add(20 * time.Millisecond)
		table.Sweep(500)
		checkOne(t, &table.shards[i%shardCount])
		for r := range table.List(Filter{}) {
			if !slices.Contains(nodes, r.Node) || r.Key.Kind() != Simple {
				t.Errorf("no such record: %+v", r)
			}
		}
		switch i % 10 {
		case 3:
			table.Clear(Filter{Node: nodes[i%3], Older: time.Second}, nil)
		case 6:
			table.Retime(func(r *Record) (Policy, bool) { return policies[i%2], r.Pool == policies[i%2].Pool })
		case 9:
			r, ok := table.Lookup(client(i % 1000))
			if ok {
				table.Import(r)
			}
		}
		if n := table.Len(); n > 600+8 { // a seat is counted for a moment before it is refused
			t.Errorf("%d records, the limit is 600", n)
		}
	}
	for r := range table.List(Filter{}) {
		if r.Open != 0 {
			t.Errorf("nobody holds it: %+v", r)
		}
	}
}

// checkOne checks a shard while others work on the table.
func checkOne(t *testing.T, s *shard) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	checkShard(t, s, map[uint32]int{}, map[*marks]map[int]uint64{&s.table.marks: {}})
}

// Pains 63 with real concurrency: the goroutines agree on one node, and after its refusal on another.
func TestPain63Together(t *testing.T) {
	table, _ := newTable(t, 0)
	nodes := []netip.AddrPort{n1, n2, n3}
	for round := range 200 {
		k := client(round)
		var wg sync.WaitGroup
		var first, second [12]netip.AddrPort
		var bound, refused, done sync.WaitGroup
		bound.Add(12)
		refused.Add(12)
		done.Add(12)
		for i := range 12 {
			wg.Go(func() {
				b := table.Bind(k, web, pick(nodes[i%3]))
				first[i] = b.Node
				bound.Done()
				bound.Wait()
				for j := i; ; j++ {
					if other := nodes[j%3]; other != b.Node {
						table.Rebind(k, web, &b, pick(other))
						break
					}
				}
				second[i] = b.Node
				refused.Done()
				refused.Wait()
				table.Accepted(&b.Handle)
				done.Done()
				done.Wait()
				table.Release(&b.Handle)
			})
		}
		wg.Wait()
		for i := range 12 {
			if first[i] != first[0] || second[i] != second[0] || second[i] == first[0] {
				t.Fatalf("round %d: first choices %v, second %v", round, first, second)
			}
		}
	}
	if table.Len() != 200 {
		t.Errorf("%d records for 200 clients", table.Len())
	}
}
