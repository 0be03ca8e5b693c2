package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// announcer tells the neighbours on a device who has an address.
type announcer struct {
	index int
	mac   net.HardwareAddr
}

// announce sends a gratuitous ARP request, or an unsolicited neighbour advertisement (RFC 5227, RFC 4861).
func (a *announcer) announce(addr netip.Addr) error {
	var err error
	if addr.Is4() {
		err = a.announce4(addr)
	} else {
		err = a.announce6(addr)
	}
	if err != nil {
		return fmt.Errorf("announce %s: %w", addr, err)
	}
	return nil
}

var broadcast = [...]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func (a *announcer) announce4(addr netip.Addr) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	to := &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: a.index, Halen: uint8(len(broadcast))}
	copy(to.Addr[:], broadcast[:])
	return os.NewSyscallError("sendto", unix.Sendto(fd, a.arp(addr), 0, to))
}

// bigEndian returns the number whose bytes in memory are those of n in network order.
func bigEndian(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// arp is the announcement of an IPv4 address: a request in which sender and target are the same.
func (a *announcer) arp(addr netip.Addr) []byte {
	ip := addr.As4()
	p := []byte{0, 1, 8, 0, 6, 4, 0, 1} // Ethernet, IPv4, lengths of their addresses, request
	p = append(append(p, a.mac...), ip[:]...)
	p = append(p, make([]byte, 6)...)
	return append(p, ip[:]...)
}

// allNodes is the multicast address of all nodes of a link.
var allNodes = netip.MustParseAddr("ff02::1")

func (a *announcer) announce6(addr netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6) // the kernel adds the checksum
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	for option, value := range map[int]int{unix.IPV6_MULTICAST_HOPS: 255, unix.IPV6_MULTICAST_IF: a.index} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, option, value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet6{Addr: addr.As16()}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	to := &unix.SockaddrInet6{Addr: allNodes.As16(), ZoneId: uint32(a.index)}
	return os.NewSyscallError("sendto", unix.Sendto(fd, a.advertisement(addr), 0, to))
}

// advertisement is the announcement of an IPv6 address: type 136, override, the address, and the link-layer address.
func (a *announcer) advertisement(addr netip.Addr) []byte {
	ip := addr.As16()
	p := []byte{136, 0, 0, 0, 0x20, 0, 0, 0}
	p = append(p, ip[:]...)
	return append(append(p, 2, 1), a.mac...)
}

// errQuiet means that a device has no neighbours that could be told.
var errQuiet = errors.New("the device has no link-layer addresses")

// announcerFor returns the announcer of a device.
func announcerFor(device string) (*announcer, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	if len(i.HardwareAddr) != len(broadcast) || i.Flags&(net.FlagLoopback|net.FlagPointToPoint) != 0 || i.Flags&net.FlagBroadcast == 0 {
		return nil, errQuiet
	}
	return &announcer{index: i.Index, mac: i.HardwareAddr}, nil
}
