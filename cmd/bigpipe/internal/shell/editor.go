package shell

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/chzyer/readline"
	"golang.org/x/sys/unix"
)

// editor gives a line of readline its keys: Tab completes, ? explains. Readline calls it from one goroutine; setPrompt may be
// called from others.
type editor struct {
	line     *readline.Instance
	keys     *input
	language *Language
	// size is the screen's width and height.
	size func() (width, height int)

	// before holds the lines of the statement so far. It changes only while no line is read.
	before string
	// key is Tab, ? or pasteKey while it is being handled; pasted is the text that came with the latter.
	key    rune
	pasted string

	mu sync.Mutex
	// text is the line and pos the cursor in it, before the next key.
	text    []rune
	pos     int
	editing bool   // a line is being read, and is not being searched for
	prompt  string // what is shown, or will be for the next line
}

// filter sees each key before readline does.
func (e *editor) filter(key rune) (rune, bool) {
	searching := e.line.Operation.IsSearchMode()
	switch {
	case key == pasteKey:
		text, whole := e.keys.paste()
		if !whole {
			return key, true
		}
		if searching { // readline could not look for it
			e.line.Terminal.Bell()
		} else {
			e.key, e.pasted = pasteKey, text
		}
		return readline.CharBell, true
	case key == readline.CharTab && searching:
		return readline.CharLineEnd, true // take what was found
	case key == readline.CharTab && e.indenting():
		return ' ', true
	case key == readline.CharCtrlL && !searching: // readline would leave what is below
		fmt.Fprint(e.line.Stdout(), "\x1b[H\x1b[2J")
		return readline.CharBell, true
	case key == readline.CharCtrlZ: // readline would stop whatever started this program, too
		e.suspend()
		return readline.CharBell, true
	case key == readline.CharTab, key == '?' && !searching && !e.literal():
		e.key = key
		return readline.CharBell, true // does nothing by itself
	case key == readline.CharEnter, key == readline.CharCtrlJ, key == readline.CharInterrupt, key == readline.CharDelete,
		key == readline.CharBckSearch, key == readline.CharFwdSearch:
		e.setEditing(false)
	}
	return key, true
}

// OnChange sees the line after each key, and may replace it.
func (e *editor) OnChange(line []rune, pos int, key rune) ([]rune, int, bool) {
	e.mu.Lock()
	e.text, e.pos = line, min(pos, len(line))
	e.mu.Unlock()
	switch key {
	case readline.CharEnter, readline.CharCtrlJ, readline.CharInterrupt:
		return nil, 0, false
	case readline.CharDelete:
		if len(line) == 0 {
			return nil, 0, false // perhaps the end
		}
	}
	e.setEditing(!e.line.Operation.IsSearchMode())
	asked := e.key
	e.key = 0
	switch asked {
	case readline.CharTab:
		return e.complete()
	case '?':
		e.explain()
	case pasteKey:
		return e.paste()
	}
	return nil, 0, false
}

// paste puts the text that came at once at the cursor.
func (e *editor) paste() ([]rune, int, bool) {
	typed, rest := e.typed()
	line := []rune(typed + e.pasted)
	e.pasted = ""
	pos := len(line)
	line = append(line, rest...)
	e.mu.Lock()
	e.text, e.pos = line, pos
	e.mu.Unlock()
	return line, pos, true
}

// setEditing says whether the line may be drawn again.
func (e *editor) setEditing(editing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if editing && !e.editing {
		e.line.SetPrompt(e.prompt)
	}
	e.editing = editing
}

// suspendTime bounds the wait for the signal to stop, which comes to nothing where no shell could let the program go on.
const suspendTime = 500 * time.Millisecond

// suspend stops the program, and those in front of the terminal with it, as Ctrl-Z does, until the user's shell lets it go on.
func (e *editor) suspend() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, unix.SIGCONT)
	defer signal.Stop(goesOn)
	if err := e.line.Terminal.ExitRawMode(); err != nil {
		return
	}
	if err := unix.Kill(0, unix.SIGTSTP); err == nil {
		select {
		case <-goesOn:
		case <-time.After(suspendTime):
		}
	}
	_ = e.line.Terminal.EnterRawMode()
	e.line.Refresh()
}

