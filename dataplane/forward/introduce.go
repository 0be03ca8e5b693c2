package forward

import (
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// introduction is how a member learns who the client is, below what the client says itself.
type introduction struct{ proxyProtocol, transparent bool }

func (set *Settings) introduction() introduction {
	return introduction{set.ProxyProtocol, set.Transparent}
}

// proxySignature begins a header of PROXY protocol, version 2, up to the byte with version and command: a connection on behalf
// of a client.
const proxySignature = "\r\n\r\n\x00\r\nQUIT\n\x21"

// The second byte of a header: the family of the addresses, and TCP.
const (
	proxyTCP4 = 0x11
	proxyTCP6 = 0x21
)

// appendProxyHeader appends a PROXY protocol header, version 2, for a TCP connection from one address to another. Where only
// one of them is IPv4, it is written as IPv6.
func appendProxyHeader(b []byte, from, to netip.AddrPort) []byte {
	b = append(b, proxySignature...)
	src, dst := from.Addr().Unmap(), to.Addr().Unmap()
	if src.Is4() && dst.Is4() {
		b = append(b, proxyTCP4, 0, 4+4+2+2)
		b = append(b, src.AsSlice()...)
		b = append(b, dst.AsSlice()...)
	} else {
		src16, dst16 := src.As16(), dst.As16()
		b = append(b, proxyTCP6, 0, 16+16+2+2)
		b = append(b, src16[:]...)
		b = append(b, dst16[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to.Port())
}

// introduce sends the header to the member that was just connected, if there is to be one. A new connection has room for it.
func (f *flow) introduce() error {
	if !f.settings.ProxyProtocol {
		return nil
	}
	to := f.settings.Virtual
	if f.contact.IsValid() {
		to = f.contact
	}
	header := appendProxyHeader(make([]byte, 0, 64), f.peer, to)
	f.server.delayNoMore()
	n, errno := send(f.server.fd, header)
	switch {
	case errno != 0:
		return errno
	case n < len(header):
		return unix.ENOBUFS
	}
	return nil
}

// impersonate makes a socket that is not connected yet have a client's address, with a port that is chosen when it connects.
func impersonate(fd int, client netip.Addr) error {
	level, option := unix.IPPROTO_IP, unix.IP_TRANSPARENT
	if !client.Unmap().Is4() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
	}
	if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	sa := newSockaddr(netip.AddrPortFrom(client, 0))
	if errno := bind(fd, &sa); errno != 0 {
		return os.NewSyscallError("bind", errno)
	}
	return nil
}

// Impersonates reports whether this process may connect from addresses that are not the host's; the error says why not.
func Impersonates() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1))
}
