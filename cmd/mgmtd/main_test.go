package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"bigpipe/cmd/internal/output"
	pb "bigpipe/proto/bigpipe/v1"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// running is a program within the test.
type running struct {
	t      *testing.T
	stderr *output.Buffer
	stop   func() int
}

// start runs the program until the test ends or stop is called.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stderr: &output.Buffer{}}
	status := make(chan int, 1)
	go func() { status <- run(ctx, args, environment{}, strings.NewReader(""), io.Discard, r.stderr) }()
	r.stop = sync.OnceValue(func() int { cancel(); return <-status })
	t.Cleanup(func() { r.stop() })
	return r
}

// address waits for a line of the log and returns its address.
func (r *running) address(what string) string {
	r.t.Helper()
	line := regexp.MustCompile(`msg="` + what + `" address=(\S+)`)
	var found []string
	eventually(r.t, what, r.stderr, func() bool {
		found = line.FindStringSubmatch(r.stderr.String())
		return found != nil
	})
	return found[1]
}

func eventually(t *testing.T, what string, log fmt.Stringer, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s\n%s", what, log)
		}
	}
}

// shortDir is a folder with a name that is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func dial(t *testing.T, address string, creds credentials.TransportCredentials) pb.AdminClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: time.Second}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewAdminClient(conn)
}

// execute runs a text and returns its result and output; the error is that of the call.
func execute(ctx context.Context, c pb.AdminClient, mode pb.ExecuteMode, text string) (*pb.ExecuteResult, string, error) {
	stream, err := c.Execute(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, "", err
	}
	if err := stream.Send(&pb.ExecuteRequest{Header: &pb.ExecuteHeader{Mode: mode}, Text: []byte(text)}); err != nil {
		return nil, "", err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, "", err
	}
	out := ""
	for {
		piece, err := stream.Recv()
		if err != nil {
			return nil, out, err
		}
		for _, d := range piece.GetDiagnostics() {
			out += d.GetMessage() + "\n"
		}
		out += string(piece.GetOutput())
		if piece.GetResult() != nil {
			return piece.GetResult(), out, nil
		}
	}
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	faulty := filepath.Join(dir, "faulty.conf")
	if err := os.WriteFile(faulty, []byte("pool web {\n   persist_mdoe simple\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args   []string
		status int
		want   string
	}{
		"help":                  {[]string{"--help"}, 0, "--state-dir"},
		"version":               {[]string{"--version"}, 0, ""},
		"unknown_flag":          {[]string{"--nonsense"}, 2, "nonsense"},
		"embedded_and_others":   {[]string{"--embedded", "--dataplane", "unix:///x"}, 2, "exclude"},
		"map_without_embedded":  {[]string{"--map-only"}, 2, "--embedded"},
		"tcp_without_tls":       {[]string{"--listen", "127.0.0.1:0"}, 2, "--tls-cert"},
		"dataplane_without_tls": {[]string{"--dataplane", "a=127.0.0.1:1"}, 2, "--dataplane-tls-cert"},
		"part_of_tls":           {[]string{"--listen", "127.0.0.1:0", "--tls-cert", "x"}, 2, "belong together"},
		"one_name_twice":        {[]string{"--dataplane", "a=unix:///x", "--dataplane", "a=unix:///y"}, 1, `name "a"`},
		"no_file":               {[]string{"--load", filepath.Join(dir, "missing")}, 1, "missing"},
		"endless_file":          {[]string{"--load", "/dev/zero"}, 2, "longer than the 16777216 bytes that are read"},
		"faulty_file":           {[]string{"--load", faulty}, 2, `did you mean "persist_mode"?`},
		"bad_map":               {[]string{"--embedded", "--map", "nonsense"}, 2, "nonsense"},
		"occupied":              {[]string{"--listen", "unix://" + faulty}, 1, "not a socket"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out output.Buffer
			args := append([]string{"--state-dir", t.TempDir()}, test.args...)
			if got := run(t.Context(), args, environment{}, strings.NewReader(""), &out, &out); got != test.status || !strings.Contains(out.String(), test.want) {
				t.Errorf("status %d\n%s", got, out.String())
			}
		})
	}
}

