package daemon

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/goleak"

	"bigpipe/cmd/internal/version"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args   []string
		status int
		goOn   bool
		stdout string
		stderr string
	}{
		"fine":    {[]string{"--name", "x"}, 0, true, "", ""},
		"version": {[]string{"--version"}, 0, false, version.String() + "\n", ""},
		"unknown": {[]string{"--nonsense"}, ExitUsage, false, "", "thing: unknown flag --nonsense"},
		"word":    {[]string{"word"}, ExitUsage, false, "", "thing: unexpected argument word"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var f struct {
				Name    string
				Version kong.VersionFlag
			}
			var stdout, stderr bytes.Buffer
			status, goOn := Program{Name: "thing", Stdout: &stdout, Stderr: &stderr}.Parse(&f, test.args)
			if status != test.status || goOn != test.goOn || stdout.String() != test.stdout || !strings.HasPrefix(stderr.String(), test.stderr) {
				t.Errorf("%d, %v\n%s%s", status, goOn, &stdout, &stderr)
			}
		})
	}
}

func TestMapping(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map")
	if err := os.WriteFile(file, []byte("10.0.0.2=127.0.0.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addresses, err := Mapping{Pairs: []string{"10.0.0.1=127.0.0.1"}, Files: []string{file}, Only: true}.Read()
	if err != nil {
		t.Fatal(err)
	}
	for real, want := range map[string]string{"10.0.0.1:80": "127.0.0.1:80", "10.0.0.2:80": "127.0.0.2:80"} {
		if got, err := addresses.Local(netip.MustParseAddrPort(real)); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", real, got, err)
		}
	}
	if got, err := addresses.Local(netip.MustParseAddrPort("10.0.0.3:80")); err == nil {
		t.Errorf("what is not mapped: %v", got)
	}
	_, err = Mapping{Pairs: []string{"nonsense"}, Files: []string{file + "x"}}.Read()
	if err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), file+"x: ") {
		t.Errorf("faults: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	var log bytes.Buffer
	m, err := ServeMetrics(t.Context(), "127.0.0.1:0", nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	base := "http://" + regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log.String())[1]
	expect := func(path string, status int, part string) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != status || !strings.Contains(string(body), part) {
			t.Errorf("%s: %d %v\n%s", path, response.StatusCode, err, body)
		}
	}
	expect("/healthz", http.StatusOK, "ok")
	expect("/readyz", http.StatusServiceUnavailable, "not serving yet")
	m.Ready(func() error { return errors.New("still loading") })
	expect("/readyz", http.StatusServiceUnavailable, "still loading")
	m.Ready(func() error { return nil })
	expect("/readyz", http.StatusOK, "ok")
	m.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer"}, func() float64 { return 42 }))
	expect("/metrics", http.StatusOK, "answer 42\n")
	expect("/debug/pprof/cmdline", http.StatusOK, "")
}

// What a scrape has gathered is let go before the next one gathers.
func TestOneAtATime(t *testing.T) {
	o := &oneAtATime{from: prometheus.NewRegistry()}
	for range 2 {
		_, done, err := o.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if o.mu.TryLock() {
			t.Fatal("another one could gather")
		}
		done()
	}
	if !o.mu.TryLock() {
		t.Error("no other one could gather")
	}
}

func TestMetrics_none(t *testing.T) {
	m, err := ServeMetrics(t.Context(), "", nil, slog.New(slog.DiscardHandler))
	if m != nil || err != nil {
		t.Fatal(m, err)
	}
	m.Add(collectors.NewGoCollector())
	m.Ready(func() error { return nil })
	m.Close()
}
