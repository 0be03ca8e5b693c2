package main

import "net/netip"

// block is the second byte of the loopback addresses of a run: 127.BLOCK.0.0/16.
type block byte

// defaultBlock is where make bench runs.
const defaultBlock block = 77

// Ports of proxies and members; below those that the system gives to clients.
const (
	httpPort = 18080
	tcpPort  = 18090
)

func (s scenario) port() uint16 {
	if s.http {
		return httpPort
	}
	return tcpPort
}

// proxy is where side number index listens.
func (b block) proxy(index int, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(b), 0, byte(1 + index)}), port)
}

// members are those of side number index. Each side has its own, so that connections in TIME_WAIT of one are not in the
// way of another.
func (b block) members(index int, port uint16) []netip.AddrPort {
	var members []netip.AddrPort
	for i := range 2 {
		members = append(members, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(b), byte(10 + index), byte(1 + i)}), port))
	}
	return members
}

// clientCount is how many client addresses TCP connections come from: persistence by address has as many records.
const clientCount = 64

func (b block) clients() []netip.Addr {
	addrs := make([]netip.Addr, clientCount)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{127, byte(b), 100, byte(1 + i)})
	}
	return addrs
}
