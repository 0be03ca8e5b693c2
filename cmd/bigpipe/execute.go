package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// command runs the text of one command and returns its exit status.
func (a *app) command(ctx context.Context, origin *pb.Position, text string) int {
	if c, ok, err := parseFileCommand(text); ok {
		if err != nil {
			fmt.Fprintf(a.stderr, "bigpipe: %v\n", err)
			return exitUsage
		}
		return a.fileCommand(ctx, c)
	}
	if a.options.check {
		return a.checkWords(origin, text)
	}
	return a.execute(ctx, &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Origin: origin}, []byte(text))
}

// execute sends text to mgmtd and prints the reply. The header's output format and actor are filled in.
func (a *app) execute(ctx context.Context, header *pb.ExecuteHeader, text []byte) int {
	return a.executeTo(ctx, a.stdout, header, text)
}

func (a *app) executeTo(ctx context.Context, out io.Writer, header *pb.ExecuteHeader, text []byte) int {
	header.Output, header.Numeric, header.Actor = a.options.output, a.options.numeric, a.actor
	var held bytes.Buffer // a JSON document is printed whole or not at all
	if header.GetOutput() == pb.OutputFormat_OUTPUT_FORMAT_JSON {
		out, held = &held, bytes.Buffer{}
	}
	result, err := a.client.Execute(ctx, header, text, out, a.report)
	if err != nil {
		return a.fail(err)
	}
	a.reportEffects(result)
	status := int(result.GetExitStatus())
	if status == exitDone || status == exitNotInEffect || header.GetDryRun() {
		if _, err := io.Copy(a.stdout, &held); err != nil {
			return a.fail(err)
		}
	}
	return status
}

// exitNotInEffect: stored, but not in effect on at least one dataplane.
const exitNotInEffect = 3

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
	text, err := io.ReadAll(a.stdin)
	if err != nil {
		return a.fail(fmt.Errorf("standard input: %w", err))
	}
	parts, faults := grammar.Split("stdin", text)
	if len(faults) > 0 {
		a.report(faults)
		return exitUsage
	}
	status := exitDone
	for _, part := range parts {
		switch s := a.command(ctx, part.Position, part.Text); {
		case ctx.Err() != nil:
			return exitRefused
		case s == exitNotInEffect:
			status = s
		case s != exitDone:
			return s
		}
	}
	return status
}
