package pool

import (
	"fmt"
	"strings"

	"bigpipe/dataplane/balance"
)

// trace collects the steps of a choice that is explained and not made.
type trace struct {
	steps  []string
	picker balance.Picker
}

// dry reports whether the choice is only explained: nothing may change.
func (d *Decision) dry() bool { return d.trace != nil }

func (d *Decision) picker() balance.Picker {
	if d.trace != nil {
		return d.trace.picker
	}
	return d.pool.picker
}

// step notes a step where a choice is explained; callers ask dry first, so that nothing is formatted in earnest.
func (d *Decision) step(format string, args ...any) {
	d.trace.steps = append(d.trace.steps, fmt.Sprintf(format, args...))
}

// Explanation tells which member a connection would get, and why.
type Explanation struct {
	// Member is nil when there is none.
	Member *Member
	// Outcome is what persistence would find, as it is counted; OutcomeOff where the pool does not persist.
	Outcome Outcome
	// Steps are sentences, in their order.
	Steps []string
}

// Explain tells which member a connection would get now. It goes the way of Choose and changes nothing.
func (p *Pool) Explain(in *Input) Explanation {
	t := &trace{picker: balance.New(p.mode, p.weights(), p.picker)}
	d := Decision{pool: p, trace: t}
	if p.persisted == nil {
		d.step("pool %s does not persist", p.Name)
	}
	err := d.choose(in)
	if p.persisted != nil {
		d.step("persistence: %s", d.outcome)
	}
	if err != nil {
		d.step("%v", err)
		return Explanation{Outcome: d.outcome, Steps: t.steps}
	}
	if p.jroutes != nil && !d.jroute.outside {
		d.step("the route of member %s is %s", d.Member.Addr, p.jroutes.ids[d.Member.index])
	}
	if d.SetCookie() {
		d.step("the response %s", p.carries(d.Member))
	}
	return Explanation{Member: d.Member, Outcome: d.outcome, Steps: t.steps}
}

// carries says what a response tells the client of its member.
func (p *Pool) carries(m *Member) string {
	switch {
	case p.tokens != nil:
		return "carries a token in " + p.tokens.carrier()
	case p.jroutes != nil:
		return fmt.Sprintf("sets cookie %s to %s", p.jroutes.cookie, p.jroutes.ids[m.index])
	case p.cookies.reader.Ring != nil:
		return fmt.Sprintf("sets cookie %s to an encrypted value", p.cookies.template.Name)
	}
	return fmt.Sprintf("sets cookie %s to %s", p.cookies.template.Name, m.cookie)
}

// manyMembers is how many of the members that are passed over are named.
const manyMembers = 8

// passedOver notes which members cannot be chosen, and why.
func (d *Decision) passedOver() {
	if g := d.pool.groups; g != nil {
		d.step("the groups of priority %d and above take the traffic", g.active.Load())
	}
	var list []string
	for _, m := range d.pool.members {
		var why string
		switch state := m.State(); {
		case d.tried.Has(m.index):
			why = "was tried"
		case !state.UsableForNew():
			why = "is " + state.String()
		case m.full():
			why = "has as many connections as it may"
		case !d.pool.groups.has(m):
			why = fmt.Sprintf("has priority %d", m.Priority)
		default:
			continue
		}
		list = append(list, "member "+m.Addr.String()+" "+why)
	}
	if more := len(list) - manyMembers; more > 0 {
		list = append(list[:manyMembers], fmt.Sprintf("%d more", more))
	}
	if len(list) > 0 {
		d.step("passed over: %s", strings.Join(list, ", "))
	}
}
