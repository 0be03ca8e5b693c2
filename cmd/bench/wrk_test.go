package main

import (
	"strings"
	"testing"
	"time"
)

const wrkOutput = `Running 5s test @ http://127.0.0.1:8080/
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.13ms    2.50ms  99.28ms   98.85%
    Req/Sec    36.67k     4.50k   46.85k    70.00%
  Latency Distribution
     50%  812.00us
     75%    1.08ms
     90%    1.47ms
     99%    1.02s 
  365038 requests in 5.01s, 58.83MB read
Requests/sec:  72855.95
Transfer/sec:     11.74MB
`

func TestParseWrk(t *testing.T) {
	const errorLines = "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 5\nRequests/sec:"
	good := wrkResult{requests: 365038, rate: 72855.95, p50: 812 * time.Microsecond, p99: 1020 * time.Millisecond}
	failing := good
	failing.connect, failing.read, failing.write, failing.timeout, failing.refused = 1, 2, 3, 4, 5
	for name, c := range map[string]struct {
		text string
		want wrkResult
	}{
		"good":        {wrkOutput, good},
		"with errors": {strings.Replace(wrkOutput, "Requests/sec:", errorLines, 1), failing},
	} {
		got, err := parseWrk(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, error %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestParseWrkNamesAllThatIsWrong(t *testing.T) {
	_, err := parseWrk("unable to connect to 127.0.0.1:8080 Connection refused\n")
	for _, want := range []string{`"50%"`, `"99%"`, `"requests"`, `"Requests/sec"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want it to name %s", err, want)
		}
	}
	if _, err = parseWrk(strings.Replace(wrkOutput, "812.00us", "812.00parsecs", 1)); err == nil {
		t.Error("an unknown unit must be an error")
	}
}

func TestWrkFault(t *testing.T) {
	for _, c := range []struct {
		r      wrkResult
		spoilt bool
	}{
		{wrkResult{requests: 1000}, false},
		{wrkResult{requests: 1000, timeout: 1}, false},
		{wrkResult{requests: 1000, timeout: 1, read: 1}, true},
		{wrkResult{requests: 1000, refused: 1000}, true},
		{wrkResult{connect: 1}, true},
	} {
		if err := c.r.fault(); (err != nil) != c.spoilt {
			t.Errorf("%+v: fault %v, want one: %v", c.r, err, c.spoilt)
		}
	}
}
