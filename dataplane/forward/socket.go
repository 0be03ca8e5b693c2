package forward

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sockaddr is a socket address as the kernel takes it.
type sockaddr struct {
	bytes [unix.SizeofSockaddrInet6]byte
	size  uint32
}

// newSockaddr encodes an address.
func newSockaddr(a netip.AddrPort) (s sockaddr) {
	addr := a.Addr().Unmap()
	binary.BigEndian.PutUint16(s.bytes[2:], a.Port())
	if addr.Is4() {
		binary.NativeEndian.PutUint16(s.bytes[:], unix.AF_INET)
		four := addr.As4()
		copy(s.bytes[4:], four[:])
		s.size = unix.SizeofSockaddrInet4
		return s
	}
	binary.NativeEndian.PutUint16(s.bytes[:], unix.AF_INET6)
	sixteen := addr.As16()
	copy(s.bytes[8:], sixteen[:])
	binary.NativeEndian.PutUint32(s.bytes[24:], zoneIndex(addr.Zone()))
	s.size = unix.SizeofSockaddrInet6
	return s
}

// zoneIndex returns the index of an interface that an address names; 0 for none.
func zoneIndex(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// addrPort decodes the address; the zero value for another family.
func (s *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(s.bytes[2:])
	switch binary.NativeEndian.Uint16(s.bytes[:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s.bytes[4:8])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(s.bytes[8:24])).Unmap(), port)
	}
	return netip.AddrPort{}
}

func family(a netip.Addr) int {
	if a.Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// The calls below never block, so the scheduler need not know of them.

// recv reads into b; n is 0 at the end of the stream.
func recv(fd int, b []byte, flags int) (n int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	return int(r), errno
}

// nowhere is where bytes go that are not wanted. Nothing is ever written to it.
var nowhere [64 << 10]byte

// discard takes up to len(nowhere) bytes that have arrived and forgets them; n is 0 at the end of the stream.
func discard(fd int) (n int, errno syscall.Errno) { return recv(fd, nowhere[:], unix.MSG_TRUNC) }

// shutdownWrite says that nothing more will be sent.
func shutdownWrite(fd int) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
	return errno
}

// setOption sets an option of a socket to a number. It cannot fail on a socket that is a TCP connection.
func setOption(fd, level, name int, value int32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
}

// resetOnClose makes the close of a socket a reset.
func resetOnClose(fd int) {
	linger := unix.Linger{Onoff: 1}
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&linger)), unsafe.Sizeof(linger), 0)
}

// closeSocket closes a socket. It takes some ten microseconds, after which the runtime would give the processor of a call that
// it knows of to another thread and this goroutine would have to wait for it.
func closeSocket(fd int) { _, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// unacknowledged returns how many bytes were sent that the peer has not acknowledged.
func unacknowledged(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// send writes some of b.
func send(fd int, b []byte) (n int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(r), errno
}

// sendTwo writes some of a and then of b.
func sendTwo(fd int, a, b []byte) (n int, errno syscall.Errno) {
	vec := [2]unix.Iovec{{Base: unsafe.SliceData(a)}, {Base: unsafe.SliceData(b)}}
	vec[0].SetLen(len(a))
	vec[1].SetLen(len(b))
	msg := unix.Msghdr{Iov: &vec[0]}
	msg.SetIovlen(2)
	r, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return int(r), errno
}

// accept takes a connection that waits. The new socket does not block.
func accept(fd int) (nfd int, peer sockaddr, errno syscall.Errno) {
	peer.size = uint32(len(peer.bytes))
	r, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&peer.bytes)),
		uintptr(unsafe.Pointer(&peer.size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(r), peer, errno
}

// connect begins to connect, or asks again how far it is.
func connect(fd int, to *sockaddr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.bytes)), uintptr(to.size))
	return errno
}

// bind gives a socket its local address.
func bind(fd int, to *sockaddr) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to.bytes)), uintptr(to.size))
	return errno
}

// listenReserve is how many descriptors listeners leave at least, where the process may have that many eight times over, else an eighth
// of them: to connections, and to who would mend a configuration that asks for too many listeners.
const listenReserve = 256

var errFewDescriptors = errors.New("too few descriptors are left for connections: raise the limit of open files")

// listenSocket opens a socket to listen on, of a type. Its number tells how many descriptors are in use: it is the lowest that is
// free.
func listenSocket(family, kind int) (fd int, err error) {
	if fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil && uint64(fd) >= r.Cur-min(r.Cur/8, listenReserve) {
		_ = unix.Close(fd)
		return -1, errFewDescriptors
	}
	return fd, nil
}

// listen opens a listening socket that does not block. What its connections inherit is set here: no delay of small segments.
func listen(addr netip.AddrPort, intercepts bool) (fd int, err error) {
	fam := family(addr.Addr())
	if fd, err = listenSocket(fam, unix.SOCK_STREAM); err != nil {
		return -1, err
	}
	options := []struct{ level, name int }{
		{unix.SOL_SOCKET, unix.SO_REUSEADDR}, {unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	}
	transparent := struct{ level, name int }{unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT}
	if fam == unix.AF_INET {
		options = options[:2]
		transparent.level, transparent.name = unix.IPPROTO_IP, unix.IP_TRANSPARENT
	}
	if intercepts {
		options = append(options, transparent)
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
			_ = unix.Close(fd)
			return -1, os.NewSyscallError("setsockopt", err)
		}
	}
	sa := newSockaddr(addr)
	if errno := bind(fd, &sa); errno != 0 {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("bind", errno)
	}
	// The kernel lowers the length of the queue to its own limit.
	if err := unix.Listen(fd, 1<<16-1); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("listen", err)
	}
	return fd, nil
}

// localAddr returns the address that a socket is bound to.
func localAddr(fd int) netip.AddrPort {
	s := sockaddr{size: unix.SizeofSockaddrInet6}
	_, _, _ = syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&s.bytes)), uintptr(unsafe.Pointer(&s.size)))
	return s.addrPort()
}

// adoptSocket makes a listening socket that came from elsewhere one as listen opens it.
func adoptSocket(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if kind != unix.SOCK_STREAM || listening == 0 {
		return errors.New("it is not a listening stream socket")
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// copyDescriptor returns another descriptor of what is open.
func copyDescriptor(file *os.File) (fd int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	fault := raw.Control(func(from uintptr) { fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(fault, err)
}
