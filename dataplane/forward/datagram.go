package forward

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of what is moved with one system call.
const (
	batchSize = 64
	// largestDatagram is more than UDP carries: 65,507 bytes over IPv4, 65,527 over IPv6.
	largestDatagram = 64 << 10
	// datagramStride keeps the beginnings of buffers out of the same cache set.
	datagramStride = largestDatagram + 320
	// controlSize holds one packet information message of either family.
	controlSize = 64
)

// message is the kernel's struct mmsghdr.
type message struct {
	unix.Msghdr
	size uint32 // bytes that were received or sent
}

// batch is what recvmmsg and sendmmsg work on. Its memory is touched by the kernel only as far as datagrams are long.
type batch struct {
	messages [batchSize]message
	parts    [batchSize]unix.Iovec
	peers    [batchSize]sockaddr
	control  [batchSize][controlSize]byte
	data     []byte
}

func newBatch() *batch {
	b := &batch{data: make([]byte, batchSize*datagramStride)}
	for i := range b.messages {
		b.parts[i].Base = &b.data[i*datagramStride]
		b.messages[i].Iov = &b.parts[i]
		b.messages[i].SetIovlen(1)
	}
	return b
}

// expect prepares the messages from first up to end for receiving: with the sender's address, and with the address that it
// sent to.
func (b *batch) expect(first, end int, from, to bool) {
	for i := first; i < end; i++ {
		m := &b.messages[i]
		m.Name, m.Namelen, m.Control, m.Controllen = nil, 0, nil, 0
		b.parts[i].SetLen(largestDatagram)
		if from {
			m.Name, m.Namelen = &b.peers[i].bytes[0], uint32(len(b.peers[i].bytes))
		}
		if to {
			m.Control = &b.control[i][0]
			m.SetControllen(controlSize)
		}
	}
}

// receive takes datagrams that have arrived.
func (b *batch) receive(fd, first, end int) (n int, errno syscall.Errno) {
	for {
		r, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.messages[first])),
			uintptr(end-first), unix.MSG_DONTWAIT, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		for i := first; i < first+int(r); i++ {
			b.parts[i].SetLen(int(b.messages[i].size))
		}
		return int(r), 0
	}
}

// bytes returns a datagram that was received. Its memory is the next one's.
func (b *batch) bytes(i int) []byte { return unsafe.Slice(b.parts[i].Base, b.parts[i].Len) }

// toPeer prepares the messages from first up to end for the other side of a connected socket.
func (b *batch) toPeer(first, end int) {
	for i := first; i < end; i++ {
		m := &b.messages[i]
		m.Name, m.Namelen, m.Control, m.Controllen, m.Flags = nil, 0, nil, 0, 0
	}
}

// send sends what was received into, or prepared in, the messages from first up to end. When n is not 0 the rest, if any, was
// not tried.
func (b *batch) send(fd, first, end int) (n int, errno syscall.Errno) {
	for {
		var r uintptr
		if m := &b.messages[first]; end-first == 1 && m.Control == nil {
			_, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(b.parts[first].Base)),
				uintptr(b.parts[first].Len), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(m.Name)), uintptr(m.Namelen))
			r = 1
		} else {
			r, _, errno = syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(m)),
				uintptr(end-first), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		}
		switch errno {
		case 0:
			return int(r), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// contact returns the address that a received datagram was sent to, of this host or, with the port, of another's; the zero value if
// the kernel did not say.
func (b *batch) contact(i int) (addr [16]byte, port uint16) {
	m := &b.messages[i]
	c := b.control[i][:min(int(m.Controllen), controlSize)]
	if len(c) < unix.SizeofCmsghdr {
		return addr, 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[0]))
	data := c[unix.CmsgLen(0):]
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		// The second field is an address of this host even where the datagram was sent to many.
		return netip.AddrFrom4([4]byte(data[4:8])).As16(), 0
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		return [16]byte(data), 0
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_ORIGDSTADDR && len(data) >= unix.SizeofSockaddrInet4:
		return netip.AddrFrom4([4]byte(data[4:8])).As16(), binary.BigEndian.Uint16(data[2:])
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_ORIGDSTADDR && len(data) >= unix.SizeofSockaddrInet6:
		return [16]byte(data[8:]), binary.BigEndian.Uint16(data[2:])
	}
	return addr, 0
}

// sourceControl is the control message that makes a datagram leave from an address of this host. The interface matters only to
// link-local addresses.
func sourceControl(from [16]byte, zone uint32) []byte {
	addr := netip.AddrFrom16(from)
	if addr.Is4In6() {
		c := make([]byte, unix.CmsgSpace(unix.SizeofInet4Pktinfo))
		putControlHeader(c, unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
		copy(c[unix.CmsgLen(0)+4:], from[12:])
		return c
	}
	c := make([]byte, unix.CmsgSpace(unix.SizeofInet6Pktinfo))
	putControlHeader(c, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
	copy(c[unix.CmsgLen(0):], from[:])
	if addr.IsLinkLocalUnicast() {
		binary.NativeEndian.PutUint32(c[unix.CmsgLen(16):], zone)
	}
	return c
}

func putControlHeader(c []byte, level, kind int32, size int) {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(size))
}

// Sizes that are asked for of the kernel for the sockets of virtual servers, which all their clients share.
const sharedSocketBuffer = 4 << 20

// listenUDP opens a bound socket that does not block. Where it has all addresses of the host, or intercepts, it tells which one a
// datagram was sent to.
func listenUDP(addr netip.AddrPort, intercepts bool) (fd int, err error) {
	fam := family(addr.Addr())
	if fd, err = listenSocket(fam, unix.SOCK_DGRAM); err != nil {
		return -1, err
	}
	if err := prepareUDP(fd, fam, addr, intercepts); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func prepareUDP(fd, fam int, addr netip.AddrPort, intercepts bool) error {
	type option struct{ level, name int }
	var options []option
	if fam == unix.AF_INET6 {
		options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY})
	}
	switch {
	case intercepts && fam == unix.AF_INET6:
		options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT}, option{unix.IPPROTO_IPV6, unix.IPV6_RECVORIGDSTADDR})
	case intercepts:
		options = append(options, option{unix.IPPROTO_IP, unix.IP_TRANSPARENT}, option{unix.IPPROTO_IP, unix.IP_RECVORIGDSTADDR})
	case addr.Addr().IsUnspecified():
		if fam == unix.AF_INET6 {
			options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO})
		} else {
			options = append(options, option{unix.IPPROTO_IP, unix.IP_PKTINFO})
		}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// Only privileged processes get more than the system's limit.
	for _, o := range [...]struct{ force, ask int }{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.force, sharedSocketBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.ask, sharedSocketBuffer)
		}
	}
	sa := newSockaddr(addr)
	if errno := bind(fd, &sa); errno != 0 {
		return os.NewSyscallError("bind", errno)
	}
	return nil
}

// speakFor opens a socket that datagrams leave from with the address of another; -1 on an error.
func speakFor(addr netip.AddrPort) (fd int, err error) {
	fam, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TRANSPARENT
	if addr.Addr().Is6() {
		fam, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
	}
	fd, err = unix.Socket(fam, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptInt(fd, level, option, 1)
	if err == nil { // many clients may send to one address
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		sa := newSockaddr(addr)
		if errno := bind(fd, &sa); errno != 0 {
			err = errno
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// adoptUDP checks that a socket is one that listenUDP has opened, in another process.
func adoptUDP(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if kind != unix.SOCK_DGRAM || localAddr(fd).Port() == 0 {
		return errors.New("it is not a bound datagram socket")
	}
	return nil
}
