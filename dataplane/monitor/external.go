package monitor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxWeight is the largest weight that a program can say.
const maxWeight = 65535

// program runs a program with the address, the port and the arguments of the monitor. Whatever it writes to its standard output
// before the deadline is a success; if it begins with a number, that is the weight of the node in mode dynamic_ratio. The program
// and all that it started are killed a second later, or when the deadline passes.
func (a *active) program(ctx context.Context) error {
	args := []string{a.spec.Dial.Addr().String(), strconv.Itoa(int(a.spec.Dial.Port()))}
	if a.spec.Args != "" {
		args = append(args, strings.Split(a.spec.Args, "\x00")...)
	}
	cmd := exec.CommandContext(ctx, a.spec.Program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = time.Second
	heard := &listener{first: make(chan struct{})}
	defer func() { a.said.Store(heard.number()) }()
	cmd.Stdout = heard
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	var exit error // once ended is closed
	go func() {
		exit = cmd.Wait()
		close(ended)
	}()
	select {
	case <-heard.first:
		select {
		case <-ended:
		case <-time.After(time.Second): // it has said enough
		}
		_ = kill()
		<-ended
		return nil
	case <-ended:
		_ = kill() // what it left behind
		if heard.any() {
			return nil
		}
		if ctx.Err() != nil {
			return errLate
		}
		if exit != nil {
			return fmt.Errorf("the program says nothing: %w", exit)
		}
		return errors.New("the program says nothing")
	}
}

// listener notes that something was written to it, and how it begins.
type listener struct {
	once  sync.Once
	first chan struct{}

	mu    sync.Mutex
	begin []byte // guarded by mu
}

// listenerKeeps is how many bytes are kept of what a program says.
const listenerKeeps = 32

func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.begin = append(l.begin, b[:min(len(b), listenerKeeps-len(l.begin))]...)
	l.mu.Unlock()
	if len(b) > 0 {
		l.once.Do(func() { close(l.first) })
	}
	return len(b), nil
}

// number is the weight that was said: a number alone, or the first of several words. Zero is none; to say 0 is to say 1, the least.
func (l *listener) number() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	words := strings.Fields(string(l.begin))
	if len(words) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return 0
	}
	return uint32(min(max(n, 1), maxWeight))
}

func (l *listener) any() bool {
	select {
	case <-l.first:
		return true
	default:
		return false
	}
}
