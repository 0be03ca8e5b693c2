// Package shell is the interactive shell: it reads commands with history, completion and help, and hands them on. What can be
// typed is known to Language, which completion of other shells uses as well.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chzyer/readline"
	"golang.org/x/term"
)

// Prompts of a new and of an open statement.
const (
	prompt       = "bigpipe> "
	continuation = "      -> "
)

const (
	// stateTime bounds how long the prompt waits for the state.
	stateTime = 200 * time.Millisecond
	// stateEvery is how often the state is asked for while a line is being read.
	stateEvery = 2 * time.Second
)

// Shell is an interactive shell. All fields but History and State must be set.
type Shell struct {
	Stdin  *os.File
	Stdout io.Writer
	Stderr io.Writer
	// History is the file that keeps the commands; "" keeps them in memory.
	History  string
	Language *Language
	// State returns what stands before the prompt, "" for nothing. It may be called while a command runs, and has to return soon
	// when ctx ends; what it returns then is shown.
	State func(ctx context.Context) string
	// Execute runs one command.
	Execute func(ctx context.Context, text string)
}

// Run reads and executes commands until the input or ctx ends, or the user says exit.
func (s *Shell) Run(ctx context.Context) error {
	past, err := openHistory(s.History)
	if err != nil {
		fmt.Fprintf(s.Stderr, "bigpipe: history: %v; it is not kept\n", err)
	}
	keys, err := newInput(s.Stdin)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer keys.release()
	e := &editor{keys: keys, language: s.Language, size: s.size, prompt: prompt}
	line, err := readline.NewEx(&readline.Config{
		Prompt: prompt, HistoryLimit: maxHistory + 2, HistorySearchFold: true, DisableAutoSaveHistory: true,
		InterruptPrompt: "^C", EOFPrompt: "exit", Listener: e, FuncFilterInputRune: e.filter,
		Stdin: keys, Stdout: s.Stdout, Stderr: s.Stderr,
	})
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	e.line = line
	end := sync.OnceFunc(func() {
		keys.Close()
		line.Close()
	})
	ending := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ending)
		end()
	})
	defer func() {
		if !stop() {
			<-ending
		}
		end()
	}()
	for ctx.Err() == nil {
		if err := offer(line, past.commands); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		text, err := s.read(ctx, e)
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("terminal: %w", err)
		case text == "":
			continue
		}
		command, err := s.Language.Expand(text)
		if command == "exit" || command == "quit" {
			return nil
		}
		if err := past.add(oneLine(text)); err != nil {
			fmt.Fprintf(s.Stderr, "bigpipe: %v; it is not kept\n", err)
			past.path = ""
		}
		var ambiguous *AmbiguousError
		if errors.As(err, &ambiguous) {
			fmt.Fprintf(s.Stderr, "bigpipe: %v:\n%s", ambiguous, lines(ambiguous.Choices, s.size))
			continue
		}
		s.Execute(ctx, command)
	}
	return nil
}

// offer makes commands the history that arrows and search go through. Readline's own list loses a command that was found by
// search, so it is made anew for each line.
func offer(line *readline.Instance, commands []string) error {
	line.ResetHistory()
	if len(commands) == 0 {
		return line.SaveHistory("") // a search in no history at all would fail
	}
	for _, c := range commands {
		if err := line.SaveHistory(c); err != nil {
			return err
		}
	}
	return nil
}

// read returns a whole statement, which may take several lines.
func (s *Shell) read(ctx context.Context, e *editor) (string, error) {
	e.before = ""
	e.setPrompt(s.promptNow(ctx))
	for {
		text, err := s.readLine(ctx, e)
		if err != nil {
			return "", err
		}
		text = e.before + text
		if !s.Language.Incomplete(text) {
			return strings.TrimSpace(text), nil
		}
		e.before = text + "\n"
		e.setPrompt(continuation)
	}
}

// readLine reads one line. Meanwhile the prompt of a new statement follows the state.
func (s *Shell) readLine(ctx context.Context, e *editor) (string, error) {
	if s.State == nil || e.before != "" {
		return e.line.Readline()
	}
	watching, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for tick := time.NewTicker(stateEvery); ; {
			select {
			case <-watching.Done():
				tick.Stop()
				return
			case <-tick.C:
				if p := s.promptNow(watching); watching.Err() == nil {
					e.setPrompt(p)
				}
			}
		}
	})
	text, err := e.line.Readline()
	stop()
	done.Wait()
	return text, err
}

// promptNow is the prompt of a new statement.
func (s *Shell) promptNow(ctx context.Context) string {
	if s.State == nil {
		return prompt
	}
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	if state := s.State(ctx); state != "" {
		return state + " " + prompt
	}
	return prompt
}

// size is the screen's width and height.
func (s *Shell) size() (width, height int) {
	if f, is := s.Stdout.(interface{ Fd() uintptr }); is {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}