// setPrompt changes the prompt, at once where a line is being read.
func (e *editor) setPrompt(prompt string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if prompt == e.prompt {
		return
	}
	e.prompt = prompt
	if e.editing {
		e.line.SetPrompt(prompt)
		e.line.Refresh()
	}
}

// typed is the line up to the cursor, and what follows.
func (e *editor) typed() (text string, rest []rune) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.text[:e.pos]), e.text[e.pos:]
}

// indenting tells whether a Tab is the indentation of a line of a statement, as in one that is pasted.
func (e *editor) indenting() bool {
	text, _ := e.typed()
	return e.before != "" && strings.TrimSpace(text) == ""
}

// literal tells whether a question mark at the cursor is text: inside quotes, and in -?.
func (e *editor) literal() bool {
	line, _ := e.typed()
	text := e.before + line
	_, open := scan(text)
	return open || strings.HasSuffix(text, "-")
}

// complete replaces the word before the cursor by what all candidates begin with, or lists them.
func (e *editor) complete() ([]rune, int, bool) {
	typed, rest := e.typed()
	text := e.before + typed
	candidates, start := e.language.Complete(text)
	if len(candidates) == 0 || start < len(e.before) {
		e.line.Terminal.Bell()
		return nil, 0, false
	}
	word := common(candidates)
	if len(candidates) == 1 && !strings.HasSuffix(word, "/") && !strings.HasSuffix(word, "=") {
		word += " "
		if len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
	} else if word == text[start:] {
		fmt.Fprint(e.line.Stdout(), columns(candidates, e.size))
		return nil, 0, false
	}
	line := []rune(text[len(e.before):start] + word)
	return append(line, rest...), len(line), true
}

// explain lists what can follow, a line each.
func (e *editor) explain() {
	typed, _ := e.typed()
	list := e.language.Continuations(e.before + typed)
	if len(list) == 0 {
		e.line.Terminal.Bell()
		return
	}
	fmt.Fprint(e.line.Stdout(), lines(list, e.size))
}

// common is what all candidates begin with.
func common(candidates []Candidate) string {
	prefix := candidates[0].Text
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c.Text, prefix) {
			_, n := utf8.DecodeLastRuneInString(prefix)
			prefix = prefix[:len(prefix)-n]
		}
	}
	return prefix
}

// columns arranges candidates in columns that fill at most a screen.
func columns(candidates []Candidate, size func() (int, int)) string {
	width, height := size()
	widest := 0
	for _, c := range candidates {
		widest = max(widest, utf8.RuneCountInString(c.Text))
	}
	count := max(1, (width+1)/(widest+2))
	rows := min((len(candidates)+count-1)/count, max(4, height-4))
	var b strings.Builder
	shown := min(len(candidates), rows*count)
	for row := range rows {
		for i := row; i < shown; i += rows {
			if i+rows < shown {
				fmt.Fprintf(&b, "%-*s  ", widest, candidates[i].Text)
			} else {
				b.WriteString(candidates[i].Text)
			}
		}
		b.WriteByte('\n')
	}
	more(&b, len(candidates)-shown)
	return b.String()
}

// lines prints candidates with their help, a line each, at most a screen.
func lines(candidates []Candidate, size func() (int, int)) string {
	width, height := size()
	shown := min(len(candidates), max(8, height-4))
	widest := 0
	for _, c := range candidates[:shown] {
		widest = max(widest, utf8.RuneCountInString(c.Text))
	}
	widest = min(widest, 32)
	var b strings.Builder
	for _, c := range candidates[:shown] {
		line := []rune(strings.TrimRight(fmt.Sprintf("  %-*s  %s", widest, c.Text, c.Help), " "))
		if width > 4 && len(line) >= width {
			line = append(line[:width-4], []rune("...")...)
		}
		b.WriteString(string(line) + "\n")
	}
	more(&b, len(candidates)-shown)
	return b.String()
}

func more(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "  and %d more; type more letters\n", n)
	}
}
