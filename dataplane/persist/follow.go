package persist

import (
	"sync"
	"time"
)

// useSlack is by how much the other side's times may be off here: a record that was used later than that was used here.
const useSlack = time.Second

// copied is where a record that came from the other side is, and when it was used there.
type copied struct {
	place
	used uint64
}

// Follower takes into a table what the Publisher of another table hands on. Records that the own table has in use, or used later,
// stay; and what comes from there is not published from here.
type Follower struct {
	table  *Table
	policy func(*Record, PoolID) (Policy, bool)

	mu     sync.Mutex
	epoch  uint64
	places map[uint32]*[chunkSlots]copied // by the first number of a chunk
	stale  map[place]uint64               // of the epoch before, until the new one is whole; when they were used
	taken  uint64
	passed uint64
}

// NewFollower returns a follower. policy says how a record lives in a pool here; false: it is not taken. Their timers
// are this side's, so that no clock of the other side can make them last longer.
func NewFollower(t *Table, policy func(*Record, PoolID) (Policy, bool)) *Follower {
	return &Follower{table: t, policy: policy, places: map[uint32]*[chunkSlots]copied{}}
}

// Receive is Apply of a batch in its binary form. After an error that is not ErrBehind the sender is none that can be believed,
// and nothing was taken.
func (f *Follower) Receive(text []byte) error {
	var b Batch
	if err := b.UnmarshalBinary(text); err != nil {
		return err
	}
	return f.Apply(&b)
}

// Apply takes a batch. ErrBehind: it follows one that did not come.
func (f *Follower) Apply(b *Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.Epoch != f.epoch || b.Epoch == 0 {
		if !b.First || b.Epoch == 0 {
			return ErrBehind
		}
		f.begin(b.Epoch)
	}
	for i := range b.Entries {
		f.follow(&b.Entries[i])
	}
	if b.Whole {
		for p, used := range f.stale {
			f.drop(copied{p, used})
		}
		f.stale = nil
	}
	return nil
}

// Counts returns how many records were taken, and how many were not: of unknown pools, run out, or older than what is here.
func (f *Follower) Counts() (taken, passed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken, f.passed
}

func (f *Follower) begin(epoch uint64) {
	if f.stale == nil {
		f.stale = map[place]uint64{}
	}
	for _, chunk := range f.places {
		for _, p := range chunk {
			if p.slot != 0 {
				f.stale[p.place] = p.used
			}
		}
	}
	f.epoch, f.places = epoch, map[uint32]*[chunkSlots]copied{}
}

func (f *Follower) follow(e *Entry) {
	first, i := e.Place&^(chunkSlots-1), e.Place&(chunkSlots-1)
	chunk := f.places[first]
	if chunk == nil {
		if e.Record.Key.IsZero() {
			return
		}
		chunk = new([chunkSlots]copied)
		f.places[first] = chunk
	}
	before := chunk[i]
	chunk[i] = copied{}
	if !e.Record.Key.IsZero() {
		chunk[i] = f.take(e.Record)
	}
	if before.place != chunk[i].place {
		f.drop(before)
	}
	if *chunk == ([chunkSlots]copied{}) {
		delete(f.places, first)
	}
}

// take puts a record into the table and returns where it is; nowhere when it was not taken.
func (f *Follower) take(rec Record) copied {
	policy, ok := f.policy(&rec, rec.Refresher)
	if ok && rec.Pool != rec.Refresher {
		_, ok = f.policy(&rec, rec.Pool)
	}
	if ok {
		rec.Timeout, rec.Timer = policy.Timeout, policy.Timer
		if rec.Remaining == Forever {
			rec.Remaining = rec.Timeout
		}
		if r := f.table.adopt(&rec); r.slot != 0 {
			delete(f.stale, r.place)
			f.taken++
			return r
		}
	}
	f.passed++
	return copied{}
}

// drop removes the record of a place if it is still that, and neither in use here nor used here since it came.
func (f *Follower) drop(p copied) {
	if p.slot == 0 {
		return
	}
	delete(f.stale, p.place)
	s := &f.table.shards[p.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.slab.has(p.slot) || s.slab.rest(p.slot).gen != p.gen {
		return
	}
	if sl := s.slab.at(p.slot); sl.flags&flagOpen == 0 && sl.used <= p.used+uint64(useSlack) {
		s.drop(p.slot, func(*poolState) {})
	}
}

// adopt is Import of a record that may be there already, from the same source.
func (t *Table) adopt(rec *Record) copied {
	c, used, created, ok := t.timesOf(rec)
	if !ok {
		return copied{}
	}
	hash, now := rec.Key.hash(t.seed), t.now()
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.live(&rec.Key, hash, now)
	if r != 0 {
		sl := s.slab.at(r)
		switch same := s.nodeOf(sl) == rec.Node && sl.flags&flagAccepted != 0; {
		case same && (sl.flags&flagOpen != 0 || sl.used >= used && s.slab.rest(r).created+uint64(useSlack) >= created):
			return copied{place{slot: r, gen: s.slab.rest(r).gen, shard: uint8(s.number)}, used}
		case sl.flags&flagOpen != 0 || sl.used > used:
			return copied{}
		}
		s.drop(r, func(*poolState) {})
	}
	if r = s.admit(rec, hash, c, now, created, used); r == 0 {
		return copied{}
	}
	s.list(r)
	if chunk := int((r - 1) >> chunkBits); chunk < len(s.slab.tellings) { // no echo
		s.slab.tellings[chunk].fresh.remove(int((r - 1) & (chunkSlots - 1)))
	}
	return copied{place{slot: r, gen: s.slab.rest(r).gen, shard: uint8(s.number)}, used}
}
