package mgmtd

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// answerWithin is how long a text of a megabyte may take on a machine that does much else: longer is a text that never ends.
const answerWithin = 30 * time.Second

// The bits of what a fuzzed text is; load and merge exclude each other.
const (
	fuzzLoad = 1 << iota
	fuzzMerge
	fuzzDry
	fuzzJSON
	fuzzConfirm
)

// fuzzed is a server without dataplanes, for texts of any kind.
type fuzzed struct {
	*Server
	site string
	// revision is that of the site.
	revision uint64
}

func newFuzzed(t testing.TB) *fuzzed {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "config.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(Config{Store: s, Cookie: func(netip.AddrPort) string { return "1.2.0000" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	site, err := os.ReadFile("testdata/bigip.conf")
	if err != nil {
		t.Fatal(err)
	}
	return &fuzzed{Server: server, site: string(site)}
}

// start makes the configuration that of the site again.
func (f *fuzzed) start(t *testing.T) {
	t.Helper()
	if f.revision != 0 && f.store.Newest().Revision == f.revision && f.store.Newest().Pending == nil {
		return
	}
	for _, step := range []struct {
		mode pb.ExecuteMode
		text string
	}{{pb.ExecuteMode_EXECUTE_MODE_COMMAND, "reset"}, {pb.ExecuteMode_EXECUTE_MODE_LOAD, f.site}} {
		if r := f.run(t, &pb.ExecuteHeader{Mode: step.mode}, []byte(step.text)); r.exit != 0 {
			t.Fatalf("the site: exit %d\n%s", r.exit, r.errors())
		}
	}
	if f.store.Newest().Pending != nil {
		if _, err := f.store.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.revision = f.store.Newest().Revision
}

// run executes a text without a connection.
func (f *fuzzed) run(t *testing.T, header *pb.ExecuteHeader, text []byte) reply {
	t.Helper()
	var r reply
	var out bytes.Buffer
	header.Origin = &pb.Position{File: "fuzz", Line: 1, Column: 1}
	header.Files = filesOf(text)
	e := &execution{server: f.Server, header: header, send: func(p *pb.ExecuteReply) error {
		r.diagnostics = append(r.diagnostics, p.GetDiagnostics()...)
		return nil
	}}
	e.out = &pieces{send: func(b []byte) error { out.Write(b); return nil }}
	if err := e.run(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	if err := e.out.flush(); err != nil {
		t.Fatal(err)
	}
	r.exit, r.out = e.exit, out.String()
	return r
}

// filesOf gives every file that classes name the same contents.
func filesOf(text []byte) map[string][]byte {
	files := map[string][]byte{}
	for _, name := range grammar.ClassFiles(text) {
		files[name] = []byte(`"of a file"`)
	}
	return files
}

// reload evaluates what save writes of a configuration.
func reload(t *testing.T, v config.View, dialect int) {
	t.Helper()
	saved := grammar.Format(objectsOf(v), grammar.FormatOptions{Dialect: dialect})
	statements, faults := grammar.Parse("saved", saved)
	out := eval.Evaluate(config.NewTree(), statements, eval.Options{Mode: eval.ModeLoad, Files: filesOf(saved)})
	if hasErrors(faults) || out.Exit != 0 {
		r := reply{diagnostics: eval.Join(faults, out.Diagnostics)}
		t.Fatalf("what is saved in dialect %d is faulty:\n%s%s", dialect, saved, r.errors())
	}
	for _, c := range config.Diff(v, out.View) {
		t.Errorf("dialect %d, %s\nwas   %v\nloads %v\n%s", dialect, c.Key, c.Old, c.New, saved)
	}
}

// FuzzExecute: any text as commands, as a file to load or to merge. A refused one and a dry run change nothing, an accepted one
// leaves a configuration that can be saved and loaded back in both dialects, with -o json there is one document or nothing, and
// the answer comes in time.
func FuzzExecute(f *testing.F) {
	f.Add([]byte("pool x { member 10.9.9.9:80 }\npool x show"), byte(0))
	f.Add([]byte("maint\nrollback"), byte(fuzzJSON))
	f.Add([]byte("class c file \"x\"\nrule r { if ( http_uri equals one of c ) { use ( web ) } }"), byte(fuzzMerge))
	f.Add([]byte("virtual 10.0.0.1:80 delete\nnode 10.1.1.1 down\npersist 80 30"), byte(fuzzConfirm))
	f.Add([]byte("failover standby\nmakecookie 10.1.1.1:80\nnode monitor show\nconfig sync"), byte(0))
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(strings.TrimSuffix(line, " --\n"), "-- "); ok {
				f.Add([]byte(strings.TrimPrefix(strings.TrimPrefix(name, "-n "), "-o json ")), byte(fuzzJSON))
			}
		}
	}
	examples, _ := filepath.Glob("../examples/*.conf")
	for i, file := range append(examples, "testdata/bigip.conf") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, byte(fuzzLoad<<(i%2)))
	}
	server := newFuzzed(f)
	f.Fuzz(func(t *testing.T, text []byte, bits byte) {
		if len(text) > 1<<20 {
			return
		}
		server.start(t)
		before := server.store.Newest()
		h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, DryRun: bits&fuzzDry != 0}
		switch {
		case bits&fuzzLoad != 0:
			h.Mode = pb.ExecuteMode_EXECUTE_MODE_LOAD
		case bits&fuzzMerge != 0:
			h.Mode = pb.ExecuteMode_EXECUTE_MODE_MERGE
		}
		if bits&fuzzJSON != 0 {
			h.Output = pb.OutputFormat_OUTPUT_FORMAT_JSON
		}
		if bits&fuzzConfirm != 0 {
			within := uint32(3600)
			h.ConfirmWithinSeconds = &within
		}
		began := time.Now()
		r := server.run(t, h, text)
		if d := time.Since(began); d > answerWithin {
			t.Errorf("%d bytes took %v", len(text), d)
		}
		after := server.store.Newest()
		for _, d := range r.diagnostics {
			if d.GetMessage() == "" || d.GetCode() == "" {
				t.Errorf("a diagnostic without message or code: %v", d)
			}
		}
		refused := r.exit == pb.ExitRefused || r.exit == pb.ExitFaulty
		if (refused || h.GetDryRun()) && after.Revision != before.Revision {
			t.Fatalf("exit %d, and revision %d became %d\n%s", r.exit, before.Revision, after.Revision, r.errors())
		}
		if refused && !h.GetDryRun() && !hasErrors(r.diagnostics) {
			t.Errorf("exit %d without a reason", r.exit)
		}
		if h.GetOutput() == pb.OutputFormat_OUTPUT_FORMAT_JSON && !refused && !json.Valid([]byte(r.out)) {
			t.Errorf("exit %d, not a document: %s", r.exit, r.out)
		}
		if after.Revision != before.Revision {
			reload(t, after.Tree, 4)
			reload(t, after.Tree, 3)
		}
	})
}
