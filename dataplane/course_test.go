package dataplane

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// recordsOf counts the records of a member.
func (s *site) recordsOf(member string) (n int) {
	s.t.Helper()
	list, err := s.engine.Records(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for r := range list {
		if r.GetNode() == member {
			n++
		}
	}
	return n
}

// TestDrainTimeout: rule J-17: a disabled member serves its clients for its drain_timeout; then its connections are closed, its
// records are gone, and its clients reach another one.
func TestDrainTimeout(t *testing.T) {
	drained := func(seconds uint32, addresses ...string) *pb.Object {
		p := simplePool("p", 300, addresses...)
		p.GetPool().Members[0].DrainTimeout = &seconds
		return p
	}
	t.Run("J-T11_quiesced", func(t *testing.T) {
		s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
		one, two := newMember(t, "one", false), newMember(t, "two", false)
		s.apply(drained(2, one.addr(), two.addr()), simplePool("q", 300, one.addr()), virtualServer("10.0.0.1:80", "p"))
		name, open := s.visit("10.0.0.1:80")
		want(t, name, "one")
		s.apply(object(&pb.Node{Address: one.addr(), Enabled: proto.Bool(false)}))
		if name := s.who("10.0.0.1:80"); name != "one" && s.state("p", one.addr()) != "forced_down" {
			t.Errorf("its client reaches %s while it is %s", name, s.state("p", one.addr()))
		}
		open.SetDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(open, make([]byte, 100)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the open connection ends with %v", err)
		}
		want(t, s.state("p", one.addr()), "forced_down")
		want(t, s.state("q", one.addr()), "disabled") // of another pool, which says nothing of a time
		eventually(t, "the records are gone", func() bool { return s.recordsOf(one.addr()) == 0 })
		want(t, s.who("10.0.0.1:80"), "two")

		s.apply(object(&pb.Node{Address: one.addr(), Enabled: proto.Bool(true)}))
		want(t, s.state("p", one.addr()), "unchecked")
		want(t, s.who("10.0.0.1:80"), "two") // the record has moved
	})
	t.Run("set_with_the_state_of_now", func(t *testing.T) { // connections are older than the timeout
		s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
		one, two := newMember(t, "one", false), newMember(t, "two", false)
		s.apply(simplePool("p", 300, one.addr(), two.addr()), virtualServer("10.0.0.1:80", "p"))
		_, open := s.visit("10.0.0.1:80")
		s.apply(drained(1, one.addr(), two.addr()), object(&pb.Node{Address: one.addr(), Enabled: proto.Bool(false)}))
		open.SetDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(open, make([]byte, 100)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the open connection ends with %v", err)
		}
	})
}

// TestTransitionsReachTraffic: what monitors find is obeyed by the next connection, and within 100 ms: open connections of pools with
// on_down reset end by then. The time is that of the middle one of several members, so that a machine that is busy for a moment does not
// count.
func TestTransitionsReachTraffic(t *testing.T) {
	const members = 9
	const limit = 100 * time.Millisecond
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	health := newPage(t, "health")
	check := quick("page", "http")
	check.GetMonitor().Send, check.GetMonitor().Dest = proto.String("GET /health"), proto.String(health.addr())
	spare := newMember(t, "spare", false)
	objects := []*pb.Object{check}
	p := plainPool("p")
	p.GetPool().OnDown = pb.OnDown_ON_DOWN_RESET.Enum()
	for i := range members {
		m := newMember(t, fmt.Sprint("m", i), false)
		p.GetPool().Members = append(p.GetPool().Members, &pb.Member{Address: m.addr()})
		objects = append(objects, monitorUse(m.addr(), "page"))
	}
	s.apply(append(objects, p, virtualServer("10.0.0.1:80", "p"))...)
	for _, m := range p.GetPool().Members {
		s.awaitState("p", m.GetAddress(), "up")
	}
	type end struct {
		node string
		at   time.Time
		err  error
	}
	ends := make(chan end, members)
	nodes := map[string]string{} // by the client's address
	for range members {
		name, c := s.visit("10.0.0.1:80")
		t.Cleanup(func() { c.Close() })
		nodes[c.LocalAddr().String()] = name
		go func() {
			c.SetDeadline(time.Now().Add(patience))
			_, err := c.Read(make([]byte, 1))
			ends <- end{c.LocalAddr().String(), time.Now(), err}
		}()
	}
	of := map[string]string{} // the member of each connection
	connections, err := s.engine.Connections(&pb.ListConnectionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for c := range connections {
		of[c.GetClient()] = c.GetNode()
	}
	more := proto.CloneOf(p)
	more.GetPool().Members = append(more.GetPool().Members, &pb.Member{Address: spare.addr()})
	s.apply(more)
	before := s.engine.health.monitors.Last()
	health.status.Store(500)
	went := map[string]time.Time{}
	for len(went) < members {
		list, _, news := s.engine.health.monitors.After(before)
		for _, tr := range list {
			before = tr.Number
			if tr.To == pool.Down {
				went[tr.Node.String()] = tr.Time
			}
		}
		if len(went) == members {
			break
		}
		select {
		case <-news:
		case <-time.After(patience):
			t.Fatalf("only %d members went down", len(went))
		}
	}
	want(t, s.who("10.0.0.1:80"), "spare") // at once: the transitions were told already
	var took []time.Duration
	for range members {
		e := <-ends
		if !errors.Is(e.err, syscall.ECONNRESET) {
			t.Errorf("the connection to %s ends with %v", nodes[e.node], e.err)
		}
		took = append(took, e.at.Sub(went[of[e.node]]))
	}
	slices.Sort(took)
	if took[members/2] > limit || took[0] < 0 {
		t.Errorf("connections end after %v", took)
	}

	health.status.Store(200)
	for _, m := range p.GetPool().Members {
		s.awaitState("p", m.GetAddress(), "up")
	}
	reached := map[string]bool{}
	for range members + 1 { // each in turn
		reached[s.who("10.0.0.1:80")] = true
	}
	if len(reached) != members+1 {
		t.Errorf("once they are up, %d are reached", len(reached))
	}
}

// TestDynamicRatio: a program that monitors members says their weights.
func TestDynamicRatio(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, two := newMember(t, "one", false), newMember(t, "two", false)
	port := func(m *member) int { return m.l.Addr().(*net.TCPAddr).Port }
	dir := t.TempDir()
	program, said := filepath.Join(dir, "load"), filepath.Join(dir, "said")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	write(said, "3\n")
	write(program, fmt.Sprintf("#!/bin/sh\nif [ $2 = %d ]; then cat %s; else echo 1; fi\n", port(one), said))
	eav := object(&pb.Monitor{Name: "eav", Use: "external", Interval: proto.Uint32(1), Timeout: proto.Uint32(30), Run: &program})
	p := plainPool("p", one.addr(), two.addr())
	p.GetPool().LbMode = pb.LbMode_LB_MODE_DYNAMIC_RATIO.Enum()
	want(t, reasons(s.apply(eav, monitorUse(one.addr(), "eav"), monitorUse(two.addr(), "eav"), p, virtualServer("10.0.0.1:80", "p"))), "")
	share := func(weight int) {
		t.Helper()
		address := netip.MustParseAddrPort(one.addr())
		eventually(t, "the program is heard", func() bool { return s.engine.health.known.Of(address).Weight() == uint32(weight) })
		s.awaitState("p", two.addr(), "up")
		eventually(t, "the weight counts", func() bool { // some picks later: what was begun of a turn stays
			first := 0
			for range 2 * (weight + 1) {
				if s.who("10.0.0.1:80") == "one" {
					first++
				}
			}
			return first == 2*weight
		})
	}
	share(3)
	write(said, "5 is the load\n")
	share(5)
}

// TestResponseElsewhere: M-6: a pool of mode response that comes, or goes, weighs its members in other pools too.
func TestResponseElsewhere(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, two := newMember(t, "one", false), newMember(t, "two", false)
	s.apply(plainPool("p", one.addr(), two.addr()), virtualServer("10.0.0.1:80", "p"))
	for m, took := range map[*member]time.Duration{one: 10 * time.Millisecond, two: 40 * time.Millisecond} {
		health := s.engine.health.known.Of(netip.MustParseAddrPort(m.addr()))
		health.SetProbed(took)
	}
	share := func(n, of int) {
		t.Helper()
		first := 0
		for range of {
			if s.who("10.0.0.1:80") == "one" {
				first++
			}
		}
		if first != n {
			t.Errorf("%d of %d, want %d", first, of, n)
		}
	}
	share(5, 10)
	r := plainPool("r", one.addr(), two.addr())
	r.GetPool().LbMode = pb.LbMode_LB_MODE_RESPONSE.Enum()
	s.apply(r)
	share(8, 10)
	s.update(nil, []string{"pool/r"})
	share(5, 10)
}
