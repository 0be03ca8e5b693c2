package grammar

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	pb "bigpipe/proto/bigpipe/v1"
)

// fold carries out definitions and settings of statements in their order, as a load does.
func fold(statements []*Statement) []*pb.Object {
	var keys []string
	objects := make(map[string]*pb.Object)
	for _, s := range statements {
		if s.Object == nil {
			continue
		}
		old := objects[s.Key]
		if old == nil {
			keys = append(keys, s.Key)
		}
		if old != nil && (s.Action == ActionSet || TableOf(s.Kind) != nil && TableOf(s.Kind).Lenient) {
			merged := proto.CloneOf(old)
			meta := merged.ObjectMeta()
			comments := append(meta.GetComments(), s.Object.ObjectMeta().GetComments()...)
			replaceLists(merged.Message(), s)
			proto.Merge(merged, s.Object)
			merged.ObjectMeta().Comments = comments
			objects[s.Key] = merged
			continue
		}
		if s.NodeList != nil {
			pool := proto.CloneOf(s.NodeList)
			address, port, _ := strings.Cut(s.Object.GetVirtual().GetAddress(), ":")
			pool.Name = "appgen_" + address + "." + port
			o := &pb.Object{Kind: &pb.Object_Pool{Pool: pool}}
			keys = append(keys, o.Key())
			objects[o.Key()] = o
			vs := proto.CloneOf(s.Object)
			vs.GetVirtual().Pools = []*pb.WeightedPool{{Pool: pool.Name}}
			objects[s.Key] = vs
			continue
		}
		objects[s.Key] = proto.CloneOf(s.Object)
	}
	var list []*pb.Object
	for _, k := range keys {
		list = append(list, objects[k])
	}
	return list
}

// replaceLists clears the lists that a statement gives anew. Those of the unit are merged by name; here names are not given twice.
func replaceLists(m protoreflect.Message, s *Statement) {
	t := TableOf(s.Kind)
	if t == nil || s.Kind == KindGlobal || s.Kind == KindSnat {
		return
	}
	s.Object.Message().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if a := t.Find(string(fd.Name())); fd.IsList() && (a == nil || !a.Adds) {
			m.Clear(fd)
		}
		return true
	})
}

// bare strips positions and order, which say where something stands and not what it is. Comments stay.
func bare(objects []*pb.Object) []*pb.Object {
	for _, o := range objects {
		strip(o.ProtoReflect())
	}
	return objects
}

func strip(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *pb.Meta:
		v.Position, v.Order, v.Attributes = nil, 0, nil
		return
	case *pb.RuleStatement:
		v.Position = nil
	case *pb.RuleExpression:
		v.Position = nil
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				strip(v.List().Get(i).Message())
			}
		case fd.Message() != nil && !fd.IsMap():
			strip(v.Message())
			if meta, ok := v.Message().Interface().(*pb.Meta); ok && len(meta.GetComments()) == 0 {
				m.Clear(fd)
			}
		}
		return true
	})
}

// sameObjects compares two configurations by key.
func sameObjects(t failer, what string, want, got []*pb.Object) {
	t.Helper()
	index := func(list []*pb.Object) map[string]*pb.Object {
		m := make(map[string]*pb.Object)
		for _, o := range bare(list) {
			m[o.Key()] = o
		}
		return m
	}
	if d := cmp.Diff(index(want), index(got), protocmp.Transform()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestGolden reads testdata/*.txtar: in.conf is parsed; canonical.conf and canonical3.conf are what is written in both dialects,
// want.json the objects, want.err what is reported. UPDATE=1 rewrites them. Whatever is written reads back the same and is written the same again.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := readArchive(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, a)
		})
	}
}

func golden(t *testing.T, file string, a *archive) {
	var in []byte
	want := make(map[string]string)
	for _, f := range a.files {
		if f.name == "in.conf" {
			in = f.data
		} else {
			want[f.name] = string(f.data)
		}
	}
	statements, faults := Parse("in.conf", in)
	got := make(map[string]string)
	if len(faults) > 0 {
		var b bytes.Buffer
		Render(&b, faults, false)
		got["want.err"] = b.String()
	}
	if !failed(faults) {
		objects := fold(statements)
		got["want.json"] = objectsJSON(t, objects)
		for name, dialect := range map[string]int{"canonical.conf": 4, "canonical3.conf": 3} {
			text := Format(objects, FormatOptions{Dialect: dialect})
			got[name] = string(text)
			again, faults := Parse(name, text)
			if failed(faults) {
				var b bytes.Buffer
				Render(&b, faults, false)
				t.Errorf("%s does not read back:\n%s", name, b.String())
				continue
			}
			sameObjects(t, name+" reads back", fold(statements), fold(again))
			if d := cmp.Diff(string(text), string(Format(fold(again), FormatOptions{Dialect: dialect}))); d != "" {
				t.Errorf("%s is no fixed point:\n%s", name, d)
			}
		}
	}
	if os.Getenv("UPDATE") != "" {
		update(t, file, a, in, got)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// failed tells whether there is a fault among diagnostics; statements that are kept whole give warnings.
func failed(ds []*pb.Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR })
}

// objectsJSON is a configuration as JSON, an object a line, without what it remembers of its text but the comments.
func objectsJSON(t *testing.T, objects []*pb.Object) string {
	t.Helper()
	var out bytes.Buffer
	for _, o := range bare(cloneAll(objects)) {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(o)
		if err == nil {
			err = json.Compact(&out, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func cloneAll(objects []*pb.Object) []*pb.Object {
	list := make([]*pb.Object, len(objects))
	for i, o := range objects {
		list[i] = proto.CloneOf(o)
	}
	return list
}

func update(t *testing.T, file string, a *archive, in []byte, got map[string]string) {
	a.files = []archiveFile{{"in.conf", in}}
	for _, name := range sortedKeys(got) {
		a.files = append(a.files, archiveFile{name, []byte(got[name])})
	}
	if err := os.WriteFile(file, a.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// archive is a txtar file: a comment, then files, each after a line "-- NAME --".
type archive struct {
	comment []byte
	files   []archiveFile
}

type archiveFile struct {
	name string
	data []byte
}

func readArchive(file string) (*archive, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a := &archive{}
	into := &a.comment
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\n")
		if strings.HasPrefix(text, "-- ") && strings.HasSuffix(text, " --") {
			a.files = append(a.files, archiveFile{name: strings.TrimSpace(text[3 : len(text)-3])})
			into = &a.files[len(a.files)-1].data
			continue
		}
		*into = append(*into, line...)
	}
	return a, nil
}

func (a *archive) bytes() []byte {
	b := slices.Clone(a.comment)
	for _, f := range a.files {
		b = append(b, "-- "+f.name+" --\n"...)
		b = append(b, f.data...)
	}
	return b
}
