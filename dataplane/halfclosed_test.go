package dataplane

import (
	"net"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// Pain 59: a client that has closed its side holds its record no longer than the connection may be idle, though the member never
// answers; from then on the record is idle.
func TestPain59HalfClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			silent <- c
		}
	}()
	s := newSite(t, "", mapped)
	vs := virtualServer(web, "p")
	vs.GetVirtual().IdleTimeout = new(uint32(1))
	s.apply(simplePool("p", 60, l.Addr().String()), vs)
	began := time.Now()
	c, err := s.dial(web)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	defer func() { (<-silent).Close() }()
	record := func() *pb.Record {
		records, err := s.engine.Records(nil)
		if err != nil {
			t.Fatal(err)
		}
		for r := range records {
			return r
		}
		return nil
	}
	eventually(t, "it is held", func() bool { return record().GetConnections() == 1 })
	eventually(t, "it is idle", func() bool { return record() != nil && record().GetConnections() == 0 })
	if took := time.Since(began); took < 900*time.Millisecond { // the clock is coarse
		t.Errorf("held for %v", took)
	}
	if left := record().GetExpiresInSeconds(); left < 40 { // of 60, from the end of the connection
		t.Errorf("%d seconds are left", left)
	}
}
