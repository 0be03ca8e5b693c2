package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"bigpipe/cmd/bench/internal/records"
)

// recordsName is the label of the measurement of the record table, for -only.
const recordsName = "records"

const recordsAbout = "the record table: ns per lookup and bind, memory beside HAProxy's stick table, the longest operation and wait, an attack of random addresses"

// recordsSizes are how much is measured.
type recordsSizes struct {
	tables  []int // records
	threads []int
	fill    int // records that are made while somebody waits
	peer    int // entries of the peer's table
	attack  attackSize
}

// attackSize is an attack of strangers on a table that is at its limit.
type attackSize struct{ strangers, limit, open int }

var recordsFull = recordsSizes{
	tables:  []int{1_000, 100_000, 1_000_000, 10_000_000},
	threads: []int{1, 2},
	fill:    1_000_000,
	peer:    1_000_000,
	attack:  attackSize{strangers: 5_000_000, limit: 1_000_000, open: 10_000},
}

// recordsWait bounds one of these measurements.
const recordsWait = 3 * time.Minute

// Gauges of the record table; the first three are followed by size and threads.
const (
	recordLookup  = "lookup"
	recordVisit   = "connection of a client that has a record"
	recordBind    = "connection of a new client in a full table"
	recordBytes   = "memory of a record"
	recordLongest = "longest operation while the tables fill, processor time"
	recordIdle    = "longest operation of the same thread on no table, processor time"
	recordPause   = "longest wait of somebody else while a table fills"
	recordNoise   = "longest wait of somebody else for locks that guard nothing"
	recordGrowth  = "lookup, the largest table beside the one before"
	peerBytes     = "memory of an entry of HAProxy's stick table"
	attackPause   = "attack: longest wait of somebody else"
	attackNoise   = "attack: longest wait of somebody else for locks that guard nothing"
	attackLost    = "attack: records of open connections that went"
	attackOver    = "attack: records above the limit"
	attackBytes   = "attack: memory grew, for each record of the limit"
	lookupGoalAt  = 100_000
	lookupGoal    = 150 // ns
	bytesGoalFrom = 10_000_000
)

func sized(name string, n, threads int) string {
	return fmt.Sprintf("%s, %s records, %d threads", name, printCount(n), threads)
}

// printCount shortens a round number: 100 k, 10 M.
func printCount(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%d k", n/1_000)
	}
	return fmt.Sprint(n)
}

func newRecordsPanel(s recordsSizes) *panel {
	p := &panel{title: fmt.Sprintf("RECORDS: tables by themselves, processor time of an operation; attack: %s strangers, limit %s, %s connections open",
		printCount(s.attack.strangers), printCount(s.attack.limit), printCount(s.attack.open))}
	figure := func(name, unit string, print func(float64) string, limit float64) {
		p.gauges = append(p.gauges, &gauge{name: name, unit: unit, print: print, limit: limit})
	}
	for _, n := range s.tables {
		for _, threads := range s.threads {
			limit := noGoal
			if n == lookupGoalAt && threads == 1 {
				limit = lookupGoal
			}
			figure(sized(recordLookup, n, threads), "ns", printWhole, limit)
			figure(sized(recordVisit, n, threads), "ns", printWhole, noGoal)
			figure(sized(recordBind, n, threads), "ns", printWhole, noGoal)
		}
		limit := noGoal
		if n >= bytesGoalFrom {
			limit = 90
		}
		figure(fmt.Sprintf("%s, %s records", recordBytes, printCount(n)), "B", printTenths, limit)
	}
	figure(recordGrowth, "times", printRatio, 2)
	figure(recordLongest, "ms", printRatio, 2)
	figure(recordIdle, "ms", printRatio, noGoal)
	figure(recordPause, "ms", printRatio, noGoal) // the scheduler's and the machine's waits are in it: it is to be read beside the next
	figure(recordNoise, "ms", printRatio, noGoal)
	figure(peerBytes, "B", printTenths, noGoal)
	figure(attackPause, "ms", printRatio, 10)
	figure(attackNoise, "ms", printRatio, noGoal)
	figure(attackLost, "records", printWhole, 0)
	figure(attackOver, "records", printWhole, 0)
	figure(attackBytes, "B", printTenths, noGoal)
	return p
}

