package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"bigpipe/cmd/bench/internal/traffic"
	"bigpipe/cmd/internal/process"
)

// work is one run of a scenario.
type work struct {
	rig      *rig
	at       placement
	target   netip.AddrPort
	pids     []int  // whose processor time and memory count; none: straight to a member
	cookie   string // NAME=VALUE that a returning client sends
	duration time.Duration
}

// loadGrace is what a load may take longer than its duration.
const loadGrace = 15 * time.Second

// measured runs a load and adds the processor time that the proxy used meanwhile: for each of count's units, and as a
// share of its threads' time.
func (w work) measured(cpu metric, unit float64, load func() (sample, float64, error)) (sample, error) {
	before, err := cpuTime(w.pids)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	s, count, err := load()
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	after, err := cpuTime(w.pids)
	if err != nil {
		return nil, err
	}
	if count <= 0 {
		return nil, errors.New("nothing was answered")
	}
	if len(w.pids) > 0 {
		s[cpu.name] = float64(after-before) / unit / count
		s[proxyBusy.name] = 100 * float64(after-before) / float64(took) / float64(w.at.threads)
	}
	return s, nil
}

// wrkLoad is a load that wrk makes.
type wrkLoad struct {
	connections int
	path        string // "": /
	close       bool   // one request per connection
	returning   bool   // requests carry the cookie
}

func (l wrkLoad) run(ctx context.Context, w work) (sample, error) {
	if err := missingPrograms([]program{{"wrk", "Debian package wrk"}}); err != nil {
		return nil, err
	}
	args := []string{
		"--latency", "-t", strconv.Itoa(len(w.at.load)), "-c", strconv.Itoa(l.connections),
		"-d", strconv.Itoa(int(w.duration/time.Second)) + "s", "--timeout", "5s",
	}
	if l.close {
		args = append(args, "-H", "Connection: close")
	}
	if l.returning {
		if w.cookie == "" && len(w.pids) > 0 {
			return nil, errors.New("the proxy sets no cookie that could be returned")
		}
		args = append(args, "-H", "Cookie: "+w.cookie)
	}
	args = append(args, "http://"+w.target.String()+"/"+strings.TrimPrefix(l.path, "/"))
	return w.measured(requestCPU, float64(time.Microsecond), func() (sample, float64, error) {
		text, err := output(ctx, command{name: "wrk", cores: w.at.load, path: "wrk", args: args}, w.duration+loadGrace)
		if err != nil {
			return nil, 0, err
		}
		r, err := parseWrk(string(text))
		if err != nil {
			return nil, 0, err
		}
		if err := r.fault(); err != nil {
			return nil, 0, err
		}
		return sample{
			requestRate.name: r.rate,
			latency50.name:   float64(r.p50) / float64(time.Microsecond),
			latency99.name:   float64(r.p99) / float64(time.Microsecond),
			failures.name:    float64(r.failed()),
		}, float64(r.requests), nil
	})
}

// child runs a load of this program in a process of its own.
func (w work) child(ctx context.Context, kind string, parallel int) (traffic.Result, error) {
	var sources []string
	for _, a := range w.rig.block.clients() {
		sources = append(sources, a.String())
	}
	text, err := output(ctx, command{
		name: kind + " load", cores: w.at.load, env: goThreads(len(w.at.load)), path: w.rig.self,
		args: []string{
			childCommand, kind, "-target", w.target.String(), "-sources", strings.Join(sources, ","),
			"-parallel", strconv.Itoa(parallel), "-threads", strconv.Itoa(len(w.at.load)), "-duration", w.duration.String(),
		},
	}, w.duration+loadGrace)
	if err != nil {
		return traffic.Result{}, err
	}
	r, err := traffic.ReadResult(text)
	if err == nil && tooMany(r.Errors, r.Operations) {
		err = fmt.Errorf("%d errors in %d operations, the first: %s", r.Errors, r.Operations, r.FirstError)
	}
	return r, err
}

// tooMany says whether failures spoil the figures of a run: more than one in a thousand.
func tooMany(failed, operations int64) bool { return failed*1000 > operations }

// exchangeLoad counts TCP connections of one exchange each.
func exchangeLoad(ctx context.Context, w work) (sample, error) {
	return connectionLoad(ctx, w, "exchanges")
}

// sessionLoad counts TCP connections that resume a session of TLS each.
func sessionLoad(ctx context.Context, w work) (sample, error) {
	return connectionLoad(ctx, w, "sessions")
}

