package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"bigpipe/cmd/bench/internal/traffic"
)

// bodySizes are the lengths of the large files, by their paths.
var bodySizes = map[string]int64{"/64k": 64 << 10, "/1m": 1 << 20}

const probeTimeout = 2 * time.Second

func probeListener(ctx context.Context, addr netip.AddrPort) error {
	return dial(ctx, "tcp", addr.String())
}

func probeSocket(ctx context.Context, path string) error { return dial(ctx, "unix", path) }

// dial sees that something accepts connections.
func dial(ctx context.Context, network, address string) error {
	conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// probe makes one exchange of the scenario's kind through a proxy.
func probe(ctx context.Context, s scenario, addr netip.AddrPort) error {
	if s.http {
		_, err := probeHTTP(ctx, addr, s.path)
		return err
	}
	load, kind := traffic.Exchanges, "exchange"
	if s.udp {
		load, kind = traffic.Datagrams, "datagram"
	}
	probing := traffic.Load{Target: addr, Parallel: 1, Threads: 1, Duration: 100 * time.Millisecond}
	if s.tls {
		probing.Sessions = 1
	}
	r, err := load(ctx, probing)
	if err == nil && r.Operations == 0 {
		err = fmt.Errorf("no %s was answered in 100ms; %d errors: %s", kind, r.Errors, r.FirstError)
	}
	return err
}

// cookies is what a proxy sets in the answers to the first requests of one connection.
type cookies struct {
	first, second string // NAME=VALUE, "" without
}

// probeHTTP asks for / twice, and for a large file if path is not "", on one connection and checks the answers.
func probeHTTP(ctx context.Context, addr netip.AddrPort, path string) (cookies, error) {
	var seen cookies
	transport := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: probeTimeout}
	type step struct {
		path   string
		size   int64
		cookie *string
	}
	steps := []step{{"/", traffic.AnswerSize, &seen.first}, {"/", traffic.AnswerSize, &seen.second}}
	if path != "" {
		steps = append(steps, step{path, bodySizes[path], new(string)})
	}
	for _, step := range steps {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr.String()+step.path, nil)
		if err != nil {
			return seen, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return seen, err
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return seen, fmt.Errorf("GET %s: %w", step.path, err)
		}
		if answer.StatusCode != http.StatusOK || n != step.size {
			return seen, fmt.Errorf("GET %s: %s with %d bytes: want 200 with %d", step.path, answer.Status, n, step.size)
		}
		*step.cookie, _, _ = strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	}
	return seen, nil
}

// remark says in which answers a proxy sets its cookie where that is not in all of them: then the work is not equal.
func (c cookies) remark(name string) string {
	switch {
	case c.first == "":
		return name + " sets no cookie"
	case c.second == "":
		return name + " sets its cookie in the first answer of a connection only"
	default:
		return ""
	}
}
