package persist

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

// Random addresses that come by the thousands push out what is idle, never more than the limit takes memory, and the records of
// open connections stay where they are, also while all this is written to a file.
func TestAttack(t *testing.T) {
	const limit, open, strangers = 2_000, 500, 60_000
	table, clock := newTable(t, limit)
	held := make([]Binding, open)
	for i := range held {
		held[i] = table.Bind(client(i), web, pick(n1))
		table.Accepted(&held[i].Handle)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var addr [16]byte
			for range strangers / 2 {
				binary.BigEndian.PutUint64(addr[8:], rand.Uint64())
				visit(table, AddrKey(Simple, Scope{}, Mask{}, netip.AddrFrom16(addr)), web, n2)
			}
		})
	}
	attacked := make(chan struct{})
	go func() {
		wg.Wait()
		close(attacked)
	}()
	most := int64(0)
	for over := false; !over; {
		select {
		case <-attacked:
			over = true
		default:
		}
		changes(table, clock.now())
		table.Sweep(100)
		most = max(most, table.Stats().Bytes)
		if n := table.Len(); n > limit+2 { // a seat is counted for a moment before it is refused
			t.Fatalf("pain 72: %d records, the limit is %d", n, limit)
		}
	}
	t.Run("pain-72_open_connections_keep_their_records", func(t *testing.T) {
		for i := range held {
			if r, ok := table.Lookup(client(i)); !ok || r.Node != n1 || r.Open != 1 {
				t.Fatalf("client %d: %+v, %v", i, r, ok)
			}
		}
		s := table.Stats()
		if s.Bound != open+strangers || s.Evicted != open+strangers-limit || s.Full != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("pain-72_memory_stays_at_the_limit", func(t *testing.T) {
		// Each shard may have a chunk that is not full, an index twice as large as needed, and one that it moves to.
		const allowed = (limit+shardCount*chunkSlots)*int64(slotSize) + shardCount*(4*wheelSlots+3*4*256)
		if most > allowed {
			t.Errorf("%d bytes, allowed are %d", most, allowed)
		}
	})
	for i := range held {
		table.Release(&held[i].Handle)
	}
}
