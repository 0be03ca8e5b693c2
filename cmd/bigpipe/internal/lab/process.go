package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// grace is how long a process may take to end before it is killed.
const grace = 5 * time.Second

// processes are the programs that a lab started. They end with it, even when it is killed.
type processes struct {
	logDir string
	// start runs functions on the one thread that lives as long as the lab: the kernel signals a child when the thread that
	// started it ends.
	start   chan func()
	stopped chan string
	running sync.WaitGroup
	all     []*process
}

type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{}
}

func newProcesses(logDir string) *processes {
	p := &processes{logDir: logDir, start: make(chan func()), stopped: make(chan string, 16)}
	p.running.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range p.start {
			f()
		}
	})
	return p
}

// run starts program with args; its log goes to NAME.log. input, when there is one, is written to its standard input, which
// then stays open. It returns the program's standard output.
func (p *processes) run(name, program string, input []byte, args ...string) (*bufio.Reader, error) {
	logFile, err := os.OpenFile(filepath.Join(p.logDir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(program, args...)
	cmd.Stderr = logFile
	// A group of its own: Ctrl-C in the lab's terminal is for the lab.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	p.start <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	child := &process{name: name, cmd: cmd, stdin: stdin, done: make(chan struct{})}
	p.all = append(p.all, child)
	p.running.Go(func() {
		_ = cmd.Wait()
		close(child.done)
		p.stopped <- name
	})
	if len(input) > 0 {
		if _, err := stdin.Write(input); err != nil {
			return nil, fmt.Errorf("%s: %w (see %s)", name, err, logFile.Name())
		}
	}
	return bufio.NewReader(stdout), nil
}

// stop ends all processes, the last started first, and waits for them.
func (p *processes) stop() {
	for i := len(p.all) - 1; i >= 0; i-- {
		child := p.all[i]
		_ = child.stdin.Close()
		if err := child.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			_ = child.cmd.Process.Kill()
		}
		select {
		case <-child.done:
		case <-time.After(grace):
			_ = child.cmd.Process.Kill()
			<-child.done
		}
	}
	close(p.start)
	p.running.Wait()
}
