package eval

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

func TestClassFiles(t *testing.T) {
	const text = `class agents { "curl" file "agents.txt" }` + "\n"
	files := map[string][]byte{"agents.txt": []byte("# known ones\n\"wget\",\n80, plain\nhost 10.1.1.1\nnetwork 10.0.0.0 mask 255.0.0.0\n")}
	for _, mode := range []Mode{ModeCommand, ModeLoad, ModeMerge} {
		out := runWith(t, config.NewTree(), text, Options{Mode: mode, Files: files})
		c := out.View.Get("class/agents").GetClass()
		want := &pb.ClassContents{
			Strings: []string{"wget", "80", "plain"}, Hosts: []string{"10.1.1.1"}, Networks: []*pb.ClassNetwork{{Address: "10.0.0.0", Netmask: "255.0.0.0"}},
		}
		if out.Exit != 0 || !proto.Equal(c.GetContents(), want) || len(out.Kept)+len(out.Ignored) != 0 {
			t.Errorf("mode %d: exit %d, %v\n%s", mode, out.Exit, c, show(out.Diagnostics))
		}
		if whole := config.WholeClass(c); len(whole.GetStrings()) != 4 || whole.GetStrings()[0] != "curl" || len(whole.GetHosts()) != 1 || len(whole.GetNetworks()) != 1 {
			t.Errorf("mode %d: the whole is %v", mode, whole)
		}
		if written := grammar.FormatObject(out.View.Get("class/agents"), grammar.FormatOptions{}); string(written) != "class agents {\n   \"curl\"\n   file \"agents.txt\"\n}\n" {
			t.Errorf("mode %d: written as %s", mode, written)
		}
		again := runWith(t, out.View, text, Options{Mode: ModeMerge, Files: map[string][]byte{"agents.txt": []byte("other")}})
		if c := again.View.Get("class/agents").GetClass(); len(again.Changes) != 1 || len(c.GetContents().GetStrings()) != 1 {
			t.Errorf("mode %d: another file leaves %v", mode, c)
		}
	}
}

func TestClassFiles_faults(t *testing.T) {
	const text = "class a { file \"a.txt\" }\npool p { member 10.1.1.1:80 }\nclass b { file \"b.txt\" }\nclass c file c.txt\n"
	out := runWith(t, config.NewTree(), text, Options{
		Mode: ModeLoad, Files: map[string][]byte{"c.txt": []byte("host\n \"x\" { y }")}, Unreadable: map[string]string{"a.txt": "permission denied"},
	})
	const want = `file 1:11+4 class a: file a.txt: permission denied
file 3:11+4 class b: file b.txt: its contents did not come with the text
value 2:2+3 host: "x" is not an address
syntax 2:6+1 "{" cannot stand in the file of a class
syntax 2:10+1 "}" cannot stand in the file of a class
`
	if got := show(out.Diagnostics); got != want || out.Exit != 2 {
		t.Errorf("exit %d\n%s\nwant\n%s", out.Exit, got, want)
	}
	for _, d := range out.Diagnostics[2:] {
		if d.GetPosition().GetFile() != "c.txt" || d.GetSource() != ` "x" { y }` {
			t.Errorf("%v", d)
		}
	}
	statements, _ := grammar.ParseCommand(&pb.Position{Line: 1, Column: 1}, []byte("class c file c.txt"))
	if ds := CheckFiles(statements, Options{}); len(ds) != 1 || ds[0].GetCode() != CodeFile {
		t.Errorf("a check says\n%s", show(ds))
	}
}