// measureRecords measures the record table, each time in a process of its own. What fails is named in the report.
func (r *rig) measureRecords(ctx context.Context, s recordsSizes, rep *report) {
	p := newRecordsPanel(s)
	rep.panels = append(rep.panels, p)
	for round := range r.options.rounds {
		if ctx.Err() != nil {
			return
		}
		for what, measure := range map[string]func() error{
			"tables":                func() error { return r.recordTables(ctx, s, p) },
			"filling":               func() error { return r.recordFill(ctx, s.fill, p) },
			"attack":                func() error { return r.recordAttack(ctx, s.attack, p) },
			"HAProxy's stick table": func() error { return r.stickTable(ctx, s.peer, p) },
		} {
			if err := measure(); err != nil {
				rep.missUnlessInterrupted(ctx, fmt.Sprintf("%s round %d, %s", recordsName, round+1, what), err)
			}
		}
		fmt.Fprintf(r.progress, "%s round %d: done\n", recordsName, round+1)
	}
}

func (r *rig) recordTables(ctx context.Context, s recordsSizes, p *panel) error {
	var lookups []float64
	var most, idle float64
	for _, n := range s.tables {
		args := []string{"records", "-records", fmt.Sprint(n)}
		for _, threads := range s.threads {
			args = append(args, "-threads", fmt.Sprint(threads))
		}
		got, err := r.recordChild(ctx, args...)
		if err != nil {
			return err
		}
		if len(got.Threads) != len(s.threads) {
			return fmt.Errorf("%d threads were measured, want %d", len(got.Threads), len(s.threads))
		}
		for i, threads := range s.threads {
			p.add(sized(recordLookup, n, threads), got.Threads[i].Lookup)
			p.add(sized(recordVisit, n, threads), got.Threads[i].Visit)
			p.add(sized(recordBind, n, threads), got.Threads[i].Bind)
		}
		p.add(fmt.Sprintf("%s, %s records", recordBytes, printCount(n)), got.Bytes)
		lookups = append(lookups, got.Threads[0].Lookup)
		most, idle = max(most, got.Longest), max(idle, got.Idle)
	}
	if n := len(lookups); n > 1 {
		p.add(recordGrowth, lookups[n-1]/lookups[n-2])
	}
	p.add(recordLongest, most/1e6)
	p.add(recordIdle, idle/1e6)
	return nil
}

func (r *rig) recordFill(ctx context.Context, n int, p *panel) error {
	got, err := r.recordChild(ctx, "fill", "-records", fmt.Sprint(n))
	if err != nil {
		return err
	}
	p.add(recordPause, got.Wait/1e6)
	p.add(recordNoise, got.Control/1e6)
	return nil
}

func (r *rig) recordAttack(ctx context.Context, a attackSize, p *panel) error {
	got, err := r.recordChild(ctx, "attack",
		"-strangers", fmt.Sprint(a.strangers), "-records", fmt.Sprint(a.limit), "-open", fmt.Sprint(a.open))
	if err != nil {
		return err
	}
	p.add(attackPause, got.Wait/1e6)
	p.add(attackNoise, got.Control/1e6)
	p.add(attackLost, float64(got.Lost))
	p.add(attackOver, float64(got.Over))
	p.add(attackBytes, got.Bytes)
	return nil
}

// recordChild runs this program as one of these measurements, on all cores.
func (r *rig) recordChild(ctx context.Context, args ...string) (records.Result, error) {
	var got records.Result
	text, err := output(ctx, command{
		name: args[0], cores: allowedCores(), path: r.self, args: append([]string{childCommand}, args...),
	}, recordsWait)
	if err != nil {
		return got, err
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return got, fmt.Errorf("%s printed %q: %w", args[0], text, err)
	}
	return got, nil
}

// runRecords is: child records -records N -threads N ..., child fill -records N, or child attack -strangers N -records N -open N.
func runRecords(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("child "+args[0], flag.ContinueOnError)
	n := f.Int("records", 1, "records of the table; of an attack, its limit")
	var threads []int
	f.Func("threads", "threads that use the table; repeatable", func(text string) error {
		many, err := strconv.Atoi(text)
		threads = append(threads, many)
		return err
	})
	strangers := f.Int("strangers", 1, "clients that come once")
	open := f.Int("open", 1, "connections that stay open")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	var got records.Result
	var err error
	switch args[0] {
	case "attack":
		got, err = records.Attack(*strangers, *n, *open)
	case "fill":
		got = records.Fill(*n)
	default:
		got, err = records.Measure(*n, threads...)
	}
	if err != nil {
		return err
	}
	return got.Write(stdout)
}
