package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchSize is how many datagrams go in one system call.
const batchSize = 32

// message is the kernel's struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// batch receives and sends datagrams of MessageSize bytes, many in one system call. It must not be copied.
type batch struct {
	messages [batchSize]message
	vectors  [batchSize]unix.Iovec
	names    [batchSize]unix.RawSockaddrAny
	payloads [batchSize][MessageSize]byte
}

// newBatch returns a batch; with names it keeps who sent, and sends back to them.
func newBatch(names bool) *batch {
	b := &batch{}
	for i := range b.messages {
		b.vectors[i].Base = &b.payloads[i][0]
		b.messages[i].header.Iov = &b.vectors[i]
		b.messages[i].header.SetIovlen(1)
		if names {
			b.messages[i].header.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		}
	}
	return b
}

// receive returns how many datagrams were there, up to batchSize; EAGAIN if none.
func (b *batch) receive(fd int) (int, error) {
	for i := range b.messages {
		b.vectors[i].SetLen(MessageSize)
		if b.messages[i].header.Name != nil {
			b.messages[i].header.Namelen = unix.SizeofSockaddrAny
		}
	}
	return b.call(unix.SYS_RECVMMSG, fd, batchSize)
}

// send sends the first n datagrams with the lengths that they were received with, or were given, and returns how many went.
func (b *batch) send(fd, n int) (int, error) {
	for i := range n {
		b.vectors[i].SetLen(int(b.messages[i].length))
	}
	return b.call(unix.SYS_SENDMMSG, fd, n)
}

func (b *batch) call(number uintptr, fd, n int) (int, error) {
	done, _, errno := unix.Syscall6(number, uintptr(fd), uintptr(unsafe.Pointer(&b.messages[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(done), nil
}

// echo sends back what a socket has received, until nothing is left. What does not fit into the way back is lost, as
// datagrams are.
func (b *batch) echo(fd int) {
	for {
		n, err := b.receive(fd)
		if err != nil || n == 0 {
			return
		}
		for i := range n {
			b.messages[i].length = min(b.messages[i].length, MessageSize)
		}
		_, _ = b.send(fd, n)
		if n < batchSize {
			return
		}
	}
}

// stamp writes into payload number i when it was sent, in nanoseconds of the load's own clock, and its generation.
func (b *batch) stamp(i int, sent int64, generation uint32) {
	binary.LittleEndian.PutUint64(b.payloads[i][:], uint64(sent))
	binary.LittleEndian.PutUint32(b.payloads[i][8:], generation)
	b.messages[i].length = MessageSize
}

// stamped reads what stamp has written; false if the datagram has another length.
func (b *batch) stamped(i int) (sent int64, generation uint32, ok bool) {
	p := b.payloads[i][:]
	return int64(binary.LittleEndian.Uint64(p)), binary.LittleEndian.Uint32(p[8:]), b.messages[i].length == MessageSize
}

// datagramBuffer is the size of sockets' buffers, in bytes, as far as the system allows.
const datagramBuffer = 4 << 20

// datagramSocket opens a non-blocking socket for datagrams that is bound to local and, where remote is valid, connected.
func datagramSocket(local, remote netip.AddrPort) (int, error) {
	address := local
	if !address.IsValid() {
		address = remote
	}
	_, family := sockaddr(address)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, datagramBuffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, datagramBuffer),
	)
	if err == nil && local.Port() != 0 { // else the system might choose one port twice
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err == nil && local.IsValid() {
		sa, _ := sockaddr(local)
		err = unix.Bind(fd, sa)
	}
	if err == nil && remote.IsValid() {
		sa, _ := sockaddr(remote)
		err = unix.Connect(fd, sa)
	}
	if err != nil {
		closeFD(fd)
		return -1, fmt.Errorf("datagrams from %v to %v: %w", local, remote, err)
	}
	return fd, nil
}
