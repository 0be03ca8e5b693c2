package forward

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener accepts the TCP connections of one virtual server.
type Listener struct {
	table    *Table
	file     *os.File
	addr     netip.AddrPort
	settings atomic.Pointer[Settings]

	draining atomic.Bool
	stop     chan struct{} // closed by Close
	once     sync.Once
	loop     sync.WaitGroup // the accept loop
	open     sync.WaitGroup // flows
}

// Listen binds an address, which may have port 0, and begins to accept. An IPv6 address accepts only IPv6. The error wraps the
// kernel's: unix.EADDRNOTAVAIL when the host does not have the address, unix.EADDRINUSE when it is taken.
func Listen(t *Table, addr netip.AddrPort, s Settings) (*Listener, error) {
	fd, err := listen(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l := &Listener{table: t, addr: localAddr(fd), stop: make(chan struct{})}
	l.settings.Store(s.withDefaults())
	l.file = os.NewFile(uintptr(fd), "listener")
	raw, err := l.file.SyscallConn()
	if err != nil {
		_ = l.file.Close()
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l.loop.Go(func() { l.acceptAll(raw) })
	return l, nil
}

// Addr returns the address that is bound.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Set replaces the settings. Connections that are open keep theirs until their next decision.
func (l *Listener) Set(s Settings) { l.settings.Store(s.withDefaults()) }

// Close stops accepting; open connections go on. It returns when no more connection can begin.
func (l *Listener) Close() {
	l.once.Do(func() {
		close(l.stop)
		_ = l.file.Close()
	})
	l.loop.Wait()
}

// Drain stops accepting and returns when no connection is open. HTTP connections end after the response in transit, or at once
// when they are idle; TCP connections end by themselves. What is open when ctx ends is reset.
func (l *Listener) Drain(ctx context.Context) {
	l.draining.Store(true)
	l.Close()
	l.all(func(f *flow) { f.wakeIdle() })
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
	l.all(func(f *flow) { f.killed.Store(true) })
	<-done // the sweep wakes them
}

// all calls fn for the open flows, which cannot end while it runs.
func (l *Listener) all(fn func(*flow)) {
	for i := range l.table.shards {
		l.table.each(i, func(f *flow) {
			if f.listener == l {
				fn(f)
			}
		})
	}
}

// Waits after a failed accept.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Second
)

// warnAgain is how long a failure of accept is not mentioned again.
const warnAgain = 10 * time.Second

// acceptAll accepts until the listener is closed. When descriptors or memory run out it pauses, longer each time, and sockets
// that are kept only to take the last bytes of clients give theirs up.
func (l *Listener) acceptAll(raw syscall.RawConn) {
	pause := time.Duration(0)
	var quiet instant // until when nothing is said
	var fd int
	var peer sockaddr
	var errno syscall.Errno
	try := func(lfd uintptr) bool {
		fd, peer, errno = accept(int(lfd))
		return errno != unix.EAGAIN
	}
	for raw.Read(try) == nil {
		switch errno {
		case 0:
			pause = 0
			l.serve(fd, peer.addrPort())
			continue
		case unix.EINTR, unix.ECONNABORTED:
			continue
		}
		l.table.dropLeaving()
		dropPipes()
		if now := l.table.clock.now(); now >= quiet {
			l.table.log.Warn("cannot accept connections", "address", l.addr, "error", errno)
			quiet = now + instant(warnAgain)
		}
		pause = min(max(2*pause, shortestPause), longestPause)
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
		}
	}
}

// serve begins a flow, unless the virtual server has as many as it may.
func (l *Listener) serve(fd int, peer netip.AddrPort) {
	settings := l.settings.Load()
	f := newFlow(l, settings, fd, peer)
	if !settings.Counters.Open(settings.Limit) {
		f.client.reset()
		f.client.close()
		return
	}
	settings.Counters.Opened()
	l.open.Add(1)
	l.table.add(f)
	go f.run()
}
