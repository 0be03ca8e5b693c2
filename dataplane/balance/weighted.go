package balance

import (
	"math/bits"
	"sync"
)

// turn is the distance between two turns of a member of weight 1, in units of virtual time.
const turn = 1 << 12

// weighted shares exactly by weight and spreads each member's turns evenly (rule M-2).
//
// Virtual time runs in cycles. A member of weight w has w turns in each cycle, 1/w of a cycle apart, and the member
// whose turn is due first is chosen. So any run of picks as long as the sum of the weights gives each member exactly
// its weight, whatever the order of magnitude of the weights, and members of equal weight simply alternate.
//
// A member that is not usable when its turn comes is parked: its turns lapse and the others share exactly among
// themselves. When it is usable again it goes on with its next turn, without making up for what it missed.
//
// A pick costs O(log n), and one call of the predicate for each parked member.
type weighted struct {
	members []Member // immutable
	weights []uint64 // immutable, at least 1

	mu     sync.Mutex
	now    moment   // the last turn that was given
	due    []uint64 // by member: its next turn is at due/weight
	heap   []int32  // members that take part, the one that is due first on top
	parked []int32  // members that were not usable when they were last looked at
}

// moment is a member's turn at the point at/weight of virtual time, where a cycle is turn long. It is kept as a
// fraction so that turns of members of different weights can be at exactly the same point; the configured order then
// decides.
type moment struct {
	at, weight uint64
	member     int
}

func (m moment) before(other moment) bool {
	hi, lo := bits.Mul64(m.at, other.weight)
	otherHi, otherLo := bits.Mul64(other.at, m.weight)
	switch {
	case hi != otherHi:
		return hi < otherHi
	case lo != otherLo:
		return lo < otherLo
	default:
		return m.member < other.member
	}
}

func newWeighted(members []Member, old *weighted) *weighted {
	w := &weighted{
		members: members,
		weights: make([]uint64, len(members)),
		now:     moment{at: 0, weight: 1, member: -1},
		due:     make([]uint64, len(members)),
		heap:    make([]int32, 0, len(members)),
		parked:  make([]int32, 0, len(members)),
	}
	for i, m := range members {
		w.weights[i] = uint64(max(m.Weight, 1))
	}
	w.spread()
	if old != nil {
		w.resume(old)
	}
	for i := range members {
		w.push(int32(i))
	}
	return w
}

// spread sets the first turns: members of equal weight divide the distance between two of their turns evenly, so
// that five turns of one member and one turn each of two others mix instead of forming blocks.
func (w *weighted) spread() {
	count := make(map[uint64]uint64)
	for _, weight := range w.weights {
		count[weight]++
	}
	placed := make(map[uint64]uint64, len(count))
	for i, weight := range w.weights {
		w.due[i] = (2*placed[weight] + 1) * turn / (2 * count[weight])
		placed[weight]++
	}
}

// resume takes over old's time and, for the members that remain, how far away their next turns are. A member whose
// weight changed keeps the part of its turn that was left.
func (w *weighted) resume(old *weighted) {
	old.mu.Lock()
	defer old.mu.Unlock()
	w.now = old.now
	w.now.member = -1
	index := indexOf(old.members)
	for i, m := range w.members {
		j, ok := index[m.Addr]
		if ok && j == old.now.member {
			w.now.member = i
		}
		switch {
		case !ok:
			w.due[i] = w.comingTurn(i)
		case w.weights[i] == old.weights[j]:
			w.due[i] = old.comingTurn(j)
		default:
			w.due[i] = w.present(i) + old.comingTurn(j) - old.present(j)
		}
	}
}

// Pick implements [Picker].
func (w *weighted) Pick(ask Ask) (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unpark(&ask)
	for len(w.heap) > 0 {
		i := int(w.heap[0])
		if ask.accepts(i) {
			w.take(i)
			return i, true
		}
		w.parked = append(w.parked, w.pop())
	}
	return -1, false
}

// take gives the turn to member i, which is on top of the heap.
func (w *weighted) take(i int) {
	w.now = w.nextTurn(i)
	w.due[i] += turn
	w.down(0)
	if w.now.at >= turn*w.now.weight {
		w.newCycle()
	}
}

// newCycle moves everything back by one cycle, so that numbers stay small. The order is not affected: all members
// that take part are due at or after now.
func (w *weighted) newCycle() {
	w.now.at -= turn * w.now.weight
	for i, weight := range w.weights {
		if cycle := turn * weight; w.due[i] >= cycle {
			w.due[i] -= cycle
		} else { // parked, and its turns lapsed
			w.due[i] %= turn
		}
	}
}

// unpark lets the parked members that are acceptable take part again.
func (w *weighted) unpark(ask *Ask) {
	still := w.parked[:0]
	for _, i := range w.parked {
		if !ask.accepts(int(i)) {
			still = append(still, i)
			continue
		}
		w.due[i] = w.comingTurn(int(i))
		w.push(i)
	}
	w.parked = still
}

// comingTurn returns when member i has its first turn after now, on its own scale: turns that lapsed are left out.
func (w *weighted) comingTurn(i int) uint64 {
	next, present := w.nextTurn(i), w.present(i)
	if next.at < present {
		next.at += (present - next.at + turn - 1) / turn * turn
	}
	if !w.now.before(next) {
		next.at += turn
	}
	return next.at
}

// present returns now on member i's scale, rounded up. Now is less than two cycles, so the result fits.
func (w *weighted) present(i int) uint64 {
	hi, lo := bits.Mul64(w.now.at, w.weights[i])
	quotient, rest := bits.Div64(hi, lo, w.now.weight)
	if rest > 0 {
		quotient++
	}
	return quotient
}

// nextTurn returns member i's turn as a moment.
func (w *weighted) nextTurn(i int) moment {
	return moment{w.due[i], w.weights[i], i}
}

func (w *weighted) before(i, j int32) bool {
	return w.nextTurn(int(i)).before(w.nextTurn(int(j)))
}

func (w *weighted) push(i int32) {
	w.heap = append(w.heap, i)
	for k := len(w.heap) - 1; k > 0; {
		parent := (k - 1) / 2
		if !w.before(w.heap[k], w.heap[parent]) {
			break
		}
		w.heap[k], w.heap[parent] = w.heap[parent], w.heap[k]
		k = parent
	}
}

func (w *weighted) pop() int32 {
	top, last := w.heap[0], len(w.heap)-1
	w.heap[0] = w.heap[last]
	w.heap = w.heap[:last]
	w.down(0)
	return top
}

// down restores the heap's order below position k.
func (w *weighted) down(k int) {
	for {
		child := 2*k + 1
		if child >= len(w.heap) {
			return
		}
		if right := child + 1; right < len(w.heap) && w.before(w.heap[right], w.heap[child]) {
			child = right
		}
		if !w.before(w.heap[child], w.heap[k]) {
			return
		}
		w.heap[k], w.heap[child] = w.heap[child], w.heap[k]
		k = child
	}
}
