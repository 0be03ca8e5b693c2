package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// surf sends requests on kept connections until stop is closed. It connects anew only where a response says that it is the last.
func surf(address string, count *atomic.Int64, stop <-chan struct{}) error {
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		over, err := surfOn(conn, count, stop)
		conn.Close()
		if over || err != nil {
			return err
		}
	}
}

func surfOn(conn net.Conn, count *atomic.Int64, stop <-chan struct{}) (over bool, err error) {
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	r := bufio.NewReader(conn)
	for {
		select {
		case <-stop:
			return true, nil
		default:
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			return false, err
		}
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return false, err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
			return false, fmt.Errorf("%s, %w", response.Status, err)
		}
		count.Add(1)
		if response.Close {
			return false, nil
		}
	}
}

// TestHandOverUnderLoad keeps 256 connections busy while the configuration changes 100 times, 5 with each command, and the dataplane is handed over 5
// times: no request and no command fails, and a TCP connection of the first process lives to the end.
func TestHandOverUnderLoad(t *testing.T) {
	const config = `
pool web { persist_mode cookie cookie_mode insert member 10.1.1.1:80 member 10.1.1.2:80 }
pool plain { persist_mode simple simple_timeout 300 member 10.1.1.1:80 member 10.1.1.2:80 }
virtual 192.168.200.10:80 { use pool web }
virtual 192.168.200.10:81 { use pool plain }
`
	site := newSite(t, config+"virtual 192.168.200.10:82 { use pool more }")
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, config)
	address := func(virtual string) string {
		place, err := site.Place(virtual)
		if err != nil {
			t.Fatal(err)
		}
		return place.String()
	}
	tcp, err := net.Dial("tcp", address("192.168.200.10:81"))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	records := func() string { return output(t, site, "pool", "plain", "persist", "dump") }

	var requests atomic.Int64
	var surfers sync.WaitGroup
	stop := make(chan struct{})
	for range 256 {
		surfers.Go(func() {
			if err := surf(address("192.168.200.10:80"), &requests, stop); err != nil {
				t.Errorf("after %d requests: %v", requests.Load(), err)
			}
		})
	}
	defer surfers.Wait()
	defer close(stop)
	for i := range 20 {
		output(t, site, "-c", "pool web modify { member 10.1.1.1:80 }", "-c", "pool web modify { member 10.1.1.1:80 member 10.1.1.2:80 }",
			"-c", "pool more { member 10.1.1.1:80 } virtual 192.168.200.10:82 { use pool more }",
			"-c", "virtual 192.168.200.10:82 delete", "-c", "pool more delete")
		if i%4 == 2 {
			if err := site.HandOver(); err != nil {
				t.Fatal(err)
			}
			if records() == "" {
				t.Error("the record is gone")
			}
		}
	}
	if _, err := io.WriteString(tcp, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Error(err)
	}
	tcp.SetDeadline(time.Now().Add(time.Minute))
	if response, err := http.ReadResponse(bufio.NewReader(tcp), nil); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the TCP connection that was there before: %v", err)
	}
	t.Logf("%d requests", requests.Load())
}

// TestReloadSignal starts a successor with SIGHUP, and one that cannot begin.
func TestReloadSignal(t *testing.T) {
	t.Parallel()
	const config = "pool web { member 10.1.1.1:80 } virtual 192.168.200.10:80 { use pool web }"
	site := newSite(t, config)
	if err := site.StartMembers("10.1.1.1:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, config)
	place, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	stop, surfed := make(chan struct{}), make(chan error, 1)
	go func() { surfed <- surf(place.String(), &requests, stop) }()
	more := func() {
		t.Helper()
		for before, end := requests.Load(), time.Now().Add(20*time.Second); requests.Load() < before+20; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("requests do not go on")
			}
		}
	}
	more()
	if err := syscall.Kill(site.PID("dataplane"), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	pid := awaitLog(t, site, `"another process has taken over" pid=(\d+) `)
	t.Cleanup(func() { // before the site ends
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Error("the successor does not end")
				_ = syscall.Kill(pid, syscall.SIGKILL)
				return
			}
		}
	})
	output(t, site, "pool web modify { member 10.1.1.1:80 lb_method ratio }")
	more()
	close(stop)
	if err := <-surfed; err != nil {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

// awaitLog waits until the dataplane has printed what matches, and returns the number in it.
func awaitLog(t *testing.T, site *e2e.Site, pattern string) int {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text, err := site.Log("dataplane")
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("the dataplane does not print %s", pattern)
	return 0
}
