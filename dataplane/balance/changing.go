package balance

import (
	"slices"
	"time"
)

const (
	// following is how often the weights of all members are looked at where they change by themselves. That of a member that
	// becomes usable is looked at then, too.
	following = 100 * time.Millisecond
	// whole is the Warmth of a member that counts with all of its weight.
	whole = 100
	// weightiest is the most that a weight counts where weights change, so that products of weights stay in range.
	weightiest = 1 << 24
)

// changing are weights that change without a new picker: what a program says, how warm members are, how long they take to reply.
// Whoever has it guards it.
type changing struct {
	members []Member // immutable
	times   bool     // rule M-6 counts
	parts   []uint32 // by member: its weight by rule M-6; nil: all are equal
	due     time.Time
}

// newChanging returns nil where no weight changes.
func newChanging(members []Member) *changing {
	c := &changing{members: members}
	any := false
	for i := range members {
		if live := members[i].Live; live != nil {
			any, c.times = true, c.times || live.Replies != nil
		}
	}
	if !any {
		return nil
	}
	c.follow(time.Now())
	return c
}

// late reports whether all members are to be looked at again, and that it was done by now.
func (c *changing) late() bool {
	now := time.Now()
	if now.Before(c.due) {
		return false
	}
	c.follow(now)
	return true
}

func (c *changing) follow(now time.Time) {
	c.due = now.Add(following)
	if !c.times {
		return
	}
	burdens := make([]uint64, len(c.members))
	for i := range c.members {
		if live := c.members[i].Live; live != nil && live.Replies != nil {
			burdens[i] = uint64(max(live.Replies(), 0))
		}
	}
	c.parts = inverse(burdens, &Ask{})
}

// of returns what a member weighs now: at least 1.
func (c *changing) of(i int) uint64 {
	m := &c.members[i]
	live := m.Live
	if live == nil {
		live = &Live{}
	}
	w, part := uint64(m.Weight), uint64(whole)
	if live.Weight != nil {
		w = uint64(live.Weight())
	}
	if live.Warmth != nil {
		part = uint64(min(max(live.Warmth(), 1), whole))
	}
	w = min(max(w, 1), weightiest) * part
	if c.parts != nil {
		w *= uint64(c.parts[i])
	}
	return w
}

// evenly returns the members with equal weights, which are still multiplied by what changes them.
func evenly(members []Member) []Member {
	list := slices.Clone(members)
	for i := range list {
		list[i].Weight = 1
		if live := list[i].Live; live != nil && live.Weight != nil {
			list[i].Live = &Live{Warmth: live.Warmth, Replies: live.Replies}
		}
	}
	return list
}

// alike is evenly, where times do not count either.
func alike(members []Member) []Member {
	list := evenly(members)
	for i := range list {
		if live := list[i].Live; live != nil && live.Replies != nil {
			list[i].Live = nil
			if live.Warmth != nil {
				list[i].Live = &Live{Warmth: live.Warmth}
			}
		}
	}
	return list
}
