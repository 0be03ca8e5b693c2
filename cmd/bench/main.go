// Command bench measures bigpipe beside HAProxy and nginx on this machine: the same work, the same number of threads, one
// after the other in turns, ratios first. It also measures bigpipe alone: a large configuration, and slow clients. It is what
// make bench runs; results/ holds reports and plots by date.
//
// Every program is started on addresses of 127.77.0.0/16 and ended by its process number, also after Ctrl-C.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	exitDone  = 0
	exitNotOK = 1 // something could not be measured; the report names it
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run measures what args ask for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == childCommand {
		if err := runChild(ctx, args[1:], stdout); err != nil {
			fmt.Fprintf(stderr, "bench: %v\n", err)
			return exitNotOK
		}
		return exitDone
	}
	o, err := parseOptions(args, stderr)
	if errors.Is(err, errHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}
	if o.list {
		listScenarios(stdout)
		return exitDone
	}
	report, err := measureAll(ctx, o, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitNotOK
	}
	if err := report.render(stdout); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitNotOK
	}
	if o.results != "" {
		if err := report.writeFiles(o.results); err != nil {
			fmt.Fprintf(stderr, "bench: %v\n", err)
			return exitNotOK
		}
		fmt.Fprintf(stderr, "report and plot: %s.txt and .svg\n", report.path(o.results))
	}
	if len(report.missing) > 0 {
		return exitNotOK
	}
	return exitDone
}

// measureAll measures every chosen scenario at every chosen number of threads. What fails is in the report, with its
// reason; after an interrupt the report holds what was measured until then.
func measureAll(ctx context.Context, o *options, progress io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if o.keep {
			fmt.Fprintf(progress, "configurations and logs: %s\n", dir)
		} else {
			_ = os.RemoveAll(dir)
		}
	}()
	raiseDescriptorLimit()
	rig, err := newRig(o, dir, progress)
	if err != nil {
		return nil, err
	}
	r := &report{
		subject: o.subject, peers: o.peers, rounds: o.rounds, duration: o.duration,
		half: o.length(scenario{}, 0), date: time.Now(), machine: describeMachine(), programs: rig.versions(ctx),
	}
	if o.subject == judged && o.wants(scaleName) {
		rig.measureScale(ctx, scaleSize, r)
	}
	if place, err := rig.placement(1); o.subject == judged && o.wants(slowName) {
		if err != nil {
			r.miss(slowName, err)
		} else {
			rig.measureSlow(ctx, place, r)
		}
	}
	if o.subject == judged && o.wants(recordsName) {
		rig.measureRecords(ctx, recordsFull, r)
	}
	for _, threads := range o.threads {
		place, err := rig.placement(threads)
		if err != nil {
			r.miss(fmt.Sprintf("%d threads", threads), err)
			continue
		}
		for _, s := range o.chosen(threads) {
			if ctx.Err() != nil {
				break
			}
			r.outcomes = append(r.outcomes, rig.measure(ctx, s, place, r))
		}
	}
	if ctx.Err() != nil {
		r.miss("the rest", errors.New("interrupted"))
	}
	r.machine.loadAfter = loadAverage()
	return r, nil
}

// path is that of the report and of the plot in a folder, without the ending.
func (r *report) path(dir string) string {
	return filepath.Join(dir, r.date.UTC().Format(time.DateOnly))
}

// writeFiles writes the report, and a plot of its comparisons if it has any, and makes their folder.
func (r *report) writeFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var text, plot bytes.Buffer
	if err := r.render(&text); err != nil {
		return err
	}
	err := os.WriteFile(r.path(dir)+".txt", text.Bytes(), 0o644)
	if len(r.outcomes) == 0 {
		return err
	}
	if err := r.plot(&plot); err != nil {
		return err
	}
	return errors.Join(err, os.WriteFile(r.path(dir)+".svg", plot.Bytes(), 0o644))
}
