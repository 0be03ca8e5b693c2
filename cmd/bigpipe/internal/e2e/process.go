package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTime bounds how long a daemon may take until it accepts connections.
	startTime = 30 * time.Second
	// stopTime bounds how long it may take to end when it is asked to.
	stopTime = 20 * time.Second
)

// process is a daemon that listens on a unix socket.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has ended
	err  error         // how it ended; after done
}

// launcher runs functions on one thread that never ends: the kernel kills the children of a thread that ends, which is
// how they end with the test, whatever becomes of it.
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

// Start starts cmd so that it is killed when this program ends.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error)
	launcher() <- func() { result <- cmd.Start() }
	return <-result
}

// startProcess starts a daemon and waits until its socket accepts connections. What it prints is added to the file log.
func startProcess(path, name, socket, log string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: name, cmd: exec.Command(path, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), raceOptions)
	if err := Start(p.cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	for deadline := time.Now().Add(startTime); ; {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return p, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s does not start: %w\n%s", name, p.err, p.output())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s does not listen: %w\n%s", name, err, p.output()), p.kill())
		}
	}
}

// raceOptions keeps programs that are built with the race detector from sleeping for a second at exit.
const raceOptions = "GORACE=atexit_sleep_ms=0"

func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// stop asks the daemon to end and waits; it is an error when it does not end cleanly.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(stopTime):
		return errors.Join(fmt.Errorf("%s does not end\n%s", p.name, p.output()), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended badly: %w\n%s", p.name, p.err, p.output())
	}
	return nil
}

// kill ends the daemon with SIGKILL, by its process id.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// fault tells whether the daemon's log shows a crash or a data race.
func fault(log string) error {
	text, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if i := strings.Index(string(text), sign); i >= 0 {
			return fmt.Errorf("%s:\n%s", log, text[i:])
		}
	}
	return nil
}
