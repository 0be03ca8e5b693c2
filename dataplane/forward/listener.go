package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Listener accepts the TCP connections of one virtual server. Pause, Resume, Retire, Drain and Close belong to its owner, who does
// not call two of Pause, Resume and Close at once.
type Listener struct {
	table    *Table
	fd       int // -1: closed
	addr     netip.AddrPort
	settings atomic.Pointer[Settings]

	sources  sources    // open connections of each client, where they are limited
	spares   spareOwner // those that only this listener uses
	draining atomic.Bool
	idleEnd  atomic.Int64 // instant from which idle HTTP connections are ended; 0: they are not
	killing  atomic.Bool  // what is open is reset
	speakers speakers
	open     sync.WaitGroup // flows

	accepting sync.Mutex    // held while connections are accepted
	resumed   bool          // it accepts; this and the rest is guarded by accepting
	pause     time.Duration // after the last failure to accept; 0: none since a success
	rest      *time.Timer   // ends the pause
	quiet     instant       // until when no failure is mentioned
}

// Listen binds an address, which may have port 0, and begins to accept. An IPv6 address accepts only IPv6. The error wraps the
// kernel's: unix.EADDRNOTAVAIL when the host does not have the address, unix.EADDRINUSE when it is taken.
func Listen(t *Table, addr netip.AddrPort, s Settings) (*Listener, error) {
	fd, err := listen(addr, s.Intercepts)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l, err := newListener(t, fd, s)
	if err != nil {
		return nil, err
	}
	l.Resume()
	return l, nil
}

// ListenOn makes a listener of a socket that listens already: another process or the service manager has opened it. It begins
// to accept with Resume; until then connections wait in the socket's queue. The file stays the caller's.
func ListenOn(t *Table, file *os.File, s Settings) (*Listener, error) {
	fd, err := copyDescriptor(file)
	if err == nil {
		if err = adoptSocket(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on a socket that is there: %w", err)
	}
	return newListener(t, fd, s)
}

// newListener takes a socket over that does not block.
func newListener(t *Table, fd int, s Settings) (*Listener, error) {
	l := &Listener{table: t, fd: fd, addr: localAddr(fd)}
	l.settings.Store(s.withDefaults())
	if err := errors.Join(t.polls.start(), t.doors.start(&l.table.polls)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// Addr returns the address that is bound.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Set replaces the settings. Connections that are open keep theirs until their next decision.
func (l *Listener) Set(s Settings) { l.settings.Store(s.withDefaults()) }

// File returns a copy of the socket, which goes on listening while any copy is open. The caller closes it.
func (l *Listener) File() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy the socket of %s: %w", l.addr, err)
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// Pause stops accepting until Resume; connections wait in the socket's queue. It returns when no more connection can begin.
func (l *Listener) Pause() {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	if !l.resumed {
		return
	}
	l.resumed = false
	l.table.doors.of(l.fd).ignore(l)
	if l.rest != nil {
		l.rest.Stop()
		l.rest = nil
	}
}

// Resume begins to accept.
func (l *Listener) Resume() {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	if l.resumed {
		return
	}
	l.resumed = true
	l.watchLocked()
}

// Close stops accepting for good; open connections go on. It returns when no more connection can begin. Closing twice does
// nothing.
func (l *Listener) Close() {
	l.Pause()
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

// Retire stops accepting for good, and ends HTTP connections: the next response tells the client so, and what is idle, and
// still is after grace, is closed. A client whose request is on its way meanwhile is answered. TCP connections go on. Another
// call can only shorten the grace.
func (l *Listener) Retire(grace time.Duration) {
	at := int64(l.table.clock.after(grace))
	for old := l.idleEnd.Load(); (old == 0 || at < old) && !l.idleEnd.CompareAndSwap(old, at); old = l.idleEnd.Load() {
	}
	if !l.draining.Swap(true) {
		l.Close()
		l.table.spares.drop(l)
	}
}

// idleOver reports whether idle connections are ended.
func (l *Listener) idleOver(now instant) bool {
	at := l.idleEnd.Load()
	return at != 0 && int64(now) >= at
}

// Drain returns when no connection is open. Without Retire before, that is done first and without grace. What is open when
// ctx ends is reset.
func (l *Listener) Drain(ctx context.Context) {
	if !l.draining.Load() {
		l.Retire(0)
	}
	done := make(chan struct{})
	go func() {
		l.open.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	l.killing.Store(true)
	<-done // the sweep wakes them
}

// serve begins a flow, unless the virtual server or the client has as many as it may.
func (l *Listener) serve(fd int, peer netip.AddrPort) {
	settings := l.settings.Load()
	f := newFlow(l, settings, fd, peer)
	if !f.admit() {
		f.client.reset()
		f.client.close()
		return
	}
	settings.Counters.Opened()
	l.open.Add(1)
	l.table.add(f)
	f.begin()
}
