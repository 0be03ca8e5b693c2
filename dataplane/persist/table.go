package persist

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultLimit is persist_table_limit when the configuration does not give one.
const DefaultLimit = 1_000_000

const (
	shardCount = 64
	// birth is the instant at which a table is made. It leaves room before it for records that are older than the table.
	birth = 1 << 62
)

// Options of a Table.
type Options struct {
	// Clock returns nanoseconds of a monotonic clock; where it starts and whether it overflows does not matter.
	// Nil: the system's.
	Clock func() int64
	// Limit is the greatest number of records, of all pools together; 0: no limit. SetLimit changes it.
	Limit int
}

// Table holds the records of all pools and recorded methods. It is safe for concurrent use, bounded, and has no lock
// that all connections take. Its owner calls Sweep about ten times a second.
type Table struct {
	clock  func() int64
	start  int64
	seed   maphash.Seed
	shards [shardCount]shard

	spaces  interner[space, space]
	classes interner[class, class]
	nodes   interner[netip.AddrPort, netip.AddrPort]
	pools   interner[PoolID, *poolState]

	count atomic.Int64 // seats taken
	limit atomic.Int64
	marks marks

	sweeping sync.Mutex
	next     int // shard that Sweep goes on with; guarded by sweeping
}

// poolState counts what belongs to a pool. It outlives the pool: one of the same name goes on with its number.
type poolState struct {
	id           PoolID
	number       uint32
	count, limit atomic.Int64
	marks        atomic.Pointer[marks]  // set with the first limit
	latest       atomic.Pointer[latest] // set with the first connection

	bound, moved, evicted, expired, cleared, full atomic.Uint64
}

// marks holds for each shard an instant that is not later than the last use of its oldest idle record. Written under the
// shard's lock.
type marks [shardCount]atomic.Uint64

func (m *marks) lower(shard int, instant uint64) {
	if instant < m[shard].Load() {
		m[shard].Store(instant)
	}
}

func (m *marks) set(shard int, instant uint64) { m[shard].Store(instant) }

// lowest returns the shard with the smallest mark and the smallest mark of the others.
func (m *marks) lowest() (shard int, mark, second uint64) {
	mark, second = never, never
	for i := range m {
		switch v := m[i].Load(); {
		case v < mark:
			shard, mark, second = i, v, mark
		case v < second:
			second = v
		}
	}
	return shard, mark, second
}

// New makes an empty table.
func New(o Options) *Table {
	if o.Clock == nil {
		origin := time.Now()
		o.Clock = func() int64 { return int64(time.Since(origin)) }
	}
	t := &Table{clock: o.Clock, start: o.Clock(), seed: maphash.MakeSeed()}
	t.spaces.value = same[space]
	t.classes.value = same[class]
	t.nodes.value = same[netip.AddrPort]
	var pools uint32
	t.pools.value = func(id PoolID) *poolState { // the interner calls it under its lock
		pools++
		return &poolState{id: id, number: pools - 1}
	}
	for i := range t.shards {
		t.shards[i].table, t.shards[i].number = t, i
		t.marks.set(i, never)
	}
	t.SetLimit(o.Limit)
	return t
}

// now is the present instant: nanoseconds, birth when the table was made. Instants never wrap.
func (t *Table) now() uint64 { return uint64(t.clock()-t.start) + birth }

func (t *Table) shardOf(hash uint64) *shard { return &t.shards[hash>>40%shardCount] }

func (t *Table) pool(number uint32) *poolState { return *t.pools.at(number) }

func (t *Table) poolOf(id PoolID) *poolState { return t.pool(t.pools.id(id)) }

// SetLimit sets the greatest number of records, of all pools together (persist_table_limit). 0: no limit. What is above
// goes with the next binds and sweeps, least recently used first.
func (t *Table) SetLimit(n int) { t.limit.Store(int64(n)) }

// SetPoolLimit sets the greatest number of records bound through one pool (persist_limit). 0: none of its own.
func (t *Table) SetPoolLimit(id PoolID, n int) {
	p := t.poolOf(id)
	if n > 0 && p.marks.Load() == nil {
		p.marks.CompareAndSwap(nil, new(marks)) // zero marks: nothing is known of any shard
	}
	p.limit.Store(int64(n))
}

// Len returns the number of records. Records that ran out count until a look-up or a sweep meets them.
func (t *Table) Len() int { return int(t.count.Load()) }

