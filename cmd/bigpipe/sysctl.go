package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// runSysctl is the program under the name sysctl: it takes bigip.* variables and hands everything else to the system's own.
// With -a it prints both.
func runSysctl(ctx context.Context, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	var flags, ours, others []string
	all, write, bare := false, false, false
	for _, arg := range args[1:] {
		switch {
		case strings.HasPrefix(arg, "bigip."):
			ours = append(ours, arg)
		case strings.HasPrefix(arg, "-"):
			flags = append(flags, arg)
			all = all || arg == "-a" || arg == "--all"
			write = write || arg == "-w" || arg == "--write"
			bare = bare || arg == "-n" || arg == "--values"
		default:
			others = append(others, arg)
		}
	}
	status := exitDone
	for _, variable := range ours {
		words := []string{"--", "sysctl", variable}
		if write || strings.Contains(variable, "=") {
			words = []string{"--", "sysctl", "-w", variable}
		}
		status = max(status, runBare(ctx, bare, words, env, stdin, stdout, stderr))
	}
	if all {
		status = max(status, runBare(ctx, bare, []string{"--", "sysctl", "-a"}, env, stdin, stdout, stderr))
	}
	if len(others) > 0 || len(ours) == 0 {
		status = max(status, systemSysctl(ctx, append(flags, others...), all, stdin, stdout, stderr))
	}
	return status
}

// runBare runs a command; with bare only the values of "name = value" lines are printed.
func runBare(ctx context.Context, bare bool, args []string, env environment, stdin *os.File, stdout, stderr io.Writer) int {
	if !bare {
		return runOptions(ctx, args, env, stdin, stdout, stderr)
	}
	var text strings.Builder
	status := runOptions(ctx, args, env, stdin, &text, stderr)
	for line := range strings.Lines(text.String()) {
		if _, value, ok := strings.Cut(line, " = "); ok {
			line = value
		}
		fmt.Fprint(stdout, line)
	}
	return status
}

// systemSysctl runs the system's own sysctl. Without one, -a has only our variables to print.
func systemSysctl(ctx context.Context, args []string, all bool, stdin *os.File, stdout, stderr io.Writer) int {
	for _, path := range []string{"/usr/sbin/sysctl", "/sbin/sysctl"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, args...)
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
	if all {
		return exitDone
	}
	fmt.Fprintln(stderr, "sysctl: the system has no sysctl of its own; bigip.* variables work here")
	return exitUsage
}
