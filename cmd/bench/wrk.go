package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// wrkResult is what wrk printed.
type wrkResult struct {
	requests int64
	rate     float64 // requests a second
	p50, p99 time.Duration
	// socket errors, and answers that are not 2xx or 3xx
	connect, read, write, timeout, refused int64
}

// parseWrk reads the output of wrk --latency.
func parseWrk(text string) (wrkResult, error) {
	var r wrkResult
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		var err error
		switch {
		case len(fields) == 2 && fields[0] == "50%":
			r.p50, err = parseWrkTime(fields[1])
			seen["50%"] = true
		case len(fields) == 2 && fields[0] == "99%":
			r.p99, err = parseWrkTime(fields[1])
			seen["99%"] = true
		case len(fields) > 3 && fields[1] == "requests" && fields[2] == "in":
			r.requests, err = strconv.ParseInt(fields[0], 10, 64)
			seen["requests"] = true
		case strings.HasPrefix(line, "Requests/sec:"):
			r.rate, err = strconv.ParseFloat(fields[1], 64)
			seen["Requests/sec"] = true
		case strings.HasPrefix(line, "Socket errors:"):
			_, err = fmt.Sscanf(line, "Socket errors: connect %d, read %d, write %d, timeout %d", &r.connect, &r.read, &r.write, &r.timeout)
		case strings.HasPrefix(line, "Non-2xx or 3xx responses:"):
			r.refused, err = strconv.ParseInt(fields[len(fields)-1], 10, 64)
		}
		note(err)
	}
	for _, want := range []string{"50%", "99%", "requests", "Requests/sec"} {
		if !seen[want] {
			note(fmt.Errorf("no %q in wrk's output", want))
		}
	}
	return r, errors.Join(faults...)
}

// parseWrkTime reads 512.00us, 1.23ms, 2.01s, 1.50m or 1.00h.
func parseWrkTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no time of wrk", text)
	}
	return d, nil
}

// failed is how many requests and connections failed.
func (r wrkResult) failed() int64 { return r.connect + r.read + r.write + r.timeout + r.refused }

// fault is an error if the run had failures that spoil its figures.
func (r wrkResult) fault() error {
	failed := r.failed()
	if !tooMany(failed, r.requests) {
		return nil
	}
	return fmt.Errorf("%d of %d requests failed: connect %d, read %d, write %d, timeout %d, not 2xx or 3xx %d",
		failed, r.requests, r.connect, r.read, r.write, r.timeout, r.refused)
}
