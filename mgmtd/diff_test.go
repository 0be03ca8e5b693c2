package mgmtd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	"pgregory.net/rapid"
)

// apply makes after from before and a unified diff; hunks may not overlap.
func applyDiff(before, diff string) (string, error) {
	var out strings.Builder
	lines, at := strings.SplitAfter(before, "\n"), 0
	for i, line := range strings.SplitAfter(diff, "\n") {
		switch {
		case i < 2 || line == "":
		case strings.HasPrefix(line, "@@ -"):
			var from, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d", &from, &n); err != nil {
				n = 1
				if _, err := fmt.Sscanf(line, "@@ -%d", &from); err != nil {
					return "", err
				}
			}
			if n > 0 {
				from--
			}
			for ; at < from; at++ {
				out.WriteString(lines[at])
			}
		case line[0] == '+':
			out.WriteString(line[1:])
		default:
			if at >= len(lines) || lines[at] != line[1:] {
				return "", fmt.Errorf("line %d of the text is not %q", at+1, line)
			}
			if at++; line[0] == ' ' {
				out.WriteString(line[1:])
			}
		}
	}
	return out.String() + strings.Join(lines[at:], ""), nil
}

func TestUnifiedDiff_applies(t *testing.T) {
	statement := rapid.Custom(func(t *rapid.T) string {
		text := fmt.Sprintf("pool p%d {\n", rapid.IntRange(0, 20).Draw(t, "name"))
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			text += fmt.Sprintf("   member 10.1.1.%d:80\n", rapid.IntRange(1, 4).Draw(t, "member"))
		}
		if text += "}\n"; rapid.Bool().Draw(t, "comment") {
			return "# note\n" + text
		}
		return text
	})
	side := rapid.SliceOfN(statement, 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		a := side.Draw(t, "before")
		b := append([]string{}, a...)
		if rapid.Bool().Draw(t, "related") && len(b) > 0 {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = statement.Draw(t, "new")
		} else {
			b = side.Draw(t, "after")
		}
		before, after := strings.Join(a, ""), strings.Join(b, "")
		var diff strings.Builder
		if err := unifiedDiff(&diff, before, after); err != nil {
			t.Fatal(err)
		}
		got, err := applyDiff(before, diff.String())
		if err != nil || got != after {
			t.Fatalf("%v\n%s", err, diff.String())
		}
	})
}

func TestUnifiedDiff_text(t *testing.T) {
	before := "a {\n   x 1\n   y 2\n   z 3\n   u 4\n   v 5\n}\nb { x }\n"
	var diff strings.Builder
	if err := unifiedDiff(&diff, before, strings.Replace(before, "x 1", "x 9", 1)); err != nil {
		t.Fatal(err)
	}
	const want = "--- running\n+++ new\n@@ -1,5 +1,5 @@\n a {\n-   x 1\n+   x 9\n    y 2\n    z 3\n    u 4\n"
	if diff.String() != want {
		t.Errorf("got\n%s", diff.String())
	}
	// The same as the library's own on a text that is one statement.
	theirs, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(strings.TrimSuffix(before, "\n")), B: difflib.SplitLines(strings.Replace(strings.TrimSuffix(before, "\n"), "x 1", "x 9", 1)),
		FromFile: "running", ToFile: "new", Context: 3,
	})
	if err != nil || theirs != want {
		t.Errorf("%v, the library's:\n%s", err, theirs)
	}
}

// TestUnifiedDiff_all_alike changes every one of many statements that differ in their names only.
func TestUnifiedDiff_all_alike(t *testing.T) {
	var a, b strings.Builder
	for i := range 10_000 {
		text := fmt.Sprintf("# a comment\npool p%d {\n   lb_mode round_robin\n   member 10.1.1.1:80\n}\n", i)
		a.WriteString(text)
		b.WriteString(strings.Replace(text, "round_robin", "ratio", 1))
	}
	var diff strings.Builder
	if err := unifiedDiff(&diff, a.String(), b.String()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(diff.String(), "\n-"); n != 10_000 {
		t.Errorf("%d lines are removed", n)
	}
}

func TestUnifiedDiff_large(t *testing.T) {
	var a, b strings.Builder
	for i := range 20_000 {
		text := fmt.Sprintf("pool p%d {\n   lb_mode round_robin\n   member 10.1.1.1:80\n   member 10.1.1.2:80\n}\n", i)
		a.WriteString(text)
		if i%1000 == 0 {
			text = strings.Replace(text, "round_robin", "ratio", 1)
		}
		b.WriteString(text)
	}
	var diff strings.Builder
	if err := unifiedDiff(&diff, a.String(), b.String()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(diff.String(), "\n@@ "); n != 20 {
		t.Errorf("%d hunks", n)
	}
}

// Texts that are too long to compare every pair of lines differ no less exactly.
func TestUnifiedDiff_long(t *testing.T) {
	many := func(port func(i int) int, n int) string {
		var b strings.Builder
		b.WriteString("pool all {\n")
		for i := range n {
			fmt.Fprintf(&b, "   member 10.%d.%d.1:%d\n", i>>8, i&255, port(i))
		}
		b.WriteString("}\n")
		for i := range n {
			fmt.Fprintf(&b, "pool p%d {\n   member 10.1.1.1:%d\n}\n", i, port(i))
		}
		return b.String()
	}
	before := many(func(int) int { return 80 }, 3000)
	for name, test := range map[string]struct {
		after string
		lines int // that change at most
	}{
		"every_second": {many(func(i int) int { return 80 + i%2 }, 3000), 2 * 3000},
		"two":          {many(func(i int) int { return 80 + i/2999 }, 3000), 4},
		"fewer":        {many(func(int) int { return 80 }, 2900), 4 * 100},
		"alike":        {before + strings.Repeat("# the same\n", 5000), 5000},
		"other":        {strings.Repeat("pool q {\n   member 10.1.1.1:80\n}\n", 3000), 1 << 20},
	} {
		var diff strings.Builder
		if err := unifiedDiff(&diff, before, test.after); err != nil {
			t.Fatal(err)
		}
		if after, err := applyDiff(before, diff.String()); err != nil || after != test.after {
			t.Errorf("%s: does not apply: %v", name, err)
		}
		changed := strings.Count(diff.String(), "\n-") + strings.Count(diff.String(), "\n+") - 1 // one is in the head
		if changed > test.lines {
			t.Errorf("%s: %d lines change, not %d", name, changed, test.lines)
		}
	}
}
