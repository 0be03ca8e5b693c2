package dataplane

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"bigpipe/dataplane/handover"
	pb "bigpipe/proto/bigpipe/v1"
)

const (
	// maxMessage is the largest message that is accepted, in bytes. Updates come in pieces far smaller.
	maxMessage = 64 << 20
	// DefaultDrainTimeout is how long open connections may go on when the dataplane ends.
	DefaultDrainTimeout = 5 * time.Second
	// DefaultHandOverTimeout is how long they may go on when another process has taken over.
	DefaultHandOverTimeout = time.Hour
	// lastWords is how long calls of the service may go on then.
	lastWords = time.Second
)

// Options are what Run is told.
type Options struct {
	EngineOptions
	// Listen is where the service listens: "unix:///path" or "host:port". A socket gets mode 0660.
	Listen string
	// Listener is used instead of Listen if it is not nil; Run closes it, and hands over to nobody.
	Listener net.Listener
	// TLS is for a TCP address, which is refused without it.
	TLS *tls.Config
	// DrainTimeout is how long open connections may go on at the end. Zero: DefaultDrainTimeout.
	DrainTimeout time.Duration
	// HandOverTimeout is how long they may go on when another process has taken over. Zero: DefaultHandOverTimeout.
	HandOverTimeout time.Duration
	// Ready is called once the service listens; nil is allowed. The engine is good until Run returns.
	Ready func(*Engine)
	// Also are sockets that are handed over with those of the dataplane.
	Also []handover.Socket
	// HandedOver is called when another process has taken over, before open connections drain; nil is allowed.
	HandedOver func()
}

// Run is a whole dataplane: an engine and its service. It returns when ctx is done, or another process has taken over, and
// everything has ended; the error says why it could not begin or go on.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.HandOverTimeout = cmp.Or(o.HandOverTimeout, DefaultHandOverTimeout)
	e, l, err := o.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the server has closed it, if there was one
	g, giving := o.give(e, l)
	transport := insecure.NewCredentials()
	if o.TLS != nil && l.Addr().Network() == "tcp" {
		transport = credentials.NewTLS(o.TLS)
	}
	server := grpc.NewServer(grpc.Creds(transport), grpc.MaxRecvMsgSize(maxMessage))
	pb.RegisterDataplaneServer(server, NewService(e))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	o.Log.Info("dataplane serves", "address", l.Addr().String())
	if o.Ready != nil {
		o.Ready(e)
	}
	select {
	case err = <-served:
	case <-ctx.Done():
	case <-g.done:
	}
	g.stop()
	giving.Wait()
	if g.successor != nil {
		keepPath(l)
		o.withdraw(ctx, server, g)
		return nil
	}
	if err == nil {
		stopServer(server)
		if err = <-served; errors.Is(err, grpc.ErrServerStopped) { // before it had begun
			err = nil
		}
	}
	drain, cancel := context.WithTimeout(context.Background(), o.DrainTimeout)
	defer cancel()
	e.Close(drain)
	return err
}

// begin starts the engine and listens for the service.
func (o *Options) begin(ctx context.Context) (*Engine, net.Listener, error) {
	l, err := o.listenFirst(ctx)
	if err != nil {
		o.Taken.Close()
		return nil, nil, err
	}
	e, err := NewEngine(o.EngineOptions)
	if err != nil {
		if l != nil {
			keepPath(l) // it may be that of the one that goes on
			_ = l.Close()
		}
		return nil, nil, err
	}
	if l == nil {
		if l, err = Listen(ctx, o.Listen, o.TLS != nil); err != nil {
			now, cancel := context.WithCancel(ctx)
			cancel()
			e.Close(now)
			return nil, nil, err
		}
	}
	return e, l, nil
}

// listenFirst returns the listener of the service where that is there already, or another dataplane gives up for this one, which must
// not happen in vain. Else it is nil: the service listens when the virtual servers do, so that who reaches it finds the dataplane
// ready. What would keep it from listening then is an error at once, as far as that can be seen.
func (o *Options) listenFirst(ctx context.Context) (net.Listener, error) {
	if l, err := o.inherited(); l != nil || err != nil {
		return l, err
	}
	l, err := Listen(ctx, o.Listen, o.TLS != nil)
	if err != nil || o.Taken != nil {
		return l, err
	}
	return nil, l.Close()
}

// inherited is the listener of a socket that is there already; nil: there is none.
func (o *Options) inherited() (net.Listener, error) {
	if o.Listener != nil {
		return o.Listener, nil
	}
	managed := "tcp " + o.Listen
	if path, unix := strings.CutPrefix(o.Listen, "unix://"); unix {
		managed = "unix " + path
	}
	if file := o.Sockets.Take(serviceName(o.Listen)); file != nil {
		defer func() { _ = file.Close() }() // the listener has a copy
		l, err := net.FileListener(file)
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(true)
		}
		return l, err
	}
	return o.Sockets.Listener(managed)
}

func serviceName(address string) string { return "service " + address }

// keepPath keeps the path of a unix socket when its listener closes: it is another's.
func keepPath(l net.Listener) {
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
}

// give waits for a process that takes over, where that is possible. The group is done when it does not any more.
func (o *Options) give(e *Engine, service net.Listener) (*giver, *sync.WaitGroup) {
	g, giving := &giver{engine: e, also: o.Also, done: make(chan struct{})}, &sync.WaitGroup{}
	if o.Listener != nil || o.StateDir == "" {
		return g, giving
	}
	file, err := service.(interface{ File() (*os.File, error) }).File()
	if err == nil {
		g.also = append(g.also, handover.Socket{Name: serviceName(o.Listen), File: file})
		g.listener, err = handover.Listen(o.StateDir)
	}
	if err != nil {
		o.Log.Warn("no other process can take over", "error", err)
		return g, giving
	}
	giving.Go(g.run)
	return g, giving
}

// withdraw ends this process's part when another one has taken over: connections go on for a while, a short one when ctx ends.
func (o *Options) withdraw(ctx context.Context, server *grpc.Server, g *giver) {
	if o.HandedOver != nil {
		o.HandedOver()
	}
	stopServer(server)
	drain, cancel := context.WithTimeout(context.Background(), o.HandOverTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		g.engine.drains.hasten()
		timer := time.AfterFunc(o.DrainTimeout, cancel)
		<-drain.Done()
		timer.Stop()
	})
	defer stop()
	var reporting sync.WaitGroup
	drained := make(chan struct{})
	reporting.Go(func() { g.report(drained) })
	g.engine.Close(drain)
	close(drained)
	reporting.Wait()
}

// stopServer lets calls that are under way end for a moment.
func stopServer(s *grpc.Server) {
	timer := time.AfterFunc(lastWords, s.Stop)
	defer timer.Stop()
	s.GracefulStop()
}

// Listen opens the service's address. A socket that nobody serves any more is replaced; its directory is created.
func Listen(ctx context.Context, address string, withTLS bool) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix://")
	if !unix {
		if !withTLS {
			return nil, fmt.Errorf("listen on %s: a TCP address needs a certificate, a key and the clients' CA", address)
		}
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// removeStale removes a socket that nobody answers on.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("there is a file that is not a socket")
	}
	var d net.Dialer
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = c.Close()
		return errors.New("another process serves it")
	}
	return os.Remove(path)
}
