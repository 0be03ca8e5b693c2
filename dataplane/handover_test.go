package dataplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigpipe/dataplane/handover"
	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
)

// process is a dataplane that runs as it would as a process of its own.
type process struct {
	site
	cancel context.CancelFunc
	log    *logged
	done   chan struct{}
	err    error // once done is closed
}

// startProcess runs a dataplane in a state directory, which takes over if there is one. It returns when it serves.
func startProcess(t *testing.T, dir string, change ...func(*Options)) *process {
	t.Helper()
	p := &process{site: site{t: t, objects: map[string]*pb.Object{}}, log: &logged{}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	o := Options{Listen: "unix://" + filepath.Join(dir, "d.sock"), HandOverTimeout: patience, DrainTimeout: 100 * time.Millisecond}
	o.StateDir, o.Log, o.Sockets, o.Addresses = dir, p.log.logger(), handover.NewSockets(), &AddressMap{}
	if err := o.Addresses.Add(mapped); err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&o)
	}
	var err error
	if o.Taken, err = Take(ctx, dir, o.Sockets, o.Log); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	o.Ready = func(e *Engine) {
		p.engine = e
		close(ready)
	}
	go func() {
		defer close(p.done)
		p.err = Run(ctx, o)
		o.Sockets.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
	})
	select {
	case <-ready:
	case <-p.done:
		t.Fatal(p.err)
	}
	return p
}

// succeed starts the next process, which goes on with the revisions of this one.
func (p *process) succeed(dir string, change ...func(*Options)) *process {
	p.t.Helper()
	next := startProcess(p.t.(*testing.T), dir, change...)
	next.revision = p.revision
	return next
}

// Another process takes over listening sockets, configuration, records and the state directory; open connections stay with the
// first one, which ends with the last of them.
func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	first := startProcess(t, dir)
	first.apply(simplePool("p", 60, a.addr(), b.addr()), virtualServer(web, "p"), plainPool("q", b.addr()), virtualServer(other, "q"))
	bound, _ := first.engine.Bound(web)
	name, open := first.visit(web)
	want(t, name, "a")

	second := first.succeed(dir)
	if now, _ := second.engine.Bound(web); now != bound {
		t.Errorf("bound to %s, and to %s before", now, bound)
	}
	if r := second.engine.Status(); r.GetRevision() != first.revision || r.GetStoreId() != storeID || len(r.GetNotInEffect()) > 0 {
		t.Errorf("status %v", r)
	}
	for range 3 {
		want(t, second.who(web), "a") // the record
		want(t, second.who(other), "b")
	}
	echo(t, open, "still with the first")
	if _, err := first.engine.Apply(&Update{Header: &pb.ApplyHeader{}}); !errors.Is(err, ErrHandedOver) {
		t.Errorf("the first takes a configuration: %v", err)
	}
	if _, err := first.engine.ClearRecords(nil); !errors.Is(err, ErrHandedOver) {
		t.Errorf("the first clears records: %v", err)
	}
	want(t, reasons(second.apply(plainPool("q", a.addr()))), "")
	want(t, second.who(other), "a")
	open.Close()
	<-first.done
	if first.err != nil {
		t.Error(first.err)
	}

	third := second.succeed(dir)
	<-second.done
	want(t, third.who(web), "a")
	third.cancel()
	<-third.done
	last := startProcess(t, dir) // the directory is free, and has what was applied last
	if got := last.engine.Status().GetRevision(); got != second.revision {
		t.Errorf("revision %d, want %d", got, second.revision)
	}
}

