// Command bigpipe is the command line of the load balancer: one-shot commands, batches, and an interactive shell. It sends the
// text of commands to mgmtd and prints the reply. Invoked as b it is the same; invoked as sysctl it takes bigip.* variables.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/lab"
	"bigpipe/cmd/internal/version"
	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// Exit statuses, under the names that fit here.
const (
	exitDone        = pb.ExitDone
	exitRefused     = pb.ExitRefused
	exitUsage       = pb.ExitFaulty
	exitNotInEffect = pb.ExitNotInEffect
	exitUnreachable = pb.ExitUnreachable
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // the program lives shortly, or waits
	}
	env := environment{
		address: os.Getenv("BIGPIPE_ADDRESS"), runtimeDir: os.Getenv("XDG_RUNTIME_DIR"), home: os.Getenv("HOME"),
		noColor: os.Getenv("NO_COLOR") != "", pager: readPagerSettings(),
	}
	os.Exit(run(context.Background(), os.Args, env, os.Stdin, os.Stdout, os.Stderr))
}

// environment is what the program takes from its surroundings besides its arguments.
type environment struct {
	address, runtimeDir, home string
	noColor                   bool
	pager                     pagerSettings
}

// app is one run of the program.
type app struct {
	options *options
	env     environment
	stdin   *os.File
	stdout  io.Writer
	stderr  io.Writer
	client  *client.Client
	actor   string
	// inShell is set while commands come from the interactive shell.
	inShell bool
	// inLab is set in the lab's shell: files have to be named there, the host's own are not the lab's.
	inLab bool
	// stdinTaken is set once standard input was read: it cannot be loaded a second time.
	stdinTaken bool
	// documents collects the JSON of several commands; nil outside of them.
	documents *documents
}

func run(ctx context.Context, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	if filepath.Base(args[0]) == "sysctl" {
		return runSysctl(ctx, args, env, stdin, stdout, stderr)
	}
	if len(args) > 1 && args[1] == completeWord {
		return runComplete(ctx, args[2:], env, stdout)
	}
	return runOptions(ctx, args[1:], env, stdin, stdout, stderr)
}

func runOptions(ctx context.Context, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if err != nil {
		fmt.Fprintf(stderr, "bigpipe: %v\n", err)
		return exitUsage
	}
	out := &checkedWriter{to: stdout}
	a := &app{options: o, env: env, stdin: stdin, stdout: out, stderr: stderr, actor: actor()}
	status := a.run(ctx)
	if out.err != nil && status == exitDone {
		fmt.Fprintf(stderr, "bigpipe: standard output: %v\n", out.err)
		return exitRefused
	}
	return status
}

// run does what the command line asks for.
func (a *app) run(ctx context.Context) int {
	o, env := a.options, a.env
	if o.version {
		if a.json() {
			return a.print("version", version.String())
		}
		return a.print("version", "bigpipe "+version.String())
	}
	if o.help {
		return a.paged(ctx, func(a *app, _ context.Context) int { return a.help(o.words) })
	}
	address := o.address
	if address == "" {
		address = client.DefaultAddress(env.address, env.runtimeDir)
	}
	var err error
	if a.client, err = client.New(address, client.TLS{Cert: o.tlsCert, Key: o.tlsKey, CA: o.tlsCA}); err != nil {
		return a.usage(err)
	}
	defer a.client.Close()
	return a.dispatch(ctx)
}

// dispatch runs the lab, the shell, or commands.
func (a *app) dispatch(ctx context.Context) int {
	o := a.options
	if len(o.words) > 0 && o.words[0] == "lab-members" {
		return a.members()
	}
	lab := len(o.words) > 0 && o.words[0] == "lab" && o.words[len(o.words)-1] != "-?"
	terminal := term.IsTerminal(int(a.stdin.Fd()))
	shell := terminal && o.file == noFile && !o.reset && len(o.commands) == 0 && len(o.words) == 0
	if !lab && !shell {
		return a.paged(ctx, (*app).commands) // a signal ends it, except while mgmtd works on a change: execute
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if terminal {
		defer swallowInterrupts()()
	} else {
		var stop func()
		ctx, stop = interruptible(ctx)
		defer stop()
	}
	if lab {
		return a.lab(ctx, o.words[1:])
	}
	return a.shell(ctx, a.client)
}

// commands runs what the options, the words or standard input say.
func (a *app) commands(ctx context.Context) int {
	o := a.options
	never := func(int) bool { return false }
	switch {
	case o.reset:
		return a.command(ctx, commandOrigin(""), "reset")
	case o.file != noFile:
		return a.fileCommand(ctx, fileCommand{action: o.file, path: o.path, check: o.check, option: true})
	case len(o.commands) > 0:
		return a.sequence(len(o.commands), func(i int) int { return a.command(ctx, commandOrigin("-c"), o.commands[i]) }, never)
	case len(o.words) > 0:
		return a.command(ctx, commandOrigin(""), commandText(o.words))
	default:
		return a.batch(ctx)
	}
}

// commandOrigin is where the text of a command begins.
func commandOrigin(file string) *pb.Position { return &pb.Position{File: file, Line: 1, Column: 1} }

func (a *app) members() int {
	if err := lab.ServeMembers(a.stdin, a.stdout); err != nil {
		fmt.Fprintf(a.stderr, "bigpipe: %v\n", err)
		return exitRefused
	}
	return exitDone
}

// report prints diagnostics on standard error.
func (a *app) report(diagnostics []*pb.Diagnostic) {
	grammar.Render(a.stderr, diagnostics, terminalOf(a.stderr) != nil && !a.env.noColor)
}

// usage prints an error of the command line.
func (a *app) usage(err error) int {
	fmt.Fprintf(a.stderr, "bigpipe: %v\n", err)
	return exitUsage
}

// fail prints an error that stands for itself and returns the exit status that belongs to it.
func (a *app) fail(err error) int {
	if errors.Is(err, errPagerEnded) {
		return exitDone
	}
	fmt.Fprintf(a.stderr, "bigpipe: %v\n", err)
	if errors.Is(err, client.ErrUnreachable) {
		return exitUnreachable
	}
	return exitRefused
}

// actor is who changes the configuration, for the history.
func actor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint("uid ", os.Getuid())
}
