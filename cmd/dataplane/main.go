// The dataplane program forwards traffic as mgmtd tells it.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/alecthomas/kong"
	"github.com/coreos/go-systemd/v22/activation"

	"bigpipe/cmd/internal/certificate"
	"bigpipe/cmd/internal/daemon"
	"bigpipe/dataplane"
	"bigpipe/dataplane/handover"
	"bigpipe/dataplane/metrics"
)

type flags struct {
	StateDir string   `default:"/var/lib/bigpipe/dataplane" placeholder:"DIR" help:"Where the last applied configuration and the persistence records are kept (${default})."`
	Listen   string   `default:"unix:///run/bigpipe/dataplane.sock" placeholder:"ADDR" help:"Where mgmtd finds it: unix:///path or host:port (${default})."`
	Metrics  string   `placeholder:"HOST:PORT" help:"Serve /metrics, /healthz and /readyz; on loopback /debug/pprof too."`
	Map      []string `placeholder:"REAL=LOCAL" help:"Bind or dial LOCAL where the configuration says REAL: an address, address:port, or a network."`
	MapFile  []string `placeholder:"FILE" help:"The same, a pair a line."`
	MapOnly  bool     `help:"Never bind or dial an address that is not mapped."`

	AssignAddresses string `placeholder:"DEV" help:"Add virtual addresses that this host lacks to the network device DEV, announce them, and remove them at the end."`

	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Certificate for a TCP address."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Its key."`
	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" help:"CA of the certificates that mgmtd may show."`

	TakeOver        bool          `help:"Take the place of the dataplane that runs with the same state directory: its sockets, its records. Without one, start as always."`
	DrainTimeout    time.Duration `default:"5s" help:"How long open connections may go on at the end (${default})."`
	HandOverTimeout time.Duration `default:"1h" help:"How long they may go on when another process has taken over (${default})."`

	Version kong.VersionFlag `help:"Print the version."`
}

func main() {
	ctx, stop := daemon.Context()
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program. It returns 0 when it was told to stop, 1 when it could not begin or go on, 2 for wrong usage.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	p := daemon.Program{Name: "dataplane", Description: "Forwards traffic as mgmtd tells it.", Stdout: stdout, Stderr: stderr}
	var f flags
	if status, goOn := p.Parse(&f, args); !goOn {
		return status
	}
	options, err := f.options(slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return p.Fail(daemon.ExitUsage, err)
	}
	if err := serve(ctx, &f, options, func() *exec.Cmd { return successor(args, stdout, stderr) }); err != nil {
		return p.Fail(daemon.ExitFailed, err)
	}
	return daemon.ExitStopped
}

// options reads what the flags name. All faults are reported.
func (f *flags) options(log *slog.Logger) (dataplane.Options, error) {
	o := dataplane.Options{Listen: f.Listen, DrainTimeout: f.DrainTimeout, HandOverTimeout: f.HandOverTimeout}
	o.StateDir, o.AssignDevice, o.Log = f.StateDir, f.AssignAddresses, log
	var mapFault, tlsFault error
	o.Addresses, mapFault = daemon.Mapping{Pairs: f.Map, Files: f.MapFile, Only: f.MapOnly}.Read()
	o.TLS, tlsFault = certificate.Files{
		Cert: f.TLSCert, Key: f.TLSKey, CA: f.TLSClientCA, Flags: "--tls-cert, --tls-key and --tls-client-ca",
	}.Server()
	return o, errors.Join(mapFault, tlsFault)
}

// serve runs the dataplane and, where it is asked for, the metrics.
func serve(ctx context.Context, f *flags, o dataplane.Options, again func() *exec.Cmd) error {
	o.Sockets = handover.NewSockets()
	defer o.Sockets.Close()
	if err := o.Sockets.KeepManaged(activation.Files(true)); err != nil {
		return err
	}
	if f.TakeOver {
		var err error
		if o.Taken, err = dataplane.Take(ctx, f.StateDir, o.Sockets, o.Log); err != nil {
			return err
		}
	}
	m, err := daemon.ServeMetrics(ctx, f.Metrics, o.Sockets, o.Log)
	if err != nil {
		o.Taken.Close()
		return err
	}
	defer m.Close()
	o.Also = m.Sockets()
	var n *daemon.Notifier
	reloads := &reloader{start: again, log: o.Log}
	o.Ready = func(e *dataplane.Engine) {
		m.Add(metrics.NewCollector(e))
		m.Ready(func() error {
			if e.Status().GetStoreId() == "" {
				return errors.New("no configuration is applied yet")
			}
			return nil
		})
		n = daemon.Notify(ctx, o.Log)
		reloads.begin(n)
	}
	o.HandedOver = func() {
		n.Silence()
		reloads.end()
		m.Close()
	}
	err = dataplane.Run(ctx, o)
	reloads.end()
	n.Silence()
	return err
}
