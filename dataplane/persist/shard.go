package persist

import (
	"math"
	"net/netip"
	"sync"
	"time"
)

// shard holds a part of the keys. Everything in it is guarded by mu.
type shard struct {
	mu      sync.Mutex
	table   *Table
	number  int
	index   index // beside mu and before slab: look-ups read what is near
	slab    slab
	recency recency
	wheel   wheel
	gen     uint32 // the last that was given to a slot
	joins   uint32 // connections that were given a record
	_       [64]byte
}

// class is what the records of a pool with the same timing have in common.
type class struct {
	pool      uint32 // number of the pool that bound the record
	refresher PoolID
	timeout   time.Duration
	timer     Timer
}

func (c *class) follows(p *Policy) bool {
	return c.refresher == p.Pool && c.timeout == p.Timeout && c.timer == p.Timer
}

func (s *shard) classOf(r *slot) *class { return s.table.classes.at(r.class) }

// find returns the slot of the key, whether it has run out or not.
func (s *shard) find(k *Key, hash uint64) ref {
	return s.index.find(hash, func(r ref) bool {
		sl := s.slab.at(r)
		return sl.length == k.length && sl.key == [narrowKey]byte(k.data[:narrowKey]) &&
			(!k.wide() || *s.slab.tail(r) == [wideKey - narrowKey]byte(k.data[narrowKey:])) &&
			*s.table.spaces.at(sl.space) == k.space
	})
}

// live is find that removes a record that has run out.
func (s *shard) live(k *Key, hash, now uint64) ref {
	r := s.find(k, hash)
	if r != 0 && s.expired(r, now) {
		s.expire(r)
		return 0
	}
	return r
}

// expired reports whether the record has run out.
func (s *shard) expired(r ref, now uint64) bool { return s.deadline(r, now) <= now }

// deadline is the instant at which the record runs out if nothing happens from now on. Under the idle timer it does not run
// out while connections are open; under the fixed timer it does (rule B-13).
func (s *shard) deadline(r ref, now uint64) uint64 {
	sl := s.slab.at(r)
	c := s.classOf(sl)
	since := sl.used
	switch {
	case c.timeout == 0:
		return never
	case c.timer == Fixed:
		since = s.slab.rest(r).created
	case sl.flags&flagOpen != 0:
		since = now
	}
	if d := since + uint64(c.timeout); d >= since {
		return d
	}
	return never
}

// elapsed is the time between two instants, 0 if they are the wrong way round.
func elapsed(since, now uint64) time.Duration {
	if now <= since {
		return 0
	}
	return time.Duration(min(now-since, math.MaxInt64))
}

// create stores a record, not accepted and held by nobody; the caller must hold it or list it. The table's seat is
// taken already. It returns 0 when the shard has no slot left.
func (s *shard) create(k *Key, hash uint64, class, node uint32, now uint64) ref {
	r := s.slab.take(k.wide())
	if r == 0 {
		return 0
	}
	sl := s.slab.at(r)
	sl.length = k.length
	sl.key = [narrowKey]byte(k.data[:narrowKey])
	if k.wide() {
		*s.slab.tail(r) = [wideKey - narrowKey]byte(k.data[narrowKey:])
	}
	sl.space = s.table.spaces.id(k.space)
	if s.index.live == 0 {
		s.wheel.tick = tickOf(now)
	}
	s.index.add(hash, r, s.hashOf)
	s.assign(r, class, node, now)
	return r
}

// assign gives a slot a new binding: handles on what it was before are void from now on. Nobody holds the new one.
func (s *shard) assign(r ref, class, node uint32, now uint64) {
	s.unlist(r)
	s.gen++
	if s.gen == 0 {
		s.gen = 1
	}
	sl, rest := s.slab.at(r), s.slab.rest(r)
	sl.node, sl.used = node, now
	sl.flags &^= flagAccepted | flagOpen
	rest.gen, rest.open, rest.created = s.gen, 0, now
	s.retime(r, class, now)
}

// retime puts a slot under another class: of the same pool, unless the slot is not listed.
func (s *shard) retime(r ref, class uint32, now uint64) {
	sl := s.slab.at(r)
	sl.class = class
	sl.flags &^= flagKept
	s.slab.trace(r)
	s.wheel.remove(&s.slab, r)
	if d := s.deadline(r, now); d != never {
		s.wheel.add(&s.slab, r, d, s.wheel.tick)
	}
}

