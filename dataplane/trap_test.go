package dataplane

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"bigpipe/dataplane/namespace"
)

// trap catches what leaves a test's namespace for others.
type trap struct {
	t        *testing.T
	listener net.Listener
	wire     int // a socket that sees every IPv4 packet

	mu     sync.Mutex
	caught int // connections
}

// newTrap listens on an address at another host, and looks at all that comes to its device.
func newTrap(t *testing.T, h *namespace.Host, device, address string) *trap {
	t.Helper()
	x := &trap{t: t}
	var err error
	h.Do(func() {
		if x.listener, err = net.Listen("tcp", address); err != nil {
			return
		}
		var i *net.Interface
		if i, err = net.InterfaceByName(device); err != nil {
			return
		}
		const ipv4 = syscall.ETH_P_IP>>8 | syscall.ETH_P_IP<<8&0xff00
		if x.wire, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, ipv4); err == nil {
			err = syscall.Bind(x.wire, &syscall.SockaddrLinklayer{Protocol: ipv4, Ifindex: i.Index})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := x.listener.Accept()
			if err != nil {
				return
			}
			c.Close()
			x.mu.Lock()
			x.caught++
			x.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		x.listener.Close()
		running.Wait()
		syscall.Close(x.wire)
	})
	return x
}

// destinations are those of all packets since the last call; the device keeps them until they are read.
func (x *trap) destinations() (list []string) {
	x.t.Helper()
	for b := make([]byte, 2048); ; {
		n, from, err := syscall.Recvfrom(x.wire, b, 0)
		if err == syscall.EAGAIN {
			return list
		}
		if err != nil {
			x.t.Fatal(err)
		}
		if l, ok := from.(*syscall.SockaddrLinklayer); ok && l.Pkttype != syscall.PACKET_OUTGOING && n >= 20 {
			list = append(list, net.IP(b[16:20]).String())
		}
	}
}

func (x *trap) connections() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.caught
}

// Pain 13: what a client writes into the cookie is never dialled: nothing leaves for the address that it names, although that is
// one route away and somebody listens there. The client is balanced, gets a cookie of who answers, and is counted.
func TestPain13(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "inside", "outside")
	namespace.Give(t, "inside", "10.9.9.1/24")
	h := namespace.NewHost(t, "outside", []string{"10.9.9.1"}, "10.9.9.9/24")
	caught := newTrap(t, h, "outside", "10.9.9.9:22")
	namespace.Route(t, "inside", "10.9.9.9") // whatever else would be dialled is seen there, too
	stranger := newServer(t, "127.0.0.99:8001", "stranger", func(*member, net.Conn) {})

	// All addresses are those of the fixture, without a map.
	f := &fixture{servers: map[string]*member{}, paused: make(chan bool)}
	for i := range 3 {
		name := fmt.Sprintf("s%d", i+1)
		f.servers[name] = newServer(t, realOf(name), name, f.answer)
	}
	f.site = newSite(t, "", "")
	vs := virtualServer(vip, "web_pool")
	vs.GetVirtual().Oneconnect = new(true)
	want(t, reasons(f.apply(f.pool(nil), vs)), "")

	values := []string{
		"151587082.5632.0000",                     // 10.9.9.9:22
		"1660944511.16671.0000",                   // 127.0.0.99:8001
		"151587082.16671.0000",                    // 10.9.9.9 at the members' port
		"0.0.0000",                                // 0.0.0.0:0
		"4294967295.65535.0000",                   // 255.255.255.255:65535
		"134744072.20480.0000",                    // 8.8.8.8:80
		"rd5o00000000000000000000ffff0a090909o22", // 10.9.9.9:22
		"151587338.5632",                          // 10.10.9.9:22
		"168364297.5632.0000",                     // 10.9.9.9 in the order that seed 002 prints
	}
	for i, v := range values {
		f.moves(f.ask(cookieName+v), fmt.Sprintf("s%d", i%3+1))
	}
	out := f.statistics("web_pool").GetPools()[0].GetPersistence()
	if n := uint64(len(values)); out.GetUnknownMember() != n || out.GetBound() != n || out.GetMalformed() != 0 {
		t.Errorf("counted %v of %d", out, n)
	}
	if n := stranger.accepted(); n != 0 {
		t.Errorf("%d connections to who is no member", n)
	}
	if list := caught.destinations(); len(list) != 0 || caught.connections() != 0 {
		t.Errorf("packets went to %s", list)
	}
	// The trap works.
	for _, to := range []string{"10.9.9.9:22", "8.8.8.8:80"} {
		d := net.Dialer{Timeout: 100 * time.Millisecond}
		if c, err := d.Dial("tcp", to); err == nil {
			c.Close()
		}
	}
	eventually(t, "the trap catches its own connection", func() bool { return caught.connections() == 1 })
	if list := caught.destinations(); !slices.Contains(list, "10.9.9.9") || !slices.Contains(list, "8.8.8.8") {
		t.Errorf("the trap saw packets to %s", list)
	}
}
