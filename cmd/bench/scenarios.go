package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// metric is one figure of a scenario.
type metric struct {
	name  string
	lower bool // less is better
	print func(float64) string
	shown bool // among the figures only: no ratio
}

var (
	requestRate    = metric{name: "requests/s", print: printRate}
	requestCPU     = metric{name: "CPU us/request", lower: true, print: printTenths}
	latency50      = metric{name: "p50 us", lower: true, print: printWhole}
	latency99      = metric{name: "p99 us", lower: true, print: printWhole}
	connectionRate = metric{name: "connections/s", print: printRate}
	connectionCPU  = metric{name: "CPU us/connection", lower: true, print: printTenths}
	throughput     = metric{name: "Gbit/s", print: printTenths}
	throughputCPU  = metric{name: "CPU ms/GiB", lower: true, print: printWhole}
	datagramCPU    = metric{name: "CPU us/round trip", lower: true, print: printTenths}
	idleMemory     = metric{name: "bytes/connection", lower: true, print: printWhole}
	// proxyBusy says whether the load or the proxy was the limit: how much of its threads' time the proxy used.
	proxyBusy = metric{name: "proxy busy %", print: printWhole, shown: true}
	// failures are requests or connections that failed; many of them make a run fail.
	failures = metric{name: "failed", lower: true, print: printWhole, shown: true}
)

var httpMetrics = []metric{requestRate, requestCPU, latency50, latency99}

// sample is what one run of a scenario gave, by the name of the metric.
type sample map[string]float64

// goal is a figure to reach with a number of threads: against a peer, or for itself.
type goal struct {
	metric   metric
	threads  int
	limit    float64
	absolute bool   // the figure itself; else its ratio to the peer's
	peer     string // "": HAProxy
}

// scenario is one kind of work.
type scenario struct {
	name    string
	about   string
	http    bool // a service for HTTP with cookie insert; else TCP or UDP with persistence by the client's address
	udp     bool
	tls     bool          // persistence by the session ID of TLS
	perReq  bool          // a decision for each request
	oneShot bool          // one request per connection
	path    string        // of a large file that nginx serves; "": small answers from this program's own member
	fresh   bool          // a new process for each round
	most    int           // the most rounds; zero: as many as are asked for
	least   time.Duration // of one run
	single  bool          // at one thread only
	without string        // a side that cannot do it
	metrics []metric
	goals   []goal
	// run does the work once against a running side.
	run func(ctx context.Context, w work) (sample, error)
	// limit does it straight against a member, without a proxy; nil where that says nothing.
	limit func(ctx context.Context, w work) (sample, error)
}

// goals of rate and CPU at one thread, of rate alone at two.
func goals(rate, cpu metric, one, oneCPU, two float64) []goal {
	list := []goal{{metric: rate, threads: 1, limit: one}}
	if oneCPU > 0 {
		list = append(list, goal{metric: cpu, threads: 1, limit: oneCPU})
	}
	return append(list, goal{metric: rate, threads: 2, limit: two})
}

