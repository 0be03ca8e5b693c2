package persist

import (
	"cmp"
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
func (q *recency) insert(b *slab, pool uint32, r ref) { q.insertWithin(b, pool, r, insertSteps) }

// insertLast enters a slot at the end; sort is to follow.
func (q *recency) insertLast(b *slab, pool uint32, r ref) { q.insertWithin(b, pool, r, 0) }

func (q *recency) insertWithin(b *slab, pool uint32, r ref, steps int) {
	for int(pool) >= len(q.lists) {
		q.lists = append(q.lists, lru{})
	}
	l := &q.lists[pool]
	s := b.at(r)
	s.flags |= flagListed
	older, newer := l.newest, ref(0)
	for n := steps; n > 0 && older != 0 && b.at(older).used > s.used; n-- {
		older, newer = b.rest(older).older, older
	}
	l.join(b, older, r)
	l.join(b, r, newer)
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

// join makes two slots neighbours; 0 is the end of the list.
func (l *lru) join(b *slab, older, newer ref) {
	if older != 0 {
		b.rest(older).newer = newer
	} else {
		l.oldest = newer
	}
	if newer != 0 {
		b.rest(newer).older = older
	} else {
		l.newest = older
	}
}

// sort puts every list in order, however it was entered.
func (q *recency) sort(b *slab) {
	for i := range q.lists {
		l := &q.lists[i]
		var refs []ref
		for r := l.oldest; r != 0; r = b.rest(r).newer {
			refs = append(refs, r)
		}
		slices.SortStableFunc(refs, func(x, y ref) int { return cmp.Compare(b.at(x).used, b.at(y).used) })
		last := ref(0)
		for _, r := range refs {
			l.join(b, last, r)
			last = r
		}
		l.join(b, last, 0)
	}
}

// remove takes a slot out.
func (q *recency) remove(b *slab, pool uint32, r ref) {
	l := &q.lists[pool]
	b.at(r).flags &^= flagListed
	s := b.rest(r)
	l.join(b, s.older, s.newer)
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
