// Package shell is the interactive shell: it reads commands with history and completion and hands them on.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/chzyer/readline"
)

// Prompts of a new and of an open statement.
const (
	prompt       = "bigpipe> "
	continuation = "      -> "
)

// Candidate is one way to go on at the cursor.
type Candidate struct {
	Text string
	Help string
}

// Shell is an interactive shell. All fields but History must be set.
type Shell struct {
	Stdin  io.ReadCloser
	Stdout io.Writer
	Stderr io.Writer
	// History is the file that keeps the commands; "" keeps them in memory.
	History string
	// Complete returns what can stand at the end of text, and where in text (in bytes) the word to complete begins.
	Complete func(text string) ([]Candidate, int)
	// Incomplete tells whether a statement in text is still open, so that it goes on in the next line.
	Incomplete func(text string) bool
	// Execute runs one command.
	Execute func(ctx context.Context, text string)
}

// Run reads and executes commands until the input or ctx ends, or the user says exit.
func (s *Shell) Run(ctx context.Context) error {
	completer := &completer{complete: s.Complete}
	line, err := readline.NewEx(&readline.Config{
		Prompt: prompt, HistoryFile: s.History, HistorySearchFold: true, DisableAutoSaveHistory: true,
		InterruptPrompt: "^C", EOFPrompt: "exit", AutoComplete: completer,
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
	})
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer line.Close()
	stop := context.AfterFunc(ctx, func() { line.Close() })
	defer stop()
	for ctx.Err() == nil {
		text, err := s.read(line, completer)
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("terminal: %w", err)
		}
		switch text {
		case "":
			continue
		case "exit", "quit":
			return nil
		}
		if err := line.SaveHistory(oneLine(text)); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		s.Execute(ctx, text)
	}
	return nil
}

// oneLine joins the lines of a statement for the history, which keeps lines. Comments go: they would swallow what follows.
func oneLine(text string) string {
	lines := strings.Split(text, "\n")
	if len(lines) == 1 {
		return text
	}
	for i, line := range lines {
		quoted := false
		for j, r := range line {
			if r == '"' && (j == 0 || line[j-1] != '\\') {
				quoted = !quoted
			}
			if r == '#' && !quoted {
				line = line[:j]
				break
			}
		}
		lines[i] = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "\\"))
	}
	return strings.Join(lines, " ")
}

// read returns a whole statement, which may take several lines.
func (s *Shell) read(line *readline.Instance, c *completer) (string, error) {
	line.SetPrompt(prompt)
	c.before = ""
	for {
		text, err := line.Readline()
		if err != nil {
			return "", err
		}
		text = c.before + text
		if !s.Incomplete(text) {
			return strings.TrimSpace(text), nil
		}
		c.before = text + "\n"
		line.SetPrompt(continuation)
	}
}

// completer adapts Complete to readline.
type completer struct {
	complete func(text string) ([]Candidate, int)
	before   string // the lines of the statement so far
}

// Do returns the rest of each candidate after what is typed, and how many characters of it are typed.
func (c *completer) Do(line []rune, pos int) ([][]rune, int) {
	text := c.before + string(line[:pos])
	candidates, start := c.complete(text)
	typed := text[start:]
	var rest [][]rune
	for _, candidate := range candidates {
		if tail, ok := strings.CutPrefix(candidate.Text, typed); ok {
			rest = append(rest, []rune(tail+" "))
		}
	}
	return rest, len([]rune(typed))
}
