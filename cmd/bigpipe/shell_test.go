package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/txtar"

	"bigpipe/cmd/bigpipe/internal/e2e"
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
	screen strings.Builder // all output, without escape sequences
	seen   int             // how much of it was looked at
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

func startTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
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
	timer := time.AfterFunc(20*time.Second, func() { _ = x.cmd.Process.Kill() })
	defer timer.Stop()
	_ = x.cmd.Wait()
	return x.cmd.ProcessState.ExitCode()
}

// startShell runs mgmtd and a dataplane with a pool web and returns a shell on them.
func startShell(t *testing.T) (*e2e.Site, *terminal) {
	t.Helper()
	site := newSite(t, "10.1.1.1:80 10.1.1.2:80 192.168.200.10:80")
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, "pool", "web", "{", "member", "10.1.1.1:80", "}")
	x := startTerminal(t, site.Command("bigpipe"))
	x.expect(prompt)
	return site, x
}

func TestShell(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)

	// Tab completes a command and the name of a pool; what came out is a command that works.
	x.send("poo\t")
	x.expect("pool ")
	x.send("we\t")
	x.expect("web ")
	if out := x.run("lb_mode show"); !strings.Contains(out, "round_robin") {
		t.Errorf("the completed command prints %q", out)
	}

	// A statement over two lines.
	x.send("pool two {\r")
	x.expect(continuation)
	if out := x.run("member 10.1.1.2:80 }"); strings.Contains(out, ":") {
		t.Errorf("a change prints %q", out)
	}
	if out := output(t, site, "list"); !strings.Contains(out, "10.1.1.2:80") {
		t.Errorf("the statement of two lines was not executed:\n%s", out)
	}

	// A fault is reported and the shell goes on.
	if out := x.run("pool three { membr 10.1.1.1:80 }"); !strings.Contains(out, `did you mean "member"?`) {
		t.Errorf("a fault prints %q", out)
	}
	// Ctrl-C drops the line and a statement that is open; the shell goes on.
	x.send("pool four {\r")
	x.expect(continuation)
	x.send("\x03")
	x.expect(prompt)
	x.send("half a line\x03")
	x.expect("^C")
	x.expect(prompt)

	// The arrow goes back in history.
	if out := x.run("pool two lb_mode show"); !strings.Contains(out, "round_robin") {
		t.Errorf("a query prints %q", out)
	}
	x.send("\x1b[A")
	x.expect("pool two lb_mode show")
	if out := x.run(""); !strings.Contains(out, "round_robin") {
		t.Errorf("the command of the history prints %q", out)
	}
	x.send("exit\r")
	if status := x.end(); status != 0 {
		t.Errorf("exit ends with status %d", status)
	}

	// The next shell knows the history.
	next := startTerminal(t, site.Command("bigpipe"))
	next.expect(prompt)
	next.send("\x1b[A")
	next.expect("pool two lb_mode show")
	next.send("\x03")
	next.expect(prompt)
	next.send("\x04") // the end of input
	if status := next.end(); status != 0 {
		t.Errorf("the end of input ends with status %d", status)
	}
	if out := output(t, site, "list"); strings.Contains(out, "pool four") || strings.Contains(out, "pool three") {
		t.Errorf("what was interrupted or faulty was executed:\n%s", out)
	}
}

// TestShellSurvivesMgmtd loses mgmtd and finds it again within one shell.
func TestShellSurvivesMgmtd(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)
	if err := site.KillDaemon("mgmtd"); err != nil {
		t.Fatal(err)
	}
	if out := x.run("pool web lb_mode show"); !strings.Contains(out, "not reachable") {
		t.Errorf("without mgmtd a query prints %q", out)
	}
	start(t, site, "mgmtd")
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(x.run("pool web lb_mode show"), "round_robin") {
		if time.Now().After(deadline) {
			t.Fatal("the shell does not reach mgmtd again")
		}
	}
}

// TestShellSeed002 enters the commands of rule B-T16 in the shell.
func TestShellSeed002(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "B-T16_every_command.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	site := newSite(t, files["seed002"])
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	x := startTerminal(t, site.Command("bigpipe"))
	x.expect(prompt)
	for command := range strings.Lines(files["seed002"]) {
		if out := x.run(strings.TrimSpace(command)); strings.Contains(out, "error") {
			t.Errorf("%s prints %q", command, out)
		}
	}
	if got, want := output(t, site, "list"), files["want.conf"]; got != want {
		t.Errorf("configuration:\n%s\nwant:\n%s", got, want)
	}
}
