package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// golden compares text with a file of testdata; UPDATE=1 writes the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (UPDATE=1 rewrites it) -want +got:\n%s", name, diff)
	}
}

// rates is a sample of an HTTP scenario.
func rates(rate, cpu, p50, p99 float64) sample {
	return sample{
		requestRate.name: rate, requestCPU.name: cpu, latency50.name: p50, latency99.name: p99,
		proxyBusy.name: rate * cpu / 1e4, failures.name: 0,
	}
}

func testReport(t *testing.T) *report {
	one := placement{threads: 1, proxy: []int{0}, load: []int{1}}
	two := placement{threads: 2, proxy: []int{0, 1}, load: []int{0, 1}}
	r := &report{
		subject: "bigpipe", peers: []string{"haproxy", "nginx"}, rounds: 3, duration: 2 * time.Second, half: time.Second,
		date: time.Date(2026, 11, 30, 12, 34, 56, 0, time.UTC),
		machine: machine{
			cpu: "AMD EPYC", cores: 2, memoryMiB: 24105, kernel: "6.18.44", system: "Debian GNU/Linux 12 (bookworm)",
			goVersion: "1.26.8", descriptors: 20000, loadBefore: 1.25, loadAfter: 2.5,
		},
		programs: []string{"bigpipe: bigpipe 0.1", "haproxy: HAProxy version 2.6.12", "nginx: nginx version: nginx/1.22.1"},
	}
	r.outcomes = []outcome{
		{
			scenario: scenarioNamed(t, "keepalive-64"), place: one, limit: sample{requestRate.name: 85000, latency50.name: 700, latency99.name: 900},
			samples: map[string][]sample{
				"bigpipe": {rates(84000, 9.5, 740, 900), rates(80000, 9.9, 760, 950), rates(86000, 9.4, 730, 890)},
				"haproxy": {rates(73000, 13.1, 860, 1100), rates(72000, 13.3, 870, 1200), rates(74000, 13.0, 850, 1000)},
				"nginx":   {rates(80000, 12.4, 800, 990), nil, rates(81000, 12.3, 790, 980)},
			},
		},
		{
			scenario: scenarioNamed(t, "close-64"), place: one,
			samples: map[string][]sample{
				"bigpipe": {rates(20000, 36, 3000, 5000)},
				"haproxy": {rates(22900, 33.9, 2700, 4100)},
			},
		},
		{
			scenario: scenarioNamed(t, "idle-memory"), place: one,
			samples: map[string][]sample{
				"bigpipe": {{idleMemory.name: 3700}, {idleMemory.name: 3720}, {idleMemory.name: 3650}},
				"haproxy": {{idleMemory.name: 1100}, {idleMemory.name: 1110}, {idleMemory.name: 1090}},
			},
		},
		{scenario: scenarioNamed(t, "tcp-connections"), place: two},
		{
			scenario: scenarioNamed(t, "udp"), place: two, before: []condition{{0.4, 3}, {12, 45}, {2, -1}},
			samples: map[string][]sample{
				"bigpipe": {{requestRate.name: 210000, datagramCPU.name: 4.1, failures.name: 2}},
				"nginx":   {{requestRate.name: 185000, datagramCPU.name: 5.2, failures.name: 0}},
			},
		},
	}
	r.remark("bigpipe sets its cookie in the first answer of a connection only")
	r.remark("bigpipe sets its cookie in the first answer of a connection only")
	r.remark("")
	r.miss("tcp-connections/2t nginx", errors.New("nginx's stream module is missing: Debian package libnginx-mod-stream"))
	r.miss("tcp-stream-1/2t nginx", errors.New("nginx's stream module is missing: Debian package libnginx-mod-stream"))
	r.miss("tcp-connections/2t haproxy", errors.New("haproxy ended (exit status 1): line one\nline two"))
	return r
}

func TestReport(t *testing.T) {
	var text bytes.Buffer
	if err := testReport(t).render(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", text.Bytes())
}

func TestReportOfAnotherSubjectHasNoGoals(t *testing.T) {
	r := testReport(t)
	r.subject, r.peers = "nginx", []string{"haproxy"}
	var text bytes.Buffer
	if err := r.render(&text); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text.Bytes(), []byte("goal")) || bytes.Contains(text.Bytes(), []byte("reached")) {
		t.Errorf("goals in:\n%s", text.String())
	}
}

func TestResultsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := testReport(t).writeFiles(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "2026-11-30.txt"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", text)
	plot, err := os.ReadFile(filepath.Join(dir, "2026-11-30.svg"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.svg", plot)
}

// The plot is XML, and what it shows is in it: bars, goals, the other peer, what was not measured.
func TestPlot(t *testing.T) {
	var plot bytes.Buffer
	if err := testReport(t).plot(&plot); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for decoder := xml.NewDecoder(bytes.NewReader(plot.Bytes())); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				seen[e.Name.Local+" "+a.Name.Local+" "+a.Value]++
			}
		}
	}
	for _, want := range []string{"rect fill " + colourReached, "rect fill " + colourMissed, "rect fill " + colourNone, "circle r 3"} {
		if seen[want] < 2 { // one is the legend's
			t.Errorf("%d of %q, want more than the legend", seen[want], want)
		}
	}
	for _, want := range []string{"keepalive-64", "not measured", ">1.15<", "those of udp with nginx", "3700 (3650 to 3720) bytes"} {
		if !bytes.Contains(plot.Bytes(), []byte(want)) {
			t.Errorf("no %q in the plot", want)
		}
	}
}

func TestPlotCutsWhatIsTooLong(t *testing.T) {
	if got := scaled(5); got != plotChart {
		t.Errorf("a ratio of 5 is %v long, want %v", got, plotChart)
	}
	if got := scaled(1); got != plotChart/plotMost {
		t.Errorf("a ratio of 1 is %v long, want %v", got, plotChart/plotMost)
	}
	if cutMark(5) == "" || cutMark(1.9) != "" {
		t.Error("only a bar that is cut has a mark")
	}
}

func TestConfigurations(t *testing.T) {
	member := []netip.AddrPort{netip.MustParseAddrPort("127.77.10.1:18080"), netip.MustParseAddrPort("127.77.10.2:18080")}
	base := site{
		Threads: 2, Listen: netip.MustParseAddrPort("127.77.0.1:18080"), Members: member, Dir: "/tmp/bench", Root: true,
		Module: "/usr/lib/nginx/modules/ngx_stream_module.so", Descriptors: 20000,
	}
	variants := map[string]func(*site){
		"tcp":         func(*site) {},
		"udp":         func(s *site) { s.UDP = true },
		"tls":         func(s *site) { s.TLS = true },
		"http":        func(s *site) { s.HTTP = true },
		"per-request": func(s *site) { s.HTTP, s.PerReq = true, true },
		"one-shot":    func(s *site) { s.HTTP, s.OneShot = true, true },
	}
	for name, set := range variants {
		data := base
		set(&data)
		var text bytes.Buffer
		for _, side := range sideNames() {
			if err := newSide(side, "bin").config.Execute(&text, data); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, "configurations-"+name+".txt", text.Bytes())
	}
	var text bytes.Buffer
	if err := originConfig.Execute(&text, base); err != nil {
		t.Fatal(err)
	}
	golden(t, "configurations-origin.txt", text.Bytes())
}

func TestCookieRemarks(t *testing.T) {
	for want, c := range map[string]cookies{
		"":                 {"a=1", "a=1"},
		"x sets no cookie": {"", ""},
		"x sets its cookie in the first answer of a connection only": {"a=1", ""},
	} {
		if got := c.remark("x"); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
