package mgmtd

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	pb "bigpipe/proto/bigpipe/v1"
)

// clockTimes are the times of the history, which are those of the test.
var clockTimes = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|"unix_seconds":\d+`)

// TestGolden reads testdata/*.txtar: the comment says what is shown, bigip.conf is loaded, and what a dataplane answers stands in
// statistics.json, records.json (ListRecordsReply), connections.json and forecast.json, in testdata itself where the archive has
// none. Every other file is the output of the command that is its name: "-n" and "-o json" before it are options. UPDATE=1 writes
// the outputs anew.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			a := goldenAdmin(t, archive)
			changed := false
			for i, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".conf") || strings.HasSuffix(f.Name, ".json") {
					continue
				}
				got := a.golden(f.Name)
				if got == string(f.Data) {
					continue
				}
				if os.Getenv("UPDATE") == "" {
					t.Errorf("%s prints\n%s\nwant\n%s", f.Name, got, f.Data)
				}
				archive.Files[i].Data, changed = []byte(got), true
			}
			if changed && os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// goldenAdmin has the configuration of an archive and a dataplane that answers as it says.
func goldenAdmin(t *testing.T, archive *txtar.Archive) *admin {
	t.Helper()
	part := func(name string) []byte {
		for _, f := range archive.Files {
			if f.Name == name {
				return f.Data
			}
		}
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	d := startFake(t)
	var records pb.ListRecordsReply
	var connections pb.ListConnectionsReply
	var forecast pb.ForecastReply
	d.stats = &pb.StatisticsReply{}
	for name, m := range map[string]proto.Message{
		"statistics.json": d.stats, "records.json": &records, "connections.json": &connections, "forecast.json": &forecast,
	} {
		if err := protojson.Unmarshal(part(name), m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	d.records, d.links, d.forecast = records.GetRecords(), connections.GetConnections(), forecast.GetMembers()
	a := startAdminWith(t, Config{Cookie: func(m netip.AddrPort) string { return string(cookie.AppendValue(nil, m)) }}, "", d)
	a.mustLoad(string(part("bigip.conf")))
	return a
}

// golden runs a command with its options; its output, what it says on standard error and its exit status are one text.
func (a *admin) golden(command string) string {
	a.t.Helper()
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Output: pb.OutputFormat_OUTPUT_FORMAT_TEXT}
	text, numeric := strings.CutPrefix(command, "-n ")
	text, isJSON := strings.CutPrefix(text, "-o json ")
	h.Numeric = numeric
	if isJSON {
		h.Output = pb.OutputFormat_OUTPUT_FORMAT_JSON
	}
	r := a.execute(h, text)
	out := r.out
	for line := range strings.Lines(r.errors()) {
		out += "! " + line
	}
	if r.exit != 0 {
		out += fmt.Sprintf("exit %d\n", r.exit)
	}
	return clockTimes.ReplaceAllStringFunc(out, func(text string) string {
		if strings.HasPrefix(text, `"`) {
			return `"unix_seconds":0`
		}
		return "2001-01-01 00:00:00"
	})
}
