package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"bigpipe/cmd/internal/classfile"
	"bigpipe/cmd/internal/host"
	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// defaultFile is what load, merge and save mean without a file.
const defaultFile = "/etc/bigip.conf"

// fileCommand is load, merge, save or verify load. Files are opened here, in the caller's directory and with the caller's
// rights; mgmtd never opens a path that a command names.
type fileCommand struct {
	action        fileAction
	path          string
	check         bool
	dryRun        bool
	confirmWithin uint32 // seconds; 0: it needs no confirmation
	dialect       uint32
	sync          bool         // the other unit was to have it too
	origin        *pb.Position // of the command; nil for options
	option        bool         // -f, -l or -s: no path is standard output
}

// fileWords begin the commands that are carried out here.
var fileWords = []string{"load", "merge", "save", "verify", "config", "configsync"}

// commandText joins the words of a command line. A word that names a file may hold anything: it stays one word.
func commandText(words []string) string {
	if len(words) > 0 && slices.Contains(fileWords, words[0]) {
		words = slices.Clone(words)
		for i, word := range words {
			words[i] = grammar.Word(word)
		}
	}
	return strings.Join(words, " ")
}

// parseFileCommand reads the text of a command; false when it is another command, or one beside others.
func parseFileCommand(origin *pb.Position, text string) (c fileCommand, ok bool, faults []*pb.Diagnostic) {
	if word := strings.Fields(text); len(word) == 0 || !slices.Contains(fileWords, word[0]) {
		return c, false, nil
	}
	statements, diagnostics := grammar.ParseCommand(origin, []byte(text))
	if hasError(diagnostics) || len(statements) != 1 {
		return c, hasError(diagnostics), diagnostics
	}
	s := statements[0]
	c.origin = origin
	switch s.Action {
	case grammar.ActionLoad:
		c.action = loadFile
	case grammar.ActionVerifyLoad:
		c.action, c.check = loadFile, true
	case grammar.ActionMerge:
		c.action = mergeFile
	case grammar.ActionSave:
		c.action = saveFile
	case grammar.ActionConfigSync:
		c.action, c.sync = saveFile, true
	default:
		return c, false, nil
	}
	c.confirmWithin = uint32(s.Seconds)
	if len(s.Words) > 0 {
		c.path = s.Words[0]
	}
	for i, word := range s.Words {
		switch {
		case i == 0:
		case word == grammar.OptionDryRun:
			c.dryRun = true
		case s.Words[i-1] == grammar.OptionDialect:
			c.dialect = uint32(word[0] - '0')
		}
	}
	return c, true, nil
}

// fileCommand carries out load, merge, save and verify load.
func (a *app) fileCommand(ctx context.Context, c fileCommand) int {
	c.check = c.check || a.options.check
	if c.path == "" && !c.option {
		if a.inLab {
			return a.faultAt(c.origin, usageError("in the lab the file has to be named; %s is the host's own", defaultFile))
		}
		c.path = defaultFile
	}
	switch {
	case c.action == saveFile && c.check:
		return a.checked()
	case c.action == saveFile && c.sync:
		return a.sync(ctx, c)
	case c.action == saveFile:
		return a.save(ctx, c)
	}
	text, name, err := a.read(ctx, c.path)
	if err != nil {
		return a.faultAt(c.origin, err)
	}
	if c.check {
		mode := eval.ModeLoad
		if c.action == mergeFile {
			mode = eval.ModeMerge
		}
		if _, ok := a.checkFile(ctx, mode, name, text, a.report); !ok {
			return exitUsage
		}
		return a.checked()
	}
	header := &pb.ExecuteHeader{
		Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, Origin: commandOrigin(name), DryRun: c.dryRun,
	}
	if c.action == mergeFile {
		header.Mode = pb.ExecuteMode_EXECUTE_MODE_MERGE
	}
	if c.confirmWithin > 0 {
		header.ConfirmWithinSeconds = &c.confirmWithin
	}
	return a.execute(ctx, header, text)
}

// read returns the contents of a file and its name for diagnostics; "-" is standard input.
func (a *app) read(ctx context.Context, path string) ([]byte, string, error) {
	open, name := func() (io.ReadCloser, error) { return os.Open(path) }, path
	if path == "-" {
		if a.stdinTaken || a.inShell {
			return nil, "", usageError("standard input holds commands, it cannot be loaded")
		}
		a.stdinTaken = true
		open, name = func() (io.ReadCloser, error) { return a.stdin, nil }, "stdin"
	}
	text, err := readAll(ctx, open)
	return text, name, err
}

