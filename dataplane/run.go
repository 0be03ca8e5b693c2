package dataplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pb "bigpipe/proto/bigpipe/v1"
)

const (
	// maxMessage is the largest message that is accepted, in bytes. Updates come in pieces far smaller.
	maxMessage = 64 << 20
	// DefaultDrainTimeout is how long open connections may go on when the dataplane ends.
	DefaultDrainTimeout = 5 * time.Second
	// lastWords is how long calls of the service may go on then.
	lastWords = time.Second
)

// Options are what Run is told.
type Options struct {
	EngineOptions
	// Listen is where the service listens: "unix:///path" or "host:port". A socket gets mode 0660.
	Listen string
	// Listener is used instead of Listen if it is not nil; Run closes it.
	Listener net.Listener
	// TLS is for a TCP address, which is refused without it.
	TLS *tls.Config
	// DrainTimeout is how long open connections may go on at the end. Zero: DefaultDrainTimeout.
	DrainTimeout time.Duration
	// Ready is called once the service listens; nil is allowed. The engine is good until Run returns.
	Ready func(*Engine)
}

// Run is a whole dataplane: an engine and its service. It returns when ctx is done and everything has ended; the error
// says why it could not begin or go on.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	l := o.Listener
	if l == nil {
		var err error
		if l, err = Listen(ctx, o.Listen, o.TLS != nil); err != nil {
			return err
		}
	}
	defer func() { _ = l.Close() }() // the server has closed it, if there was one
	e, err := NewEngine(o.EngineOptions)
	if err != nil {
		return err
	}
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
		stopServer(server)
		err = <-served
	}
	timeout := o.DrainTimeout
	if timeout == 0 {
		timeout = DefaultDrainTimeout
	}
	drain, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	e.Close(drain)
	return err
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
