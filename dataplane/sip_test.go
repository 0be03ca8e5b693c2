package dataplane

import (
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// newPhone is a member that answers each datagram with its name.
func newPhone(t *testing.T, name string) (addr string) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 1500)
		for {
			_, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(name), from)
		}
	}()
	t.Cleanup(func() {
		c.Close()
		<-ended
	})
	return c.LocalAddr().String()
}

// phone is a client of calls.
type phone struct {
	*site
	net.Conn
}

func (s *site) phone() phone {
	s.t.Helper()
	to, _ := s.engine.Bound(web)
	c, err := net.Dial("udp", to.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return phone{s, c}
}

// says sends a message of a call until it is answered, and returns who answers.
func (p phone) says(call string) string {
	p.t.Helper()
	b := make([]byte, 100)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		fmt.Fprintf(p, "OPTIONS sip:s SIP/2.0\r\nVia: SIP/2.0/UDP c\r\nCall-ID: %s\r\n\r\n", call)
		p.SetReadDeadline(time.Now().Add(2 * time.Second))
		if n, err := p.Read(b); err == nil {
			return string(b[:n])
		}
	}
	return "nobody"
}

// TestSIPStates: pain 34 for sip: what calls may do that have a record, none, or are in progress. A call that goes on from another
// address has a record and nothing open.
func TestSIPStates(t *testing.T) {
	for _, tt := range []struct {
		name       string
		state      *pb.Node
		none, live string // where a new call and one with a record go
	}{
		{"enabled", &pb.Node{}, "s1", "s1"},
		{"disabled", &pb.Node{Enabled: proto.Bool(false)}, "s2", "s1"},
		{"down", &pb.Node{Up: proto.Bool(false)}, "s2", "s2"},
	} {
		t.Run("pain_34_"+tt.name, func(t *testing.T) {
			s := newSite(t, "", mapped)
			one := newPhone(t, "s1")
			p := plainPool("p", one, newPhone(t, "s2"))
			p.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_SIP.Enum()
			want(t, reasons(s.apply(p, virtualServer(web, "p"), object(&pb.Service{Port: 80, Tcp: proto.Bool(false), Udp: proto.Bool(true)}))), "")
			c := s.phone()
			want(t, c.says("one@c"), "s1")
			want(t, c.says("two@c"), "s2")
			tt.state.Address = one
			s.apply(object(tt.state))
			want(t, s.phone().says("three@c"), tt.none)
			want(t, c.says("one@c"), "s1") // in progress
			want(t, s.phone().says("one@c"), tt.live)
			if _, err := s.engine.ClearRecords(nil); err != nil {
				t.Fatal(err)
			}
			want(t, s.phone().says("one@c"), "s2") // the record is over, and it is the turn of s2
		})
	}
}
