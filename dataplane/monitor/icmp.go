package monitor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Types of ICMP messages.
const (
	echoReply4   = 0
	echoRequest4 = 8
	echoRequest6 = 128
	echoReply6   = 129
)

// pingHead is the length of an echo message before its data.
const pingHead = 8

// pinger is a socket that sends echo requests.
type pinger struct {
	fd  int
	raw bool // it sees replies to others too, and for IPv4 the header of the packet
}

// openPinger opens one: the kind that anybody may have, or else a raw one.
func openPinger(six bool) (p pinger, err error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if six {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	flags := unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	if p.fd, err = unix.Socket(family, unix.SOCK_DGRAM|flags, protocol); err == nil {
		return p, nil
	}
	p.raw = true
	p.fd, err = unix.Socket(family, unix.SOCK_RAW|flags, protocol)
	return p, err
}

// pings returns why nothing can be pinged from here; nil: it can.
func pings() error {
	p, err := openPinger(false)
	if err == nil {
		_ = unix.Close(p.fd)
	}
	return err
}

var pingNumber atomic.Uint32

// ping sends an echo request and waits for the reply; a request is sent again each second.
func (a *active) ping(ctx context.Context) error {
	six := a.spec.Dial.Addr().Is6()
	p, err := openPinger(six)
	if err != nil {
		return err
	}
	to := sockaddr(netip.AddrPortFrom(a.spec.Dial.Addr(), 0))
	if err := unix.Connect(p.fd, to); err != nil {
		_ = unix.Close(p.fd)
		return err
	}
	f := os.NewFile(uintptr(p.fd), "icmp")
	defer closing(ctx, f)()
	message := newPing(six, pingNumber.Add(1))
	for {
		if _, err := f.Write(message); err != nil {
			return err
		}
		end, _ := ctx.Deadline()
		last := true
		if again := time.Now().Add(time.Second); again.Before(end) {
			end, last = again, false
		}
		_ = f.SetReadDeadline(end)
		err := p.await(f, six, message)
		if last || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// newPing returns an echo request. Its identifier matters on a raw socket only; the kernel sets it on the other kind.
func newPing(six bool, number uint32) []byte {
	m := make([]byte, pingHead+16)
	m[0] = echoRequest4
	if six {
		m[0] = echoRequest6
	}
	binary.BigEndian.PutUint16(m[4:], uint16(os.Getpid()))
	binary.BigEndian.PutUint16(m[6:], uint16(number))
	binary.BigEndian.PutUint64(m[8:], rand.Uint64())
	binary.BigEndian.PutUint32(m[16:], number)
	if !six { // for IPv6 the kernel does it
		binary.BigEndian.PutUint16(m[2:], checksum(m))
	}
	return m
}

// await waits for the reply to a message: it carries the same data.
func (p pinger) await(f *os.File, six bool, message []byte) error {
	b := make([]byte, 1500)
	for {
		n, err := f.Read(b)
		if err != nil {
			return err
		}
		m := b[:n]
		if p.raw && !six && n > 0 { // the header of the packet
			m = m[min(int(m[0]&15)*4, n):]
		}
		reply := byte(echoReply4)
		if six {
			reply = echoReply6
		}
		if len(m) >= len(message) && m[0] == reply && bytes.Equal(m[pingHead:len(message)], message[pingHead:]) {
			return nil
		}
	}
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
