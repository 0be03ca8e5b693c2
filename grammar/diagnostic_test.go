package grammar

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

func rendered(text string) string {
	_, faults := Parse("f", []byte(text))
	var b bytes.Buffer
	Render(&b, faults, false)
	return b.String()
}

func TestRender(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"as the interface says": {
			"pool p {\n  persist_mdoe simple\n}",
			"f:2:3: unknown pool attribute \"persist_mdoe\"\n    2 |   persist_mdoe simple\n      |   ^~~~~~~~~~~~\n  did you mean \"persist_mode\"?\n",
		},
		"tabs stay": {
			"pool p {\n\tlb_mode\txx\n}",
			"f:2:10: lb_mode: unknown value \"xx\"; it is one of " + strings.Join(Pools.Find("lb_mode").ValueWords(), ", ") + "\n    2 | \tlb_mode\txx\n      | \t       \t^~\n",
		},
		"wide characters": {
			"pool p { fallback \"日本\" xx }",
			"f:1:24: unknown pool attribute \"xx\"\n    1 | pool p { fallback \"日本\" xx }\n      |                          ^~\n",
		},
		"crlf": {
			"poool p { }\r\nlb rr\r\n",
			"f:1:1: unknown statement \"poool\"\n    1 | poool p { }\n      | ^~~~~\n  did you mean \"pool\"?\n",
		},
		"what is missing": {"lb", "f:1:1: lb needs a value: " + Globals.Find("lb").Usage() + "\n    1 | lb\n      | ^~\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rendered(c.text); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	var b bytes.Buffer
	Render(&b, []*pb.Diagnostic{
		{Severity: pb.Severity_SEVERITY_WARNING, Position: &pb.Position{File: "f", Line: 3, Column: 4}, Message: "m", Source: "x", Code: "W-4"},
		{Severity: pb.Severity_SEVERITY_NOTE, Message: "n"},
		{Severity: pb.Severity_SEVERITY_ERROR, Message: "pool web: not found"},
		{Severity: pb.Severity_SEVERITY_ERROR, Message: "x", Position: &pb.Position{Line: 1, Column: 2}},
	}, false)
	if want := "warning: f:3:4: m\nnote: n\npool web: not found\n1:2: x\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	b.Reset()
	Render(&b, []*pb.Diagnostic{{Severity: pb.Severity_SEVERITY_ERROR, Position: &pb.Position{File: "f", Line: 1, Column: 1}, Message: "m", Source: "x", Length: 1}}, true)
	if !strings.Contains(b.String(), "\x1b[1;31m^\x1b[0m") {
		t.Errorf("no colour in %q", b.String())
	}
}

func TestLimits(t *testing.T) {
	_, faults := Parse("f", []byte(strings.Repeat("poool x { }\n", 75)))
	if len(faults) != maxFaults+1 || faults[maxFaults].GetMessage() != "25 more faults are not shown" || faults[maxFaults].GetSeverity() != pb.Severity_SEVERITY_NOTE {
		t.Errorf("%d faults, last %v", len(faults), faults[len(faults)-1])
	}
	for name, text := range map[string]string{
		"braces":         "pool p " + strings.Repeat("{", 500000),
		"nested":         "pool p " + strings.Repeat("{ ", 33) + strings.Repeat("} ", 33),
		"parentheses":    "rule r { if " + strings.Repeat("( ", 100000) + "}",
		"size":           strings.Repeat("# x\n", 4<<20+1),
		"chain of if":    "rule r { " + strings.Repeat("if ( exists http_host ) ", 100000) + "discard }",
		"chain of else":  "rule r { " + strings.Repeat("if ( exists http_host ) { discard } else ", 100000) + "discard }",
		"chain of or":    "rule r { if ( " + strings.Repeat("exists http_host or ", 2000) + "exists http_uri ) { discard } }",
		"chain of not":   "rule r { if ( " + strings.Repeat("not ", 2000) + "exists http_uri ) { discard } }",
		"many decisions": "rule r { " + strings.Repeat("discard ", 1500) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			if _, faults := Parse("f", []byte(text)); len(faults) == 0 || len(faults) > maxFaults+1 {
				t.Errorf("%d faults", len(faults))
			}
		})
	}
	long := "rule r { " + strings.Repeat("if ( http_uri equals \"/\" ) { discard } else ", 300) + "discard }"
	if got := rendered(long); got != "" {
		t.Errorf("300 decisions: %s", got)
	}
}