// list enters an idle record into the order of eviction.
func (s *shard) list(r ref) {
	sl := s.slab.at(r)
	pool := s.classOf(sl).pool
	s.recency.insert(&s.slab, pool, r)
	s.slab.trace(r)
	s.table.marks.lower(s.number, sl.used)
	if m := s.table.pool(pool).marks.Load(); m != nil {
		m.lower(s.number, sl.used)
	}
}

func (s *shard) unlist(r ref) {
	if sl := s.slab.at(r); sl.flags&flagListed != 0 {
		s.recency.remove(&s.slab, s.classOf(sl).pool, r)
	}
}

// hold counts a connection on the record.
func (s *shard) hold(r ref) {
	s.unlist(r)
	if sl := s.slab.at(r); sl.flags&flagOpen == 0 {
		sl.flags |= flagOpen
		s.slab.trace(r)
	}
	s.slab.rest(r).open++
}

// unhold takes a connection off the record. One that nobody holds any more must be listed or dropped.
func (s *shard) unhold(r ref) {
	rest := s.slab.rest(r)
	if rest.open--; rest.open == 0 {
		s.slab.at(r).flags &^= flagOpen
	}
}

// erase removes a record and leaves its seat taken.
func (s *shard) erase(r ref) {
	s.unlist(r)
	s.wheel.remove(&s.slab, r)
	s.index.remove(s.hashOf(r), r, s.hashOf)
	s.slab.give(r)
}

// drop removes a record, gives its seat back and lets count tell its pool why.
func (s *shard) drop(r ref, count func(*poolState)) {
	p := s.table.pool(s.classOf(s.slab.at(r)).pool)
	s.erase(r)
	s.table.leave(p)
	count(p)
}

// expire drops a record that has run out.
func (s *shard) expire(r ref) { s.drop(r, func(p *poolState) { p.expired.Add(1) }) }

// hashOf computes a stored record's hash anew.
func (s *shard) hashOf(r ref) uint64 {
	var k Key
	s.keyInto(&k, r)
	return k.hash(s.table.seed)
}

// keyInto puts the slot's key into the zero Key k.
func (s *shard) keyInto(k *Key, r ref) {
	sl := s.slab.at(r)
	k.space, k.length = *s.table.spaces.at(sl.space), sl.length
	*(*[narrowKey]byte)(k.data[:]) = sl.key
	if k.wide() {
		*(*[wideKey - narrowKey]byte)(k.data[narrowKey:]) = *s.slab.tail(r)
	}
}

func (s *shard) nodeOf(r *slot) netip.AddrPort { return *s.table.nodes.at(r.node) }

// record copies the slot into the zero Record rec.
func (s *shard) record(rec *Record, r ref, now uint64) {
	s.keyInto(&rec.Key, r)
	sl := s.slab.at(r)
	c := s.classOf(sl)
	rec.Node = s.nodeOf(sl)
	rec.Pool, rec.Refresher = s.table.pool(c.pool).id, c.refresher
	rec.Timeout, rec.Timer = c.timeout, c.timer
	rec.Age = elapsed(s.slab.rest(r).created, now)
	rec.Open = int(s.slab.rest(r).open)
	rec.Accepted = sl.flags&flagAccepted != 0
	if rec.Open == 0 {
		rec.Idle = elapsed(sl.used, now)
	}
	rec.Remaining = Forever
	if d := s.deadline(r, now); d != never {
		rec.Remaining = elapsed(now, d)
	}
}

// sweep looks at up to budget records whose time may have come and returns what is left of the budget.
func (s *shard) sweep(now uint64, budget int) (expired, left int) {
	if s.index.live == 0 {
		if s.slab.bytes > 0 { // give all memory back
			s.slab, s.index, s.recency, s.wheel = slab{traces: s.slab.traces, tellings: s.slab.tellings, mirrored: s.slab.mirrored}, index{}, recency{}, wheel{}
			s.table.marks.set(s.number, never)
		}
		return 0, budget
	}
	s.index.step(moveStep, s.hashOf)
	w := &s.wheel
	w.catchUp(now)
	for w.tick < tickOf(now) && budget > 0 {
		budget--
		if w.buckets == nil {
			w.tick = tickOf(now)
			break
		}
		r := w.buckets[w.tick%wheelSlots]
		if r == 0 {
			w.tick++
			continue
		}
		if s.expired(r, now) {
			s.expire(r)
			expired++
			continue
		}
		w.remove(&s.slab, r)
		w.add(&s.slab, r, s.deadline(r, now), w.tick+1)
	}
	return expired, budget
}
