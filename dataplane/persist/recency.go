package persist

import (
	"math"
	"slices"
)

// never is later than every instant.
const never = math.MaxUint64

// recency orders the idle records of a shard by last use: a list per pool, and a heap of the lists for the oldest of
// all. The heap is put right only when somebody asks, so that a connection costs two list operations and no more.
type recency struct {
	lists []lru    // by pool number
	heap  []uint32 // pool numbers, the one with the smallest floor first; some lists may have become empty
}

type lru struct {
	oldest, newest ref
	floor          uint64 // in the heap, and no record of the list was used before; 0: not in the heap
}

// insertSteps bounds the search for the place of a slot whose last use is not the latest.
const insertSteps = 16

// insert enters a slot at the place of its last use, which is at or near the end: only connections that failed and
// imported records are not the latest.
func (q *recency) insert(b *slab, pool uint32, r ref) {
	for int(pool) >= len(q.lists) {
		q.lists = append(q.lists, lru{})
	}
	l := &q.lists[pool]
	s := b.at(r)
	s.flags |= flagListed
	s.older, s.newer = l.newest, 0
	for n := insertSteps; n > 0 && s.older != 0 && b.at(s.older).used > s.used; n-- {
		s.older, s.newer = b.at(s.older).older, s.older
	}
	if s.older != 0 {
		b.at(s.older).newer = r
	} else {
		l.oldest = r
	}
	if s.newer != 0 {
		b.at(s.newer).older = r
	} else {
		l.newest = r
	}
	switch {
	case l.floor == 0:
		l.floor = s.used
		q.heap = append(q.heap, pool)
		q.up(len(q.heap) - 1)
	case s.used < l.floor:
		l.floor = s.used
		q.up(slices.Index(q.heap, pool))
	}
}

// remove takes a slot out.
func (q *recency) remove(b *slab, pool uint32, r ref) {
	l := &q.lists[pool]
	s := b.at(r)
	s.flags &^= flagListed
	if s.older != 0 {
		b.at(s.older).newer = s.newer
	} else {
		l.oldest = s.newer
	}
	if s.newer != 0 {
		b.at(s.newer).older = s.older
	} else {
		l.newest = s.older
	}
	s.older, s.newer = 0, 0
}

// oldest returns the idle slot that was used least recently, 0 if there is none.
func (q *recency) oldest(b *slab) ref {
	for len(q.heap) > 0 {
		l := &q.lists[q.heap[0]]
		if l.oldest == 0 {
			l.floor = 0
			last := len(q.heap) - 1
			q.heap[0] = q.heap[last]
			q.heap = q.heap[:last]
			q.down(0)
			continue
		}
		used := b.at(l.oldest).used
		if used <= l.floor {
			return l.oldest
		}
		l.floor = used
		q.down(0)
	}
	return 0
}

// oldestOf is oldest for one pool.
func (q *recency) oldestOf(pool uint32) ref {
	if int(pool) >= len(q.lists) {
		return 0
	}
	return q.lists[pool].oldest
}

func (q *recency) less(i, j int) bool { return q.lists[q.heap[i]].floor < q.lists[q.heap[j]].floor }

func (q *recency) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *recency) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if child+1 < len(q.heap) && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
