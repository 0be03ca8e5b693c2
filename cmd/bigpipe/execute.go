package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/internal/classfile"
	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// command runs the text of one command and returns its exit status.
func (a *app) command(ctx context.Context, origin *pb.Position, text string) int {
	if words, ok := helpWords(text); ok {
		return a.help(words)
	}
	if words := strings.Fields(text); len(words) > 0 {
		switch words[0] {
		case "watch":
			return a.watch(ctx, origin, strings.TrimPrefix(strings.TrimSpace(text), "watch"))
		case "completion":
			return a.completion(words[1:])
		}
	}
	switch c, ok, faults := parseFileCommand(origin, text); {
	case ok && faults != nil:
		a.report(faults)
		return exitUsage
	case ok:
		return a.fileCommand(ctx, c)
	}
	if a.options.check {
		return a.checkWords(origin, text)
	}
	return a.execute(ctx, &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Origin: origin}, []byte(text))
}

// faultAt reports a fault of a command that is carried out here.
func (a *app) faultAt(origin *pb.Position, err error) int {
	if origin.GetFile() == "" {
		return a.usage(err)
	}
	a.report([]*pb.Diagnostic{{Severity: pb.Severity_SEVERITY_ERROR, Position: origin, Length: 1, Message: err.Error()}})
	return exitUsage
}

// execute sends text to mgmtd and prints the reply. The header's output format and actor are filled in.
func (a *app) execute(ctx context.Context, header *pb.ExecuteHeader, text []byte) int {
	if !a.json() {
		return a.executeTo(ctx, a.stdout, header, text)
	}
	var held bytes.Buffer // a JSON document is printed whole or not at all
	status := a.executeTo(ctx, &held, header, text)
	differs := header.GetDryRun() && status == exitRefused
	if status != exitDone && status != exitNotInEffect && !differs {
		return status
	}
	if a.documents != nil {
		a.documents.add(held.Bytes())
		return status
	}
	err := onScreen(a.stdout, func(out io.Writer) error {
		_, err := io.Copy(out, &held)
		return err
	})
	if err != nil {
		return a.fail(err)
	}
	return status
}

func (a *app) executeTo(ctx context.Context, out io.Writer, header *pb.ExecuteHeader, text []byte) int {
	header.Output, header.Numeric, header.Actor = a.options.output, a.options.numeric, a.actor
	header.Files, header.UnreadableFiles = classfile.Read(text)
	ctx, stop := interruptible(ctx)
	defer stop()
	var result *pb.ExecuteResult
	err := onScreen(out, func(out io.Writer) (err error) {
		result, err = a.client.Execute(ctx, header, text, out, a.report)
		return err
	})
	if ctx.Err() != nil {
		fmt.Fprintln(a.stderr, "bigpipe: interrupted; "+client.MayBeStored)
		return exitRefused
	}
	if err != nil {
		return a.fail(err)
	}
	a.reportEffects(result)
	return int(result.GetExitStatus())
}

// reportEffects names what is not in effect, and where.
func (a *app) reportEffects(result *pb.ExecuteResult) {
	if result.GetExitStatus() != exitNotInEffect {
		return
	}
	for _, d := range result.GetDataplanes() {
		if !d.GetApplied() {
			fmt.Fprintf(a.stderr, "not in effect on dataplane %s: %s\n", d.GetDataplane(), d.GetError())
		}
		for _, n := range d.GetNotInEffect() {
			kind, name := pb.SplitKey(n.GetKey())
			fmt.Fprintf(a.stderr, "not in effect on dataplane %s: %s %s: %s\n", d.GetDataplane(), kind, name, n.GetReason())
		}
	}
}

// batch runs the statements of standard input one after another. The first failure stops it; what is stored but not yet in
// effect does not: the batch goes on, and its exit status says so.
func (a *app) batch(ctx context.Context) int {
	text, err := readText(a.stdin)
	if err != nil {
		return a.fail(fmt.Errorf("standard input: %w", err))
	}
	a.stdinTaken = true
	parts, faults := grammar.Split("stdin", text)
	if len(faults) > 0 {
		a.report(faults)
		return exitUsage
	}
	return a.sequence(len(parts), func(i int) int { return a.command(ctx, parts[i].Position, parts[i].Text) },
		func(status int) bool { return status != exitDone && status != exitNotInEffect })
}
