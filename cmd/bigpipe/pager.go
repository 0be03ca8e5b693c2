package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// defaultPager shows long output where PAGER says nothing.
const defaultPager = "less -FRX"

// errPagerEnded says that the reader of the output wants no more of it.
var errPagerEnded = errors.New("the pager has ended")

// pagerSettings say which program shows long output.
type pagerSettings struct {
	// program is the value of PAGER; set tells an empty one, which switches the pager off, from none.
	program string
	set     bool
	// lessSet is set when LESS holds the user's own options.
	lessSet bool
	dumb    bool // a terminal without cursor movement
}

// readPagerSettings takes them from the environment.
func readPagerSettings() pagerSettings {
	s := pagerSettings{dumb: os.Getenv("TERM") == "dumb"}
	s.program, s.set = os.LookupEnv("PAGER")
	_, s.lessSet = os.LookupEnv("LESS")
	return s
}

// command is the pager's command line, "" for none.
func (s pagerSettings) command() string {
	switch program := strings.TrimSpace(s.program); {
	case s.dumb, s.set && program == "", program == "cat":
		return ""
	case !s.set:
		return defaultPager
	default:
		return program
	}
}

// terminalOf is the terminal that w writes to, nil where it is something else.
func terminalOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case *checkedWriter:
		return terminalOf(w.to)
	case *pagedErrors:
		return terminalOf(w.to)
	case *os.File:
		if term.IsTerminal(int(w.Fd())) {
			return w
		}
	}
	return nil
}

// paged runs commands so that output which is longer than the screen goes through the pager. Where standard output is no
// terminal it changes nothing.
func (a *app) paged(ctx context.Context, run func(a *app, ctx context.Context) int) int {
	screen, command := terminalOf(a.stdout), a.env.pager.command()
	if screen == nil || command == "" {
		return run(a, ctx)
	}
	width, height, err := term.GetSize(int(screen.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return run(a, ctx)
	}
	p := &pager{out: a.stdout, screen: screen, command: command, less: !a.env.pager.lessSet, width: width, height: height}
	held := &pagedErrors{to: a.stderr, pager: p}
	inner := *a
	inner.stdout, inner.stderr = p, held
	status := run(&inner, ctx)
	if err := p.end(); err != nil {
		return a.fail(err)
	}
	if _, err := a.stderr.Write(held.text.Bytes()); err != nil {
		return exitRefused
	}
	return status
}

// unpaged is the program with its output past the pager.
func (a *app) unpaged() *app {
	direct := *a
	if p, is := a.stdout.(*pager); is {
		direct.stdout = p.out
	}
	if e, is := a.stderr.(*pagedErrors); is {
		direct.stderr = e.to
	}
	return &direct
}

// pager holds output until it is longer than the screen, then hands it to a program.
type pager struct {
	out           io.Writer // where short output goes
	screen        *os.File
	command       string
	less          bool // LESS needs a value
	width, height int

	held bytes.Buffer
	// rows are those of the screen that held fills; column is where the last one ends.
	rows, column int
	direct       bool // there is no pager to start

	program *exec.Cmd
	pipe    io.WriteCloser
	restore func() // lets Ctrl-C end this program again
}

// Write implements io.Writer. Its error is errPagerEnded after the user left the pager.
func (p *pager) Write(b []byte) (int, error) {
	switch {
	case p.direct:
		return p.out.Write(b)
	case p.pipe != nil:
		if _, err := p.pipe.Write(b); err != nil {
			return 0, errPagerEnded
		}
		return len(b), nil
	}
	p.held.Write(b)
	p.measure(b)
	if p.rows < p.height {
		return len(b), nil
	}
	if err := p.start(); err != nil {
		p.direct = true
		_, err = p.held.WriteTo(p.out)
		return len(b), err
	}
	if _, err := p.held.WriteTo(p.pipe); err != nil {
		return 0, errPagerEnded
	}
	return len(b), nil
}

// measure counts the rows that text fills.
func (p *pager) measure(text []byte) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case r == '\n':
			p.rows, p.column = p.rows+1, 0
		case p.column == p.width:
			p.rows, p.column = p.rows+1, 1
		default:
			p.column++
		}
	}
}

// start runs the pager. Ctrl-C is then for the pager.
func (p *pager) start() error {
	cmd := exec.Command("/bin/sh", "-c", p.command)
	if first, _, _ := strings.Cut(p.command, " "); first != "" {
		if _, err := exec.LookPath(first); err != nil {
			return err
		}
	}
	cmd.Stdout, cmd.Stderr = p.screen, p.screen
	if p.less {
		cmd.Env = append(os.Environ(), "LESS=FRX")
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	restore := swallowInterrupts()
	if err := cmd.Start(); err != nil {
		restore()
		return err
	}
	p.program, p.pipe, p.restore = cmd, pipe, restore
	return nil
}

// end shows what is held, or waits until the user leaves the pager.
func (p *pager) end() error {
	if p.program == nil {
		_, err := p.held.WriteTo(p.out)
		return err
	}
	_ = p.pipe.Close()
	_ = p.program.Wait() // how a pager ends says nothing about the command
	p.restore()
	return nil
}

// pagedErrors holds what goes to standard error while the pager has the screen.
type pagedErrors struct {
	to    io.Writer
	pager *pager
	text  bytes.Buffer
}

// Write implements io.Writer.
func (w *pagedErrors) Write(b []byte) (int, error) {
	if w.pager.program != nil {
		return w.text.Write(b)
	}
	return w.to.Write(b)
}
