package pool

import "testing"

// A pool that comes back under the name of one that was removed has the limit that it says itself: none.
func TestLimitOfRemovedPool(t *testing.T) {
	b := newBench(t)
	limited := simple("p", 60, "10.1.1.1:80")
	limited.PersistLimit = new(uint32(1))
	if p := b.set(limited); p.recordStats().Limit != 1 {
		t.Fatalf("limit %d, want 1", p.recordStats().Limit)
	}
	delete(b.pools, "p")
	if p := b.set(simple("p", 60, "10.1.1.1:80")); p.recordStats().Limit != 0 {
		t.Errorf("limit %d, want none", p.recordStats().Limit)
	}
}
