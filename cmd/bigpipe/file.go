package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

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
	confirmWithin time.Duration
	dialect       uint32
	origin        *pb.Position // of the command; nil for options
	option        bool         // -f, -l or -s: no path is standard output
}

// parseFileCommand reads the words of a command; false when it is another command.
func parseFileCommand(words []string) (fileCommand, bool, error) {
	c := fileCommand{}
	if len(words) > 1 && words[0] == "verify" && words[1] == "load" {
		c.check, words = true, words[1:]
	}
	if len(words) == 0 || words[len(words)-1] == "-?" {
		return c, false, nil
	}
	switch words[0] {
	case "load":
		c.action = loadFile
	case "merge":
		c.action = mergeFile
	case "save":
		c.action = saveFile
	default:
		return c, false, nil
	}
	return c, true, c.parseWords(words[1:])
}

// splitWords splits a command into words; a word with blanks stands in double quotes.
func splitWords(text string) ([]string, error) {
	var words []string
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return words, nil
		}
		if text[0] == '"' {
			word, rest, closed := strings.Cut(text[1:], `"`)
			if !closed {
				return words, usageError("a quote is not closed")
			}
			words, text = append(words, word), rest
			continue
		}
		n := strings.IndexAny(text, " \t\r\n")
		if n < 0 {
			n = len(text)
		}
		words, text = append(words, text[:n]), text[n:]
	}
}

func (c *fileCommand) parseWords(words []string) error {
	named := false
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if !strings.HasPrefix(word, "--") {
			if named {
				return usageError("unexpected %q after the file", word)
			}
			if word == "" {
				return usageError("the file's name is empty")
			}
			c.path, named = word, true
			continue
		}
		name, value, attached := strings.Cut(word, "=")
		if name == "--dry-run" && attached {
			return usageError("option --dry-run takes no value")
		}
		if name != "--dry-run" && !attached {
			if len(words) == 0 {
				return usageError("option %s needs a value", name)
			}
			value, words = words[0], words[1:]
		}
		if err := c.setOption(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (c *fileCommand) setOption(name, value string) error {
	switch {
	case name == "--dry-run" && c.action == loadFile:
		c.dryRun = true
	case name == "--confirm-within" && c.action == loadFile:
		d, err := time.ParseDuration(value)
		if err != nil || d < time.Second {
			return usageError("--confirm-within takes a time of at least a second, such as 5m, not %q", value)
		}
		c.confirmWithin = d
	case name == "--dialect" && c.action == saveFile:
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n != 3 && n != 4 {
			return usageError("--dialect takes 3 or 4, not %q", value)
		}
		c.dialect = uint32(n)
	default:
		return usageError("unknown option %s", name)
	}
	return nil
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
	if c.action == saveFile {
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
		seconds := uint32(c.confirmWithin / time.Second)
		header.ConfirmWithinSeconds = &seconds
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
	return exitDone
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
	return renameio.WriteFile(path, text, 0o644, renameio.WithExistingPermissions())
}

// checked prints that a check found no fault; as text that is nothing.
func (a *app) checked() int {
	if !a.json() {
		return exitDone
	}
	if a.documents != nil {
		a.documents.add([]byte("{}"))
		return exitDone
	}
	fmt.Fprintln(a.stdout, "{}")
	return exitDone
}

// checkFile checks a whole file without mgmtd and reports what it finds; it returns the pools and virtual servers that the
// file configures, each kind in the file's order. A file to merge may name what only the running configuration has.
func (a *app) checkFile(ctx context.Context, mode eval.Mode, name string, text []byte, report func([]*pb.Diagnostic)) ([]*pb.Object, bool) {
	statements, diagnostics := grammar.Parse(name, text)
	outcome := eval.Evaluate(config.NewTree(), statements, eval.Options{
		Mode: mode, File: name,
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
	_, diagnostics := grammar.ParseCommand(origin, []byte(text))
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