func TestRun_socket(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	socket := filepath.Join(dir, "run", "m.sock")
	args := []string{"--state-dir", filepath.Join(dir, "state"), "--listen", "unix://" + socket, "--dataplane", "unix://" + dir + "/none.sock"}
	first := start(t, args...)
	first.address("mgmtd serves")
	for name, mode := range map[string]os.FileMode{socket: os.ModeSocket | 0o660, filepath.Join(dir, "state"): os.ModeDir | 0o700, filepath.Join(dir, "state", "config.db"): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	var out output.Buffer
	if got := run(t.Context(), args, environment{}, strings.NewReader(""), &out, &out); got != 1 || !strings.Contains(out.String(), "in use by another process") {
		t.Errorf("a second one: status %d\n%s", got, out.String())
	}
	other := append([]string{"--state-dir", filepath.Join(dir, "other")}, args[2:]...)
	out = output.Buffer{}
	if got := run(t.Context(), other, environment{}, strings.NewReader(""), &out, &out); got != 1 || !strings.Contains(out.String(), "another process serves it") {
		t.Errorf("on the same socket: status %d\n%s", got, out.String())
	}
	if got := first.stop(); got != 0 {
		t.Errorf("status %d\n%s", got, first.stderr)
	}
}

func TestRun_stale_socket(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "m.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	r := start(t, "--state-dir", filepath.Join(dir, "state"), "--listen", "unix://"+socket, "--dataplane", "unix://"+dir+"/none.sock")
	r.address("mgmtd serves")
	if result, out, err := execute(t.Context(), dial(t, "unix://"+socket, insecure.NewCredentials()), pb.ExecuteMode_EXECUTE_MODE_COMMAND, "version"); err != nil || result.GetExitStatus() != 0 {
		t.Errorf("%v %v %s", result, err, out)
	}
}

// TestRun_embedded carries a request through everything: the file of --load, the store, the push, the dataplane.
func TestRun_embedded(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer origin.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	virtual := free.Addr().String()
	free.Close()
	dir := shortDir(t)
	conf := filepath.Join(dir, "bigip.conf")
	text := fmt.Sprintf("pool web {\n   persist_mode cookie\n   cookie_mode insert\n   member %s\n}\nvirtual 10.0.0.1:80 { use pool web }\n", origin.Listener.Addr())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := "unix://" + filepath.Join(dir, "m.sock")
	args := []string{
		"--state-dir", filepath.Join(dir, "state"), "--listen", socket, "--embedded", "--load", conf, "--metrics", "127.0.0.1:0",
		"--map", "10.0.0.1:80=" + virtual,
	}
	r := start(t, args...)
	metrics := "http://" + r.address("metrics are served")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(url string) (string, *http.Response) {
		response, err := client.Get(url)
		if err != nil {
			return err.Error(), nil
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return string(body), response
	}
	eventually(t, "a request is answered", r.stderr, func() bool {
		body, response := get("http://" + virtual)
		return body == "hello" && strings.HasPrefix(response.Header.Get("Set-Cookie"), "BIGipServerweb=")
	})
	if result, out, err := execute(t.Context(), dial(t, socket, insecure.NewCredentials()), pb.ExecuteMode_EXECUTE_MODE_COMMAND, "virtual show"); err != nil ||
		result.GetExitStatus() != 0 || !strings.Contains(out, "IN EFFECT") {
		t.Errorf("%v %v\n%s", result, err, out)
	}
	if body, _ := get(metrics + "/readyz"); body != "ok\n" {
		t.Errorf("readyz: %s", body)
	}
	if body, _ := get(metrics + "/healthz"); body != "ok\n" {
		t.Errorf("healthz: %s", body)
	}
	eventually(t, "the dataplane is in step", r.stderr, func() bool {
		body, _ := get(metrics + "/metrics")
		return strings.Contains(body, `bigpipe_mgmtd_dataplane_connected{dataplane="local"} 1`)
	})
	body, _ := get(metrics + "/metrics")
	for _, want := range []string{"bigpipe_mgmtd_revision 1\n", `bigpipe_mgmtd_objects{kind="pool"} 1`, "bigpipe_dataplane_applied_revision 1\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if body, _ := get(metrics + "/debug/pprof/cmdline"); body == "" {
		t.Error("no pprof on loopback")
	}
	if got := r.stop(); got != 0 {
		t.Errorf("status %d\n%s", got, r.stderr)
	}
	// The file is loaded once only.
	again := start(t, args...)
	again.address("mgmtd serves")
	if !strings.Contains(again.stderr.String(), "the file is not loaded") {
		t.Errorf("log:\n%s", again.stderr)
	}
}

func TestDefaultListen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ environment, runtimeDir, system, want string }{
		"environment": {"unix:///here", "/run/user/1", dir, "unix:///here"},
		"system":      {"", "/run/user/1", dir, "unix://" + dir + "/mgmtd.sock"},
		"user":        {"", "/run/user/1", filepath.Join(file, "no"), "unix:///run/user/1/bigpipe/mgmtd.sock"},
		"nowhere":     {"", "", filepath.Join(file, "no"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := defaultListen(environment{test.environment, test.runtimeDir}, test.system)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestDataplanes(t *testing.T) {
	tests := map[string]struct {
		list []string
		want string
	}{
		"default":     {nil, "local=" + defaultDataplane},
		"one_socket":  {[]string{"unix:///a/b.sock"}, "local=unix:///a/b.sock"},
		"two_sockets": {[]string{"unix:///a/b.sock", "unix:///a/c.sock"}, "b=unix:///a/b.sock c=unix:///a/c.sock"},
		"names":       {[]string{"east=unix:///a/b.sock", "west=10.0.0.1:7", "10.0.0.2:7"}, "east=unix:///a/b.sock west=10.0.0.1:7 10.0.0.2:7=10.0.0.2:7"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := &flags{Dataplane: test.list}
			var got []string
			for _, d := range f.dataplanes(nil, nil) {
				got = append(got, d.Name+"="+d.Address)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
