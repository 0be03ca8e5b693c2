package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"bigpipe/dataplane"
	enginemetrics "bigpipe/dataplane/metrics"
	"bigpipe/mgmtd"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

// metrics serves what others watch the program by. Nil serves nothing.
type metrics struct {
	registry *prometheus.Registry
	server   *http.Server
	started  atomic.Bool
	serving  sync.WaitGroup
}

// newMetrics begins to serve on an address; "" is nil.
func newMetrics(ctx context.Context, address string, s store.Store, server *mgmtd.Server, log *slog.Logger) (*metrics, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{store: s, server: server})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", m.readyz)
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	m.serving.Go(func() { _ = m.server.Serve(l) }) // ends by close
	log.Info("metrics are served", "address", l.Addr().String())
	return m, nil
}

// ready says that the admin service is served.
func (m *metrics) ready() {
	if m != nil {
		m.started.Store(true)
	}
}

// engine adds the metrics of the embedded dataplane.
func (m *metrics) engine(e *dataplane.Engine) {
	if m != nil {
		m.registry.MustRegister(enginemetrics.NewCollector(e))
	}
}

func (m *metrics) readyz(w http.ResponseWriter, _ *http.Request) {
	if !m.started.Load() {
		http.Error(w, "not serving yet", http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

func (m *metrics) close() {
	if m != nil {
		_ = m.server.Close() // nobody is left to tell
		m.serving.Wait()
	}
}

// collector shows the configuration and the state of the dataplanes to Prometheus.
type collector struct {
	store  store.Store
	server *mgmtd.Server
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bigpipe_mgmtd_"+name, help, labels, nil)
}

var (
	descRevision    = desc("revision", "Number of the newest revision.")
	descPending     = desc("pending", "1 while a change waits to be confirmed.")
	descObjects     = desc("objects", "Objects of the configuration.", "kind")
	descConnected   = desc("dataplane_connected", "1 if a dataplane answers and takes what it is sent.", "dataplane")
	descApplied     = desc("dataplane_revision", "Revision that a dataplane has applied.", "dataplane")
	descNotInEffect = desc("dataplane_not_in_effect", "Objects that are applied and not in effect.", "dataplane")
)

// Describe implements prometheus.Collector. Series come and go with the configuration, so nothing is promised.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := map[bool]float64{true: 1}
	newest := c.store.Newest()
	gauge(descRevision, float64(newest.Revision))
	gauge(descPending, truth[newest.Pending != nil])
	for _, kind := range []string{"pool", "rule", "virtual", "node", "monitor", "class", "kept"} {
		gauge(descObjects, float64(newest.Tree.Len(kind)), kind)
	}
	list, err := c.server.ListDataplanes(context.Background(), &pb.ListDataplanesRequest{})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descConnected, err)
		return
	}
	for _, d := range list.GetDataplanes() {
		gauge(descConnected, truth[d.GetConnected()], d.GetDataplane())
		gauge(descApplied, float64(d.GetRevision()), d.GetDataplane())
		gauge(descNotInEffect, float64(len(d.GetNotInEffect())), d.GetDataplane())
	}
}
