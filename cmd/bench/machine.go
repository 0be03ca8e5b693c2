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
