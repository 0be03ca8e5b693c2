package forward

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// udpOrigin is a UDP member: it answers each datagram with its name and what it got, or as its script says.
type udpOrigin struct {
	name string
	c    *net.UDPConn
	addr netip.AddrPort
	wg   sync.WaitGroup

	mu   sync.Mutex
	got  []string
	from map[netip.AddrPort]bool
}

func newUDPOrigin(t testing.TB, name, addr string, answer func(o *udpOrigin, data []byte, from netip.AddrPort)) *udpOrigin {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	if err != nil {
		t.Fatal(err)
	}
	if answer == nil {
		answer = func(o *udpOrigin, data []byte, from netip.AddrPort) { o.c.WriteToUDPAddrPort(data, from) }
	}
	o := &udpOrigin{name: name, c: c, addr: netip.MustParseAddrPort(c.LocalAddr().String()), from: map[netip.AddrPort]bool{}}
	o.wg.Go(func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			o.mu.Lock()
			o.got = append(o.got, string(b[:n]))
			o.from[from] = true
			o.mu.Unlock()
			answer(o, b[:n], from)
		}
	})
	t.Cleanup(o.stop)
	return o
}

func (o *udpOrigin) stop() {
	o.c.Close()
	o.wg.Wait()
}

// received returns the datagrams so far, and from how many sockets they came.
func (o *udpOrigin) received() (data []string, sockets int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.got...), len(o.from)
}

// named answers with the origin's name.
func named(o *udpOrigin, _ []byte, from netip.AddrPort) { o.c.WriteToUDPAddrPort([]byte(o.name), from) }

// threeUDP starts members s1, s2, s3.
func threeUDP(t testing.TB) []*udpOrigin {
	var list []*udpOrigin
	for i := 1; i <= 3; i++ {
		list = append(list, newUDPOrigin(t, fmt.Sprintf("s%d", i), fmt.Sprintf("127.0.0.1%d:0", i), named))
	}
	return list
}

func udpPool(origins ...*udpOrigin) *pb.Pool {
	p := &pb.Pool{Name: "udp_pool"}
	for _, o := range origins {
		p.Members = append(p.Members, &pb.Member{Address: o.addr.String()})
	}
	return p
}

// udpLab is a UDP virtual server.
type udpLab struct {
	t     testing.TB
	table *Table
	l     *UDPListener
	set   Settings
}

func newUDPLab(t testing.TB, listen string, set Settings) *udpLab {
	t.Helper()
	b := &udpLab{t: t, table: NewTable(slog.New(slog.DiscardHandler)), set: set}
	if !b.set.Virtual.IsValid() {
		b.set.Virtual = netip.MustParseAddrPort("10.0.0.1:53")
	}
	if b.set.Counters == nil {
		b.set.Counters = pool.NewCounters()
	}
	var err error
	if b.l, err = ListenUDP(b.table, netip.MustParseAddrPort(listen), b.set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		b.l.Drain(ctx)
		if n := b.table.Len(); n != 0 {
			t.Errorf("%d flows left", n)
		}
		b.table.Close()
		if c := b.set.Counters.Counts(); c.Current != 0 {
			t.Errorf("virtual server: %d flows left", c.Current)
		}
		for _, p := range b.set.Pools {
			for _, m := range p.Members() {
				if c := m.Counters().Counts(); c.Current != 0 {
					t.Errorf("member %s: %d flows left", m.Addr, c.Current)
				}
			}
		}
	})
	return b
}

// beside is another virtual server of the same table and pools.
func (b *udpLab) beside() *udpLab {
	b.t.Helper()
	other := &udpLab{t: b.t, table: b.table, set: b.set}
	other.set.Counters = pool.NewCounters()
	var err error
	if other.l, err = ListenUDP(b.table, netip.MustParseAddrPort("127.0.0.1:0"), other.set); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		other.l.Drain(ctx)
	})
	return other
}

// udpClient is a client's socket that is connected to the virtual server: it receives from that address alone.
type udpClient struct {
	t testing.TB
	*net.UDPConn
}

func (b *udpLab) dial(from string) *udpClient {
	b.t.Helper()
	return dialUDP(b.t, from, b.l.Addr())
}

func dialUDP(t testing.TB, from string, to netip.AddrPort) *udpClient {
	t.Helper()
	var local *net.UDPAddr
	if from != "" {
		local = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))
	}
	c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testPatience))
	return &udpClient{t, c}
}

func (c *udpClient) send(data string) {
	c.t.Helper()
	if _, err := c.Write([]byte(data)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *udpClient) receive() string {
	c.t.Helper()
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b[:n])
}

func (c *udpClient) ask(data string) string {
	c.t.Helper()
	c.send(data)
	return c.receive()
}

// nothing fails the test if a datagram comes.
func (c *udpClient) nothing() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	b := make([]byte, 1<<16)
	if n, err := c.Read(b); err == nil {
		c.t.Errorf("received %q", b[:n])
	}
	c.SetReadDeadline(time.Now().Add(testPatience))
}

func udpLabOf(t testing.TB, origins ...*udpOrigin) *udpLab {
	t.Helper()
	return newUDPLab(t, "127.0.0.1:0", Settings{Pools: []*pool.Pool{compilePool(t, udpPool(origins...), nil)}})
}

func simpleUDP(origins ...*udpOrigin) *pb.Pool {
	p := udpPool(origins...)
	p.PersistMode, p.SimpleTimeout = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), new(uint32(300))
	return p
}
