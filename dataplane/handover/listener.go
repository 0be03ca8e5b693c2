package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const socketName = "handover.sock"

// ErrNobody means that no process can be asked.
var ErrNobody = errors.New("no dataplane runs with the state directory")

// Listener waits for the process that takes this one's place.
type Listener struct{ listener *net.UnixListener }

// Listen opens the socket in a state directory that is locked by the caller. It takes the place of an older one in one step.
func Listen(dir string) (*Listener, error) {
	path := filepath.Join(dir, socketName)
	fresh := path + ".new"
	_ = os.Remove(fresh) // of a crash
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fresh, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(fresh, 0o600); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &Listener{l}, nil
}

// Accept waits for a process that is what it should be. Others are turned away: told is called with why. The error means that
// the listener is closed.
func (l *Listener) Accept(told func(error)) (*Conn, error) {
	for {
		conn, err := l.listener.AcceptUnix()
		if err != nil {
			return nil, err
		}
		c, err := newConn(conn)
		if err == nil {
			return c, nil
		}
		told(err)
	}
}

// Close ends the wait. The file stays: by then it may be that of the next process.
func (l *Listener) Close() { _ = l.listener.Close() }

// Dial asks the process that runs with a state directory. The error is ErrNobody if there is none.
func Dial(ctx context.Context, dir string) (*Conn, error) {
	conn, err := dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	c, err := newConn(conn)
	if err != nil {
		return nil, fmt.Errorf("hand-over: %w", err)
	}
	return c, nil
}

// Alive reports whether a process waits for others in a state directory, without a word to it.
func Alive(ctx context.Context, dir string) bool {
	conn, err := dial(ctx, dir)
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, ErrNobody)
}

func dial(ctx context.Context, dir string) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", filepath.Join(dir, socketName))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrNobody
	case err != nil:
		return nil, fmt.Errorf("hand-over: %w", err)
	}
	return conn.(*net.UnixConn), nil
}
