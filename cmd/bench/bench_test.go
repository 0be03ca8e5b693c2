package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"

	"bigpipe/cmd/internal/process"
)

// proxyCommand is the first argument of this test's program where it is a plain TCP proxy: LISTEN MEMBER.
const proxyCommand = "test-proxy"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case childCommand:
			main() // the load and the members of the tests below
		case proxyCommand:
			forward(os.Args[2], os.Args[3])
		}
	}
	os.Exit(m.Run())
}

// forward is the proxy; it ends with the process.
func forward(listen, member string) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		panic(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", member)
			if err != nil {
				return
			}
			defer server.Close()
			go func() {
				_, _ = io.Copy(server, client)
				server.Close()
			}()
			_, _ = io.Copy(client, server)
		}()
	}
}

// rigs counts them, so that each has addresses of its own.
var rigs atomic.Int32

// testRig has the given sides, on a block of addresses of its own.
func testRig(t *testing.T, progress io.Writer, sides ...*side) (*rig, placement) {
	t.Helper()
	if err := missingPrograms([]program{{"taskset", "Debian package util-linux"}}); err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	o, err := parseOptions([]string{"-rounds", "2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRig(o, t.TempDir(), progress)
	if err != nil {
		t.Fatal(err)
	}
	o.duration = 200 * time.Millisecond
	r.sides, r.block = sides, block(128+(os.Getpid()+int(rigs.Add(1)))%100)
	cores := allowedCores()
	return r, placement{threads: 1, proxy: cores, load: cores}
}

// goodSide is the test's own proxy.
func goodSide(name string) *side {
	return &side{
		name:   name,
		config: template.Must(template.New("proxy.conf").Parse("{{.Listen}} {{index .Members 0}}")),
		start: func(_ context.Context, b bench) ([]*process.Process, error) {
			words, err := os.ReadFile(b.config)
			if err != nil {
				return nil, err
			}
			p, err := start(command{
				name: name, cores: b.place.proxy, path: b.rig.self, args: append([]string{proxyCommand}, strings.Fields(string(words))...),
			}, b.dir)
			return oneProcess(p), err
		},
	}
}

// deadSide ends at once, with a word of why.
func deadSide(name string) *side {
	s := goodSide(name)
	s.start = func(_ context.Context, b bench) ([]*process.Process, error) {
		p, err := start(command{name: name, cores: b.place.proxy, path: "sh", args: []string{"-c", "echo no such port; exit 3"}}, b.dir)
		return oneProcess(p), err
	}
	return s
}

// missingSide needs a program that does not exist.
func missingSide(name string) *side {
	s := goodSide(name)
	s.programs = []program{{"no-such-proxy", "Debian package no-such-proxy"}}
	return s
}

func scenarioNamed(t *testing.T, name string) scenario {
	t.Helper()
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return scenario{}
}

// children are the processes that this one has started and that are left.
func children(t *testing.T) []int {
	t.Helper()
	pids, err := family(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return pids[1:]
}

func TestMeasureInTurnsAndNameWhatFails(t *testing.T) {
	var progress bytes.Buffer
	rig, at := testRig(t, &progress, goodSide("a"), deadSide("dead"), missingSide("absent"), goodSide("b"))
	rep := &report{}
	o := rig.measure(t.Context(), scenarioNamed(t, "tcp-connections"), at, rep)
	for _, side := range []string{"a", "b"} {
		for _, m := range []metric{connectionRate, connectionCPU, latency50, latency99} {
			if got := o.figures(side, m); got.count != 2 || got.least <= 0 {
				t.Errorf("%s %s: %+v: want two positive figures", side, m.name, got)
			}
		}
	}
	if o.limit[connectionRate.name] <= 0 {
		t.Errorf("limit %v: want connections without a proxy", o.limit)
	}
	if _, ok := o.limit[connectionCPU.name]; ok {
		t.Error("there is no proxy whose processor time could be in the limit")
	}
	wantMissing := []miss{
		{"dead ended (exit status 3): no such port", []string{"tcp-connections/1t dead"}},
		{"no-such-proxy is missing: Debian package no-such-proxy", []string{"tcp-connections/1t absent"}},
	}
	if diff := cmp.Diff(wantMissing, rep.missing, cmp.AllowUnexported(miss{})); diff != "" {
		t.Errorf("missing, -want +got:\n%s", diff)
	}
	var order []string
	for line := range strings.Lines(progress.String()) {
		order = append(order, strings.Fields(line)[2]+strings.TrimSuffix(strings.Fields(line)[3], ":"))
	}
	if got := strings.Join(order, " "); got != "1a 1b 2a 2b" {
		t.Errorf("runs %q: want them in turns", got)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// A load that fails once does not cost the side its later rounds; a program that ends does.
func TestFailuresInRounds(t *testing.T) {
	rig, at := testRig(t, io.Discard, goodSide("flaky"), goodSide("dying"))
	rig.options.rounds = 3
	s := scenarioNamed(t, "tcp-connections")
	load, runs := s.run, map[string]int{}
	s.limit = nil
	s.run = func(ctx context.Context, w work) (sample, error) {
		side := rig.sides[0].name
		if w.target != rig.block.proxy(0, tcpPort) {
			side = rig.sides[1].name
		}
		runs[side]++ // the first is the warm-up
		switch {
		case side == "flaky" && runs[side] == 2:
			return nil, errors.New("nothing was answered")
		case side == "dying" && runs[side] == 3:
			return nil, fmt.Errorf("dying %w (exit status 1)", process.ErrEnded)
		}
		return load(ctx, w)
	}
	rep := &report{}
	o := rig.measure(t.Context(), s, at, rep)
	if got := o.figures("flaky", connectionRate).count; got != 2 {
		t.Errorf("flaky has %d figures: want those of rounds 2 and 3", got)
	}
	if got := o.figures("dying", connectionRate).count; got != 1 || runs["dying"] != 3 {
		t.Errorf("dying has %d figures of %d runs: want that of round 1, and no run after its end", got, runs["dying"])
	}
	if got := o.ratios("flaky", "dying", connectionRate).count; got != 0 {
		t.Errorf("%d ratios: no round has both", got)
	}
	if len(rep.missing) != 2 {
		t.Errorf("missing %v: want a line for each failure", rep.missing)
	}
}

func TestParseCoreTimes(t *testing.T) {
	got, ok := parseCoreTimes("cpu  100 5 50 800 40 1 2 2 30 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if want := (coreTimes{total: 1000, idle: 840}); !ok || got != want {
		t.Errorf("%+v, %v, want %+v", got, ok, want)
	}
	for _, bad := range []string{"", "cpu  1 2 3", "cpu  1 2 3 x 5 6 7 8", "intr 1 2 3 4 5 6 7 8"} {
		if _, ok := parseCoreTimes(bad); ok {
			t.Errorf("%q is no line of times", bad)
		}
	}
}

func TestObserveSeesABusyMachine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range allowedCores() {
		go func() {
			for ctx.Err() == nil {
				continue
			}
		}()
	}
	if c := observe(ctx); c.busy <= 0 || c.busy > 100 {
		t.Errorf("%+v: want a share of time while all cores are busy", c)
	}
	cancel()
	if c := observe(ctx); c.busy >= 0 {
		t.Errorf("%+v: want an unknown share after an interrupt", c)
	}
}

// A scenario that a side cannot do leaves it out without a word.
func TestASideThatCannot(t *testing.T) {
	rig, at := testRig(t, io.Discard, goodSide("a"), deadSide("b"))
	s := scenarioNamed(t, "tcp-connections")
	s.without, s.most, s.limit = "b", 1, nil
	rep := &report{}
	o := rig.measure(t.Context(), s, at, rep)
	if len(rep.missing) > 0 || o.figures("a", connectionRate).count != 1 || len(o.before) != 1 {
		t.Errorf("missing %v, %d rounds, %d conditions: want none, one and one", rep.missing, o.figures("a", connectionRate).count, len(o.before))
	}
	if busy := o.figures("a", proxyBusy); busy.median <= 0 {
		t.Errorf("busy %+v: want a share", busy)
	}
}

func TestStreamsThroughAProxy(t *testing.T) {
	rig, at := testRig(t, io.Discard, goodSide("a"))
	rig.options.rounds = 1
	rep := &report{}
	o := rig.measure(t.Context(), scenarioNamed(t, "tcp-stream-8"), at, rep)
	if len(rep.missing) > 0 {
		t.Errorf("missing: %v", rep.missing)
	}
	for _, m := range []metric{throughput, throughputCPU} {
		if got := o.figures("a", m); got.count != 1 || got.median <= 0 {
			t.Errorf("%s: %+v: want a positive figure", m.name, got)
		}
	}
}

// cancelWriter cancels at the first line of progress.
type cancelWriter struct {
	once   sync.Once
	cancel func()
}

func (w *cancelWriter) Write(p []byte) (int, error) {
	w.once.Do(w.cancel)
	return len(p), nil
}

func TestInterruptEndsEverything(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rig, at := testRig(t, &cancelWriter{cancel: cancel}, goodSide("a"), goodSide("b"))
	rep := &report{}
	o := rig.measure(ctx, scenarioNamed(t, "tcp-connections"), at, rep)
	if got := o.figures("a", connectionRate); got.count != 1 {
		t.Errorf("%d figures of a: want the one before the interrupt", got.count)
	}
	if got := o.figures("b", connectionRate); got.count != 0 {
		t.Errorf("%d figures of b: want none after the interrupt", got.count)
	}
	if len(rep.missing) > 0 {
		t.Errorf("%v: an interrupt is no fault of a side", rep.missing)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	rig, at := testRig(t, io.Discard)
	p, err := start(command{
		name: "stubborn", cores: at.proxy, path: "sh",
		args: []string{"-c", `trap "" TERM; echo ready; while :; do sleep 0.1; done`},
	}, rig.dir)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(t.Context(), startWait, func() error {
		if p.Tail(5) != "ready" {
			return fmt.Errorf("%q", p.Tail(5))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stop(p)
	if err := p.Ended(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v: want that it was killed", err)
	}
}

func TestCPUTimeGrowsWithWork(t *testing.T) {
	pid := []int{os.Getpid()}
	before, err := cpuTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for spin := 0; after == before && spin < 1<<20; spin++ {
		if after, err = cpuTime(pid); err != nil {
			t.Fatal(err)
		}
	}
	if after <= before {
		t.Errorf("%v after %v: want growth", after, before)
	}
	if _, err := cpuTime([]int{1 << 22}); err == nil {
		t.Error("a process that does not exist has no processor time")
	}
}

func TestResidentBytesOfThisProcess(t *testing.T) {
	got, err := residentBytes([]int{os.Getpid()})
	if err != nil || got < 1<<20 {
		t.Errorf("%d bytes, error %v: want at least 1 MiB", got, err)
	}
}

func TestSumOfBytes(t *testing.T) {
	const status = "Name:\tx\nVmRSS:\t    9000 kB\nRssAnon:\t    1200 kB\nRssFile:\t    7000 kB\nRssShmem:\t       8 kB\n"
	if got, err := sumOfBytes(status, "RssAnon", "RssShmem"); err != nil || got != 1208<<10 {
		t.Errorf("%d, error %v: want %d", got, err, 1208<<10)
	}
	if _, err := sumOfBytes("Name:\tx\n", "RssAnon"); err == nil {
		t.Error("a status without RssAnon must be an error")
	}
}

func TestParentOf(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (nginx) S 7 12 12 0 -1":     7,
		"12 (a) b (c)) R 345 12 12 0 1": 345,
		"12 (x) S":                      0,
		"":                              0,
	} {
		if got := parentOf(stat); got != want {
			t.Errorf("parentOf(%q) = %d, want %d", stat, got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		threads int
		cores   string
		want    string
	}{
		{1, "0,1", "1 thread: the proxy alone on core 0, load and members on core 1"},
		{1, "2,3,5,6,7,8", "1 thread: the proxy alone on core 2, load and members on cores 3,5,6"},
		{2, "0,1", "2 threads: proxy, load and members share cores 0,1"},
		{2, "4,5,6", "2 threads: proxy, load and members share cores 4,5"},
		{1, "0", "needs 2 cores, there are 1"},
		{4, "0,1", "needs 4 cores, there are 2"},
	} {
		var cores []int
		for _, word := range splitList(c.cores) {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			cores = append(cores, n)
		}
		p, err := place(c.threads, cores)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d threads on %s: %q, want %q", c.threads, c.cores, got, c.want)
		}
	}
}

func TestMembersOfSidesDiffer(t *testing.T) {
	seen := map[netip.AddrPort]bool{}
	for i := range 3 {
		for _, a := range append(defaultBlock.members(i, httpPort), defaultBlock.proxy(i, httpPort)) {
			if seen[a] || !a.Addr().IsLoopback() {
				t.Errorf("%v is used twice or is not on loopback", a)
			}
			seen[a] = true
		}
	}
}

func TestFirstLineOfAProgramThatFails(t *testing.T) {
	got := firstLineOf(t.Context(), "sh", "-c", "echo wrk 4.1.0 >&2; echo more; exit 1")
	if got != "wrk 4.1.0" {
		t.Errorf("%q: want the first line of either stream", got)
	}
}

func TestOutputEndsAtItsLimit(t *testing.T) {
	_, at := testRig(t, io.Discard)
	begin := time.Now()
	_, err := output(t.Context(), command{name: "sleeper", cores: at.load, path: "sleep", args: []string{"600"}}, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("error %v after %v: want the deadline's", err, time.Since(begin))
	}
}