func TestEncoding(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		line, col uint32
	}{
		"NUL":             {"lb rr\npool p { fallback \"ab\x00\" }", 2, 22},
		"not UTF-8":       {"# é\nlb r\xffr", 2, 5},
		"latin-1 comment": {"# caf\xe9\nlb rr", 1, 6},
		"control":         {"lb \x01rr", 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := Parse("f", []byte(c.text))
			if len(faults) == 0 || faults[0].GetCode() != CodeEncoding || faults[0].GetPosition().GetLine() != c.line || faults[0].GetPosition().GetColumn() != c.col {
				t.Errorf("%v", faults)
			}
		})
	}
}

// TestPositions: columns count characters, and a text may begin elsewhere.
func TestPositions(t *testing.T) {
	_, faults := ParseAt(&pb.Position{File: "stdin", Line: 14, Column: 5}, []byte("poool a { }\npool ä { fallback \"é€\" xx }"))
	want := []string{"stdin:14:5: ", "stdin:15:24: "}
	if len(faults) != len(want) {
		t.Fatalf("%v", faults)
	}
	for i, d := range faults {
		if got := positionText(d.GetPosition()); got != want[i] {
			t.Errorf("%s, want %s", got, want[i])
		}
	}
	var b bytes.Buffer
	Render(&b, faults[:1], false)
	if got := b.String(); !strings.Contains(got, "   14 |     poool a { }\n      |     ^~~~~\n") {
		t.Error(got)
	}
	statements := command(t, "# c\npool web {\n   lb_mode rr\n   mirror persist enable\n}")
	meta := statements[0].Object.GetPool().GetMeta()
	if got := meta.GetAttributes()[1]; got.GetAttribute() != "mirror persist" || got.GetLine() != 4 || got.GetColumn() != 4 || got.GetLength() != 14 {
		t.Errorf("%v", got)
	}
	if meta.GetPosition().GetLine() != 2 || statements[0].End.GetLine() != 5 || statements[0].End.GetColumn() != 2 || statements[0].KeyPosition.GetColumn() != 6 {
		t.Errorf("%v", statements[0])
	}
}

func TestDuplicates(t *testing.T) {
	got := rendered("pool web { member 10.1.1.1:80 }\nvip 10.0.0.1:80 { use pool web }\npool web { }\nvip 10.0.0.1:http { use pool web }\n")
	for _, want := range []string{
		`f:3:6: existing pool "web": defined on line 1 and again on line 3`,
		`f:4:5: existing virtual "10.0.0.1:80": defined on line 2 and again on line 4`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if statements := command(t, "pool web { }\npool web { }"); len(statements) != 2 {
		t.Error("commands may define again")
	}
	if got := rendered("pool web { member 10.1.1.1:80 member 10.1.1.1:http lb_mode rr lb_mode rr }"); strings.Count(got, "existing") != 2 {
		t.Error(got)
	}
}

// TestParallel: parsers are built once and shared.
func TestParallel(t *testing.T) {
	text := siteText(50)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			own := fmt.Appendf(nil, "%srule r%d { if ( http_uri starts_with \"/%d\" ) { use ( pool_1 ) } }\n", text, i, i)
			statements, faults := Parse("f", own)
			if len(faults) > 0 || len(statements) != 101 {
				t.Errorf("%d statements, %v", len(statements), faults)
			}
		})
	}
	wg.Wait()
}
