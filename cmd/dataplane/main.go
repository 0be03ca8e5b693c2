// The dataplane program forwards traffic as mgmtd tells it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/coreos/go-systemd/v22/daemon"

	"bigpipe/dataplane"
)

type flags struct {
	StateDir string   `default:"/var/lib/bigpipe/dataplane" placeholder:"DIR" help:"Where the last applied configuration is kept (${default})."`
	Listen   string   `default:"unix:///run/bigpipe/dataplane.sock" placeholder:"ADDR" help:"Where mgmtd finds it: unix:///path or host:port (${default})."`
	Metrics  string   `placeholder:"HOST:PORT" help:"Serve /metrics, /healthz and /readyz; on loopback /debug/pprof too."`
	Map      []string `placeholder:"REAL=LOCAL" help:"Bind or dial LOCAL where the configuration says REAL: an address, address:port, or a network."`
	MapFile  []string `placeholder:"FILE" help:"The same, a pair a line."`
	MapOnly  bool     `help:"Never bind or dial an address that is not mapped."`

	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Certificate for a TCP address."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Its key."`
	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" help:"CA of the certificates that mgmtd may show."`

	Version kong.VersionFlag `help:"Print the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program. It returns 0 when it was told to stop, 1 when it could not begin or go on, 2 for wrong usage.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fail := func(status int, err error) int {
		_, _ = fmt.Fprintln(stderr, "dataplane:", err)
		return status
	}
	var f flags
	status := -1
	parser, err := kong.New(&f, kong.Name("dataplane"), kong.Description("Forwards traffic as mgmtd tells it."),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { status = n }), kong.Vars{"version": dataplane.Version()})
	if err != nil {
		return fail(2, err)
	}
	_, err = parser.Parse(args)
	if status >= 0 { // help or version were printed
		return status
	}
	if err != nil {
		return fail(2, err)
	}
	options, err := f.options(slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return fail(2, err)
	}
	if err := serve(ctx, &f, options); err != nil {
		return fail(1, err)
	}
	return 0
}

// options reads what the flags name. All faults are reported.
func (f *flags) options(log *slog.Logger) (dataplane.Options, error) {
	o := dataplane.Options{Listen: f.Listen}
	o.StateDir, o.Log = f.StateDir, log
	o.Addresses = &dataplane.AddressMap{Only: f.MapOnly}
	var faults []error
	for _, pairs := range f.Map {
		faults = append(faults, o.Addresses.Add(pairs))
	}
	for _, path := range f.MapFile {
		if err := readMap(o.Addresses, path); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", path, err))
		}
	}
	var err error
	o.TLS, err = f.tls()
	return o, errors.Join(append(faults, err)...)
}

func readMap(m *dataplane.AddressMap, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return m.Read(file)
}

// tls returns nil when no file is named; one alone makes no sense.
func (f *flags) tls() (*tls.Config, error) {
	if f.TLSCert == "" && f.TLSKey == "" && f.TLSClientCA == "" {
		return nil, nil
	}
	if f.TLSCert == "" || f.TLSKey == "" || f.TLSClientCA == "" {
		return nil, errors.New("--tls-cert, --tls-key and --tls-client-ca belong together")
	}
	cert, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(f.TLSClientCA)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in it", f.TLSClientCA)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
	}, nil
}

// serve runs the dataplane and, where it is asked for, the metrics.
func serve(ctx context.Context, f *flags, o dataplane.Options) error {
	metrics, err := newMetrics(ctx, f.Metrics, o.Log)
	if err != nil {
		return err
	}
	defer metrics.close()
	o.Ready = func(e *dataplane.Engine) {
		metrics.ready(e)
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			o.Log.Warn("cannot tell systemd that the dataplane is ready", "error", err)
		}
		context.AfterFunc(ctx, func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) })
	}
	return dataplane.Run(ctx, o)
}

// isLoopback reports whether an address is only reached from this host.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
