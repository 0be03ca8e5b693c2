// The mgmtd program keeps the configuration and pushes it to the dataplanes.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"bigpipe/cmd/internal/classfile"
	"bigpipe/cmd/internal/daemon"
	"bigpipe/cmd/internal/host"
	"bigpipe/cmd/internal/version"
	"bigpipe/dataplane"
	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/metrics"
	"bigpipe/grammar"
	"bigpipe/mgmtd"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

func main() {
	ctx, stop := daemon.Context()
	defer stop()
	env := environment{address: os.Getenv("BIGPIPE_ADDRESS"), runtimeDir: os.Getenv("XDG_RUNTIME_DIR")}
	os.Exit(run(ctx, os.Args[1:], env, os.Stdin, os.Stdout, os.Stderr))
}

// environment is what the program takes from its surroundings besides its arguments: BIGPIPE_ADDRESS and XDG_RUNTIME_DIR.
type environment struct {
	address, runtimeDir string
}

// run is the program. It returns 0 when it was told to stop, 1 when it could not begin or go on, 2 for wrong usage and for
// faults in the file of --load.
func run(ctx context.Context, args []string, env environment, stdin io.Reader, stdout, stderr io.Writer) int {
	d := daemon.Program{
		Name: "mgmtd", Description: "Keeps the configuration and pushes it to the dataplanes.", Stdout: stdout, Stderr: stderr,
	}
	var f flags
	if status, goOn := d.Parse(&f, args); !goOn {
		return status
	}
	read, fault := f.read()
	if err := errors.Join(f.check(), fault); err != nil {
		return d.Fail(daemon.ExitUsage, err)
	}
	p := program{flags: &f, files: read, env: env, log: slog.New(slog.NewTextHandler(stderr, nil)), stdin: stdin, stderr: stderr}
	err := p.run(ctx)
	var faulty *faultyFile
	switch {
	case errors.As(err, &faulty):
		return daemon.ExitUsage // the diagnostics were printed
	case err != nil:
		return d.Fail(daemon.ExitFailed, err)
	}
	return daemon.ExitStopped
}

// program is mgmtd while it runs.
type program struct {
	flags  *flags
	files  *files
	env    environment
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
	local, err := p.embed(p.files.addresses)
	if err != nil {
		return err
	}
	defer local.remove()
	server, err := mgmtd.New(mgmtd.Config{
		Store: s, Dataplanes: p.flags.dataplanes(local, p.files.dataplane), Log: p.log, Version: version.String(),
		Resolve: func(name string) (netip.Addr, error) { return host.Address(ctx, name) },
		Cookie:  func(member netip.AddrPort) string { return string(cookie.AppendValue(nil, member)) },
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
	file := mgmtd.File{Name: p.flags.Load}
	var err error
	if file.Text, err = p.read(file.Name); err != nil {
		return err
	}
	file.ClassFiles, file.Unreadable = classfile.Read(file.Text)
	diagnostics, err := server.Load(ctx, file)
	grammar.Render(p.stderr, diagnostics, false)
	if err != nil {
		return &faultyFile{err}
	}
	return nil
}

// read reads a file, or standard input for "-", and no more of it than shows that it is longer than what is read.
func (p *program) read(name string) ([]byte, error) {
	in := p.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return io.ReadAll(io.LimitReader(in, grammar.MaxSize+1))
}

// serve runs all parts until ctx ends or one of them fails.
func (p *program) serve(ctx context.Context, s store.Store, server *mgmtd.Server, local *embedded) error {
	listeners, err := p.flags.listeners(ctx, p.env, p.files.admin)
	if err != nil {
		return err
	}
	m, err := daemon.ServeMetrics(ctx, p.flags.Metrics, nil, p.log)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	defer m.Close()
	m.Add(collector{store: s, server: server})
	parts, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		parts.Go(func() error { return p.serveAdmin(ctx, l, server) })
	}
	parts.Go(func() error { server.Run(ctx); return nil })
	if local != nil {
		parts.Go(func() error { return local.run(ctx, func(e *dataplane.Engine) { m.Add(metrics.NewCollector(e)) }) })
	}
	m.Ready(func() error { return nil })
	defer daemon.Notify(ctx, p.log).Silence()
	return parts.Wait()
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
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it had begun
		return err
	}
	return nil
}
