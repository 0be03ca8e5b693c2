package persist

// index finds slots by hash: open addressing with linear probing, one 32-bit entry per slot (8 bits of the hash, 24 of
// the ref). It grows, shrinks and cleans itself a few entries per change: while it does, old holds what has not moved.
type index struct {
	cur, old []uint32
	live     int // entries of cur and old that name a slot
	filled   int // entries of cur that are not empty
	moved    int // entries of old that were looked at
}

const (
	entryEmpty = 0
	entryGone  = 1 // was in use: a probe goes on behind it
	entryRef   = 1<<24 - 1
	minIndex   = 64
	moveStep   = 16 // entries moved with each change: a move of all ends before cur is full again
)

func entryOf(hash uint64, r ref) uint32 { return uint32(hash>>56)<<24 | uint32(r+1) }

// find returns the first slot of that hash for which same says yes, else 0.
func (x *index) find(hash uint64, same func(ref) bool) ref {
	if r := probe(x.cur, hash, same); r != 0 || x.old == nil {
		return r
	}
	return probe(x.old, hash, same)
}

func probe(entries []uint32, hash uint64, same func(ref) bool) ref {
	if len(entries) == 0 {
		return 0
	}
	mask := uint64(len(entries) - 1)
	tag := uint32(hash >> 56)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := entries[i]
		if e == entryEmpty {
			return 0
		}
		if e>>24 == tag && e&entryRef > entryGone {
			if r := ref(e&entryRef) - 1; same(r) {
				return r
			}
		}
	}
}

// add enters a slot that is not in the index.
func (x *index) add(hash uint64, r ref, hashOf func(ref) uint64) {
	x.step(moveStep, hashOf)
	x.put(entryOf(hash, r), hash)
	x.live++
	x.resize(hashOf)
}

// remove takes a slot out.
func (x *index) remove(hash uint64, r ref, hashOf func(ref) uint64) {
	e := entryOf(hash, r)
	if !strike(x.cur, hash, e) {
		strike(x.old, hash, e)
	}
	x.live--
	x.step(moveStep, hashOf)
	x.resize(hashOf)
}

func (x *index) put(e uint32, hash uint64) {
	if x.cur == nil {
		x.cur = make([]uint32, minIndex)
	}
	mask := uint64(len(x.cur) - 1)
	i := hash & mask
	for x.cur[i]&entryRef > entryGone {
		i = (i + 1) & mask
	}
	if x.cur[i] == entryEmpty {
		x.filled++
	}
	x.cur[i] = e
}

func strike(entries []uint32, hash uint64, e uint32) bool {
	if len(entries) == 0 {
		return false
	}
	mask := uint64(len(entries) - 1)
	for i := hash & mask; entries[i] != entryEmpty; i = (i + 1) & mask {
		if entries[i] == e {
			entries[i] = entryGone
			return true
		}
	}
	return false
}

// resize starts to move everything when cur is seven eighths full (larger, or as large but clean) or nearly empty. It is that
// full, although probes grow long, because a miss of the cache costs as much as a hundred entries of a probe.
func (x *index) resize(hashOf func(ref) uint64) {
	size := len(x.cur)
	full := x.filled*8 > size*7
	if x.old != nil {
		if x.filled*16 > size*15 { // cannot wait for the steps
			x.step(len(x.old), hashOf)
		}
		return
	}
	next := size
	switch {
	case full && x.live*4 > size*3:
		next = size * 2
	case full:
	case x.live*8 < size && size > minIndex:
		next = size / 2
	default:
		return
	}
	x.old, x.cur = x.cur, make([]uint32, next)
	x.filled, x.moved = 0, 0
}

// step moves up to n entries of old.
func (x *index) step(n int, hashOf func(ref) uint64) {
	if x.old == nil {
		return
	}
	for ; n > 0 && x.moved < len(x.old); n, x.moved = n-1, x.moved+1 {
		e := x.old[x.moved]
		if e&entryRef <= entryGone {
			continue
		}
		x.old[x.moved] = entryGone
		x.put(e, hashOf(ref(e&entryRef)-1))
	}
	if x.moved == len(x.old) {
		x.old = nil
	}
}

func (x *index) bytes() int { return 4 * (len(x.cur) + len(x.old)) }
