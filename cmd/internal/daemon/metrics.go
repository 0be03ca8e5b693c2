package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"bigpipe/dataplane/handover"
)

// Metrics serves what others watch a daemon by: /metrics, /healthz and /readyz, on loopback /debug/pprof/ too. Nil serves
// nothing.
type Metrics struct {
	registry *prometheus.Registry
	server   *http.Server
	ready    atomic.Pointer[func() error]
	serving  sync.WaitGroup
	name     string
	socket   *os.File
}

// ServeMetrics begins to serve on an address, on the socket for it that is there already or on a new one; "" is nil. Close ends
// it.
func ServeMetrics(ctx context.Context, address string, sockets *handover.Sockets, log *slog.Logger) (*Metrics, error) {
	if address == "" {
		return nil, nil
	}
	name := "metrics " + address
	l, err := sockets.Listener(name, "tcp "+address)
	if l == nil && err == nil {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), name: name}
	if tcp, ok := l.(*net.TCPListener); ok {
		if m.socket, err = tcp.File(); err != nil {
			return nil, errors.Join(fmt.Errorf("metrics: %w", err), l.Close())
		}
	}
	m.Ready(func() error { return errors.New("not serving yet") })
	m.Add(collectors.NewGoCollector())
	m.Add(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", limited(promhttp.HandlerForTransactional(&oneAtATime{from: m.registry}, promhttp.HandlerOpts{})))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", m.readyz)
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idleTimeout}
	m.serving.Go(func() { _ = m.server.Serve(l) }) // ends by Close
	log.Info("metrics are served", "address", l.Addr().String())
	return m, nil
}

// oneAtATime gathers for one scrape after the other: what one holds of a large configuration is much.
type oneAtATime struct {
	from prometheus.Gatherer
	mu   sync.Mutex
}

// Gather implements prometheus.TransactionalGatherer.
func (o *oneAtATime) Gather() ([]*dto.MetricFamily, func(), error) {
	o.mu.Lock()
	families, err := o.from.Gather()
	return families, o.mu.Unlock, err
}

// scrapeTimeout is how long a client may take to read what it asked for, waiting for others included.
const scrapeTimeout = time.Minute

// idleTimeout is how long a connection without a request is kept: longer than the pause between two scrapes, and not for ever.
const idleTimeout = 2 * time.Minute

// limited ends a reply that its client does not read.
func limited(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTimeout)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Add shows what a collector has at /metrics.
func (m *Metrics) Add(c prometheus.Collector) {
	if m != nil {
		m.registry.MustRegister(c)
	}
}

// Ready makes check the answer of /readyz: its error says why the daemon is not ready.
func (m *Metrics) Ready(check func() error) {
	if m != nil {
		m.ready.Store(&check)
	}
}

func (m *Metrics) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := (*m.ready.Load())(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// Sockets returns what another process needs to go on in place of this one. They are good until Close.
func (m *Metrics) Sockets() []handover.Socket {
	if m == nil || m.socket == nil {
		return nil
	}
	return []handover.Socket{{Name: m.name, File: m.socket}}
}

// Close ends serving. Closing twice does nothing.
func (m *Metrics) Close() {
	if m != nil {
		_ = m.server.Close() // nobody is left to tell
		m.serving.Wait()
		_ = m.socket.Close()
	}
}
