// Command bigpipe is the command line of the load balancer: one-shot commands, batches, and an interactive shell. It sends the
// text of commands to mgmtd and prints the reply. Invoked as b it is the same; invoked as sysctl it takes bigip.* variables.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"golang.org/x/term"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/lab"
	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// Exit statuses.
const (
	exitDone        = 0
	exitRefused     = 1
	exitUsage       = 2
	exitUnreachable = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	env := environment{
		address: os.Getenv("BIGPIPE_ADDRESS"), runtimeDir: os.Getenv("XDG_RUNTIME_DIR"), home: os.Getenv("HOME"),
		noColor: os.Getenv("NO_COLOR") != "",
	}
	status := run(ctx, os.Args, env, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// environment is what the program takes from its surroundings besides its arguments.
type environment struct {
	address, runtimeDir, home string
	noColor                   bool
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
}

func run(ctx context.Context, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	if filepath.Base(args[0]) == "sysctl" {
		return runSysctl(ctx, args, env, stdin, stdout, stderr)
	}
	return runOptions(ctx, args[1:], env, stdin, stdout, stderr)
}

func runOptions(ctx context.Context, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	if err != nil {
		fmt.Fprintf(stderr, "bigpipe: %v\n", err)
		return exitUsage
	}
	a := &app{options: o, env: env, stdin: stdin, stdout: stdout, stderr: stderr, actor: actor()}
	if o.version {
		fmt.Fprintln(stdout, "bigpipe", version())
		return exitDone
	}
	if o.help {
		return a.help(o.words)
	}
	if n := len(o.words); n > 0 && (o.words[n-1] == "-?" || o.words[n-1] == "-h") {
		return a.help(o.words[:n-1])
	}
	address := o.address
	if address == "" {
		address = client.DefaultAddress(env.address, env.runtimeDir)
	}
	if a.client, err = client.New(address, client.TLS{Cert: o.tlsCert, Key: o.tlsKey, CA: o.tlsCA}); err != nil {
		fmt.Fprintf(stderr, "bigpipe: %v\n", err)
		return exitUsage
	}
	defer a.client.Close()
	return a.dispatch(ctx)
}

// dispatch does what the options ask for.
func (a *app) dispatch(ctx context.Context) int {
	o := a.options
	switch {
	case len(o.words) > 0 && o.words[0] == "lab":
		return a.lab(ctx, o.words[1:])
	case len(o.words) > 0 && o.words[0] == "lab-members":
		return a.members()
	case o.reset && o.file == noFile && len(o.words) == 0 && len(o.commands) == 0:
		return a.command(ctx, commandOrigin(""), "reset")
	case o.file != noFile:
		return a.file(ctx)
	case len(o.commands) > 0:
		status := exitDone
		for _, c := range o.commands {
			if s := a.command(ctx, commandOrigin("-c"), c); s != exitDone && status == exitDone {
				status = s
			}
		}
		return status
	case len(o.words) > 0:
		return a.command(ctx, commandOrigin(""), strings.Join(o.words, " "))
	case term.IsTerminal(int(a.stdin.Fd())):
		return a.shell(ctx, a.client)
	default:
		return a.batch(ctx)
	}
}

// commandOrigin is where the text of a command begins.
func commandOrigin(file string) *pb.Position { return &pb.Position{File: file, Line: 1, Column: 1} }

func (a *app) help(words []string) int {
	if len(words) == 0 {
		fmt.Fprint(a.stdout, usage)
		return exitDone
	}
	text := grammar.Help(words)
	if text == "" {
		fmt.Fprintf(a.stderr, "bigpipe: no help on %q\n", strings.Join(words, " "))
		return exitUsage
	}
	fmt.Fprint(a.stdout, text)
	return exitDone
}

func (a *app) members() int {
	if err := lab.ServeMembers(a.stdin, a.stdout); err != nil {
		fmt.Fprintf(a.stderr, "bigpipe: %v\n", err)
		return exitRefused
	}
	return exitDone
}

// report prints diagnostics on standard error.
func (a *app) report(diagnostics []*pb.Diagnostic) {
	f, isFile := a.stderr.(*os.File)
	grammar.Render(a.stderr, diagnostics, isFile && term.IsTerminal(int(f.Fd())) && !a.env.noColor)
}

// fail prints an error that stands for itself and returns the exit status that belongs to it.
func (a *app) fail(err error) int {
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

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown build)"
	}
	return info.Main.Version
}

// runSysctl takes bigip.* variables and hands everything else to the system's own sysctl.
func runSysctl(ctx context.Context, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	ours := len(args) == 2 && args[1] == "-a"
	for _, arg := range args[1:] {
		ours = ours || strings.HasPrefix(arg, "bigip.")
	}
	if ours {
		return runOptions(ctx, append([]string{"--", "sysctl"}, args[1:]...), env, stdin, stdout, stderr)
	}
	for _, path := range []string{"/usr/sbin/sysctl", "/sbin/sysctl"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		if err == nil {
			return exitDone
		}
		fmt.Fprintf(stderr, "sysctl: %v\n", err)
		return exitRefused
	}
	fmt.Fprintln(stderr, "sysctl: the system has no sysctl of its own; bigip.* variables work here")
	return exitUsage
}
