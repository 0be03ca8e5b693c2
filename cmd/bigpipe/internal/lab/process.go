package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"bigpipe/cmd/internal/process"
)

// grace is how long a process may take to end before it is killed.
const grace = 5 * time.Second

// processes are the programs that a lab started.
type processes struct {
	logDir  string
	stopped chan *process.Process
	running sync.WaitGroup
	all     []child
}

// child is a process; its standard input is open until it is to end.
type child struct {
	*process.Process
	stdin io.Closer
}

func newProcesses(logDir string) *processes {
	return &processes{logDir: logDir, stopped: make(chan *process.Process, 16)}
}

// run starts program with args; its log goes to NAME.log. input, when there is one, is written to its standard input, which
// then stays open. It returns the program's standard output.
func (p *processes) run(name, program string, input []byte, args ...string) (*bufio.Reader, error) {
	cmd := exec.Command(program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, err := process.Start(name, cmd, filepath.Join(p.logDir, name+".log"))
	if err != nil {
		return nil, err
	}
	p.all = append(p.all, child{started, stdin})
	p.running.Go(func() {
		<-started.Done()
		p.stopped <- started
	})
	if len(input) > 0 {
		if _, err := stdin.Write(input); err != nil {
			return nil, fmt.Errorf("%s: %w (see %s)", name, err, started.Log)
		}
	}
	return bufio.NewReader(stdout), nil
}

// last is the process that was started last; there is one.
func (p *processes) last() child { return p.all[len(p.all)-1] }

// stop ends all processes, the last started first, and waits for them.
func (p *processes) stop() {
	for i := len(p.all) - 1; i >= 0; i-- {
		_ = p.all[i].stdin.Close()
		_ = p.all[i].Stop(grace) // how it ends does not matter any more
	}
	p.running.Wait()
}

// waitFor calls ready every 20 ms until it holds, ctx ends, or a process has stopped.
func waitFor(ctx context.Context, stopped <-chan *process.Process, ready func() error) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case p := <-stopped:
			return fmt.Errorf("%s %w", p.Name, errStopped)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
