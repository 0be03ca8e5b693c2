package pool

import (
	"fmt"

	"bigpipe/dataplane/balance"
)

// method is one way to persist. Nil is none. Each has a file of its own.
type method interface {
	// choose makes the choice if persistence has one; not done leaves it to the pool's mode.
	choose(d *Decision, in *Input) (done bool, err error)
	// refused chooses again after the member did not accept.
	refused(d *Decision) error
	// accepted is told that the member accepted.
	accepted(d *Decision)
}

// trace collects the steps of a choice that is explained and not made. Nil in earnest.
type trace struct {
	steps  []string
	picker balance.Picker
}

func (d *Decision) dry() bool { return d.trace != nil }

func (d *Decision) picker() balance.Picker {
	if d.trace != nil {
		return d.trace.picker
	}
	return d.pool.picker
}

// step notes a step where a choice is explained; callers on the hot path ask dry first.
func (d *Decision) step(format string, args ...any) {
	d.trace.steps = append(d.trace.steps, fmt.Sprintf(format, args...))
}