// Stats counts since the table was made; Records, Limit and Bytes are of now.
type Stats struct {
	Records int
	Limit   int   // 0: none
	Bytes   int64 // memory of records and index; of a single pool, its share of the records only

	Bound   uint64 // records made
	Moved   uint64 // records given another node
	Evicted uint64 // made room for others
	Expired uint64 // ran out
	Cleared uint64 // removed by Clear
	Full    uint64 // connections served without a record because there was no room
}

// Stats returns the figures of all pools together. It takes each shard's lock for a moment.
func (t *Table) Stats() Stats {
	var sum Stats
	for _, p := range t.pools.all() {
		p.addTo(&sum)
	}
	sum.Records, sum.Limit, sum.Bytes = t.Len(), int(t.limit.Load()), 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		sum.Bytes += int64(s.slab.bytes + s.index.bytes())
		if s.wheel.buckets != nil {
			sum.Bytes += 4 * wheelSlots
		}
		s.mu.Unlock()
	}
	return sum
}

// PoolStats returns the figures of the records that were bound through one pool.
func (t *Table) PoolStats(id PoolID) Stats {
	var sum Stats
	if number, ok := t.pools.find(id); ok {
		t.pool(number).addTo(&sum)
	}
	return sum
}

func (p *poolState) addTo(sum *Stats) {
	records := p.count.Load()
	sum.Records += int(records)
	sum.Limit = int(p.limit.Load())
	sum.Bytes += records * int64(slotSize)
	sum.Bound += p.bound.Load()
	sum.Moved += p.moved.Load()
	sum.Evicted += p.evicted.Load()
	sum.Expired += p.expired.Load()
	sum.Cleared += p.cleared.Load()
	sum.Full += p.full.Load()
}

// seat takes a place for one more record of the pool, if there is one.
func (t *Table) seat(p *poolState) bool {
	if limit := t.limit.Load(); t.count.Add(1) > limit && limit > 0 {
		t.count.Add(-1)
		return false
	}
	if limit := p.limit.Load(); p.count.Add(1) > limit && limit > 0 {
		t.leave(p)
		return false
	}
	return true
}

// leave gives a seat back.
func (t *Table) leave(p *poolState) {
	p.count.Add(-1)
	t.count.Add(-1)
}

// seatByEviction takes the place of the least recently used idle record: of the pool's, if the pool is at its limit,
// else of all. No shard may be locked by the caller.
func (t *Table) seatByEviction(p *poolState) bool {
	if t.seat(p) { // somebody left in the meantime
		return true
	}
	if limit := p.limit.Load(); limit > 0 && p.count.Load() >= limit {
		return t.evict(p) != nil
	}
	victim := t.evict(nil)
	if victim == nil {
		return false
	}
	victim.count.Add(-1)
	p.count.Add(1)
	return true
}

// evict removes the least recently used idle record of the pool, or of all if p is nil, and leaves its seat taken. It
// returns the pool whose record went, nil if every record has open connections.
func (t *Table) evict(p *poolState) *poolState {
	m := &t.marks
	if p != nil {
		m = p.marks.Load()
	}
	for tries := 4 * shardCount; tries > 0; tries-- {
		number, mark, second := m.lowest()
		if mark == never {
			return nil
		}
		if victim := t.shards[number].evict(p, m, second, tries == 1); victim != nil {
			return victim
		}
	}
	return nil
}

// evict removes the shard's oldest idle record if no other shard can have an older one, or anyway if told to insist.
// Either way the shard's mark is right afterwards.
func (s *shard) evict(p *poolState, m *marks, others uint64, insist bool) *poolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.oldest(p)
	if r == 0 {
		m.set(s.number, never)
		return nil
	}
	sl := s.slab.at(r)
	if sl.used > others && !insist {
		m.set(s.number, sl.used)
		return nil
	}
	victim := s.table.pool(s.classOf(sl).pool)
	if s.expired(r, s.table.now()) {
		victim.expired.Add(1)
	} else {
		victim.evicted.Add(1)
	}
	s.erase(r)
	if r = s.oldest(p); r != 0 {
		m.set(s.number, s.slab.at(r).used)
	} else {
		m.set(s.number, never)
	}
	return victim
}

func (s *shard) oldest(p *poolState) ref {
	if p == nil {
		return s.recency.oldest(&s.slab)
	}
	return s.recency.oldestOf(p.number)
}
