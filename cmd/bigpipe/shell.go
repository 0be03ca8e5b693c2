package main

import (
	"context"
	"path/filepath"
	"time"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/shell"
	"bigpipe/grammar"
)

// completionTime bounds how long a completion waits for names from mgmtd.
const completionTime = 500 * time.Millisecond

// shell runs the interactive shell. Ctrl-C ends the command that runs, not the shell.
func (a *app) shell(ctx context.Context, c *client.Client) int {
	history := ""
	if a.env.home != "" {
		history = filepath.Join(a.env.home, ".bigpipe_history")
	}
	inShell := *a
	inShell.inShell, inShell.client = true, c
	s := &shell.Shell{
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, History: history,
		Complete: func(text string) ([]shell.Candidate, int) { return complete(ctx, c, text) },
		Incomplete: func(text string) bool {
			parts, _ := grammar.Split("", []byte(text))
			return len(parts) > 0 && parts[len(parts)-1].Open
		},
		Execute: func(ctx context.Context, text string) {
			ctx, stop := interruptible(ctx)
			defer stop()
			inShell.command(ctx, commandOrigin(""), text)
		},
	}
	if err := s.Run(ctx); err != nil {
		return a.fail(err)
	}
	return exitDone
}

func complete(ctx context.Context, c *client.Client, text string) ([]shell.Candidate, int) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	found, start := grammar.Complete(text, len(text), func(kind grammar.Kind) []string {
		names, err := c.Names(ctx, string(kind))
		if err != nil {
			return nil // without mgmtd there are no names to offer
		}
		return names
	})
	candidates := make([]shell.Candidate, len(found))
	for i, f := range found {
		candidates[i] = shell.Candidate{Text: f.Text, Help: f.Help}
	}
	return candidates, start
}
