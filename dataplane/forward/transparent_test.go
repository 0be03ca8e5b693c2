package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bigpipe/dataplane/namespace"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// TestTransparent has a client, a router that runs the forwarder, and a member whose gateway it is. The member sees the client's
// address, over both families and protocols, and its answers find back.
func TestTransparent(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	client := namespace.Neighbour(t, "client", "10.1.0.", "fd01::")
	member := namespace.Neighbour(t, "member", "10.2.0.", "fd02::")
	divert(t, "member0")

	for _, net := range []struct{ virtual, member, client, router string }{
		{"10.1.0.1:0", "10.2.0.9:8080", "10.1.0.9", "10.2.0.1"},
		{"[fd01::1]:0", "[fd02::9]:8080", "fd01::9", "fd02::1"},
	} {
		for transparent, want := range map[bool]string{true: net.client, false: net.router} {
			t.Run(fmt.Sprintf("%s_%v", net.client, transparent), func(t *testing.T) {
				startTeller(t, member, net.member)
				p := compilePool(t, &pb.Pool{Name: "p", Members: []*pb.Member{{Address: net.member}}}, nil)
				table := NewTable(slog.New(slog.DiscardHandler))
				defer table.Close()
				set := Settings{Transparent: transparent, Virtual: netip.MustParseAddrPort("192.0.2.1:80"), Pools: []*pool.Pool{p}}
				ended, end := context.WithCancel(context.Background())
				end()
				tcp, err := Listen(table, netip.MustParseAddrPort(net.virtual), set)
				if err != nil {
					t.Fatal(err)
				}
				defer tcp.Drain(ended)
				udp, err := ListenUDP(table, netip.MustParseAddrPort(net.virtual), set)
				if err != nil {
					t.Fatal(err)
				}
				defer udp.Drain(ended)
				for network, addr := range map[string]netip.AddrPort{"tcp": tcp.Addr(), "udp": udp.Addr()} {
					if got := who(client, network, addr); got != want {
						t.Errorf("over %s the member sees %s, want %s", network, got, want)
					}
				}
			})
		}
	}
}

// divert makes what comes from a device, for whomever, arrive here.
func divert(t *testing.T, device string) {
	t.Helper()
	const table = 100
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for family, all := range map[int]string{unix.AF_INET: "0.0.0.0/0", unix.AF_INET6: "::/0"} {
		r := netlink.NewRule()
		r.Family, r.IifName, r.Table = family, device, table
		if err := netlink.RuleAdd(r); err != nil {
			t.Fatal(err)
		}
		dst, err := netlink.ParseIPNet(all)
		if err != nil {
			t.Fatal(err)
		}
		err = netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Table: table})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// startTeller starts a member that tells everyone his address, over TCP and UDP.
func startTeller(t *testing.T, at *namespace.Host, addr string) {
	t.Helper()
	var l net.Listener
	var c net.PacketConn
	var err, fault error
	at.Do(func() {
		l, err = net.Listen("tcp", addr)
		c, fault = net.ListenPacket("udp", addr)
	})
	if err := errors.Join(err, fault); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, addressOf(conn.RemoteAddr()))
			conn.Close()
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		b := make([]byte, 100)
		for {
			_, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			c.WriteTo([]byte(addressOf(from)), from)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		c.Close()
		<-done
		<-done
	})
}

func addressOf(a net.Addr) string { return netip.MustParseAddrPort(a.String()).Addr().String() }

// who asks a member for the address that it sees. A datagram may be lost while neighbours get to know each other.
func who(at *namespace.Host, network string, to netip.AddrPort) string {
	var c net.Conn
	var err error
	at.Do(func() { c, err = net.DialTimeout(network, to.String(), testPatience) })
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	b := make([]byte, 100)
	for range 10 {
		c.SetDeadline(time.Now().Add(testPatience / 10))
		if _, err = io.WriteString(c, "who am I"); err != nil {
			return err.Error()
		}
		n, err := c.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return string(b[:n])
		}
	}
	return "no answer"
}
