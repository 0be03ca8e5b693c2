package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/shell"
	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

const (
	// namesLife is how long names of objects count as fresh for completion.
	namesLife = 5 * time.Second
	// completionTime bounds how long a completion waits for names from mgmtd.
	completionTime = 500 * time.Millisecond
)

// shellHelp is what help says of the shell itself.
const shellHelp = `
The shell's own:
  watch            repeat a query until a key is pressed
  exit, quit       leave the shell
  Tab completes a word, ? tells what can follow, Ctrl-R searches earlier commands; beginnings of words will do: po web sh.
`

// shell runs the interactive shell. Ctrl-C ends the command that runs, not the shell.
func (a *app) shell(ctx context.Context, c *client.Client) int {
	history := ""
	if a.env.home != "" {
		history = filepath.Join(a.env.home, ".bigpipe_history")
	}
	inShell := *a
	inShell.inShell, inShell.client = true, c
	names := client.NewNames(c, namesLife, completionTime)
	screen := a.stdout
	if terminal := terminalOf(a.stdout); terminal != nil {
		screen = terminal
	}
	s := &shell.Shell{
		Stdin: a.stdin, Stdout: screen, Stderr: a.stderr, History: history,
		Language: &shell.Language{
			Names:    func(kind grammar.Kind, _ string) []string { return names.Of(ctx, string(kind)) },
			Commands: []shell.Command{watchCommand, exitCommand("exit"), exitCommand("quit")},
		},
		State: func(ctx context.Context) string {
			state, err := c.State(ctx)
			return a.stateText(state, err)
		},
		Execute: func(ctx context.Context, text string) {
			inShell.paged(ctx, func(a *app, ctx context.Context) int { return a.command(ctx, commandOrigin(""), text) })
			names.Forget()
		},
	}
	if err := s.Run(ctx); err != nil {
		return a.fail(err)
	}
	return exitDone
}

var watchCommand = shell.Command{
	Candidate: shell.Candidate{Text: "watch", Help: "repeat a query until a key is pressed"},
	Rest: func(words []string) int {
		if len(words) > 0 {
			if _, err := strconv.ParseFloat(words[0], 64); err == nil {
				return 1
			}
		}
		return 0
	},
	Next: func(words []string) []shell.Candidate {
		if len(words) > 0 {
			return nil
		}
		return []shell.Candidate{{Text: "2", Help: "seconds between two rounds"}}
	},
}

func exitCommand(word string) shell.Command {
	return shell.Command{Candidate: shell.Candidate{Text: word, Help: "leave the shell"}}
}

// stateText is what the prompt says of the state: what waits to be confirmed, and who is away.
func (a *app) stateText(state *client.State, err error) string {
	var parts []string
	switch {
	case errors.Is(err, client.ErrUnreachable):
		parts = append(parts, "mgmtd away")
	case err != nil:
		parts = append(parts, "mgmtd does not answer")
	}
	if state != nil {
		if p := state.Pending; p != nil {
			parts = append(parts, "confirm within "+remaining(time.Duration(p.GetRemainingMilliseconds())*time.Millisecond))
		}
		if away := awayText(state.Dataplanes); away != "" {
			parts = append(parts, away)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := "[" + strings.Join(parts, ", ") + "]"
	if a.env.noColor {
		return text
	}
	return "\x1b[1;33m" + text + "\x1b[0m"
}

// awayText names the dataplanes that mgmtd does not reach, "" where there is none.
func awayText(dataplanes []*pb.DataplaneStatus) string {
	var away []string
	for _, d := range dataplanes {
		if !d.GetConnected() {
			away = append(away, d.GetDataplane())
		}
	}
	switch {
	case len(away) == 0:
		return ""
	case len(dataplanes) == 1:
		return "dataplane away"
	}
	slices.Sort(away)
	return "dataplane away: " + strings.Join(away, " ")
}

// remaining is a time that is left, the coarser the longer it is, so that a prompt does not change all the time.
func remaining(d time.Duration) string {
	switch {
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d >= 20*time.Second:
		return fmt.Sprintf("%ds", d/(10*time.Second)*10)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
