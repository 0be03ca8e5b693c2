package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"

	"bigpipe/cmd/internal/process"
)

// screenWait is how long something may take to appear on the screen.
const screenWait = 10 * time.Second

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// terminal is a program on a pseudo-terminal.
type terminal struct {
	cmd    *exec.Cmd
	tty    *os.File
	unread string // what was printed and not expected yet, without escape sequences
}

// openTerminal starts a program on a screen. The caller must close it.
func openTerminal(ctx context.Context, path string, env []string) (*terminal, error) {
	own, tty, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	defer func() { _ = tty.Close() }() // the program has its own
	if err := pty.Setsize(own, &pty.Winsize{Rows: 50, Cols: 200}); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if err := process.Launch(cmd); err != nil {
		_ = own.Close()
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return &terminal{cmd: cmd, tty: own}, nil
}

// close kills the program and returns when it has ended.
func (t *terminal) close() {
	_ = t.cmd.Process.Kill()
	_ = t.cmd.Wait()
	_ = t.tty.Close()
}

func (t *terminal) send(keys string) error {
	_, err := t.tty.WriteString(keys)
	return err
}

// expect returns when text has appeared after what was expected before.
func (t *terminal) expect(text string) error {
	deadline := time.Now().Add(screenWait)
	if err := t.tty.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	buffer := make([]byte, 4096)
	for {
		if _, rest, found := strings.Cut(t.unread, text); found {
			t.unread = rest
			return nil
		}
		n, err := t.tty.Read(buffer)
		t.unread += escapes.ReplaceAllString(string(buffer[:n]), "")
		if err != nil {
			return fmt.Errorf("terminal: no %q in %q: %w", text, t.unread, err)
		}
	}
}

// typed types a text and returns when it is on the screen.
func (t *terminal) typed(text string) error {
	if err := t.send(text); err != nil {
		return err
	}
	return t.expect(text)
}

// answer presses keys and returns how long it takes until text appears.
func (t *terminal) answer(keys, text string) (time.Duration, error) {
	begin := time.Now()
	if err := t.send(keys); err != nil {
		return 0, err
	}
	err := t.expect(text)
	return time.Since(begin), err
}