func connectionLoad(ctx context.Context, w work, kind string) (sample, error) {
	return w.measured(connectionCPU, float64(time.Microsecond), func() (sample, float64, error) {
		r, err := w.child(ctx, kind, clientCount)
		if err != nil {
			return nil, 0, err
		}
		return sample{
			connectionRate.name: float64(r.Operations) / r.Seconds, latency50.name: r.P50, latency99.name: r.P99,
			failures.name: float64(r.Errors),
		}, float64(r.Operations), nil
	})
}

// datagramLoad counts UDP round trips. Lost datagrams are failures.
func datagramLoad(ctx context.Context, w work) (sample, error) {
	return w.measured(datagramCPU, float64(time.Microsecond), func() (sample, float64, error) {
		r, err := w.child(ctx, "datagrams", clientCount)
		if err != nil {
			return nil, 0, err
		}
		return sample{
			requestRate.name: float64(r.Operations) / r.Seconds, latency50.name: r.P50, latency99.name: r.P99,
			failures.name: float64(r.Errors),
		}, float64(r.Operations), nil
	})
}

// streamLoad measures throughput from the member to the client.
func streamLoad(ctx context.Context, w work, streams int) (sample, error) {
	return w.measured(throughputCPU, float64(time.Millisecond), func() (sample, float64, error) {
		r, err := w.child(ctx, "streams", streams)
		if err != nil {
			return nil, 0, err
		}
		return sample{throughput.name: float64(r.Bytes) * 8 / 1e9 / r.Seconds}, float64(r.Bytes) / (1 << 30), nil
	})
}

// settle is how long memory may settle before it is read.
const settle = time.Second

// idleLoad measures how much the proxy's memory grows by an idle connection that has carried one request.
func idleLoad(ctx context.Context, w work) (sample, error) {
	n := w.rig.options.idle
	before, err := residentBytes(w.pids)
	if err != nil {
		return nil, err
	}
	h, err := w.hold(ctx, "idle", n)
	if err != nil {
		return nil, err
	}
	err = sleep(ctx, settle)
	var after int64
	if err == nil {
		after, err = residentBytes(w.pids)
	}
	if _, ended := h.end(true); err != nil || ended != nil {
		return nil, errors.Join(err, ended)
	}
	return sample{idleMemory.name: float64(after-before) / float64(n)}, nil
}

// held is a load that runs while something else is measured.
type held struct {
	cmd    *exec.Cmd
	stdout io.Reader
	fault  *bytes.Buffer
	cancel func()
}

// hold starts a load of n connections in a process of its own, for the duration of w at most, and returns when they are
// open. The caller must call end.
func (w work) hold(ctx context.Context, kind string, n int) (*held, error) {
	ctx, cancel := context.WithTimeout(ctx, w.duration+holdGrace)
	h := &held{
		cmd: command{
			name: kind + " load", cores: w.at.load, env: goThreads(len(w.at.load)), path: w.rig.self,
			args: []string{childCommand, kind, "-target", w.target.String(), "-parallel", strconv.Itoa(n), "-duration", w.duration.String()},
		}.pinned(ctx),
		fault: &bytes.Buffer{}, cancel: cancel,
	}
	h.cmd.Stderr = h.fault
	var err error
	if h.stdout, err = h.cmd.StdoutPipe(); err != nil {
		cancel()
		return nil, err
	}
	if err := process.Launch(h.cmd); err != nil {
		cancel()
		return nil, fmt.Errorf("%s load: %w", kind, err)
	}
	if _, err := io.ReadFull(h.stdout, make([]byte, len(readyLine))); err != nil {
		_, ended := h.end(true)
		return nil, errors.Join(fmt.Errorf("%s load: its connections are not open: %w", kind, err), ended)
	}
	return h, nil
}

// holdGrace is what a held load may take to open its connections.
const holdGrace = 30 * time.Second

// end ends the load, at once or when it is done, and returns what it has printed since its connections were open.
func (h *held) end(atOnce bool) ([]byte, error) {
	defer h.cancel()
	if atOnce {
		_ = h.cmd.Process.Signal(endIdle)
	}
	text, err := io.ReadAll(h.stdout)
	if waited := h.cmd.Wait(); waited != nil {
		return nil, fmt.Errorf("held load: %w: %s", waited, strings.TrimSpace(h.fault.String()))
	}
	return text, err
}

// sleep waits for d, less if ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
