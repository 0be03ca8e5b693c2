package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"bigpipe/cmd/internal/output"
	pb "bigpipe/proto/bigpipe/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.map")
	if err := os.WriteFile(bad, []byte("10.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args   []string
		status int
		want   []string
	}{
		{[]string{"--help"}, 0, []string{"--state-dir", "--map-only"}},
		{[]string{"--nonsense"}, 2, []string{"nonsense"}},
		{[]string{"word"}, 2, []string{"word"}},
		{
			[]string{"--map", "a=b", "--map-file", bad, "--map-file", dir + "/none", "--tls-cert", "x"},
			2,
			[]string{`"a" is not an address`, bad + ": line 1", dir + "/none", "belong together"},
		},
		{[]string{"--state-dir", dir, "--listen", "127.0.0.1:0"}, 1, []string{"needs a certificate"}},
		{[]string{"--state-dir", dir, "--metrics", "nonsense"}, 1, []string{"metrics"}},
	}
	for _, tt := range tests {
		var out output.Buffer
		if got := run(t.Context(), tt.args, nil, &out, &out); got != tt.status {
			t.Errorf("%q: status %d, want %d\n%s", tt.args, got, tt.status, out.String())
		}
		for _, w := range tt.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%q does not say %q:\n%s", tt.args, w, out.String())
			}
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	socket := "unix://" + filepath.Join(dir, "d.sock")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out output.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"--state-dir", filepath.Join(dir, "state"), "--listen", socket, "--metrics", "127.0.0.1:0", "--map", "10.0.0.0/8=127.0.0.0/8"}, nil, io.Discard, &out)
	}()
	served := regexp.MustCompile(`metrics are served" address=(\S+)`)
	end := time.Now().Add(20 * time.Second)
	for !strings.Contains(out.String(), "dataplane serves") || !served.MatchString(out.String()) {
		if time.Now().After(end) {
			t.Fatalf("it does not start:\n%s", out.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	base := "http://" + served.FindStringSubmatch(out.String())[1]
	get := func(path string) (int, string) {
		tr := &http.Transport{DisableKeepAlives: true}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	eventuallyStatus := func(path string, want int) string {
		for {
			status, body := get(path)
			if status == want || time.Now().After(end) {
				if status != want {
					t.Errorf("%s: %d, want %d", path, status, want)
				}
				return body
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	eventuallyStatus("/healthz", http.StatusOK)
	eventuallyStatus("/readyz", http.StatusServiceUnavailable)
	apply(t, socket)
	eventuallyStatus("/readyz", http.StatusOK)
	body := eventuallyStatus("/metrics", http.StatusOK)
	for _, want := range []string{
		`bigpipe_dataplane_applied_revision 1`, `bigpipe_dataplane_member_usable{member="10.0.0.1:80",pool="p",state="unchecked"} 1`,
		`bigpipe_dataplane_member_connections{member="10.0.0.1:80",pool="p"} 0`, `bigpipe_dataplane_pool_records{pool="p"} 0`, "go_goroutines",
		`bigpipe_dataplane_persistence_total{outcome="malformed",pool="q"} 0`, `bigpipe_dataplane_persistence_total{outcome="evicted",pool="q"} 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	for _, zero := range []string{`bigpipe_dataplane_persistence_total{outcome="none",pool="p"}`, "bigpipe_dataplane_member_connections_total"} {
		if strings.Contains(body, zero) {
			t.Errorf("the metrics have %s of a pool without traffic", zero)
		}
	}
	eventuallyStatus("/debug/pprof/", http.StatusOK)
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("status %d\n%s", status, out.String())
	}
}

func apply(t *testing.T, socket string) {
	t.Helper()
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewDataplaneClient(conn).Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pool := &pb.Pool{Name: "p", Members: []*pb.Member{{Address: "10.0.0.1:80"}}}
	persistent := &pb.Pool{Name: "q", PersistMode: pb.PersistMode_PERSIST_MODE_STICKY.Enum(), Members: pool.GetMembers()}
	err = stream.Send(&pb.ApplyRequest{
		Header:  &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: "s", Full: true, Revision: 1},
		Changed: []*pb.Object{{Kind: &pb.Object_Pool{Pool: pool}}, {Kind: &pb.Object_Pool{Pool: persistent}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := stream.CloseAndRecv(); err != nil || len(reply.GetNotInEffect()) > 0 {
		t.Fatal(reply, err)
	}
}
