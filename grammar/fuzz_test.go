package grammar

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// seeds adds the golden inputs and texts that were hard once.
func seeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		a, err := readArchive(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range a.files {
			f.Add(string(part.data))
		}
	}
	for _, text := range []string{
		"", "{", "}", "'", "\"", "\\", "\x00", "\xff", "pool", "pool p", "pool p {", "vip", "vip a", "vip 10.0.0.1:80 {",
		strings.Repeat("{", 100), "pool p " + strings.Repeat("{ ", 40) + strings.Repeat("} ", 40),
		"rule r { " + strings.Repeat("if ( not exists http_cookie a ) { discard } else ", 20) + "discard }",
		"pool p { persist = findstr ( http_uri , \"a\\\\\" ) }", "# only a comment", "\uFEFFlb rr", "lb rr \\", "pool p { member [::1]:80 }",
		"monitor m { // x\n}", "node *:80 monitor use http and tcp", "persist 80 show", "ratio { } 1", "vip 1.1.1.1:1 use pool a weight 1 pool b",
		"vip 192.0.2.1:80 define persist_mode", "vip 192.0.2.1:80 { define member special ssl define }",
		"vlan v { a\r\r\n b \\\r\r\n c \\\r\n d }",
		"global cookie_key a \"b c\" map_proxy 10.0.0.0/8 to 1.2.3.4",
	} {
		f.Add(text)
	}
}

// FuzzParse: no panic, statements inside the text, and what parses without a fault is written so that it reads back the same.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		bounds, _ := Split("f", []byte(text))
		for _, b := range bounds {
			if b.Text == "" || utf8.ValidString(text) && !strings.Contains(text, b.Text) {
				t.Fatalf("bound %q is not in the text", b.Text)
			}
		}
		statements, faults := Parse("f", []byte(text))
		lines := uint32(strings.Count(text, "\n") + 1)
		for _, st := range statements {
			if st.Position.GetLine() < 1 || st.End.GetLine() > lines {
				t.Fatalf("statement %q at %v to %v of %d lines", st.Text, st.Position, st.End, lines)
			}
			if st.Object != nil && st.Object.Key() != st.Key {
				t.Fatalf("key %q, object %q", st.Key, st.Object.Key())
			}
		}
		for _, d := range faults {
			if d.GetPosition().GetLine() > lines || d.GetMessage() == "" {
				t.Fatalf("fault %v of %d lines", d, lines)
			}
		}
		Render(&bytes.Buffer{}, faults, true)
		commands, _ := ParseCommand(&pb.Position{Line: 7, Column: 3}, []byte(text))
		for _, st := range commands {
			if st.Position.GetLine() < 7 {
				t.Fatalf("statement at %v", st.Position)
			}
		}
		if !failed(faults) {
			stable(t, fold(statements))
		}
	})
}

// failer is a test, or a case of a generated one.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	FailNow()
}

// stable checks that both dialects read back as the same objects and are written the same again.
func stable(t failer, objects []*pb.Object) {
	for _, dialect := range []int{3, 4} {
		text := Format(objects, FormatOptions{Dialect: dialect})
		again, faults := Parse("again", text)
		if failed(faults) {
			var b bytes.Buffer
			Render(&b, faults, false)
			t.Fatalf("does not read back:\n%s\n%s", text, b.String())
		}
		sameObjects(t, "dialect "+string(rune('0'+dialect))+"\n"+string(text), visible(objects), fold(again))
		if second := Format(fold(again), FormatOptions{Dialect: dialect}); !bytes.Equal(text, second) {
			t.Fatalf("no fixed point:\n%s\n%s", text, second)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// visible leaves out objects of which nothing is written: nodes, services and a unit without settings.
func visible(objects []*pb.Object) []*pb.Object {
	var list []*pb.Object
	for _, o := range objects {
		if len(FormatObject(o, FormatOptions{OmitComments: true})) > 0 {
			list = append(list, proto.CloneOf(o))
		}
	}
	return list
}

// FuzzComplete: no panic, and the start is inside the line.
func FuzzComplete(f *testing.F) {
	seeds(f)
	f.Add("pool web { member 10.1.1.1:80 rat")
	f.Fuzz(func(t *testing.T, line string) {
		for _, cursor := range []int{len(line), len(line) / 2, -1, len(line) + 1} {
			candidates, start := Complete(line, cursor, names)
			if start < 0 || start > len(line) {
				t.Fatalf("start %d of %d", start, len(line))
			}
			for _, c := range candidates {
				if c.Text == "" {
					t.Fatal("an empty candidate")
				}
			}
		}
		Help(strings.Fields(line))
	})
}

func TestExamples(t *testing.T) {
	files, _ := filepath.Glob("../examples/*.conf")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		statements, faults := Parse(file, text)
		var b bytes.Buffer
		Render(&b, faults, false)
		if b.Len() > 0 {
			t.Errorf("%s", b.String())
			continue
		}
		stable(t, fold(statements))
	}
}
