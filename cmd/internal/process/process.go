// Package process starts programs that end with the one that started them.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrEnded marks a program that does not run any more.
var ErrEnded = errors.New("ended")

// launcher runs functions on one thread that never ends: the kernel signals the children of a thread that ends.
var launcher = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Launch starts cmd so that the kernel kills it when this program ends, whatever becomes of it; where cmd names another
// Pdeathsig, it gets that signal instead.
func Launch(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	result := make(chan error)
	launcher() <- func() { result <- cmd.Start() }
	return <-result
}

// Process is a program that was started, in a process group of its own so that a Ctrl-C of the terminal reaches only us.
type Process struct {
	// Name is for messages, Log the file that holds what the program prints.
	Name, Log string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; after done
}

// Start starts cmd. What it prints is added to the file log, but for a standard output that cmd has already.
func Start(name string, cmd *exec.Cmd, log string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the program has its own
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	cmd.Stderr = file
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := Launch(cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Process{Name: name, Log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the program's process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended is nil while the program runs, else an ErrEnded with the end of its output.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s %w (%v): %s", p.Name, ErrEnded, p.cmd.ProcessState, p.Tail(5))
	default:
		return nil
	}
}

// Tail is the last lines of the log.
func (p *Process) Tail(lines int) string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Await tries ready until it succeeds: for limit at most, until ctx ends, and only while the program runs.
func (p *Process) Await(ctx context.Context, limit time.Duration, ready func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v: %w; its output: %s", p.Name, limit, err, p.Tail(5))
		}
		select {
		case <-p.done:
			return p.Ended()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop asks the program to end, kills it after grace, and returns when it has ended. The error says that it did not end by
// itself, or how, unless that was with status 0.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.Kill())
	}
	select {
	case <-p.done:
	case <-time.After(grace):
		return errors.Join(fmt.Errorf("%s does not end within %v: %s", p.Name, grace, p.Tail(5)), p.Kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended badly: %w: %s", p.Name, p.err, p.Tail(5))
	}
	return nil
}

// Kill kills the program and what it has started in its group, and returns when it has ended.
func (p *Process) Kill() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-p.done
	return nil
}
