package persist

import (
	"slices"
	"sync/atomic"
)

const (
	latestKept  = 256 // samples of a pool
	latestOneIn = 8   // connections of a shard are sampled, once so many were
	latestLeast = 16  // samples that say something
)

// latest holds hashes of the keys of a pool's latest connections.
type latest struct {
	count  atomic.Uint64 // that were taken
	hashes [latestKept]atomic.Uint64
}

// note takes in the key of a connection; nth counts those of its shard.
func (l *latest) note(hash uint64, nth uint32) {
	if nth%latestOneIn != 0 && l.count.Load() >= latestKept {
		return
	}
	l.hashes[(l.count.Add(1)-1)%latestKept].Store(hash)
}

// busiest returns the hash that comes most often, and its share.
func (l *latest) busiest() (hash uint64, share float64) {
	n := min(l.count.Load(), latestKept)
	if n < latestLeast {
		return 0, 0
	}
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = l.hashes[i].Load()
	}
	slices.Sort(hashes)
	most, run := 0, 0
	for i, h := range hashes {
		if i > 0 && h != hashes[i-1] {
			run = 0
		}
		if run++; run > most {
			most, hash = run, h
		}
	}
	return hash, float64(most) / float64(n)
}

// noteKey samples the keys of a pool's connections. The caller has locked s.
func (s *shard) noteKey(p *poolState, hash uint64) {
	l := p.latest.Load()
	if l == nil {
		p.latest.CompareAndSwap(nil, new(latest))
		l = p.latest.Load()
	}
	s.joins++
	l.note(hash, s.joins)
}

// Busiest returns the key that most of a pool's latest connections had, and its share of them from 0 to 1 (pain 83: where all clients
// come through one proxy, it is 1). It is estimated from 256 of the last two thousand or so. The share is 0 where there were too
// few; the key is zero if its record is gone.
func (t *Table) Busiest(id PoolID) (key Key, share float64) {
	number, ok := t.pools.find(id)
	if !ok {
		return key, 0
	}
	l := t.pool(number).latest.Load()
	if l == nil {
		return key, 0
	}
	hash, share := l.busiest()
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.index.find(hash, func(r ref) bool { return s.hashOf(r) == hash }); r != 0 && !s.expired(r, t.now()) {
		s.keyInto(&key, r)
	}
	return key, share
}
