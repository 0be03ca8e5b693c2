package persist

import (
	"iter"
	"runtime"
	"time"
)

// sweepSlice is the number of records that Sweep looks at under one lock.
const sweepSlice = 128

// List returns the records that the filter chooses, in no order. A record that is there all the time comes once; others
// may come or not. No lock is held while the caller's loop body runs.
func (t *Table) List(f Filter) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		slice := make([]Record, 0, chunkSlots)
		t.walk(func(s *shard, refs []ref) {
			now := t.now()
			slice = slice[:0]
			for _, r := range refs {
				slice = append(slice, Record{})
				rec := &slice[len(slice)-1]
				if s.record(rec, r, now); !f.Match(rec) {
					slice = slice[:len(slice)-1]
				}
			}
		}, func() bool {
			for _, rec := range slice {
				if !yield(rec) {
					return false
				}
			}
			return true
		})
	}
}

// Clear removes the records that the filter chooses and keep does not want, those with open connections too, and returns
// how many. The connections go on. keep runs under a lock; it must be quick and must not call the table. Nil keeps none.
func (t *Table) Clear(f Filter, keep func(*Record) bool) int {
	cleared := 0
	t.walk(func(s *shard, refs []ref) {
		now := t.now()
		for _, r := range refs {
			var rec Record
			if s.record(&rec, r, now); f.Match(&rec) && (keep == nil || !keep(&rec)) {
				s.drop(r, func(p *poolState) { p.cleared.Add(1) })
				cleared++
			}
		}
	}, func() bool { return true })
	return cleared
}

// Retime gives existing records the timing that a changed configuration wants: policy is asked for each record and
// returns its Timeout and Timer, or false to leave it. What has run out by the new timing is gone at once. policy runs
// under a lock; it must be quick and must not call the table. It returns the number of records changed.
func (t *Table) Retime(policy func(*Record) (Policy, bool)) int {
	changed := 0
	t.walk(func(s *shard, refs []ref) {
		now := t.now()
		for _, r := range refs {
			var rec Record
			s.record(&rec, r, now)
			p, ok := policy(&rec)
			p.Pool = rec.Refresher
			if sl := s.slab.at(r); ok && !s.classOf(sl).follows(&p) {
				pool := t.pool(s.classOf(sl).pool)
				s.retime(r, t.classFor(pool, &p), now)
				changed++
			}
		}
	}, func() bool { return true })
	return changed
}

// walk calls visit with slices of live records, under their shard's lock, and after each slice, without the lock, next,
// until that returns false.
func (t *Table) walk(visit func(*shard, []ref), next func() bool) {
	var buf [chunkSlots]ref
	for i := range t.shards {
		s := &t.shards[i]
		for chunk := 0; ; chunk++ {
			s.mu.Lock()
			if chunk >= len(s.slab.pages) {
				s.mu.Unlock()
				break
			}
			visit(s, s.liveIn(chunk, buf[:0]))
			s.mu.Unlock()
			if !next() {
				return
			}
			runtime.Gosched()
		}
	}
}

// liveIn appends the slots of a chunk whose records have not run out.
func (s *shard) liveIn(chunk int, refs []ref) []ref {
	p := s.slab.pages[chunk]
	if p == nil {
		return refs
	}
	now := s.table.now()
	for i := range p.slots {
		if p.rests[i].gen != 0 && !s.expired(refOf(chunk, i), now) {
			refs = append(refs, refOf(chunk, i))
		}
	}
	return refs
}

// Import adds a record that another table listed: that of the process before, or a peer's. Its Remaining counts from now
// and is capped at its Timeout. It is not taken (false) if its member had not accepted, if it has run out, if there is no
// room, or if the table has a record of the key that is in use or was used later. Records that come least recently
// used first keep their order of eviction.
func (t *Table) Import(rec Record) bool {
	c, used, created, ok := t.timesOf(&rec)
	if !ok {
		return false
	}
	hash, now := rec.Key.hash(t.seed), t.now()
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.live(&rec.Key, hash, now); r != 0 {
		if sl := s.slab.at(r); sl.flags&flagOpen != 0 || sl.used >= used {
			return false
		}
		s.drop(r, func(*poolState) {})
	}
	r := s.admit(&rec, hash, c, now, created, used)
	if r == 0 {
		return false
	}
	s.list(r)
	return true
}

// timesOf returns when a record of another table was used and created, by the clock of this one; false: it is none to be taken.
func (t *Table) timesOf(rec *Record) (c class, used, created uint64, ok bool) {
	c = rec.class()
	remaining := min(rec.Remaining, c.timeout)
	if rec.Key.IsZero() || !rec.Accepted || !rec.Node.IsValid() || c.timeout > 0 && remaining <= 0 {
		return c, 0, 0, false
	}
	now := t.now()
	used = before(now, rec.Idle)
	created = before(now, max(rec.Age, rec.Idle))
	switch {
	case c.timeout == 0:
	case c.timer == Fixed:
		created = before(now, c.timeout-remaining)
		used = max(used, created)
	default:
		used = before(now, c.timeout-remaining)
		created = min(created, used)
	}
	return c, used, created, true
}

// class is what the record has in common with others, without the number of its pool.
func (r *Record) class() class {
	return class{refresher: r.Refresher, timeout: max(r.Timeout, 0), timer: r.Timer}
}

// admit makes the record of another table, idle and accepted; the caller must list it. 0: there is no room.
func (s *shard) admit(rec *Record, hash uint64, c class, now, created, used uint64) ref {
	t := s.table
	pool := t.poolOf(rec.Pool)
	c.pool = pool.number
	if !t.seat(pool) {
		return 0
	}
	r := s.create(&rec.Key, hash, t.classes.id(c), t.nodes.id(rec.Node), now)
	if r == 0 {
		t.leave(pool)
		return 0
	}
	sl := s.slab.at(r)
	sl.flags |= flagAccepted
	sl.used, s.slab.rest(r).created = used, created
	s.retime(r, sl.class, now)
	return r
}

// before is the instant that long ago, no earlier than the first that there is.
func before(now uint64, ago time.Duration) uint64 {
	return now - min(uint64(max(ago, 0)), birth-1)
}

// Sweep removes records that have run out or are above the limits. It looks at about budget records at most and goes on
// where the last call stopped; it returns how many it removed. A record that ran out is gone within two seconds if the
// budget is enough; it is never matched in any case.
func (t *Table) Sweep(budget int) int {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	now := t.now()
	removed := t.shrink(budget)
	budget -= removed
	for visits := 0; visits < shardCount && budget > 0; {
		s := &t.shards[t.next]
		s.mu.Lock()
		slice := min(budget, sweepSlice)
		expired, left := s.sweep(now, slice)
		s.mu.Unlock()
		removed += expired
		budget -= slice - left
		if left > 0 { // this shard is done
			t.next = (t.next + 1) % shardCount
			visits++
		}
	}
	return removed
}

// shrink evicts up to budget records that are above a limit which was lowered.
func (t *Table) shrink(budget int) int {
	evicted := 0
	over := func(count, limit int64) bool { return limit > 0 && count > limit && evicted < budget }
	for over(t.count.Load(), t.limit.Load()) {
		victim := t.evict(nil)
		if victim == nil {
			break
		}
		t.leave(victim)
		evicted++
	}
	for _, p := range t.pools.all() {
		for over(p.count.Load(), p.limit.Load()) && t.evict(p) != nil {
			t.leave(p)
			evicted++
		}
	}
	return evicted
}
