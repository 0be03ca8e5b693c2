package traffic

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// pollWait bounds a wait for events, in milliseconds: how late a loop notices that it shall end.
const pollWait = 50

func sockaddr(a netip.AddrPort) (unix.Sockaddr, int) {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, unix.AF_INET
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, unix.AF_INET6
}

// listen opens a non-blocking listener that shares its address with those of the other threads. Port 0 lets the system choose.
func listen(a netip.AddrPort) (int, error) {
	sa, family := sockaddr(a)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
	)
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err == nil {
		err = unix.Listen(fd, 4096)
	}
	if err != nil {
		closeFD(fd)
		return -1, fmt.Errorf("listen on %v: %w", a, err)
	}
	return fd, nil
}

// connect starts a non-blocking connection from source (any port of it) to target.
func connect(target netip.AddrPort, source netip.Addr) (int, error) {
	sa, family := sockaddr(target)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if source.IsValid() {
		from, _ := sockaddr(netip.AddrPortFrom(source, 0))
		// The port is chosen at connect, where it only has to be unique for this target.
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err == nil {
			err = unix.Bind(fd, from)
		}
	}
	if err == nil {
		err = unix.Connect(fd, sa)
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		closeFD(fd)
		return -1, fmt.Errorf("connect from %v to %v: %w", source, target, err)
	}
	return fd, nil
}

// poller is one thread's set of watched descriptors.
type poller struct {
	fd     int
	events []unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd, events: make([]unix.EpollEvent, 256)}, nil
}

func (p *poller) close() { closeFD(p.fd) }

func (p *poller) add(fd int, events uint32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *poller) change(fd int, events uint32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// wait returns what happened within pollWait, perhaps nothing. The slice is valid until the next call.
func (p *poller) wait() ([]unix.EpollEvent, error) {
	n, err := unix.EpollWait(p.fd, p.events, pollWait)
	if errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("epoll wait: %w", err)
	}
	return p.events[:n], nil
}

// again says that a call would have had to wait.
func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// closeFD closes a descriptor that is not needed any more; Linux frees it whatever close returns.
func closeFD(fd int) { _ = unix.Close(fd) }
