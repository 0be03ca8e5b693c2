// The mgmtd program keeps the configuration and pushes it to the dataplanes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"bigpipe/dataplane"
	"bigpipe/grammar"
	"bigpipe/mgmtd"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

// Exit statuses of the program.
const (
	exitStopped = 0
	exitFailed  = 1
	exitUsage   = 2
)

// resolveTimeout is how long the address of a host name may take.
const resolveTimeout = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program. It returns 0 when it was told to stop, 1 when it could not begin or go on, 2 for wrong usage and for
// faults in the file of --load.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var f flags
	status := -1
	parser, err := kong.New(&f, kong.Name("mgmtd"), kong.Description("Keeps the configuration and pushes it to the dataplanes."),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { status = n }), kong.Vars{"version": dataplane.Version()})
	if err != nil {
		complain(stderr, err)
		return exitUsage
	}
	_, err = parser.Parse(args)
	if status >= 0 { // help or version were printed
		return status
	}
	if err == nil {
		err = f.check()
	}
	if err != nil {
		complain(stderr, err)
		return exitUsage
	}
	p := program{flags: &f, log: slog.New(slog.NewTextHandler(stderr, nil)), stdin: stdin, stderr: stderr}
	err = p.run(ctx)
	var faulty *faultyFile
	switch {
	case errors.As(err, &faulty):
		return exitUsage // the diagnostics were printed
	case err != nil:
		complain(stderr, err)
		return exitFailed
	}
	return exitStopped
}

// complain writes an error where the user sees it.
func complain(stderr io.Writer, err error) {
	_, _ = fmt.Fprintln(stderr, "mgmtd:", err) // nobody is left to tell if that fails
}

// program is mgmtd while it runs.
type program struct {
	flags  *flags
	log    *slog.Logger
	stdin  io.Reader
	stderr io.Writer
}

// faultyFile says that the file of --load has faults.
type faultyFile struct{ err error }

func (f *faultyFile) Error() string { return f.err.Error() }

// run opens the store, serves until ctx ends, and closes everything in the opposite order.
func (p *program) run(ctx context.Context) (err error) {
	s, err := store.Open(filepath.Join(p.flags.StateDir, "config.db"), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	local, err := p.embed()
	if err != nil {
		return err
	}
	defer local.remove()
	targets, err := p.flags.targets(local)
	if err != nil {
		return err
	}
	server, err := mgmtd.New(mgmtd.Config{
		Store: s, Dataplanes: targets, Log: p.log, Version: dataplane.Version(),
		Resolve: func(host string) (netip.Addr, error) { return resolve(ctx, host) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := p.load(ctx, s, server); err != nil {
		return err
	}
	return p.serve(ctx, s, server, local)
}

// load loads the file of --load into a store that was never written to.
func (p *program) load(ctx context.Context, s store.Store, server *mgmtd.Server) error {
	if p.flags.Load == "" {
		return nil
	}
	if n := s.Newest().Revision; n != 0 {
		p.log.Info("the store is not empty, the file is not loaded", "file", p.flags.Load, "revision", n)
		return nil
	}
	text, err := p.read(p.flags.Load)
	if err != nil {
		return err
	}
	diagnostics, err := server.Load(ctx, p.flags.Load, text)
	grammar.Render(p.stderr, diagnostics, false)
	if err != nil {
		return &faultyFile{err}
	}
	return nil
}

// read reads a file, or standard input for "-".
func (p *program) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.stdin)
	}
	return os.ReadFile(name)
}

// serve runs all parts until ctx ends or one of them fails.
func (p *program) serve(ctx context.Context, s store.Store, server *mgmtd.Server, local *embedded) error {
	listeners, err := p.flags.listeners(ctx)
	if err != nil {
		return err
	}
	metrics, err := newMetrics(ctx, p.flags.Metrics, s, server, p.log)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	defer metrics.close()
	parts, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		parts.Go(func() error { return p.serveAdmin(ctx, l, server) })
	}
	parts.Go(func() error { server.Run(ctx); return nil })
	if local != nil {
		parts.Go(func() error { return local.run(ctx, metrics.engine) })
	}
	metrics.ready()
	p.notify(daemon.SdNotifyReady)
	context.AfterFunc(ctx, func() { p.notify(daemon.SdNotifyStopping) })
	return parts.Wait()
}

func (p *program) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.log.Warn("cannot tell systemd", "state", state, "error", err)
	}
}

// resolve returns the address of a host; its IPv4 address where it has both.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() {
			return a, nil
		}
	}
	if len(addrs) == 0 {
		return netip.Addr{}, fmt.Errorf("host %s has no address", host)
	}
	return addrs[0], nil
}

// grace is how long calls of the admin service may go on at the end.
const grace = 2 * time.Second

// serveAdmin serves the admin service on a listener until ctx ends.
func (p *program) serveAdmin(ctx context.Context, l admin, server pb.AdminServer) error {
	g := l.server()
	pb.RegisterAdminServer(g, server)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	p.log.Info("mgmtd serves", "address", l.Addr().String())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	late := time.AfterFunc(grace, g.Stop)
	defer late.Stop()
	g.GracefulStop()
	return <-served
}