// save prints the running configuration, or writes it to a file that is replaced as a whole.
func (a *app) save(ctx context.Context, c fileCommand) int {
	header := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Origin: commandOrigin("")}
	if c.dialect != 0 {
		header.Dialect = &c.dialect
	}
	if c.path == "" || c.path == "-" {
		return a.execute(ctx, header, []byte("list"))
	}
	var text bytes.Buffer
	asText := *a // a file is bigip.conf text whatever is printed
	options := *a.options
	options.output = pb.OutputFormat_OUTPUT_FORMAT_TEXT
	asText.options = &options
	if status := asText.executeTo(ctx, &text, header, []byte("list")); status != exitDone {
		return status
	}
	if err := writeFile(c.path, text.Bytes()); err != nil {
		return a.fail(err)
	}
	return a.document(struct {
		Saved string `json:"saved"`
	}{c.path})
}

// sync saves the configuration as save does, and says that there is nobody to send it to.
func (a *app) sync(ctx context.Context, c fileCommand) int {
	status := a.save(ctx, c)
	if status == exitDone {
		fmt.Fprintf(a.stderr, "bigpipe: saved to %s; there is no other unit to send it to\n", c.path)
	}
	return status
}

// writeFile replaces a regular file as a whole; a link stays and its target is replaced. Anything else, such as a pipe or a
// device, is written into.
func writeFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	err = renameio.WriteFile(path, text, 0o644, renameio.WithExistingPermissions())
	var fault *fs.PathError
	if errors.As(err, &fault) { // which names the file that would have taken the place of this one
		return fmt.Errorf("write %s: %w", path, fault.Err)
	}
	return err
}

// checked prints that a check found no fault; as text that is nothing.
func (a *app) checked() int { return a.document(struct{}{}) }

// document prints what was done here as JSON; as text that is nothing.
func (a *app) document(v any) int {
	if !a.json() {
		return exitDone
	}
	text, err := json.Marshal(v)
	if err != nil {
		return a.fail(err)
	}
	if a.documents != nil {
		a.documents.add(text)
		return exitDone
	}
	fmt.Fprintf(a.stdout, "%s\n", text)
	return exitDone
}

// checkFile checks a whole file without mgmtd and reports what it finds; it returns the pools and virtual servers that the
// file configures, each kind in the file's order. A file to merge may name what only the running configuration has.
func (a *app) checkFile(ctx context.Context, mode eval.Mode, name string, text []byte, report func([]*pb.Diagnostic)) ([]*pb.Object, bool) {
	statements, diagnostics := grammar.Parse(name, text)
	files, unreadable := classfile.Read(text)
	outcome := eval.Evaluate(config.NewTree(), statements, eval.Options{
		Mode: mode, File: name, Files: files, Unreadable: unreadable,
		Resolve: func(name string) (netip.Addr, error) { return host.Address(ctx, name) },
	})
	found := outcome.Diagnostics
	if mode == eval.ModeMerge {
		found = slices.DeleteFunc(found, func(d *pb.Diagnostic) bool {
			return d.GetCode() == config.CodeUndefined || d.GetCode() == eval.CodeNotFound
		})
	}
	if !hasError(diagnostics) && !hasError(found) {
		found = append(found, outcome.Notes()...)
	}
	// Faulty statements are no reason to miss the faults of others.
	diagnostics = eval.Join(diagnostics, found)
	report(diagnostics)
	return objects(outcome.View), !hasError(diagnostics)
}

func objects(v config.View) []*pb.Object {
	var all []*pb.Object
	for _, kind := range []grammar.Kind{grammar.KindPool, grammar.KindVirtual} {
		first := len(all)
		v.Range(string(kind), func(o *pb.Object) bool {
			all = append(all, o)
			return true
		})
		slices.SortStableFunc(all[first:], func(a, b *pb.Object) int {
			return cmp.Compare(a.ObjectMeta().GetOrder(), b.ObjectMeta().GetOrder())
		})
	}
	return all
}

// checkWords checks the words of a command: their syntax, not whether what they name exists.
func (a *app) checkWords(origin *pb.Position, text string) int {
	statements, diagnostics := grammar.ParseCommand(origin, []byte(text))
	files, unreadable := classfile.Read([]byte(text))
	diagnostics = eval.Join(diagnostics, eval.CheckFiles(statements, eval.Options{Files: files, Unreadable: unreadable}))
	a.report(diagnostics)
	if hasError(diagnostics) {
		return exitUsage
	}
	return a.checked()
}

func hasError(diagnostics []*pb.Diagnostic) bool {
	for _, d := range diagnostics {
		if d.GetSeverity() == pb.Severity_SEVERITY_ERROR {
			return true
		}
	}
	return false
}
