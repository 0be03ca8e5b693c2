package balance

import (
	"math/bits"
	"sync"
)

// least takes the member with the least load for its weight; of equal ones that which was chosen longest ago, at first
// in configured order (rule M-3).
//
// Loads change without notice, so a pick first reads those of up to [glance] members: with no more than that it is exact,
// else a load that fell is noticed some picks later (of 1,000 members after 31 at most). One that rose is always noticed.
// A pick costs O(log n).
type least struct {
	mode    Mode
	members []Member // immutable
	load    func(m *Member) uint64
	weights []uint64 // immutable, at least 1

	mu    sync.Mutex
	seen  []reading // by member
	tree  []int32   // a tournament: 1 is the winner of all, leaves are members or -1
	leafs int       // where in tree the leaves begin
	turn  uint64    // of the last pick
	look  int       // which member to read next
	aside []int32   // members that are out of one pick only
}

// reading is what a member was when it was last looked at.
type reading struct {
	load   uint64
	turn   uint64 // when it was chosen last
	absent bool   // it may not be chosen
}

func newLeast(mode Mode, members []Member, old *least) *least {
	l := &least{
		mode: mode, members: members, load: loadOf(mode), leafs: 1,
		weights: make([]uint64, len(members)), seen: make([]reading, len(members)),
	}
	for l.leafs < len(members) {
		l.leafs *= 2
	}
	for i := range members {
		l.weights[i] = 1
		if mode == LeastConn || mode == LeastConnMember {
			l.weights[i] = uint64(max(members[i].Weight, 1))
		}
		l.seen[i].load = l.load(&members[i])
	}
	if old != nil && old.mode == mode {
		l.resume(old)
	}
	l.tree = make([]int32, 2*l.leafs)
	for i := range l.tree {
		l.tree[i] = -1
	}
	for i := range members {
		l.tree[l.leafs+i] = int32(i)
	}
	for k := l.leafs - 1; k > 0; k-- {
		l.play(k)
	}
	return l
}

// loadOf returns what the mode reads of a member.
func loadOf(mode Mode) func(m *Member) uint64 {
	if mode == LeastConn || mode == LeastConnMember {
		return func(m *Member) uint64 { return m.meter().Open() }
	}
	return func(m *Member) uint64 {
		meter := m.meter()
		// Whose time is not known has no load: it is tried, by turns with others of that kind.
		return uint64(max(meter.Took(), 0)) * (meter.Open() + 1)
	}
}

// resume takes over who was chosen when.
func (l *least) resume(old *least) {
	old.mu.Lock()
	defer old.mu.Unlock()
	l.turn = old.turn
	index := indexOf(old.members)
	for i, m := range l.members {
		if j, ok := index[m.Name]; ok {
			l.seen[i].turn = old.seen[j].turn
		}
	}
}

// Pick implements [Picker].
func (l *least) Pick(ask Ask) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read(&ask, glance)
	i := l.best(&ask)
	if i < 0 && len(l.members) > glance {
		l.read(&ask, len(l.members))
		i = l.best(&ask)
	}
	for _, out := range l.aside {
		l.set(int(out), reading{load: l.seen[out].load, turn: l.seen[out].turn})
	}
	l.aside = l.aside[:0]
	if i < 0 {
		return -1, false
	}
	l.turn++
	l.set(i, reading{load: l.seen[i].load, turn: l.turn})
	return i, true
}

// read looks at that many members.
func (l *least) read(ask *Ask, atMost int) {
	for range min(atMost, len(l.members)) {
		if l.look >= len(l.members) {
			l.look = 0
		}
		i := l.look
		l.look++
		l.set(i, reading{
			load: l.load(&l.members[i]), turn: l.seen[i].turn, absent: ask.Usable != nil && !ask.Usable(i),
		})
	}
}

// best returns the winner that is what it seemed, or -1.
func (l *least) best(ask *Ask) int {
	for {
		i := int(l.tree[1])
		if i < 0 || l.seen[i].absent {
			return -1
		}
		if ask.Tried.Has(i) {
			l.aside = append(l.aside, int32(i))
			l.set(i, reading{load: l.seen[i].load, turn: l.seen[i].turn, absent: true})
			continue
		}
		now := reading{load: l.load(&l.members[i]), turn: l.seen[i].turn, absent: !ask.accepts(i)}
		if !now.absent && now.load <= l.seen[i].load {
			return i
		}
		l.set(i, now)
	}
}

// set notes what a member is, and who wins with that.
func (l *least) set(i int, r reading) {
	if l.seen[i] == r {
		return
	}
	l.seen[i] = r
	for k := (l.leafs + i) / 2; k > 0; k /= 2 {
		l.play(k)
	}
}

// play lets the two below k compete.
func (l *least) play(k int) {
	a, b := l.tree[2*k], l.tree[2*k+1]
	if a < 0 || b >= 0 && l.before(int(b), int(a)) {
		a = b
	}
	l.tree[k] = a
}

// before reports whether i is to be chosen rather than j.
func (l *least) before(i, j int) bool {
	a, b := &l.seen[i], &l.seen[j]
	if a.absent != b.absent {
		return b.absent
	}
	hi, lo := bits.Mul64(a.load, l.weights[j])
	otherHi, otherLo := bits.Mul64(b.load, l.weights[i])
	switch {
	case hi != otherHi:
		return hi < otherHi
	case lo != otherLo:
		return lo < otherLo
	case a.turn != b.turn:
		return a.turn < b.turn
	}
	return i < j
}
