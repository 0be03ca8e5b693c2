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
)

// metrics serves what others watch the program by. Nil serves nothing.
type metrics struct {
	registry *prometheus.Registry
	server   *http.Server
	engine   atomic.Pointer[dataplane.Engine]
	serving  sync.WaitGroup
}

// newMetrics begins to serve on an address; "" is nil.
func newMetrics(ctx context.Context, address string, log *slog.Logger) (*metrics, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", m.readyz)
	if isLoopback(l.Addr()) {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	m.serving.Go(func() { _ = m.server.Serve(l) })
	log.Info("metrics are served", "address", l.Addr().String())
	return m, nil
}

// ready adds the metrics of an engine.
func (m *metrics) ready(e *dataplane.Engine) {
	if m != nil {
		m.registry.MustRegister(enginemetrics.NewCollector(e))
		m.engine.Store(e)
	}
}

// readyz says yes once a configuration is applied.
func (m *metrics) readyz(w http.ResponseWriter, _ *http.Request) {
	e := m.engine.Load()
	if e == nil || e.Status().GetStoreId() == "" {
		http.Error(w, "no configuration is applied yet", http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

func (m *metrics) close() {
	if m != nil {
		_ = m.server.Close()
		m.serving.Wait()
	}
}
