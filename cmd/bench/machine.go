package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// machine is where it was measured.
type machine struct {
	cpu         string // model
	cores       int    // that this process may use
	memoryMiB   int
	kernel      string
	system      string
	goVersion   string
	loadBefore  float64 // load average of a minute
	loadAfter   float64
	descriptors int // limit
}

func describeMachine() machine {
	m := machine{
		cpu: "unknown processor", cores: len(allowedCores()), goVersion: strings.TrimPrefix(runtime.Version(), "go"),
		system: "Linux", loadBefore: loadAverage(),
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.cpu = colonValue(string(text), "model name", m.cpu)
	}
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				m.system = strings.Trim(strings.TrimSpace(name), `"`)
			}
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.kernel = unix.ByteSliceToString(u.Release[:])
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := strconv.Atoi(strings.TrimSuffix(colonValue(string(text), "MemTotal", ""), " kB"))
		m.memoryMiB = kib >> 10
	}
	m.descriptors = descriptorLimit()
	return m
}

// colonValue is the value of the first line "key : value" of text, else fallback.
func colonValue(text, key, fallback string) string {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return fallback
}

// condition is how quiet the machine is while nothing of ours runs.
type condition struct {
	load float64 // load average of the last minute, which ours is part of
	busy float64 // percent of all cores' time that others use at the moment; negative if unknown
}

// observeTime is how long others are watched.
const observeTime = 100 * time.Millisecond

// observe watches the machine for a moment. What is being measured must be silent.
func observe(ctx context.Context) condition {
	c := condition{load: loadAverage(), busy: -1}
	before, ok := readCoreTimes()
	if !ok || sleep(ctx, observeTime) != nil {
		return c
	}
	after, ok := readCoreTimes()
	if total := after.total - before.total; ok && total > 0 {
		c.busy = 100 * (1 - float64(after.idle-before.idle)/float64(total))
	}
	return c
}

// coreTimes are the times of all cores since the start of the system, in ticks.
type coreTimes struct{ total, idle int64 }

func readCoreTimes() (coreTimes, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return coreTimes{}, false
	}
	return parseCoreTimes(string(text))
}

// parseCoreTimes reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Guests' time is
// part of the user's.
func parseCoreTimes(text string) (coreTimes, bool) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return coreTimes{}, false
	}
	var t coreTimes
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return coreTimes{}, false
		}
		t.total += n
		if i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t, true
}

// loadAverage is the load average of the last minute, 0 if it is unknown.
func loadAverage() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// allowedCores are the numbers of the cores that this process may use.
func allowedCores() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	var cores []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// raiseDescriptorLimit lets this process and those that it starts open as many descriptors as the system allows. Go raises its
// own limit, but gives the old one to the programs that it starts, unless the limit was set explicitly.
func raiseDescriptorLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// descriptorLimit is how many descriptors this process may open.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // the least that systems give
	}
	return int(min(limit.Cur, 1<<30))
}

// firstLineOf runs a program that prints its version, on whichever stream and with whichever status, and returns its first line.
func firstLineOf(ctx context.Context, program string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, _ := exec.CommandContext(ctx, program, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
