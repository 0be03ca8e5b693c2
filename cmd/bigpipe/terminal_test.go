package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

const (
	prompt       = "bigpipe> "
	continuation = "      -> "
)

// terminal is a program on a pseudo-terminal.
type terminal struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File

	mu     sync.Mutex
	bytes  strings.Builder // all output
	screen strings.Builder // the same without escape sequences
	seen   int             // how much of it was looked at
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// startTerminal starts cmd on a screen of 50 rows and 200 columns.
func startTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Env, "PAGER=cat")
	return startScreen(t, cmd, pty.Winsize{Rows: 50, Cols: 200})
}

func startScreen(t *testing.T, cmd *exec.Cmd, size pty.Winsize) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm")
	tty, err := pty.StartWithSize(cmd, &size)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, cmd: cmd, tty: tty}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := tty.Read(buffer)
			x.mu.Lock()
			x.bytes.Write(buffer[:n])
			x.screen.WriteString(escapes.ReplaceAllString(string(buffer[:n]), ""))
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		tty.Close()
		<-done
	})
	return x
}

func (x *terminal) send(keys string) {
	x.t.Helper()
	if _, err := x.tty.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// expect waits until text appears after what was looked at before; it returns what came before it.
func (x *terminal) expect(text string) string {
	x.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		x.mu.Lock()
		rest := x.screen.String()[x.seen:]
		i := strings.Index(rest, text)
		if i >= 0 {
			x.seen += i + len(text)
			x.mu.Unlock()
			return rest[:i]
		}
		x.mu.Unlock()
		if time.Now().After(deadline) {
			x.t.Fatalf("no %q in %q", text, rest)
		}
	}
}

// run sends a command and returns what is on the screen up to the next prompt.
func (x *terminal) run(command string) string {
	x.t.Helper()
	x.send(command + "\r")
	x.expect("\n")
	return x.expect(prompt)
}

// end waits until the program ends and returns its exit status.
func (x *terminal) end() int {
	x.t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { _ = x.cmd.Process.Signal(syscall.SIGQUIT) })
	_ = x.cmd.Wait()
	if !timer.Stop() {
		x.t.Errorf("it does not end:\n%s", x.all())
	}
	return x.cmd.ProcessState.ExitCode()
}

// wait waits until text appears, whatever was looked at before.
func (x *terminal) wait(text string) {
	x.t.Helper()
	x.mu.Lock()
	x.seen = 0
	x.mu.Unlock()
	x.expect(text)
}

// all is everything that was printed, without escape sequences; raw is with them.
func (x *terminal) all() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

func (x *terminal) raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bytes.String()
}

// skipWithout skips a test that needs a program which is not there; where nothing may be skipped that is a failure.
func skipWithout(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("BIGPIPE_NO_SKIP") != "" {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("%s is not installed (package %s)", program, program)
}
