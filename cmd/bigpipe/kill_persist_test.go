package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// crowd is a site whose clients come through one trusted proxy, each of which gets a record.
type crowd struct {
	t    *testing.T
	site *e2e.Site
}

const crowdVirtual = "192.168.200.10:80"

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	const conf = "pool web { persist_mode simple simple_timeout 3000 member 10.1.1.1:80 member 10.1.1.2:80 }\n" +
		"virtual 192.168.200.10:80 { use pool web oneconnect enable trusted_proxies 127.0.0.0/8 }\n"
	c := &crowd{t, newSite(t, conf)}
	if err := c.site.StartMembers("10.1.1.1:80", "10.1.1.2:80"); err != nil {
		t.Fatal(err)
	}
	start(t, c.site, "dataplane")
	start(t, c.site, "mgmtd")
	loadText(t, c.site, conf)
	return c
}

// visit sends a request of each of n clients of the network 10.NETWORK.0.0/16.
func (c *crowd) visit(network, n int) {
	c.t.Helper()
	place, err := c.site.Place(crowdVirtual)
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", place.String())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	const batch = 200
	for r, i := bufio.NewReader(conn), 0; i < n; i += batch {
		var b bytes.Buffer
		for j := i; j < min(i+batch, n); j++ {
			fmt.Fprintf(&b, "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.%d.%d.%d\r\n\r\n", network, j>>8, j&255)
		}
		if _, err := conn.Write(b.Bytes()); err != nil {
			c.t.Fatal(err)
		}
		for range min(batch, n-i) {
			reply, err := http.ReadResponse(r, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, reply.Body)
			}
			if err != nil || reply.StatusCode != http.StatusOK {
				c.t.Fatal(reply, err)
			}
		}
	}
}

// written waits until the dataplane has so many records in its file: until that is long enough and grows no more, but for an entry a
// second that says that the dataplane lives.
func (c *crowd) written(n int) {
	c.t.Helper()
	const least, alive = 40, 100 // bytes of a record, and of that entry
	before, still := int64(0), 0
	for end := time.Now().Add(20 * time.Second); still < 8; time.Sleep(100 * time.Millisecond) {
		info, err := os.Stat(filepath.Join(c.site.Dir, "dataplane", "records"))
		if time.Now().After(end) {
			c.t.Fatalf("the file of records: %v, %v", info, err)
		}
		if still++; err != nil || info.Size() < int64(n*least) || info.Size() > before+alive {
			still = 0
		}
		if err == nil {
			before = info.Size()
		}
	}
}

// outcome is how a run of bigpipe ended.
type outcome struct {
	stdout, stderr string
	status         int
}

// begin starts bigpipe; the function that it returns waits for it.
func (c *crowd) begin(args ...string) func() outcome {
	c.t.Helper()
	cmd := c.site.Command("bigpipe", args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return func() outcome {
		err := cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	}
}

// records counts those of a network, "" for all, once mgmtd and the dataplane answer.
func (c *crowd) records(network string) int {
	c.t.Helper()
	args := []string{"-o", "json", "pool", "web", "persist", "dump"}
	if network != "" {
		args = append(args, "client", network)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		e := c.begin(args...)()
		if e.status == 0 {
			return c.listed(e)
		}
		if time.Now().After(end) {
			c.t.Fatalf("persist dump: status %d, %s", e.status, e.stderr)
		}
	}
}

// listed counts the records of a document, which must be whole.
func (c *crowd) listed(e outcome) int {
	c.t.Helper()
	var doc struct {
		Records []struct{ Node string }
	}
	if err := json.Unmarshal([]byte(e.stdout), &doc); err != nil {
		c.t.Fatalf("%v: %.200s", err, e.stdout)
	}
	for _, r := range doc.Records {
		if r.Node != "10.1.1.1:80" && r.Node != "10.1.1.2:80" {
			c.t.Errorf("a record of %q", r.Node)
		}
	}
	return len(doc.Records)
}

// TestKilledDuringPersist kills the dataplane and mgmtd with SIGKILL at moments of a clear, a dump and an explanation. What was
// said to be cleared is gone, what no command named is there, and no answer is half of one.
func TestKilledDuringPersist(t *testing.T) {
	t.Parallel()
	const each, rounds = 500, 6
	c := newCrowd(t)
	for network := range rounds {
		c.visit(network, each)
	}
	c.written(rounds * each)
	for round := range rounds {
		network := fmt.Sprintf("10.%d.0.0/16", round)
		dump := c.begin("-o", "json", "pool", "web", "persist", "dump", "client", "10.255.0.0/16") // the program's own time
		began := time.Now()
		dump()
		whole := time.Since(began)
		daemon := "dataplane"
		if round%2 == 1 {
			daemon = "mgmtd"
		}
		clear := c.begin("-o", "json", "pool", "web", "persist", "clear", "client", network)
		dump = c.begin("-o", "json", "pool", "web", "persist", "dump")
		explain := c.begin("-o", "json", "pool", "web", "persist", "explain", "client", "10.1.2.3")
		time.Sleep(whole * time.Duration(round+1) / rounds)
		if err := c.site.KillDaemon(daemon); err != nil {
			t.Fatal(err)
		}
		cleared, dumped, explained := clear(), dump(), explain()
		start(t, c.site, daemon)
		for name, e := range map[string]outcome{"clear": cleared, "dump": dumped, "explain": explained} {
			if e.status != 0 && (e.stdout != "" || e.stderr == "" || e.status != 1 && e.status != 4) {
				t.Errorf("round %d: %s ended with status %d, %q on stdout and %q on stderr", round, name, e.status, e.stdout, e.stderr)
			}
		}
		if dumped.status == 0 {
			if n, others := c.listed(dumped), (rounds-1-round)*each; n < others || n > others+each {
				t.Errorf("round %d: a dump of %d records", round, n)
			}
		}
		left := c.records(network)
		switch {
		case cleared.status == 0 && (left != 0 || cleared.stdout != fmt.Sprintf("{\"cleared\":%d}\n", each)):
			t.Errorf("round %d: %d records after %s", round, left, cleared.stdout)
		case left > each:
			t.Errorf("round %d: %d records", round, left)
		}
		t.Logf("%s killed: clear %d, dump %d, explain %d, %d records left", daemon, cleared.status, dumped.status, explained.status, left)
		if left > 0 {
			output(t, c.site, "pool", "web", "persist", "clear", "client", network)
		}
		if n := c.records(""); n != (rounds-1-round)*each {
			t.Errorf("round %d: %d records in all", round, n)
		}
	}
	awaitVirtual(t, c.site, crowdVirtual)
	c.visit(0, 10)
}

// TestClearMany: a clear of many records says how many, and nobody waits for it.
func TestClearMany(t *testing.T) {
	t.Parallel()
	const many = 10_000
	c := newCrowd(t)
	stop := traffic(t, c.site)
	c.visit(1, many)
	c.visit(2, 100)
	if got := output(t, c.site, "persist", "clear", "client", "10.1.0.0/16"); got != fmt.Sprintf("%d cleared\n", many) {
		t.Error(got)
	}
	if got := output(t, c.site, "pool", "web", "persist", "clear", "client", "10.0.0.0/8"); got != "100 cleared\n" {
		t.Error(got)
	}
	stop()
}