// Of UDP the socket goes on: a client's next datagram goes to its member through the next process, and what the member still
// sends to the first one reaches the client too.
func TestHandOverUDP(t *testing.T) {
	dir := t.TempDir()
	newEcho := func() net.PacketConn {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	members := [2]net.PacketConn{newEcho(), newEcho()}
	var echoes sync.WaitGroup
	var flows [2]atomic.Pointer[net.Addr] // where the last datagram came from
	for i, m := range members {
		echoes.Go(func() {
			b := make([]byte, 100)
			for {
				n, from, err := m.ReadFrom(b)
				if err != nil {
					return
				}
				flows[i].Store(&from)
				_, _ = m.WriteTo(fmt.Appendf(nil, "%d %s", i, b[:n]), from)
			}
		})
	}
	defer func() {
		members[0].Close()
		members[1].Close()
		echoes.Wait()
	}()
	first := startProcess(t, dir)
	first.apply(simplePool("p", 600, members[0].LocalAddr().String(), members[1].LocalAddr().String()), virtualServer(web, "p"),
		object(&pb.Service{Port: 80, Tcp: new(false), Udp: new(true)}))
	bound, _ := first.engine.Bound(web)
	c, err := net.Dial("udp", bound.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	receive := func() string {
		b := make([]byte, 100)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	ask := func(text string) string {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return receive()
	}
	want(t, ask("one"), "0 one")
	old := *flows[0].Load()
	second := first.succeed(dir)
	for i := range 20 {
		want(t, ask(fmt.Sprint("datagram ", i)), fmt.Sprint("0 datagram ", i))
	}
	if now := *flows[0].Load(); now.String() == old.String() {
		t.Error("the first process still forwards what clients send")
	}
	if _, err := members[0].WriteTo([]byte("late"), old); err != nil {
		t.Fatal(err)
	}
	want(t, receive(), "late")
	want(t, reasons(second.engine.Status().GetNotInEffect()), "")
	first.cancel()
}

// A record that is in use by a connection that stayed behind does not age, and begins to with the end of the connection.
func TestHandOverKeepsRecordsInUse(t *testing.T) {
	dir := t.TempDir()
	a := newMember(t, "a", false)
	first := startProcess(t, dir)
	first.apply(simplePool("p", 600, a.addr()), virtualServer(web, "p"))
	_, open := first.visit(web)
	second := first.succeed(dir)
	last := time.Duration(0)
	refreshed := func() bool { // its idle time has become less
		for r := range second.engine.records.List(persist.Filter{}) {
			before := last
			last = r.Idle
			return last < before
		}
		t.Fatal("the record is gone")
		return false
	}
	for range 2 {
		eventually(t, "the record is kept fresh", refreshed)
	}
	open.Close()
	<-first.done
	eventually(t, "it ages", func() bool { return !refreshed() && last > 2*reportInterval })
}

func TestTouched(t *testing.T) {
	e := newSite(t, "", "").engine
	key := func(id string) persist.Key { return persist.IDKey(persist.SSL, persist.Scope{}, []byte(id)) }
	node := func(n int) *persist.Record {
		r := &persist.Record{Timeout: 10 * time.Minute, Remaining: 10 * time.Minute, Accepted: true}
		r.Node = netip.MustParseAddrPort(fmt.Sprintf("10.1.1.%d:80", n))
		return r
	}
	known := node(1)
	known.Key, known.Remaining, known.Age, known.Idle = key("known"), 5*time.Minute, time.Hour, 5*time.Minute
	e.records.Import(*known)
	for _, tt := range []struct {
		id   string
		node int
		age  time.Duration
		want string
	}{
		{"known", 2, time.Hour, "10.1.1.1:80 idle"}, // moved here since
		{"known", 1, time.Hour, "10.1.1.1:80 fresh"},
		{"cleared", 1, time.Hour, ""},
		{"new", 3, time.Second, "10.1.1.3:80 fresh"},
	} {
		r := node(tt.node)
		r.Key, r.Age = key(tt.id), tt.age
		e.touched(r)
		got := ""
		if rec, ok := e.records.Lookup(r.Key); ok {
			state := "fresh"
			if rec.Idle > time.Minute {
				state = "idle"
			}
			got = fmt.Sprint(rec.Node, " ", state)
		}
		if got != tt.want {
			t.Errorf("%s at node %d: %q, want %q", tt.id, tt.node, got, tt.want)
		}
	}
}

// surfer sends requests on a kept connection until it is told to stop, connecting anew where a response says that it is the last.
type surfer struct {
	requests, reconnects atomic.Int64
	failed               atomic.Pointer[string]
}

func (s *surfer) run(addr string, stop <-chan struct{}) {
	fail := func(err error) {
		text := err.Error()
		s.failed.CompareAndSwap(nil, &text)
	}
	for {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			fail(err)
			return
		}
		c.SetDeadline(time.Now().Add(patience))
		r := bufio.NewReader(c)
		for last := false; !last; {
			select {
			case <-stop:
				c.Close()
				return
			default:
			}
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") // the answer tells
			resp, err := http.ReadResponse(r, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			if err == nil && resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
			if err != nil {
				fail(err)
				c.Close()
				return
			}
			s.requests.Add(1)
			last = resp.Close
		}
		c.Close()
		s.reconnects.Add(1)
	}
}

// Under load no request fails and no connection is cut while the configuration changes, other objects and the pool in use, and
// while the process is handed over.
func TestNothingIsLost(t *testing.T) {
	dir := t.TempDir()
	a, b, raw := newMember(t, "a", true), newMember(t, "b", true), newMember(t, "raw", false)
	p := startProcess(t, dir)
	p.apply(cookiePool("p", a.addr(), b.addr()), virtualServer(web, "p"), plainPool("tcp", raw.addr()), virtualServer(other, "tcp"))
	bound, _ := p.engine.Bound(web)
	name, tcp := p.visit(other)
	want(t, name, "raw")
	var s surfer
	stop := make(chan struct{})
	var surfers sync.WaitGroup
	for range 32 {
		surfers.Go(func() { s.run(bound.String(), stop) })
	}
	finish := func() {
		close(stop)
		surfers.Wait()
	}
	const changes, handovers = 100, 5
	for i := range changes {
		before := s.requests.Load()
		switch i % 4 {
		case 0:
			p.apply(cookiePool("p", a.addr()))
		case 1:
			p.apply(cookiePool("p", a.addr(), b.addr()), plainPool("tcp", "127.0.0.1:1"))
		case 2:
			p.apply(plainPool("more", a.addr()), virtualServer(shop, "more"))
		case 3:
			p.update(nil, []string{"virtual/" + shop, "pool/more"})
		}
		if i%(changes/handovers) == changes/handovers-1 {
			p = p.succeed(dir)
		}
		eventually(t, "requests go on", func() bool { return s.requests.Load() > before+8 || s.failed.Load() != nil })
		if i%10 == 0 {
			echo(t, tcp, fmt.Sprint("change ", i))
		}
	}
	finish()
	if why := s.failed.Load(); why != nil {
		t.Errorf("after %d requests and %d new connections: %s", s.requests.Load(), s.reconnects.Load(), *why)
	}
	if s.reconnects.Load() == 0 {
		t.Error("no client was told to connect anew")
	}
	echo(t, tcp, "at the end")
	t.Logf("%d requests, %d new connections", s.requests.Load(), s.reconnects.Load())
}

// Sockets of the service manager are used where they fit, stay for later, and go on to the next process.
func TestManagedSockets(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	a := newMember(t, "a", false)
	managed := func(o *Options) {
		o.Addresses = &AddressMap{}
		if err := o.Addresses.Add(web + "=" + addr); err != nil {
			t.Fatal(err)
		}
	}
	first := startProcess(t, dir, managed, func(o *Options) {
		if err := o.Sockets.KeepManaged([]*os.File{file}); err != nil {
			t.Fatal(err)
		}
	})
	for range 2 {
		want(t, reasons(first.apply(plainPool("p", a.addr()), virtualServer(web, "p"))), "")
		want(t, first.who(web), "a")
		first.update(nil, []string{"virtual/" + web})
	}
	second := first.succeed(dir, managed)
	<-first.done
	want(t, reasons(second.apply(virtualServer(web, "p"))), "")
	want(t, second.who(web), "a")
}

// The service's socket goes on too: who pushes finds the next process at the same path.
func TestServiceIsHandedOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d.sock")
	first := startProcess(t, dir)
	second := first.succeed(dir)
	<-first.done
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	second.cancel()
	<-second.done
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if first.log.count("level=ERROR")+second.log.count("level=ERROR") > 0 {
		t.Error("there were errors")
	}
}
