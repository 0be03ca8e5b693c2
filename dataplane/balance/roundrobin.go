package balance

import "sync/atomic"

// roundRobin takes the members in turn. A pick costs one call of the predicate, and one more for each member that it
// must pass over. Position moves behind the member that was chosen, so the successor of an unusable member does not
// receive its share.
type roundRobin struct {
	members []Member // immutable
	next    atomic.Uint32
}

func newRoundRobin(members []Member, old *roundRobin) *roundRobin {
	r := &roundRobin{members: members}
	if old != nil {
		r.next.Store(uint32(r.resume(old)))
	}
	return r
}

// resume returns the index of the first member that old would have taken and that still exists.
func (r *roundRobin) resume(old *roundRobin) int {
	index := indexOf(r.members)
	start, n := int(old.next.Load()), len(old.members)
	for k := range n {
		if i, ok := index[old.members[(start+k)%n].Name]; ok {
			return i
		}
	}
	return 0
}

// Pick implements [Picker].
func (r *roundRobin) Pick(ask Ask) (int, bool) {
	for {
		start := r.next.Load()
		i, ok := r.from(int(start), &ask)
		if !ok {
			return -1, false
		}
		next := i + 1
		if next == len(r.members) {
			next = 0
		}
		if r.next.CompareAndSwap(start, uint32(next)) {
			return i, true
		}
	}
}

// from returns the first acceptable member at or after start.
func (r *roundRobin) from(start int, ask *Ask) (int, bool) {
	for i := start; i < len(r.members); i++ {
		if ask.accepts(i) {
			return i, true
		}
	}
	for i := range start {
		if ask.accepts(i) {
			return i, true
		}
	}
	return -1, false
}
