package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options is a parsed command line.
type options struct {
	subject  string // the side that is judged
	peers    []string
	threads  []int
	rounds   int
	duration time.Duration  // of one run that is judged; see length
	warmUp   bool           // a load runs before the first round counts
	only     *regexp.Regexp // nil: every scenario
	idle     int            // connections of the idle scenario
	bin      string         // the folder of our programs
	results  string         // folder of reports; "": standard output only
	keep     bool
	list     bool
}

var errHelp = errors.New("help was printed")

const usageHead = `usage: bench [options]

Measures bigpipe beside HAProxy and nginx on this machine and prints ratios, then figures.
Needs haproxy, nginx and wrk (Debian packages of these names), taskset (util-linux) and, for nginx as a
TCP and UDP proxy, libnginx-mod-stream. What is missing is named in the report and the rest is measured.
Exit status: 0 all measured, 1 something could not be measured, 2 wrong usage.

`

// parseOptions reads the flags; all faults of their values are returned at once. Help and flag errors go to stderr.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	var peers, threads, only string
	var quick bool
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.subject, "subject", "bigpipe", "the `side` that is judged: "+strings.Join(sideNames(), ", "))
	f.StringVar(&peers, "peers", "haproxy,nginx", "the `sides` that it is compared with; goals are judged against haproxy")
	f.StringVar(&threads, "threads", "1,2", "`numbers` of threads: with 1 the proxy has a core of its own, else all share as many cores")
	f.IntVar(&o.rounds, "rounds", 5, "rounds; in each, every side runs once, in turns")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "length of one run at one thread that has a goal, whole seconds; other runs take half of it, at least 1s")
	f.StringVar(&only, "only", "", "only scenarios whose name (see -list) matches the `pattern`")
	f.BoolVar(&quick, "quick", false, "one round of 1s at one thread, no warm-up, unless they are given: to see that all works, not to judge")
	f.IntVar(&o.idle, "idle", 9000, "`connections` of the idle scenario (two descriptors each)")
	f.StringVar(&o.bin, "bin", "bin", "`folder` of bigpipe, mgmtd and dataplane")
	f.StringVar(&o.results, "results", "", "also write the report and a plot into this `folder`, as DATE.txt and DATE.svg")
	f.BoolVar(&o.keep, "keep", false, "keep the configurations and logs of the programs and say where they are")
	f.BoolVar(&o.list, "list", false, "list the scenarios and end")
	f.Usage = func() {
		fmt.Fprint(stderr, usageHead)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		}
		return nil, err
	}
	o.warmUp = !quick
	if quick {
		o.quicken(f, &threads)
	}
	o.peers = splitList(peers)
	return o, errors.Join(o.setThreads(threads), o.setOnly(only), o.check(f.Args()))
}

// quicken shortens what was not given explicitly.
func (o *options) quicken(f *flag.FlagSet, threads *string) {
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	if !given["rounds"] {
		o.rounds = 1
	}
	if !given["duration"] {
		o.duration = time.Second
	}
	if !given["threads"] {
		*threads = "1"
	}
}

// length is how long one run of a scenario takes: the whole duration where figures are judged closely.
func (o *options) length(s scenario, threads int) time.Duration {
	half := (o.duration / 2).Truncate(time.Second)
	if half == 0 || threads == 1 && s.judgedAt(threads) {
		half = o.duration
	}
	return max(half, s.least)
}

func (o *options) setThreads(text string) error {
	for _, word := range splitList(text) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("-threads: %q is not a number from 1", word)
		}
		o.threads = append(o.threads, n)
	}
	if len(o.threads) == 0 {
		return errors.New("-threads: none given")
	}
	return nil
}

func (o *options) setOnly(pattern string) error {
	if pattern == "" {
		return nil
	}
	var err error
	if o.only, err = regexp.Compile(pattern); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	return nil
}

func (o *options) check(rest []string) error {
	var faults []error
	for _, name := range append([]string{o.subject}, o.peers...) {
		if !slices.Contains(sideNames(), name) {
			faults = append(faults, fmt.Errorf("unknown side %q: %s", name, strings.Join(sideNames(), ", ")))
		}
	}
	if slices.Contains(o.peers, o.subject) {
		faults = append(faults, fmt.Errorf("-peers: %s is the subject", o.subject))
	}
	if o.rounds < 1 {
		faults = append(faults, fmt.Errorf("-rounds: %d is less than 1", o.rounds))
	}
	if o.duration < time.Second || o.duration%time.Second != 0 {
		faults = append(faults, fmt.Errorf("-duration: %v is not a number of whole seconds", o.duration))
	}
	if o.idle < 1 {
		faults = append(faults, fmt.Errorf("-idle: %d is less than 1", o.idle))
	}
	if len(rest) > 0 {
		faults = append(faults, fmt.Errorf("unexpected %q", rest[0]))
	}
	return errors.Join(faults...)
}

// wants says whether -only chooses the label.
func (o *options) wants(label string) bool { return o.only == nil || o.only.MatchString(label) }

// sides are the sides in the order in which they run.
func (o *options) sides() []string {
	return append([]string{o.subject}, o.peers...)
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
