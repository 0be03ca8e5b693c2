package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"bigpipe/cmd/internal/output"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

// childEnv makes the test program be mgmtd.
const childEnv = "MGMTD_TEST_CHILD"

const virtualServers = 300

// site is a configuration whose virtual servers all have one limit.
func site(limit int) string {
	var text strings.Builder
	text.WriteString("pool web { member 10.1.1.1:80 }\n")
	for i := range virtualServers {
		fmt.Fprintf(&text, "virtual 10.2.%d.%d:80 {\n   use pool web\n   limit %d\n}\n", i/250, i%250+1, limit)
	}
	return text.String()
}

// TestKill ends mgmtd with SIGKILL during loads: the store holds the old or the new
// configuration, whole.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	address := "unix://" + filepath.Join(dir, "m.sock")
	state := filepath.Join(dir, "state")
	limit := 1
	var usual time.Duration
	for round := range 8 {
		child := exec.Command(os.Args[0], "--state-dir", state, "--listen", address, "--dataplane", "unix://"+filepath.Join(dir, "none.sock"))
		child.Env = append(os.Environ(), childEnv+"=1")
		log := &output.Buffer{}
		child.Stderr = log
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		client := dial(t, address, insecure.NewCredentials())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, _, err := execute(ctx, client, pb.ExecuteMode_EXECUTE_MODE_COMMAND, "version"); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if round == 0 {
			usual = loadTime(ctx, t, client)
		}
		loaded := make(chan error, 1)
		go func() {
			_, _, err := execute(ctx, client, pb.ExecuteMode_EXECUTE_MODE_LOAD, site(limit+1))
			loaded <- err
		}()
		time.Sleep(rand.N(usual))
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		err := <-loaded
		cancel()
		got := limitOf(t, state)
		switch {
		case got != limit && got != limit+1:
			t.Fatalf("round %d: the store holds the limit %d, the old one was %d", round, got, limit)
		case err == nil && got == limit:
			t.Fatalf("round %d: a load that was answered is lost", round)
		}
		limit = got
	}
}

// loadTime loads the site and returns how long that takes when it is known already that the dataplane is away.
func loadTime(ctx context.Context, t *testing.T, client pb.AdminClient) time.Duration {
	t.Helper()
	var started time.Time
	for _, limit := range []int{2, 1} {
		started = time.Now()
		result, out, err := execute(ctx, client, pb.ExecuteMode_EXECUTE_MODE_LOAD, site(limit))
		if err != nil || result.GetExitStatus() != pb.ExitNotInEffect {
			t.Fatalf("%v %v\n%s", result, err, out)
		}
	}
	return time.Since(started)
}

// limitOf opens the store and returns the limit of its virtual servers, of which there must be all, with one limit.
func limitOf(t *testing.T, state string) int {
	t.Helper()
	s, err := store.Open(filepath.Join(state, "config.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limits := map[uint32]int{}
	s.Newest().Tree.Range("virtual", func(o *pb.Object) bool {
		limits[o.GetVirtual().GetLimit()]++
		return true
	})
	for limit, n := range limits {
		if len(limits) == 1 && n == virtualServers {
			return int(limit)
		}
	}
	t.Fatalf("the store holds %v", limits)
	return 0
}
