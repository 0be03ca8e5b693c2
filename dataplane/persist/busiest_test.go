package persist

import (
	"testing"
	"time"
)

func TestBusiest(t *testing.T) {
	table, clock := newTable(t, 0)
	if key, share := table.Busiest(web.Pool); share != 0 || !key.IsZero() {
		t.Errorf("of no connection: %v %v", key, share)
	}
	for range latestLeast - 1 {
		visit(table, client(1), web, n1)
	}
	if _, share := table.Busiest(web.Pool); share != 0 {
		t.Errorf("of a few connections: %v", share)
	}
	within := func(name string, key Key, low, high float64) {
		t.Helper()
		t.Run("pain-83_"+name, func(t *testing.T) {
			if got, share := table.Busiest(web.Pool); got != key || share < low || share > high {
				t.Errorf("%v %v, want %v from %v to %v", got, share, key, low, high)
			}
		})
	}
	for range 3000 {
		visit(table, client(1), web, n1)
	}
	within("one_key", client(1), 1, 1)
	for i := range 8000 {
		if i%5 < 2 {
			visit(table, client(2), web, n1)
		} else {
			visit(table, client(10+i), web, n1)
		}
	}
	within("two_of_five_connections", client(2), 0.25, 0.55)
	for range 200 { // of another pool they do not count here
		visit(table, client(3), Policy{Pool: sslPool, Timeout: time.Minute}, n1)
	}
	within("another_pool", client(2), 0.25, 0.55)
	clock.add(web.Timeout)
	within("record_that_is_gone", Key{}, 0.25, 0.55)
}
