package mgmtd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// diffContext is how many equal lines surround a difference.
const diffContext = 3

// dryRun prints how the canonical text would change. A load then ends with 1 when it does.
func (e *execution) dryRun(mode eval.Mode, old *config.Tree, out *eval.Outcome) error {
	before, after := string(e.format(objectsOf(old)...)), string(e.format(objectsOf(out.View)...))
	if before != after && mode != eval.ModeCommand {
		e.exit = exitDiffers
	}
	if e.json() {
		var diff strings.Builder
		if err := unifiedDiff(&diff, before, after); err != nil {
			return err
		}
		return e.document(struct {
			Different bool   `json:"different"`
			Diff      string `json:"diff"`
		}{before != after, diff.String()})
	}
	return unifiedDiff(e.out, before, after)
}

func objectsOf(v config.View) []*pb.Object {
	var objects []*pb.Object
	v.Range("", func(o *pb.Object) bool {
		objects = append(objects, o)
		return true
	})
	return objects
}

// unifiedDiff writes how two canonical texts differ. Whole statements are compared first, so that it is fast for long texts
// with few differences, then lines within what differs.
func unifiedDiff(w io.Writer, before, after string) error {
	if before == after {
		return nil
	}
	if _, err := io.WriteString(w, "--- running\n+++ new\n"); err != nil {
		return err
	}
	a, b := difflib.SplitLines(before), difflib.SplitLines(after)
	trim(&a)
	trim(&b)
	for _, group := range grouped(lineCodes(a, b)) {
		if err := writeHunk(w, a, b, group); err != nil {
			return err
		}
	}
	return nil
}

// trim drops the empty line that SplitLines adds after the last line end.
func trim(lines *[]string) {
	if n := len(*lines); n > 0 && (*lines)[n-1] == "\n" {
		*lines = (*lines)[:n-1]
	}
}

// statementsOf joins lines to statements: one begins where a line is not indented and does not close a brace.
func statementsOf(lines []string) (statements []string, starts []int) {
	for i, line := range lines {
		if i == 0 || !strings.ContainsAny(line[:1], " \t}\n") {
			statements, starts = append(statements, line), append(starts, i)
		} else {
			statements[len(statements)-1] += line
		}
	}
	return statements, append(starts, len(lines))
}

// lineCodes returns how the lines a become b.
func lineCodes(a, b []string) []difflib.OpCode {
	statementsA, startsA := statementsOf(a)
	statementsB, startsB := statementsOf(b)
	var codes []difflib.OpCode
	add := func(c difflib.OpCode) {
		if n := len(codes); n > 0 && c.Tag == 'e' && codes[n-1].Tag == 'e' {
			codes[n-1].I2, codes[n-1].J2 = c.I2, c.J2
			return
		}
		codes = append(codes, c)
	}
	for _, c := range difflib.NewMatcherWithJunk(statementsA, statementsB, false, nil).GetOpCodes() {
		i1, i2, j1, j2 := startsA[c.I1], startsA[c.I2], startsB[c.J1], startsB[c.J2]
		if c.Tag != 'r' {
			add(difflib.OpCode{Tag: c.Tag, I1: i1, I2: i2, J1: j1, J2: j2})
			continue
		}
		for _, l := range difflib.NewMatcherWithJunk(a[i1:i2], b[j1:j2], false, nil).GetOpCodes() {
			add(difflib.OpCode{Tag: l.Tag, I1: i1 + l.I1, I2: i1 + l.I2, J1: j1 + l.J1, J2: j1 + l.J2})
		}
	}
	return codes
}

// grouped cuts codes into hunks where more lines are equal than two hunks show around them.
func grouped(codes []difflib.OpCode) [][]difflib.OpCode {
	var groups [][]difflib.OpCode
	var group []difflib.OpCode
	for i, c := range codes {
		if c.Tag != 'e' {
			group = append(group, c)
			continue
		}
		head, tail := c, c
		if n := c.I2 - c.I1 - diffContext; n > 0 {
			head.I2, head.J2 = c.I2-n, c.J2-n
			tail.I1, tail.J1 = c.I1+n, c.J1+n
		}
		if group != nil {
			if c.I2-c.I1 <= 2*diffContext && i+1 < len(codes) {
				group = append(group, c)
				continue
			}
			groups = append(groups, append(group, head))
		}
		group = []difflib.OpCode{tail}
	}
	if slices.ContainsFunc(group, func(c difflib.OpCode) bool { return c.Tag != 'e' }) {
		groups = append(groups, group)
	}
	return groups
}

func writeHunk(w io.Writer, a, b []string, group []difflib.OpCode) error {
	first, last := group[0], group[len(group)-1]
	var hunk strings.Builder
	fmt.Fprintf(&hunk, "@@ -%s +%s @@\n", span(first.I1, last.I2), span(first.J1, last.J2))
	lines := func(sign string, list []string) {
		for _, line := range list {
			hunk.WriteString(sign + line)
		}
	}
	for _, c := range group {
		if c.Tag == 'e' {
			lines(" ", a[c.I1:c.I2])
			continue
		}
		lines("-", a[c.I1:c.I2])
		lines("+", b[c.J1:c.J2])
	}
	_, err := io.WriteString(w, hunk.String())
	return err
}

// span is where the lines from..to stand, as a hunk's head says it.
func span(from, to int) string {
	switch n := to - from; n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprintf("%d", from+1)
	default:
		return fmt.Sprintf("%d,%d", from+1, n)
	}
}
