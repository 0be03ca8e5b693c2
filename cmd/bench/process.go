package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/cmd/internal/process"
)

const (
	startWait = 10 * time.Second // for a program to answer
	stopWait  = 5 * time.Second  // for a program to end before it is killed
)

// command is how a program is started.
type command struct {
	name  string // for messages and the log
	cores []int  // that it may use
	env   []string
	path  string
	args  []string
}

// pinned is c as a command line that keeps to its cores.
func (c command) pinned(ctx context.Context) *exec.Cmd {
	words := append([]string{"-c", coreList(c.cores), c.path}, c.args...)
	cmd := exec.CommandContext(ctx, "taskset", words...)
	cmd.Env = append(os.Environ(), c.env...)
	// A program with workers has to end them itself when we are killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	return cmd
}

func coreList(cores []int) string {
	words := make([]string, len(cores))
	for i, c := range cores {
		words[i] = strconv.Itoa(c)
	}
	return strings.Join(words, ",")
}

// start starts a program whose output goes to a file of dir. It ends with stop only, not with a context.
func start(c command, dir string) (*process.Process, error) {
	return process.Start(c.name, c.pinned(context.Background()), filepath.Join(dir, c.name+".log"))
}

// stop asks the program to end, kills it after stopWait and returns when it has ended.
func stop(p *process.Process) {
	_ = p.Stop(stopWait) // how it ended is of no interest after the measurement
}

// stopAll stops programs, the last first.
func stopAll(running []*process.Process) {
	for i := len(running) - 1; i >= 0; i-- {
		stop(running[i])
	}
}

// output runs a program to its end and returns what it printed on its standard output.
func output(ctx context.Context, c command, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := c.pinned(ctx)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := process.Launch(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", c.name, ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", c.name, err, strings.TrimSpace(stdout.String()+stderr.String()))
	}
	return stdout.Bytes(), nil
}

// family is a program's process pid and the worker processes that it has started, as nginx does.
func family(pid int) ([]int, error) {
	pids := []int{pid}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		other, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other))
		if err == nil && parentOf(string(text)) == pid {
			pids = append(pids, other)
		}
	}
	return pids, nil
}

// parentOf reads the parent's number from a line of /proc/PID/stat, 0 if there is none. The program's name, in
// parentheses, may hold blanks and parentheses itself.
func parentOf(stat string) int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}

// cpuTime is the processor time that the processes have used, all threads, also those that have ended. It is the account
// behind the times of /proc/PID/stat, in nanoseconds instead of ticks.
func cpuTime(pids []int) (time.Duration, error) {
	var total time.Duration
	for _, pid := range pids {
		const schedClock = 2 // CPUCLOCK_SCHED: the time that the scheduler accounted
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		total += time.Duration(t.Nano())
	}
	return total, nil
}

// residentBytes is the resident memory of the processes that is not the contents of files.
func residentBytes(pids []int) (int64, error) {
	var total int64
	for _, pid := range pids {
		n, err := statusBytes(pid, "RssAnon", "RssShmem")
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// residentSet is all resident memory of a process.
func residentSet(pid int) (int64, error) { return statusBytes(pid, "VmRSS") }

// statusBytes is the sum of some amounts of /proc/PID/status.
func statusBytes(pid int, keys ...string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	n, err := sumOfBytes(string(text), keys...)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	return n, nil
}

// sumOfBytes reads it from the text of /proc/PID/status.
func sumOfBytes(status string, keys ...string) (int64, error) {
	var total int64
	for _, key := range keys {
		kib, err := strconv.ParseInt(strings.TrimSuffix(colonValue(status, key, ""), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("no %s in its status", key)
		}
		total += kib << 10
	}
	return total, nil
}
