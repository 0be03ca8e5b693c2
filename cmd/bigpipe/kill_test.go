package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// newSite returns a site that ends with the test. Every ADDRESS:SERVICE of text has a place on it.
func newSite(t testing.TB, text string) *e2e.Site {
	t.Helper()
	dir, err := os.MkdirTemp("", "bigpipe-") // short: paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	site, err := e2e.NewSite(programs, dir, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return site
}

func start(t *testing.T, site *e2e.Site, daemon string) {
	t.Helper()
	if err := site.StartDaemon(daemon); err != nil {
		t.Fatal(err)
	}
}

// output runs bigpipe, which must succeed, and returns what it printed.
func output(t *testing.T, site *e2e.Site, args ...string) string {
	t.Helper()
	cmd := site.Command("bigpipe", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bigpipe %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// large is a configuration with 2,000 virtual servers that use one pool, and one that stays the same: 192.168.200.10:80.
func large(pool string) string {
	var b strings.Builder
	b.WriteString("pool web { member 10.1.1.1:80 member 10.1.1.2:80 }\nvirtual 192.168.200.10:80 { use pool web }\n")
	fmt.Fprintf(&b, "pool %s { persist_mode simple simple_timeout 60 member 10.1.1.1:80 }\n", pool)
	for i := range 2000 {
		fmt.Fprintf(&b, "virtual 10.20.0.%d:%d { use pool %s }\n", i/100+1, i%100+8000, pool)
	}
	return b.String()
}

// TestKilledDuringLoad kills mgmtd with SIGKILL at 20 moments of a load. Afterwards the store holds the old or the new
// configuration, whole; requests succeed all the time.
func TestKilledDuringLoad(t *testing.T) {
	t.Parallel()
	site := newSite(t, large("a"))
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	names := []string{"a", "b"}
	saved := map[string]string{}
	var load time.Duration
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(site.Dir, name+".conf"), []byte(large(name)), 0o600); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		output(t, site, "-f", name+".conf")
		load = time.Since(begin)
		saved[name] = output(t, site, "list")
	}
	if saved["a"] == saved["b"] || strings.Count(saved["a"], "virtual ") != 2001 {
		t.Fatalf("the configurations are not what this test needs:\n%.500s", saved["a"])
	}
	stop := traffic(t, site)
	defer stop()
	holds := "b"
	took := map[string]int{}
	const kills = 20
	for i := range kills {
		next := "a"
		if holds == "a" {
			next = "b"
		}
		cmd := site.Command("bigpipe", "-f", next+".conf")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(load * time.Duration(i+1) / kills)
		if err := site.KillDaemon("mgmtd"); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it fails, or was done before
		start(t, site, "mgmtd")
		switch got := output(t, site, "list"); got {
		case saved[holds]:
			took["old"]++
		case saved[next]:
			took["new"]++
			holds = next
		default:
			t.Fatalf("kill %d: neither the old nor the new configuration (-new +got):\n%s", i, cmp.Diff(saved[next], got))
		}
	}
	t.Logf("%d times the old configuration, %d times the new one", took["old"], took["new"])
	if took["old"] == 0 {
		t.Error("no kill came before the load was stored")
	}
	// What is stored is what is in effect.
	output(t, site, "-f", holds+".conf")
	if n := strings.Count(output(t, site, "-o", "json", "virtual", "show"), `"in_effect":true`); n != 2001 {
		t.Errorf("%d virtual servers are in effect, not 2001", n)
	}
}

// traffic sends requests to 192.168.200.10:80 until the function that it returns is called; each has to succeed.
func traffic(t *testing.T, site *e2e.Site) (stop func()) {
	t.Helper()
	place, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	count := 0
	running.Go(func() {
		for ctx.Err() == nil {
			reply, err := e2e.Get(place)
			if err != nil || reply.Status != 200 {
				t.Errorf("request %d: %v %v", count, reply, err)
				return
			}
			count++
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		running.Wait()
		if count < 100 {
			t.Errorf("only %d requests were sent", count)
		}
	}
}
