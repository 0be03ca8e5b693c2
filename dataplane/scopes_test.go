package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// The virtual servers and pools of pain 81.
const (
	vipHTTP, vipSSL = "127.0.1.1:80", "127.0.1.1:443"
)

// twoServices are pools A and B on three nodes, at ports 8001 and 8443, whose members say their addresses over TCP and UDP.
func twoServices(t *testing.T) (s *site, a, b []string) {
	t.Helper()
	addresses := vipHTTP + "=127.0.0.1:0," + vipSSL + "=127.0.0.1:0"
	for _, port := range []int{8001, 8443} {
		for n := range 3 {
			real := fmt.Sprintf("127.0.0.1%d:%d", n+1, port)
			m := newMember(t, real, false)
			datagrams, err := net.ListenPacket("udp", m.addr())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for b := make([]byte, 100); ; {
					_, from, err := datagrams.ReadFrom(b)
					if err != nil {
						return
					}
					_, _ = datagrams.WriteTo([]byte(real), from)
				}
			}()
			t.Cleanup(func() { datagrams.Close(); <-done })
			addresses += "," + real + "=" + m.addr()
			if port == 8001 {
				a = append(a, real)
			} else {
				b = append(b, real)
			}
		}
	}
	return newSite(t, "", addresses), a, b
}

// datagram is who answers a client's datagram.
func (s *site) datagram(client, virtual string) string {
	s.t.Helper()
	bound, ok := s.engine.Bound(virtual)
	if !ok {
		s.t.Fatal(virtual, "does not listen")
	}
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(client), 0))}
	c, err := d.Dial("udp", bound.String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	answer := make([]byte, 100)
	if _, err = c.Write([]byte("?")); err != nil {
		s.t.Fatal(err)
	}
	n, err := c.Read(answer)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(answer[:n])
}

// Pain 81: with persist_on_any_port_same_vip a client who is bound in A to .12 goes to .12:8443 in B, over UDP as over TCP;
// without it each pool decides. Where B has no .12 it chooses as ever.
func TestPain81(t *testing.T) {
	const client, bound = "127.0.7.9", "127.0.0.12:8001"
	for _, tt := range []struct {
		name    string
		shared  bool
		without bool // B has no .12
		ssl     string
	}{
		{"pain-81_same_node_at_its_own_port", true, false, "127.0.0.12:8443"},
		{"pain-81_independent", false, false, "127.0.0.11:8443"},
		{"pain-81_node_is_not_in_the_other_pool", true, true, "127.0.0.11:8443"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, a, b := twoServices(t)
			if tt.without {
				b = slices.DeleteFunc(b, func(m string) bool { return m == "127.0.0.12:8443" })
			}
			missing := s.apply(object(&pb.Global{PersistAcrossServices: &tt.shared}), simplePool("A", 60, a...), simplePool("B", 60, b...),
				virtualServer(vipHTTP, "A"), virtualServer(vipSSL, "B"))
			want(t, reasons(missing), "")
			want(t, s.whoAt("127.0.7.8", vipHTTP), "127.0.0.11:8001") // somebody else
			want(t, s.whoAt(client, vipHTTP), bound)
			for range 3 {
				want(t, s.whoAt(client, vipSSL), tt.ssl)
				want(t, s.whoAt(client, vipHTTP), bound)
			}
			x, err := s.engine.Explain(&pb.ExplainRequest{Pool: "B", Client: client})
			if err != nil || x.GetMember() != tt.ssl {
				t.Errorf("explained as %v, %v", x, err)
			}
			records := map[string]string{
				"pain-81_same_node_at_its_own_port": "simple 127.0.7.8 127.0.1.1:* 127.0.0.11:8001\nsimple 127.0.7.9 127.0.1.1:* 127.0.0.12:8001\n",
				"pain-81_independent": "simple 127.0.7.8 127.0.1.1:80 127.0.0.11:8001\nsimple 127.0.7.9 127.0.1.1:80 127.0.0.12:8001\n" +
					"simple 127.0.7.9 127.0.1.1:443 127.0.0.11:8443\n",
				"pain-81_node_is_not_in_the_other_pool": "simple 127.0.7.8 127.0.1.1:* 127.0.0.11:8001\nsimple 127.0.7.9 127.0.1.1:* 127.0.0.12:8001\n" +
					"simple 127.0.7.9 127.0.1.1:443 127.0.0.11:8443\n",
			}
			want(t, s.dump(), records[tt.name])
			out := s.outcomes("B")
			if other := out.GetOtherPool() > 0; other != tt.without || out.GetDown()+out.GetUnknownMember() != 0 {
				t.Errorf("counted %v", out)
			}
		})
	}
	t.Run("pain-81_UDP", func(t *testing.T) {
		s, a, b := twoServices(t)
		both := func(port uint32) *pb.Object {
			return object(&pb.Service{Port: port, Tcp: new(false), Udp: new(true)})
		}
		s.apply(object(&pb.Global{PersistAcrossServices: new(true)}), simplePool("A", 60, a...), simplePool("B", 60, b...),
			virtualServer(vipHTTP, "A"), virtualServer(vipSSL, "B"), both(443))
		want(t, s.whoAt("127.0.7.8", vipHTTP), "127.0.0.11:8001")
		want(t, s.whoAt(client, vipHTTP), bound)
		for range 3 {
			want(t, s.datagram(client, vipSSL), "127.0.0.12:8443")
		}
	})
}

// Pain 86: the client's port is no part of the key: 100 connections at once from one address, each with another port, are at one
// member and are one record.
func TestPain86(t *testing.T) {
	s, a, _ := twoServices(t)
	s.apply(simplePool("A", 60, a...), virtualServer(vipHTTP, "A"))
	ports := map[string]bool{}
	var open []net.Conn
	for n := range 100 {
		c, err := s.dialFrom("127.0.7.9", vipHTTP)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, port, _ := strings.Cut(c.LocalAddr().String(), ":")
		ports[port] = true
		if open = append(open, c); n%2 == 0 { // the others say nothing before all are there
			want(t, readName(t, c), "127.0.0.11:8001")
		}
	}
	for n := 1; n < len(open); n += 2 {
		want(t, readName(t, open[n]), "127.0.0.11:8001")
	}
	if len(ports) != 100 {
		t.Errorf("%d ports", len(ports))
	}
	records, err := s.engine.Records(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range records {
		n++
		if r.GetConnections() != 100 || r.GetKey() != "127.0.7.9" || r.GetNode() != "127.0.0.11:8001" {
			t.Errorf("record %v", r)
		}
	}
	if out := s.outcomes("A"); n != 1 || out.GetBound() != 1 || out.GetValid() != 99 {
		t.Errorf("%d records, counted %v", n, out)
	}
	want(t, s.whoAt("127.0.7.8", vipHTTP), "127.0.0.12:8001") // the next in turn
}
