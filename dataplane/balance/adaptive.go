package balance

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// heaviest is the most that one member's weight is of another's (rules M-6 to M-8).
	heaviest = 48
	// observing is how often weights are measured anew, measuring octets how often those of Bandwidth are (rule M-7).
	observing       = time.Second
	measuringOctets = 2 * time.Second
)

// adaptive shares by weights that it measures anew from time to time, when a pick finds that it is time to. A pick costs
// what one of [weighted] costs; one in each interval, n log n.
type adaptive struct {
	mode    Mode
	members []Member // immutable
	every   time.Duration
	current atomic.Pointer[weighted]
	due     atomic.Int64 // when to measure next, nanoseconds since 1970

	mu     sync.Mutex
	before []uint64 // by member: what was read the last time; guarded by mu
	begun  bool     // before was read; guarded by mu
}

func newAdaptive(mode Mode, members []Member, old *adaptive) *adaptive {
	a := &adaptive{mode: mode, members: members, every: observing, before: make([]uint64, len(members))}
	if mode == Bandwidth {
		a.every = measuringOctets
		a.due.Store(time.Now().Add(a.every).UnixNano())
	}
	for i := range members {
		a.before[i] = a.read(i)
	}
	if old != nil && old.mode == mode {
		a.resume(old)
		return a
	}
	a.current.Store(newWeighted(a.weighing(nil), nil))
	return a
}

// resume takes over the weights of members that remain; new ones weigh as much as the heaviest until they are measured.
func (a *adaptive) resume(old *adaptive) {
	old.mu.Lock()
	defer old.mu.Unlock()
	a.due.Store(old.due.Load())
	a.begun = old.begun
	last := old.current.Load()
	index := indexOf(old.members)
	weights := make([]uint32, len(a.members))
	for i, m := range a.members {
		weights[i] = heaviest
		if j, ok := index[m.Name]; ok {
			weights[i] = last.members[j].Weight
			a.before[i] = old.before[j]
		}
	}
	if !slices.ContainsFunc(last.members, func(m Member) bool { return m.Weight > 1 }) { // never measured
		weights = nil
	}
	a.current.Store(newWeighted(a.weighing(weights), last))
}

// weighing returns the members with other weights; nil is equal ones.
func (a *adaptive) weighing(weights []uint32) []Member {
	list := alike(a.members)
	for i := range weights {
		list[i].Weight = weights[i]
	}
	return list
}

// Pick implements [Picker].
func (a *adaptive) Pick(ask Ask) (int, bool) {
	if now := time.Now().UnixNano(); now >= a.due.Load() && a.mu.TryLock() {
		if now >= a.due.Load() {
			a.measure(&ask)
			a.due.Store(now + int64(a.every))
		}
		a.mu.Unlock()
	}
	return a.current.Load().Pick(ask)
}

// read returns what the mode measures of a member. Where that is not a sum, it is the value itself.
func (a *adaptive) read(i int) uint64 {
	meter := a.members[i].meter()
	switch a.mode {
	case Response:
		return uint64(max(meter.Took(), 0))
	case Bandwidth:
		return meter.Octets()
	default:
		return meter.Open()
	}
}

// measure weighs the members anew.
func (a *adaptive) measure(ask *Ask) {
	burdens := make([]uint64, len(a.members))
	for i := range a.members {
		now, before := a.read(i), a.before[i]
		if !a.begun && a.mode != Bandwidth {
			before = now
		}
		a.before[i] = now
		switch a.mode {
		case Response:
			burdens[i] = now // zero: not known
		case Bandwidth:
			burdens[i] = max(now, before) - before
			if now < before { // counters were reset
				burdens[i] = now
			}
			burdens[i] = max(burdens[i], 1)
		case Predictive, PredictiveMember:
			burdens[i] = max(2*now, before) - before + 1
		default:
			burdens[i] = now + 1
		}
	}
	a.begun = true
	weights := inverse(burdens, ask)
	last := a.current.Load()
	if !slices.EqualFunc(weights, last.members, func(w uint32, m Member) bool { return w == m.Weight }) {
		a.current.Store(newWeighted(a.weighing(weights), last))
	}
}

// inverse returns weights from 1 to heaviest that are inversely proportional to burdens: the least burden of those that
// may be chosen is the heaviest weight. An unknown burden, zero, counts as the least.
func inverse(burdens []uint64, ask *Ask) []uint32 {
	lowest := uint64(0)
	for i, b := range burdens {
		if b > 0 && (lowest == 0 || b < lowest) && (ask.Usable == nil || ask.Usable(i)) {
			lowest = b
		}
	}
	weights := make([]uint32, len(burdens))
	for i, b := range burdens {
		weights[i] = heaviest
		if b > lowest && lowest > 0 {
			weights[i] = uint32(max(float64(heaviest)*float64(lowest)/float64(b)+0.5, 1))
		}
	}
	return weights
}
