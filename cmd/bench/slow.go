package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"bigpipe/cmd/bench/internal/traffic"
)

// slowName is the label of the measurement with slow clients, for -only.
const slowName = "slow-clients"

const slowAbout = "2,000 connections that send a byte of a request a second: p99 of 64 other connections with and without them, and how they end"

const (
	// slowCount is how many slow clients there are.
	slowCount = 2000
	// slowPairs is how many runs of the other client fit into the time until slow clients are closed.
	slowPairs = 3
	// slowRun is the longest such run.
	slowRun = 2 * time.Second
	// slowLimit is when what is still open counts as not closed; the product's limit for a request head is 10 s.
	slowLimit = 20 * time.Second
)

// The gauges of slow clients.
const (
	slowRatio  = "p99 of 64 other connections, beside that without slow clients"
	slowBase   = "the same without slow clients"
	slowWith   = "the same with slow clients"
	slowMissed = "slow clients that were not answered with 408 and closed"
	slowFirst  = "first slow client closed after"
	slowLast   = "last slow client closed after (a request's head has 10 s)"
)

func newSlowPanel(n int) *panel {
	return &panel{
		title: fmt.Sprintf("SLOW CLIENTS: %d connections that send a byte a second, 1 thread", n),
		gauges: []*gauge{
			{name: slowRatio, unit: "times", print: printRatio, limit: 2},
			{name: slowBase, unit: "us", print: printWhole, limit: noGoal},
			{name: slowWith, unit: "us", print: printWhole, limit: noGoal},
			{name: slowMissed, unit: fmt.Sprintf("of %d", n), print: printWhole, limit: 0},
			{name: slowFirst, unit: "s", print: printTenths, limit: noGoal},
			{name: slowLast, unit: "s", print: printTenths, limit: 11},
		},
	}
}

// measureSlow measures what slow clients do to another client of ours. What fails is named in the report.
func (r *rig) measureSlow(ctx context.Context, at placement, rep *report) {
	p := newSlowPanel(slowCount)
	rep.panels = append(rep.panels, p)
	s := scenario{name: slowName, http: true}
	members, err := r.startMembers(ctx, s, at)
	if members != nil {
		defer stop(members)
	}
	if err != nil {
		rep.missUnlessInterrupted(ctx, slowName, err)
		return
	}
	n := &runner{rig: r, index: 0, s: s, at: at}
	defer n.stop()
	if err := n.start(ctx); err != nil {
		rep.missUnlessInterrupted(ctx, slowName, err)
		return
	}
	for done := 0; done < r.options.rounds && ctx.Err() == nil; done += slowPairs {
		pairs := min(slowPairs, r.options.rounds-done)
		if err := n.slowRounds(ctx, pairs, p); err != nil {
			rep.missUnlessInterrupted(ctx, fmt.Sprintf("%s rounds %d to %d", slowName, done+1, done+pairs), err)
			continue
		}
		fmt.Fprintf(r.progress, "%s rounds %d to %d: done\n", slowName, done+1, done+pairs)
	}
}

// slowRounds runs the other client some times alone, then as often beside slow clients, and waits until these are closed.
func (n *runner) slowRounds(ctx context.Context, pairs int, p *panel) error {
	other, w := wrkLoad{connections: 64}, n.work(min(n.rig.options.duration, slowRun))
	times := func() ([]float64, error) {
		var p99 []float64
		for range pairs {
			got, err := other.run(ctx, w)
			if err != nil {
				return nil, err
			}
			p99 = append(p99, got[latency99.name])
		}
		return p99, nil
	}
	base, err := times()
	if err != nil {
		return err
	}
	slow, err := n.work(slowLimit).hold(ctx, "slow", slowCount)
	if err != nil {
		return err
	}
	with, runErr := times()
	text, err := slow.end(false)
	if runErr != nil {
		return fmt.Errorf("beside slow clients: %w", runErr)
	}
	if err != nil {
		return err
	}
	var ended traffic.SlowResult
	if err := json.Unmarshal(text, &ended); err != nil {
		return fmt.Errorf("slow clients' result %q: %w", text, err)
	}
	for i := range pairs {
		p.add(slowBase, base[i])
		p.add(slowWith, with[i])
		p.add(slowRatio, with[i]/base[i])
	}
	p.add(slowMissed, float64(ended.Dropped+ended.Open))
	if ended.TimedOut+ended.Dropped > 0 {
		p.add(slowFirst, ended.First)
		p.add(slowLast, ended.Last)
	}
	return nil
}
