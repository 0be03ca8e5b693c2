package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/lab"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
)

// lab runs a file on loopback: bigpipe lab FILE [--state-dir DIR] [--listen ADDR] [--metrics HOST:PORT].
func (a *app) lab(ctx context.Context, words []string) int {
	o := lab.Options{Listen: a.client.Address, Stdout: a.stdout, Stderr: a.stderr, Report: a.report, Effects: a.reportEffects}
	settings := map[string]*string{"--state-dir": &o.StateDir, "--listen": &o.Listen, "--metrics": &o.Metrics}
	for len(words) > 0 {
		name, value, attached := strings.Cut(words[0], "=")
		words = words[1:]
		setting, known := settings[name]
		switch {
		case known && !attached && len(words) == 0:
			return a.usage(usageError("option %s needs a value", name))
		case known && attached:
			*setting = value
		case known:
			*setting, words = words[0], words[1:]
		case strings.HasPrefix(name, "--"):
			return a.usage(usageError("unknown option %s of lab", name))
		case o.File != "":
			return a.usage(usageError("unexpected %q after the file", name))
		default:
			o.File = name
		}
	}
	if o.File == "" {
		return a.usage(usageError("lab needs a file"))
	}
	var err error
	if o.Text, err = readAll(ctx, func() (io.ReadCloser, error) { return os.Open(o.File) }); err != nil {
		return a.usage(err)
	}
	if o.Program, err = os.Executable(); err != nil {
		return a.fail(err)
	}
	if o.Program, err = filepath.EvalSymlinks(o.Program); err != nil {
		return a.fail(err)
	}
	var found []*pb.Diagnostic
	var ok bool
	if o.Objects, ok = a.checkFile(ctx, eval.ModeLoad, o.File, o.Text, func(ds []*pb.Diagnostic) { found = ds }); !ok {
		a.report(found) // warnings come with the load
		return exitUsage
	}
	if err := lab.Run(ctx, o, a.interact); err != nil {
		if errors.Is(err, lab.ErrRefused) {
			return exitUsage
		}
		return a.fail(err)
	}
	return exitDone
}

// interact gives the shell on a terminal, else waits until ctx ends.
func (a *app) interact(ctx context.Context, c *client.Client) error {
	if term.IsTerminal(int(a.stdin.Fd())) {
		inLab := *a
		inLab.inLab = true
		if status := inLab.shell(ctx, c); status != exitDone {
			return errors.New("the shell ended with an error")
		}
		return nil
	}
	fmt.Fprintln(a.stdout, "Ctrl-C ends it")
	<-ctx.Done()
	return nil
}
