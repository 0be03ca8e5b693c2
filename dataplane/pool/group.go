package pool

import (
	"cmp"
	"slices"
	"sync/atomic"

	"bigpipe/dataplane/balance"
)

// groups are the priority groups of a pool. Traffic goes to the highest; while fewer of its members than the minimum can be
// used, to the next one too, and so on.
//
// Which they are is counted anew with the choices: with each in a pool of up to [glance] members, else with every so many
// that the work of a choice stays the same.
type groups struct {
	minimum int
	order   []*Member // the highest priority first
	active  atomic.Int64
	choices atomic.Uint32
	every   uint32
}

// glance is how many members a choice may look at to keep groups right.
const glance = 32

// newGroups returns nil for a pool that uses all its members alike.
func newGroups(p *Pool) *groups {
	minimum := int(min(p.Config.GetMinActiveMembers(), 1<<16))
	if minimum == 0 && (p.mode == balance.Priority || p.mode == balance.PriorityMember) {
		minimum = 1
	}
	if minimum == 0 || len(p.members) == 0 {
		return nil
	}
	g := &groups{minimum: minimum, order: slices.Clone(p.members), every: uint32((len(p.members) + glance - 1) / glance)}
	slices.SortStableFunc(g.order, func(a, b *Member) int { return cmp.Compare(b.Priority, a.Priority) })
	g.count()
	return g
}

// look keeps the groups right; it is called with each choice.
func (g *groups) look() {
	if g != nil && g.choices.Add(1)%g.every == 0 {
		g.count()
	}
}

// refresh is look without counting a choice.
func (g *groups) refresh() {
	if g != nil {
		g.count()
	}
}

// count sets the lowest priority that takes traffic.
func (g *groups) count() {
	usable := 0
	for i, m := range g.order {
		if i > 0 && m.Priority < g.order[i-1].Priority && usable >= g.minimum {
			g.active.Store(int64(g.order[i-1].Priority))
			return
		}
		if m.usable() {
			usable++
		}
	}
	g.active.Store(int64(g.order[len(g.order)-1].Priority))
}

// has reports whether a member is in a group that takes traffic.
func (g *groups) has(m *Member) bool { return g == nil || int64(m.Priority) >= g.active.Load() }
