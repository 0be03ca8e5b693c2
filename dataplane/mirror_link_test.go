package dataplane

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigpipe/dataplane/namespace"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// wire is a mirror on the other side of a network: batches go there one after the other over one connection, which is made anew
// after a fault.
type wire struct {
	address string
	dialled atomic.Int64
	conn    net.Conn
	buf     []byte
}

func (w *wire) Publish(ctx context.Context, b *persist.Batch) (err error) {
	if w.conn == nil {
		w.dialled.Add(1)
		if w.conn, err = new(net.Dialer).DialContext(ctx, "tcp", w.address); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { w.conn.SetDeadline(time.Now()) })
	defer stop()
	w.buf = append(w.buf[:0], 0, 0, 0, 0)
	if w.buf, err = b.AppendBinary(w.buf); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(w.buf, uint32(len(w.buf)-4))
	answer := make([]byte, 1)
	if _, err = w.conn.Write(w.buf); err == nil {
		_, err = io.ReadFull(w.conn, answer)
	}
	if err != nil {
		w.conn.Close()
		w.conn = nil
		return err
	}
	if answer[0] != 0 {
		return persist.ErrBehind
	}
	return nil
}

// standby takes in what a wire brings.
type standby struct {
	listener net.Listener
	follower *persist.Follower
	stalled  sync.Mutex // held: nothing is read
	accepted atomic.Int64
	bytes    atomic.Int64
	running  sync.WaitGroup
}

func (s *standby) run() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.accepted.Add(1)
		s.running.Go(func() { s.serve(c) })
	}
}

func (s *standby) serve(c net.Conn) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		head := make([]byte, 4)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		batch := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(r, batch); err != nil {
			return
		}
		s.stalled.Lock()
		err := s.follower.Receive(batch)
		s.stalled.Unlock()
		s.bytes.Add(int64(len(batch)))
		answer := []byte{0}
		if errors.Is(err, persist.ErrBehind) {
			answer[0] = 1
		} else if err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// bound makes a connection of each of n clients, from a number on, as fast as it goes.
func (s *site) bound(from, n int) {
	s.t.Helper()
	p := s.engine.running.Load().pools["p"]
	var d pool.Decision
	for i := from; i < from+n; i++ {
		client := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if err := p.Choose(&d, &pool.Input{Client: netip.AddrPortFrom(client, 1), Virtual: netip.MustParseAddrPort(web)}); err != nil {
			s.t.Fatal(err)
		}
		d.Accepted()
		d.Release()
	}
}

// Pain 77: over a link of 1 MB/s, with 5,000 changes a second, all records come over at last on one connection: there is no loop of
// faults; while the other side stalls changes of a record are merged, what is kept is bounded by the records, a counter shows the
// lag, and clients do not wait.
func TestPain77(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	const records, hot, rate = 12_000, 4096, 1_000_000 // hot: 10.0.0.0/20
	namespace.Pair(t, "near", "far")
	namespace.Give(t, "near", "10.7.0.1/24")
	host := namespace.NewHost(t, "far", nil, "10.7.0.9/24")
	namespace.Limit(t, "near", rate)
	var l net.Listener
	var err error
	host.Do(func() { l, err = net.Listen("tcp", "10.7.0.9:7000") })
	if err != nil {
		t.Fatal(err)
	}
	a := newMember(t, "a", false)
	p := simplePool("p", 3600, a.addr())
	p.GetPool().MirrorPersist = new(true)
	objects := []*pb.Object{p, virtualServer(web, "p")}
	second := newSite(t, "", mapped)
	second.apply(objects...)
	far := &standby{listener: l, follower: second.engine.Follower()}
	far.running.Go(far.run)
	link := &wire{address: "10.7.0.9:7000"}
	first := mirrorSite(t, link)
	t.Cleanup(func() { // before the sites end
		l.Close()
		first.close()
		if link.conn != nil {
			link.conn.Close()
		}
		far.running.Wait()
	})
	first.apply(objects...)
	counter := func(name string) int {
		return int(first.statistics("").GetUnit().GetCounters()[name])
	}
	clients := func(what string) {
		t.Helper()
		for n := range 200 {
			if got := first.who(web); got != "a" {
				t.Fatalf("%s: connection %d is served by %s", what, n, got)
			}
		}
	}

	// All records, and 5,000 changes a second meanwhile.
	began := time.Now()
	first.bound(0, records)
	changes, behind := 0, 0
	for at := 0; ; at = (at + 64) % hot {
		if behind = max(behind, counter(MirrorBehind)); behind > records+200 {
			t.Fatalf("%d records are behind", behind)
		}
		if second.engine.records.Len() >= records && time.Since(began) > 2*time.Second {
			break
		}
		some := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(at >> 8), byte(at)}), 26)
		first.engine.records.Clear(persist.Filter{Client: some}, nil)
		first.bound(at, 64)
		changes += 64
		time.Sleep(64 * time.Second / 5000)
		if time.Since(began) > 3*patience {
			t.Fatalf("%d records came over", second.engine.records.Len())
		}
	}
	clients("while the link is busy")
	eventually(t, "all is told", func() bool { return counter(MirrorBehind) == 0 })
	sent, took := far.bytes.Load(), time.Since(began)
	t.Logf("%d bytes in %v, %d changes, at most %d behind, %d entries", sent, took, changes, behind, counter("mirror_published"))
	if behind < records/4 {
		t.Errorf("the counter showed a lag of %d records at most", behind)
	}
	if most := int64(rate*took.Seconds()) + 256<<10; sent > most {
		t.Errorf("the link carried %d bytes in %v: it was not limited", sent, took)
	}

	// The other side stalls: ten changes of each of 4,096 records are one when it goes on.
	far.stalled.Lock()
	before := counter("mirror_published")
	for range 10 {
		first.engine.records.Clear(persist.Filter{Client: netip.MustParsePrefix("10.0.0.0/20")}, nil)
		first.bound(0, hot)
	}
	clients("while the other side stalls")
	eventually(t, "the counter shows the lag", func() bool { return counter(MirrorBehind) >= hot/2 })
	if n := counter(MirrorBehind); n > 2*hot+2048 { // places of records that have gone are told of, too
		t.Errorf("%d behind", n)
	}
	far.stalled.Unlock()
	// The last batch is on its way for a moment after nothing is behind.
	eventually(t, "all is told", func() bool { return counter(MirrorBehind) == 0 && counter("mirror_published")-before >= hot })
	if n := counter("mirror_published") - before; n > 3*hot {
		t.Errorf("%d entries of %d changes of %d records", n, 10*hot, hot)
	}
	eventually(t, "the last batch is taken", func() bool { return second.engine.records.Len() == first.engine.records.Len() })
	if link.dialled.Load() != 1 || far.accepted.Load() != 1 || counter("mirror_failed") != 0 {
		t.Errorf("%d connections, %d failures", link.dialled.Load(), counter("mirror_failed"))
	}
}
