package monitor

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// connects carries out plain TCP checks: one goroutine for all that are in progress.
type connects struct {
	epoll, waker int // descriptors

	mu      sync.Mutex
	open    map[int]*attempt // by descriptor
	over    bool
	stopped sync.WaitGroup
}

// attempt is a connect in progress.
type attempt struct {
	deadline time.Time
	done     func(error)
}

// sweepEvery is how often connects in progress are looked at for their deadlines.
const sweepEvery = 100 * time.Millisecond

func newConnects() (*connects, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	waker, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	c := &connects{epoll: epoll, waker: waker, open: map[int]*attempt{}}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, waker, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(waker)}); err != nil {
		_, _ = unix.Close(epoll), unix.Close(waker)
		return nil, err
	}
	c.stopped.Go(c.run)
	return c, nil
}

// connectProbe is a check that only connects.
type connectProbe struct {
	connects *connects
	to       netip.AddrPort
}

// Start implements Probe.
func (p *connectProbe) Start(deadline time.Time, done func(error)) {
	p.connects.start(p.to, deadline, done)
}

func (c *connects) start(to netip.AddrPort, deadline time.Time, done func(error)) {
	fd, err := unix.Socket(familyOf(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		done(plain(err))
		return
	}
	// Neither is the handshake acknowledged nor the connection ended in order: that the peer answered is all there is to know, its
	// program need not be woken for that.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
	address := sockaddr(to)
	err = unix.Connect(fd, address)
	if errors.Is(err, unix.EINPROGRESS) { // on this machine it is made already
		err = unix.Connect(fd, address)
	}
	if errors.Is(err, unix.EISCONN) {
		err = nil
	}
	if err == nil || !errors.Is(err, unix.EALREADY) && !errors.Is(err, unix.EINPROGRESS) {
		abort(fd)
		done(plain(err))
		return
	}
	if err := c.add(fd, &attempt{deadline, done}); err != nil {
		abort(fd)
		done(plain(err))
	}
}

var errClosed = errors.New("closed")

func (c *connects) add(fd int, a *attempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errClosed
	}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLOUT, Fd: int32(fd)}); err != nil {
		return err
	}
	c.open[fd] = a
	if len(c.open) == 1 {
		c.wake() // it sleeps without an end
	}
	return nil
}

func (c *connects) wake() { _, _ = unix.Write(c.waker, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// run waits for connects until close.
func (c *connects) run() {
	events := make([]unix.EpollEvent, 256)
	for {
		c.mu.Lock()
		pause := -1
		if len(c.open) > 0 {
			pause = int(sweepEvery / time.Millisecond)
		}
		over := c.over
		c.mu.Unlock()
		if over {
			return
		}
		n, err := unix.EpollWait(c.epoll, events, pause)
		if err != nil {
			n = 0 // interrupted
		}
		for _, e := range events[:n] {
			if int(e.Fd) == c.waker {
				var b [8]byte
				_, _ = unix.Read(c.waker, b[:])
				continue
			}
			c.finish(int(e.Fd), nil)
		}
		c.sweep(time.Now())
	}
}

// sweep ends those beyond their deadlines.
func (c *connects) sweep(now time.Time) {
	var late []int
	c.mu.Lock()
	for fd, a := range c.open {
		if a.deadline.Before(now) {
			late = append(late, fd)
		}
	}
	c.mu.Unlock()
	for _, fd := range late {
		c.finish(fd, errLate)
	}
}

// finish ends an attempt: with err, or with what the socket says.
func (c *connects) finish(fd int, err error) {
	c.mu.Lock()
	a := c.open[fd]
	delete(c.open, fd)
	c.mu.Unlock()
	if a == nil {
		return
	}
	if err == nil {
		number, failed := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case failed != nil:
			err = failed
		case number != 0:
			err = unix.Errno(number)
		}
	}
	abort(fd)
	a.done(plain(err))
}

// close ends all attempts and waits.
func (c *connects) close() {
	c.mu.Lock()
	c.over = true
	c.wake()
	c.mu.Unlock()
	c.stopped.Wait()
	c.mu.Lock()
	var all []int
	for fd := range c.open {
		all = append(all, fd)
	}
	c.mu.Unlock()
	for _, fd := range all {
		c.finish(fd, errClosed)
	}
	_, _ = unix.Close(c.epoll), unix.Close(c.waker)
}

// abort closes a socket without a trace: no port waits for what might still arrive.
func abort(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	_ = unix.Close(fd)
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone(a.Addr())}
}
