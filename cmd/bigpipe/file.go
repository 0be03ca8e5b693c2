package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

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
}

// parseFileCommand reads the words of a command; false when it is another command.
func parseFileCommand(text string) (fileCommand, bool, error) {
	words := strings.Fields(text)
	c := fileCommand{}
	if len(words) > 1 && words[0] == "verify" && words[1] == "load" {
		c.check, words = true, words[1:]
	}
	if len(words) == 0 {
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
	err := c.parseWords(words[1:])
	if c.path == "" {
		c.path = defaultFile
	}
	return c, true, err
}

func (c *fileCommand) parseWords(words []string) error {
	for len(words) > 0 {
		name, value, attached := strings.Cut(words[0], "=")
		words = words[1:]
		if !strings.HasPrefix(name, "--") {
			if c.path != "" {
				return usageError("unexpected %q after the file", name)
			}
			c.path = name
			continue
		}
		if name != "--dry-run" && !attached {
			if len(words) == 0 {
				return usageError("option %s needs a value", name)
			}
			value, words = words[0], words[1:]
		}
		if err := c.option(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (c *fileCommand) option(name, value string) error {
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

// file does what -f, -l and -s ask for.
func (a *app) file(ctx context.Context) int {
	return a.fileCommand(ctx, fileCommand{action: a.options.file, path: a.options.path, check: a.options.check})
}

func (a *app) fileCommand(ctx context.Context, c fileCommand) int {
	c.check = c.check || a.options.check
	if c.action == saveFile {
		return a.save(ctx, c)
	}
	text, name, err := a.read(c.path)
	if err != nil {
		fmt.Fprintf(a.stderr, "bigpipe: %v\n", err)
		return exitUsage
	}
	if c.check {
		if _, ok := a.checkFile(ctx, name, text, a.report); !ok {
			return exitUsage
		}
		if a.options.output == pb.OutputFormat_OUTPUT_FORMAT_JSON {
			fmt.Fprintln(a.stdout, "{}")
		}
		return exitDone
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
func (a *app) read(path string) ([]byte, string, error) {
	if path == "-" {
		text, err := io.ReadAll(a.stdin)
		return text, "stdin", err
	}
	text, err := os.ReadFile(path)
	return text, path, err
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
	a.options.output = pb.OutputFormat_OUTPUT_FORMAT_TEXT // a file is bigip.conf text whatever is printed
	if status := a.executeTo(ctx, &text, header, []byte("list")); status != exitDone {
		return status
	}
	if err := renameio.WriteFile(c.path, text.Bytes(), 0o644, renameio.WithExistingPermissions()); err != nil {
		return a.fail(err)
	}
	return exitDone
}

// checkFile checks a whole file without mgmtd and reports what it finds; it returns the pools and virtual servers that the
// file configures, each kind in the file's order.
func (a *app) checkFile(ctx context.Context, name string, text []byte, report func([]*pb.Diagnostic)) ([]*pb.Object, bool) {
	statements, diagnostics := grammar.Parse(name, text)
	// Faulty statements are no reason to miss the faults of others.
	outcome := eval.Evaluate(config.NewTree(), statements, eval.Options{
		Mode: eval.ModeLoad, File: name,
		Resolve: func(host string) (netip.Addr, error) { return resolve(ctx, host) },
	})
	diagnostics = append(diagnostics, outcome.Diagnostics...)
	slices.SortStableFunc(diagnostics, func(a, b *pb.Diagnostic) int {
		p, q := a.GetPosition(), b.GetPosition()
		return cmp.Or(cmp.Compare(p.GetLine(), q.GetLine()), cmp.Compare(p.GetColumn(), q.GetColumn()))
	})
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

// resolve asks this host for an address, an IPv4 address first.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, addr := range addrs {
		if addr = addr.Unmap(); addr.Is4() {
			return addr, nil
		}
	}
	return addrs[0].Unmap(), nil
}

// checkWords checks the words of a command: their syntax, not whether what they name exists.
func (a *app) checkWords(origin *pb.Position, text string) int {
	_, diagnostics := grammar.ParseCommand(origin, []byte(text))
	a.report(diagnostics)
	if hasError(diagnostics) {
		return exitUsage
	}
	return exitDone
}

func hasError(diagnostics []*pb.Diagnostic) bool {
	for _, d := range diagnostics {
		if d.GetSeverity() == pb.Severity_SEVERITY_ERROR {
			return true
		}
	}
	return false
}
