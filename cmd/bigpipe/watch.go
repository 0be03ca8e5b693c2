package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// watchUsage is the help on a command that the language does not have.
const watchUsage = `watch: repeat a query

  watch [SECONDS] COMMAND
      runs COMMAND, which must not change anything, every SECONDS (2) until a key or Ctrl-C
      example: watch 2 pool web show
`

// watchEvery is how often watch runs its command when nothing else is said.
const watchEvery = 2 * time.Second

// queries are the actions that watch repeats.
var queries = map[grammar.Action]bool{
	grammar.ActionShow: true, grammar.ActionList: true, grammar.ActionLBModeShow: true, grammar.ActionSysctlShow: true,
	grammar.ActionGlobalShow: true, grammar.ActionPersistShow: true, grammar.ActionPersistDump: true,
	grammar.ActionPersistExplain: true, grammar.ActionPersistForecast: true, grammar.ActionConnDump: true,
	grammar.ActionHistory: true, grammar.ActionMonitorDump: true, grammar.ActionNodeMonitorShow: true,
	grammar.ActionVersion: true, grammar.ActionSummary: true,
}

// watch repeats a query: text is what follows the word watch.
func (a *app) watch(ctx context.Context, origin *pb.Position, text string) int {
	every, query, err := parseWatch(text)
	if err == nil && a.json() {
		err = usageError("watch prints text only")
	}
	if err != nil {
		return a.faultAt(origin, err)
	}
	statements, diagnostics := grammar.ParseCommand(origin, []byte(query))
	if hasError(diagnostics) {
		a.report(diagnostics)
		return exitUsage
	}
	for _, s := range statements {
		if !queries[s.Action] {
			return a.faultAt(origin, usageError("watch repeats what only prints, not %q", s.Text))
		}
	}
	if a.options.check {
		return a.checked()
	}
	a = a.unpaged()
	ctx, stop := interruptible(ctx)
	defer stop()
	w := &watcher{every: every, query: query, out: a.stdout, screen: terminalOf(a.stdout)}
	if w.screen != nil && term.IsTerminal(int(a.stdin.Fd())) {
		restore, err := w.takeKeys(int(a.stdin.Fd()))
		if err != nil {
			return a.fail(fmt.Errorf("terminal: %w", err))
		}
		defer restore()
	}
	return w.run(ctx, func(out io.Writer) int {
		once := *a
		once.stdout, once.stderr = out, out
		return once.command(ctx, origin, query)
	})
}

// parseWatch reads what follows the word watch.
func parseWatch(text string) (every time.Duration, query string, err error) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		every, query = watchEvery, text
	} else if !(seconds >= 0.1 && seconds <= 86400) {
		return 0, "", usageError("watch takes from 0.1 to 86400 seconds, not %s", first)
	} else {
		every, query = time.Duration(seconds*float64(time.Second)), strings.TrimSpace(rest)
	}
	if query == "" {
		return 0, "", usageError("watch needs a command")
	}
	return every, query, nil
}

// watcher runs a query again and again.
type watcher struct {
	every time.Duration
	query string
	out   io.Writer
	// screen is where the query's output replaces that of the last time; nil: it is printed below.
	screen *os.File
	keys   int // the file descriptor of the keyboard, 0 or more; meaningful once takeKeys was called
	reads  bool
}

// run repeats once until ctx ends or a key is pressed. It returns the last status; being ended is none.
func (w *watcher) run(ctx context.Context, once func(out io.Writer) int) int {
	if w.screen != nil {
		fmt.Fprint(w.out, "\x1b[H\x1b[2J")
	}
	for {
		next := time.Now().Add(w.every)
		var text bytes.Buffer
		once(&text)
		if ctx.Err() != nil {
			return exitDone
		}
		if _, err := io.WriteString(w.out, w.page(text.String())); err != nil {
			return exitRefused
		}
		if w.ended(ctx, next) {
			return exitDone
		}
	}
}

// page is what one round prints: on a screen, as much as fits.
func (w *watcher) page(text string) string {
	head := fmt.Sprintf("every %v: %s", w.every, w.query)
	now := time.Now().Format(time.TimeOnly)
	if w.screen == nil {
		return fmt.Sprintf("%s  %s\n%s\n", head, now, text)
	}
	width, height, err := term.GetSize(int(w.screen.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	lines := append([]string{head + "  " + now + "  (a key ends it)", ""}, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	if len(lines) >= height {
		n := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("... %d more lines", n))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(cut(strings.Map(seen, line), width) + "\x1b[K\n")
	}
	return b.String() + "\x1b[J"
}

// cut shortens a line to a width.
func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}

// takeKeys makes the keyboard deliver keys at once and unseen; Ctrl-C still interrupts.
func (w *watcher) takeKeys(fd int) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &keys); err != nil {
		return nil, err
	}
	w.keys, w.reads = fd, true
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// ended waits until next; true when ctx ended or a key was pressed before.
func (w *watcher) ended(ctx context.Context, next time.Time) bool {
	const step = 50 * time.Millisecond
	for {
		left := time.Until(next)
		if ctx.Err() != nil || left <= 0 {
			return ctx.Err() != nil
		}
		if !w.reads {
			select {
			case <-ctx.Done():
			case <-time.After(left):
			}
			continue
		}
		poll := []unix.PollFd{{Fd: int32(w.keys), Events: unix.POLLIN}}
		if n, _ := unix.Poll(poll, int(min(left, step).Milliseconds())+1); n > 0 {
			var key [64]byte // a key may be several bytes
			_, _ = unix.Read(w.keys, key[:])
			return true
		}
	}
}
