package eval

import (
	"fmt"
	"strings"
	"testing"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// joinText parses and evaluates a file and renders what both found.
func joinText(t *testing.T, text string) string {
	t.Helper()
	statements, faults := grammar.Parse("f", []byte(text))
	var b strings.Builder
	grammar.Render(&b, Join(faults, Evaluate(nil, statements, Options{Mode: ModeLoad}).Diagnostics), false)
	return b.String()
}

func TestJoin(t *testing.T) {
	t.Run("in_the_order_of_the_text", func(t *testing.T) {
		got := joinText(t, "vip 10.0.0.1:80 { use pool wbe }\npool web { lb_mdoe rr member 10.1.1.1:80 }\nvip 10.0.0.2:80 { use pool wbe }\n")
		want := `f:1:28: virtual server 10.0.0.1:80: pool "wbe" not found
    1 | vip 10.0.0.1:80 { use pool wbe }
      |                            ^~~
  did you mean "web"?
f:2:12: unknown pool attribute "lb_mdoe"
    2 | pool web { lb_mdoe rr member 10.1.1.1:80 }
      |            ^~~~~~~
  did you mean "lb_mode"?
f:3:28: virtual server 10.0.0.2:80: pool "wbe" not found
    3 | vip 10.0.0.2:80 { use pool wbe }
      |                            ^~~
  did you mean "web"?
`
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("warnings_only_without_faults_of_the_parser", func(t *testing.T) {
		warning := "pool p { persist_mode simple member 10.1.1.1:80 }\n"
		if got := joinText(t, warning); !strings.HasPrefix(got, "warning: f:1:10: ") {
			t.Error(got)
		}
		if got := joinText(t, warning+"poool q { }\n"); strings.Contains(got, "warning") {
			t.Error(got)
		}
		// A fault of the evaluation alone leaves them: all statements were read.
		if got := joinText(t, warning+"vip 10.0.0.1:80 { use pool q }\n"); !strings.Contains(got, "warning") || !strings.Contains(got, "not found") {
			t.Error(got)
		}
	})
	t.Run("one_fault_a_place", func(t *testing.T) {
		at := func(message string, line, column uint32) *pb.Diagnostic {
			return &pb.Diagnostic{Severity: pb.Severity_SEVERITY_ERROR, Message: message, Position: &pb.Position{File: "f", Line: line, Column: column}}
		}
		nowhere := &pb.Diagnostic{Severity: pb.Severity_SEVERITY_ERROR, Message: "nowhere"}
		got := Join([]*pb.Diagnostic{at("a", 2, 1)}, []*pb.Diagnostic{nowhere, at("b", 2, 1), at("c", 1, 9), nowhere})
		var texts []string
		for _, d := range got {
			texts = append(texts, d.GetMessage())
		}
		if want := "c a nowhere nowhere"; strings.Join(texts, " ") != want {
			t.Errorf("%q, want %q", texts, want)
		}
	})
	t.Run("lines_are_filled", func(t *testing.T) {
		a := &pb.Diagnostic{Severity: pb.Severity_SEVERITY_ERROR, Message: "a", Position: &pb.Position{Line: 3, Column: 1}, Source: "the line"}
		b := &pb.Diagnostic{Severity: pb.Severity_SEVERITY_ERROR, Message: "b", Position: &pb.Position{Line: 3, Column: 5}}
		if got := Join(nil, []*pb.Diagnostic{b, a}); got[0] != a || got[1].GetSource() != "the line" {
			t.Errorf("%v", got)
		}
	})
}

// TestJoin_limit: 50 faults of both together, the first of the text, and one note that counts all others.
func TestJoin_limit(t *testing.T) {
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "vip 10.0.0.%d:80 { use pool missing }\npool p%d { wrong_word 1 }\n", i, i)
	}
	statements, faults := grammar.Parse("f", []byte(text.String()))
	got := Join(faults, Evaluate(nil, statements, Options{Mode: ModeLoad}).Diagnostics)
	if len(got) != 51 {
		t.Fatalf("%d diagnostics", len(got))
	}
	for i, d := range got[:50] {
		if int(d.GetPosition().GetLine()) != i+1 || d.GetSource() == "" {
			t.Errorf("diagnostic %d is at line %d, source %q", i, d.GetPosition().GetLine(), d.GetSource())
		}
	}
	if n, what := grammar.NotShown(got[50]); n != 70 || what != grammar.Faults || got[50].GetMessage() != "70 more faults are not shown" {
		t.Errorf("%v", got[50])
	}
	if n, _ := grammar.NotShown(got[0]); n != 0 {
		t.Errorf("%v counts as %d", got[0], n)
	}
}
