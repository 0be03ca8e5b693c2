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
func (e *execution) dryRun(old *config.Tree, out *eval.Outcome) error {
	before, after := string(e.format(whole(objectsOf(old))...)), string(e.format(whole(objectsOf(out.View))...))
	if before != after && e.mode != eval.ModeCommand {
		e.exit = pb.ExitDiffers
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

// whole returns objects with what their files hold in their own lists.
func whole(objects []*pb.Object) []*pb.Object {
	for i, o := range objects {
		if c := o.GetClass(); c.GetContents() != nil {
			objects[i] = &pb.Object{Kind: &pb.Object_Class{Class: config.WholeClass(c)}}
		}
	}
	return objects
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

// lines is a statement of a text with the comments before it: the lines from..to.
type lines struct {
	text, head string
	from, to   int
}

// statementsOf joins lines to statements: one begins where a line is not indented and does not close a brace.
func statementsOf(text []string) []lines {
	var list []lines
	for i, line := range text {
		comment := strings.HasPrefix(line, "#")
		if len(list) == 0 || !strings.ContainsAny(line[:1], " \t}\n") && list[len(list)-1].head != "" {
			list = append(list, lines{from: i})
		}
		last := &list[len(list)-1]
		last.to = i + 1
		if last.head == "" && !comment {
			last.head = line
		}
	}
	for i := range list {
		list[i].text = strings.Join(text[list[i].from:list[i].to], "")
	}
	return list
}

// texts returns what two lists of statements are compared by.
func texts(list []lines, by func(lines) string) []string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = by(s)
	}
	return all
}

// lineCodes returns how the lines a become b: whole statements are compared first; of what differs, statements with one
// head are compared line by line. So no comparison is of many lines that are alike.
func lineCodes(a, b []string) []difflib.OpCode {
	var codes []difflib.OpCode
	add := func(tag byte, i1, i2, j1, j2 int) {
		if n := len(codes); n > 0 && tag == 'e' && codes[n-1].Tag == 'e' {
			codes[n-1].I2, codes[n-1].J2 = i2, j2
			return
		}
		codes = append(codes, difflib.OpCode{Tag: tag, I1: i1, I2: i2, J1: j1, J2: j2})
	}
	x, y := statementsOf(a), statementsOf(b)
	whole := func(l lines) string { return l.text }
	head := func(l lines) string { return l.head }
	for _, c := range matching(texts(x, whole), texts(y, whole)) {
		if c.Tag != 'r' {
			add(c.Tag, start(x, c.I1), start(x, c.I2), start(y, c.J1), start(y, c.J2))
			continue
		}
		for _, h := range matching(texts(x[c.I1:c.I2], head), texts(y[c.J1:c.J2], head)) {
			i1, i2, j1, j2 := c.I1+h.I1, c.I1+h.I2, c.J1+h.J1, c.J1+h.J2
			if h.Tag != 'e' {
				add(h.Tag, start(x, i1), start(x, i2), start(y, j1), start(y, j2))
				continue
			}
			for n := range i2 - i1 {
				p, q := x[i1+n], y[j1+n]
				for _, l := range matching(a[p.from:p.to], b[q.from:q.to]) {
					add(l.Tag, p.from+l.I1, p.from+l.I2, q.from+l.J1, q.from+l.J2)
				}
			}
		}
	}
	return codes
}

// start is the line where a statement begins, or the end of the text.
func start(list []lines, i int) int {
	switch {
	case i < len(list):
		return list[i].from
	case len(list) == 0:
		return 0
	}
	return list[len(list)-1].to
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
	put := func(sign string, list []string) {
		for _, line := range list {
			hunk.WriteString(sign + line)
		}
	}
	for _, c := range group {
		if c.Tag == 'e' {
			put(" ", a[c.I1:c.I2])
			continue
		}
		put("-", a[c.I1:c.I2])
		put("+", b[c.J1:c.J2])
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