var scenarios = []scenario{
	httpScenario("keepalive-64", "64 keep-alive connections, small answers, cookie insert", wrkLoad{connections: 64},
		goals(requestRate, requestCPU, 1.10, 0.80, 1.00)),
	httpScenario("keepalive-256", "the same with 256 connections", wrkLoad{connections: 256},
		goals(requestRate, requestCPU, 1.10, 0.80, 1.00)),
	crowded(httpScenario("keepalive-4000", "the same with 4,000 connections, all busy", wrkLoad{connections: 4000}, nil)),
	atOneThread(httpScenario("returning-64", "64 keep-alive connections whose requests carry the cookie", wrkLoad{connections: 64, returning: true}, nil)),
	perRequest(httpScenario("per-request-64", "64 keep-alive connections, a decision and a cookie for each request (ours: oneconnect)",
		wrkLoad{connections: 64}, nil)),
	httpScenario("close-64", "one request per connection, 64 at once", wrkLoad{connections: 64, close: true},
		goals(requestRate, requestCPU, 1.00, 1.00, 1.00)),
	httpScenario("body-64k", "64 keep-alive connections, bodies of 64 KiB", wrkLoad{connections: 64, path: "/64k"},
		goals(requestRate, requestCPU, 1.10, 0.70, 1.00)),
	httpScenario("body-1m", "16 keep-alive connections, bodies of 1 MiB", wrkLoad{connections: 16, path: "/1m"}, nil),
	{
		name: "tcp-connections", about: "TCP connections of one exchange from 64 client addresses, 64 at once",
		metrics: []metric{connectionRate, connectionCPU, latency50, latency99},
		goals:   goals(connectionRate, connectionCPU, 1.05, 0, 1.00),
		run:     exchangeLoad, limit: exchangeLoad,
	},
	{
		name: "tls-sessions", about: "TCP connections that resume one of 64 sessions of TLS 1.2, persistence by the ID, 64 at once (nginx cannot)",
		tls: true, without: "nginx", metrics: []metric{connectionRate, connectionCPU, latency50, latency99},
		run: sessionLoad, limit: sessionLoad,
	},
	streamScenario("tcp-stream-1", "TCP throughput to the client, one stream", 1),
	streamScenario("tcp-stream-8", "TCP throughput to the client, eight streams", 8),
	{
		name: "udp", about: "UDP round trips of 64 bytes, 64 flows with two under way each (HAProxy does not forward UDP)",
		udp: true, without: "haproxy", metrics: []metric{requestRate, datagramCPU, latency50, latency99},
		goals: []goal{{metric: requestRate, threads: 1, limit: 1.10, peer: "nginx"}, {metric: requestRate, threads: 2, limit: 1.00, peer: "nginx"}},
		run:   datagramLoad, limit: datagramLoad,
	},
	{
		name: "idle-memory", about: "memory of the proxy's process for an idle keep-alive connection",
		http: true, fresh: true, most: 3, single: true, metrics: []metric{idleMemory}, run: idleLoad,
		goals: []goal{{metric: idleMemory, threads: 1, limit: 4096, absolute: true}},
	},
}

func httpScenario(name, about string, load wrkLoad, goals []goal) scenario {
	return scenario{
		name: name, about: about, http: true, oneShot: load.close, path: load.path,
		metrics: httpMetrics, goals: goals, run: load.run, limit: load.run,
	}
}

// crowded is a scenario of so many connections that opening them takes a good part of a short run.
func crowded(s scenario) scenario {
	s.least = 3 * time.Second
	return atOneThread(s)
}

func atOneThread(s scenario) scenario {
	s.single = true
	return s
}

func perRequest(s scenario) scenario {
	s.perReq = true
	return s
}

func streamScenario(name, about string, streams int) scenario {
	run := func(ctx context.Context, w work) (sample, error) { return streamLoad(ctx, w, streams) }
	return scenario{
		name: name, about: about, metrics: []metric{throughput, throughputCPU}, run: run, limit: run,
		goals: goals(throughput, throughputCPU, 1.00, 0, 1.00),
	}
}

// judgedAt says whether it has a goal at a number of threads.
func (s scenario) judgedAt(threads int) bool {
	return slices.ContainsFunc(s.goals, func(g goal) bool { return g.threads == threads })
}

// rounds is how many there are when so many are asked for.
func (s scenario) rounds(asked int) int {
	if s.most > 0 {
		return min(s.most, asked)
	}
	return asked
}

// label is a scenario's name with its number of threads, as -only matches it.
func label(s scenario, threads int) string { return fmt.Sprintf("%s/%dt", s.name, threads) }

// chosen are the scenarios that -only chooses.
func (o *options) chosen(threads int) []scenario {
	return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return s.single && threads > 1 || !o.wants(label(s, threads))
	})
}

// listScenarios prints their names for -only.
func listScenarios(w io.Writer) {
	rows := [][]string{{scaleName, scaleAbout}, {slowName, slowAbout}, {recordsName, recordsAbout}}
	for _, s := range scenarios {
		rows = append(rows, []string{s.name, s.about})
	}
	var text strings.Builder
	renderTable(&text, rows)
	fmt.Fprintf(w, "%s\n-only matches scale, slow-clients, records and NAME/THREADSt, as in close-64/1t.\n", text.String())
}
