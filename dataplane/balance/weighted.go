package balance

import (
	"math/bits"
	"sync"
)

const (
	// turn is the distance between two turns of a member of weight 1, in units of virtual time.
	turn = 1 << 12
	// era is the number of cycles after which virtual time starts at zero again.
	era = 1 << 10
	// glance is how many parked members a pick looks at.
	glance = 32
)

// weighted shares exactly by weight and spreads each member's turns evenly (rule M-2).
//
// Virtual time runs in cycles. A member of weight w has w turns in each cycle, 1/w of a cycle apart, and the member
// whose turn is due first is chosen. So any run of picks as long as the sum of the weights gives each member exactly
// its weight, whatever the order of magnitude of the weights, and members of equal weight simply alternate.
//
// A member that is not usable when its turn comes is parked: its turns lapse and the others share exactly among
// themselves. When it is usable again it goes on with its next turn, without making up for what it missed.
//
// A pick costs O(log n). While more than [glance] members are parked it looks at that many of them, so one that
// recovers may be noticed some picks later (of 1,000 members after 31 at most); if nobody else is usable, at all.
//
// Where weights change, a pick that finds it time to weighs all anew, which costs O(n). A member whose weight changed keeps the part
// of its turn that was left.
type weighted struct {
	members []Member // immutable

	mu       sync.Mutex
	weights  []uint64  // at least 1
	changing *changing // nil: the weights stay
	now      moment    // the last turn that was given
	due      []uint64  // by member: its next turn is at due/weight
	heap     []int32   // members that take part, the one that is due first on top
	parked   []int32   // members that were not usable when they were last looked at, in any order
	look     int       // where in parked to look next
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
	w.changing = newChanging(members)
	for i, m := range members {
		w.weights[i] = uint64(max(m.Weight, 1))
		if w.changing != nil {
			w.weights[i] = w.changing.of(i)
		}
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
		j, ok := index[m.Name]
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
	if w.changing != nil && w.changing.late() {
		w.weigh()
	}
	w.unpark(&ask, glance)
	if i, ok := w.first(&ask); ok {
		return i, true
	}
	w.unpark(&ask, len(w.parked))
	return w.first(&ask)
}

// first gives the turn to the acceptable member that is due first, and parks those before it.
func (w *weighted) first(ask *Ask) (int, bool) {
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
	if w.now.at >= era*turn*w.now.weight {
		w.newEra()
	}
}

// newEra moves everything back by an era, so that numbers stay small. The order is not affected: all members that
// take part are due at or after now.
func (w *weighted) newEra() {
	w.now.at -= era * turn * w.now.weight
	for i, weight := range w.weights {
		if passed := era * turn * weight; w.due[i] >= passed {
			w.due[i] -= passed
		} else { // parked, and its turns lapsed
			w.due[i] %= turn
		}
	}
}

// unpark looks at that many parked members and lets those that are acceptable take part again.
func (w *weighted) unpark(ask *Ask, atMost int) {
	for range min(atMost, len(w.parked)) {
		if w.look >= len(w.parked) {
			w.look = 0
		}
		i := w.parked[w.look]
		if !ask.accepts(int(i)) {
			w.look++
			continue
		}
		last := len(w.parked) - 1
		w.parked[w.look] = w.parked[last]
		w.parked = w.parked[:last]
		w.due[i] = w.comingTurn(int(i))
		if w.changing != nil {
			w.reweigh(int(i))
		}
		w.push(i)
	}
}

// weigh takes over what all members weigh by now.
func (w *weighted) weigh() {
	changed := false
	for i := range w.weights {
		changed = w.reweigh(i) || changed
	}
	if !changed {
		return
	}
	for k := len(w.heap)/2 - 1; k >= 0; k-- {
		w.down(k)
	}
}

// reweigh takes over what member i weighs by now, and reports whether that is new. The heap's order is the caller's to restore.
func (w *weighted) reweigh(i int) bool {
	weight := w.changing.of(i)
	if weight == w.weights[i] {
		return false
	}
	left := uint64(0)
	if present := w.present(i); w.due[i] > present {
		left = min(w.due[i]-present, turn)
	}
	w.weights[i] = weight
	w.due[i] = w.present(i) + left
	return true
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

// present returns now on member i's scale, rounded up. Now is little more than an era at most, so the result
// fits.
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
