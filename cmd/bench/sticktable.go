package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stickLine is how many commands go to HAProxy's socket at once; its buffer has 16 KiB.
const stickLine = 150

// stickTable fills a stick table of HAProxy with n clients over its socket and measures its memory. The table is like ours: the
// client's IPv6 address, and which member it has.
func (r *rig) stickTable(ctx context.Context, n int, p *panel) error {
	side := newSide("haproxy", r.options.bin)
	if err := side.missing(); err != nil {
		return err
	}
	dir, err := r.nextDir()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "s")
	text := fmt.Sprintf(`global
    nbthread 1
    stats socket %s level admin
defaults
    mode tcp
    timeout connect 5s
    timeout client 5s
    timeout server 5s
listen clients
    bind %s
    stick-table type ipv6 size %d expire 1h
    stick on src
    server one %s
`, socket, r.block.proxy(0, tcpPort), n+n/10, r.block.members(0, tcpPort)[0])
	b := bench{rig: r, dir: dir, config: filepath.Join(dir, "haproxy.cfg"), place: placement{threads: 1, proxy: allowedCores()}}
	if err := os.WriteFile(b.config, []byte(text), 0o644); err != nil {
		return err
	}
	running, err := side.start(ctx, b)
	defer func() { stopAll(running) }()
	if err != nil {
		return err
	}
	if err := eventuallyAnswers(ctx, socket); err != nil {
		return err
	}
	before, err := residentBytes([]int{running[0].PID()})
	if err != nil {
		return err
	}
	if err := fillStickTable(ctx, socket, n); err != nil {
		return err
	}
	after, err := residentBytes([]int{running[0].PID()})
	if err != nil {
		return err
	}
	p.add(peerBytes, float64(after-before)/float64(n))
	return nil
}

func eventuallyAnswers(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		_, err := askSocket(ctx, socket, "show table")
		if err == nil || ctx.Err() != nil {
			return err
		}
		if sleep(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

func fillStickTable(ctx context.Context, socket string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	for first := 0; first < n; first += stickLine {
		var line strings.Builder
		for i := first; i < min(first+stickLine, n); i++ {
			fmt.Fprintf(&line, "set table clients key 2001:db8::%x:%x data.server_id 1;", i>>16, i&0xffff)
		}
		if _, err := askSocket(ctx, socket, line.String()); err != nil {
			return err
		}
	}
	answer, err := askSocket(ctx, socket, "show table")
	if want := fmt.Sprintf("used:%d", n); err == nil && !strings.Contains(answer, want) {
		err = fmt.Errorf("the stick table says %q, want %s", strings.TrimSpace(answer), want)
	}
	return err
}

// askSocket sends one line to HAProxy's socket and returns the whole answer.
func askSocket(ctx context.Context, socket, line string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
