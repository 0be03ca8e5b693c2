package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bigpipe/cmd/internal/process"
)

// outcome is what the rounds of a scenario gave.
type outcome struct {
	scenario scenario
	place    placement
	samples  map[string][]sample // by side; one for each round, nil where it was not measured
	limit    sample              // straight to a member; nil if unknown
	before   []condition         // of the machine, before each round
}

// runner is a side within a scenario.
type runner struct {
	rig   *rig
	index int
	s     scenario
	at    placement
	in    *instance // nil between the rounds of a scenario that wants fresh processes
	seen  cookies
}

// measure runs a scenario: every side once in each round, in turns. What fails is named in the report; a side that
// does not start, or ends, is left out from then on. All that is started here has ended when it returns.
func (r *rig) measure(ctx context.Context, s scenario, at placement, rep *report) outcome {
	o := outcome{scenario: s, place: at, samples: map[string][]sample{}}
	name := label(s, at.threads)
	members, err := r.startMembers(ctx, s, at)
	if members != nil {
		defer stop(members)
	}
	if err != nil {
		rep.miss(name, err)
		return o
	}
	var runners []*runner
	for i, side := range r.sides {
		if side.name == s.without {
			continue
		}
		n := &runner{rig: r, index: i, s: s, at: at}
		defer n.stop()
		if err := n.prepare(ctx); err != nil {
			rep.missUnlessInterrupted(ctx, name+" "+side.name, err)
			continue
		}
		if s.http {
			rep.remark(n.seen.remark(side.name))
		}
		runners = append(runners, n)
	}
	o.limit = r.measureLimit(ctx, s, at, rep)
	for round := range s.rounds(r.options.rounds) {
		o.before = append(o.before, observe(ctx))
		runners = r.round(ctx, round, runners, &o, rep)
	}
	return o
}

// round runs each side once and returns those that still run; one whose load failed may do better in the next round.
func (r *rig) round(ctx context.Context, round int, runners []*runner, o *outcome, rep *report) []*runner {
	name := label(o.scenario, o.place.threads)
	var good []*runner
	for _, n := range runners {
		if ctx.Err() != nil {
			return nil
		}
		side := r.sides[n.index].name
		got, err := n.once(ctx, r.options.length(o.scenario, o.place.threads))
		if err != nil {
			rep.missUnlessInterrupted(ctx, fmt.Sprintf("%s %s round %d", name, side, round+1), err)
			if !errors.Is(err, process.ErrEnded) {
				good = append(good, n)
			}
			continue
		}
		if o.samples[side] == nil {
			o.samples[side] = make([]sample, o.scenario.rounds(r.options.rounds))
		}
		o.samples[side][round] = got
		fmt.Fprintf(r.progress, "%s round %d %s: %s\n", name, round+1, side, got.line(o.scenario.metrics))
		good = append(good, n)
	}
	return good
}

// warmUp is how long a load runs before the first round counts.
const warmUp = time.Second

// prepare starts the side and warms it up; where rounds want fresh processes, it only sees that the side starts and answers.
func (n *runner) prepare(ctx context.Context) error {
	err := n.start(ctx)
	if err == nil && n.s.perReq && n.seen.second == "" {
		err = errors.New("sets no cookie in the second answer of a connection, so it does not decide for each request: not equal work")
	}
	if err == nil && !n.s.fresh && n.rig.options.warmUp {
		// The rounds judge whether the load works; a short run may fail where the machine is busy.
		_, _ = n.s.run(ctx, n.work(min(warmUp, n.rig.options.duration)))
		err = n.in.processes[0].Ended()
	}
	if err != nil || n.s.fresh {
		n.stop()
	}
	return err
}

func (n *runner) start(ctx context.Context) error {
	var err error
	if n.in, err = n.rig.startSide(ctx, n.index, n.s, n.at); err != nil {
		return err
	}
	if n.s.http {
		n.seen, err = probeHTTP(ctx, n.in.listen, n.s.path)
	}
	return err
}

func (n *runner) stop() {
	if n.in != nil {
		n.in.stop()
		n.in = nil
	}
}

func (n *runner) work(d time.Duration) work {
	return work{rig: n.rig, at: n.at, target: n.in.listen, pids: n.in.pids, cookie: n.seen.first, duration: d}
}

// once is one run; a fresh process is started for it and ended after it where the scenario says so.
func (n *runner) once(ctx context.Context, d time.Duration) (sample, error) {
	if n.s.fresh {
		if err := n.start(ctx); err != nil {
			return nil, err
		}
		defer n.stop()
	}
	got, err := n.s.run(ctx, n.work(d))
	if err != nil {
		if ended := n.in.processes[0].Ended(); ended != nil {
			return nil, errors.Join(err, ended)
		}
	}
	return got, err
}

// measureLimit is the same load straight against a member: what the load and the member can do at most.
func (r *rig) measureLimit(ctx context.Context, s scenario, at placement, rep *report) sample {
	if s.limit == nil || ctx.Err() != nil {
		return nil
	}
	target := r.block.members(0, s.port())[0]
	got, err := s.limit(ctx, work{rig: r, at: at, target: target, duration: r.options.length(s, at.threads)})
	if err != nil {
		rep.missUnlessInterrupted(ctx, label(s, at.threads)+" without a proxy", err)
		return nil
	}
	return got
}
