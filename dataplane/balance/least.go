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

	mu       sync.Mutex
	changing *changing // nil: the weights stay
	seen     []reading // by member
	tree     []int32   // a tournament: 1 is the winner of all, leaves are members or -1
	leafs    int       // where in tree the leaves begin
	turn     uint64    // of the last pick
	next     int       // which member to read next
	aside    []int32   // members that are out of one pick only
}

// reading is what a member was when it was last looked at.
type reading struct {
	load   uint64
	weight uint64
	turn   uint64 // when it was chosen last
	absent bool   // it may not be chosen
}

// lighter reports whether a is less loaded for its weight than b.
func (a *reading) lighter(b *reading) bool {
	hi, lo := bits.Mul64(a.load, b.weight)
	otherHi, otherLo := bits.Mul64(b.load, a.weight)
	return hi < otherHi || hi == otherHi && lo < otherLo
}

func newLeast(mode Mode, members []Member, old *least) *least {
	if mode == Fastest || mode == FastestAppResp {
		members = alike(members)
	}
	l := &least{
		mode: mode, members: members, load: loadOf(mode), leafs: 1,
		changing: newChanging(members), seen: make([]reading, len(members)),
	}
	for l.leafs < len(members) {
		l.leafs *= 2
	}
	for i := range members {
		l.seen[i] = l.now(i, 0)
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
	if l.changing != nil {
		l.changing.late()
	}
	l.read(&ask, glance)
	i := l.best(&ask)
	if i < 0 && len(l.members) > glance {
		l.read(&ask, len(l.members))
		i = l.best(&ask)
	}
	for _, out := range l.aside {
		r := l.seen[out]
		r.absent = false
		l.set(int(out), r)
	}
	l.aside = l.aside[:0]
	if i < 0 {
		return -1, false
	}
	l.turn++
	r := l.seen[i]
	r.turn = l.turn
	l.set(i, r)
	return i, true
}

// now returns what member i is now, chosen last in that turn.
func (l *least) now(i int, turn uint64) reading {
	r := reading{load: l.load(&l.members[i]), weight: uint64(max(l.members[i].Weight, 1)), turn: turn}
	if l.changing != nil {
		r.weight = l.changing.of(i)
	}
	return r
}

// read looks at that many members.
func (l *least) read(ask *Ask, atMost int) {
	for range min(atMost, len(l.members)) {
		if l.next >= len(l.members) {
			l.next = 0
		}
		i := l.next
		l.next++
		r := l.now(i, l.seen[i].turn)
		r.absent = ask.Usable != nil && !ask.Usable(i)
		l.set(i, r)
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
			r := l.seen[i]
			r.absent = true
			l.set(i, r)
			continue
		}
		is := l.now(i, l.seen[i].turn)
		is.absent = !ask.accepts(i)
		if !is.absent && !l.seen[i].lighter(&is) {
			return i
		}
		l.set(i, is)
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
	switch {
	case a.lighter(b):
		return true
	case b.lighter(a):
		return false
	case a.turn != b.turn:
		return a.turn < b.turn
	}
	return i < j
}
