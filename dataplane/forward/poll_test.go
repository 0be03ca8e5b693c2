package forward

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An event that was meant for an earlier owner of a descriptor reaches nobody.
func TestOwners(t *testing.T) {
	var o owners
	a, b := &conn{}, &conn{}
	give := func(fd int, c *conn) (turn uint32) {
		place := o.at(fd)
		turn = place.turn.Add(1)
		place.conn.Store(c)
		return turn
	}
	for _, fd := range []int{0, ownersPage - 1, ownersPage, ownersPage*ownersPages - 1} {
		first := give(fd, a)
		if o.find(fd, first) != a {
			t.Errorf("%d: the first owner is not found", fd)
		}
		o.forget(fd)
		if o.find(fd, first) != nil {
			t.Errorf("%d: it was closed", fd)
		}
		second := give(fd, b)
		if o.find(fd, first) != nil || o.find(fd, second) != b {
			t.Errorf("%d: the second owner is not told from the first", fd)
		}
	}
	if o.at(ownersPage*ownersPages) != nil {
		t.Error("there is a place beyond the last")
	}
}

// However waking and waiting meet, nothing that happened is missed.
func TestNothingIsMissed(t *testing.T) {
	const events = 20_000
	var s side
	var happened atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for happened.Load() < events {
			if !s.take() {
				s.wait()
			}
		}
	}()
	for range events {
		happened.Add(1)
		s.wake(ready)
		if happened.Load()%64 == 0 {
			runtime.Gosched()
		}
	}
	select {
	case <-done:
	case <-time.After(testPatience):
		t.Error("the last event was missed")
	}
}

// The mark of an end stays, since the end is not told twice; and it goes when there is none after all.
func TestEndStays(t *testing.T) {
	var s side
	s.wake(ready)
	s.wake(ended)
	s.wake(ready)
	for range 2 {
		if !s.take() {
			t.Fatal("the end is forgotten")
		}
	}
	if !s.emptied() || s.emptied() {
		t.Error("a try that found nothing must be made just once more")
	}
	if s.take() {
		t.Error("nothing has happened")
	}
	s.more()
	if !s.take() || s.take() {
		t.Error("what is there is taken once")
	}
}

// An HTTP connection that waits for its client has no goroutine, and workers that have nothing to do go.
func TestIdleWithoutGoroutine(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	b := httpLab(t, plain(o))
	for range 20 {
		c := b.dial()
		c.send(get())
		expect(t, c.response(), "s", nil)
	}
	eventually(t, "all wait without a goroutine", func() bool {
		n := 0
		for i := range b.table.shards {
			b.table.each(i, func(f *flow) {
				if f.client.reader.news.Load() == &f.parked {
					n++
				}
			})
		}
		return n == 20
	})
	resting := func() int {
		b.table.workers.mu.Lock()
		defer b.table.workers.mu.Unlock()
		return len(b.table.workers.idle)
	}
	eventually(t, "a worker rests", func() bool { return resting() > 0 })
	b.table.workers.dismiss(b.table.clock.now())
	if n := resting(); n != 0 {
		t.Errorf("%d workers are left", n)
	}
	c := b.dial()
	c.send(get())
	expect(t, c.response(), "s", nil)
}

// A stream that has much to move lets others have their turn.
func TestStreamTurn(t *testing.T) {
	fd, other := connected(t)
	var f flow
	f.settings = Settings{}.withDefaults()
	f.client.clock = newClock()
	f.client.open(fd)
	f.own.clock, f.own.owners = f.client.clock, &owners{}
	into, reader := connected(t)
	f.own.open(into)
	defer f.client.close()
	defer f.own.close()
	go io.Copy(io.Discard, reader)
	go other.Write(make([]byte, 4<<20))
	s := stream{src: &f.client, dst: &f.own, buffer: &f.in, readable: readToEnd}
	defer f.in.drop()
	eventually(t, "one turn is not enough", func() bool {
		before := f.client.pulled.Load()
		s.readable, s.blocked = readToEnd, false
		f.own.watched.Store(watchOut) // as if it were: nothing waits
		more, err := s.move(&f)
		if err != nil {
			t.Fatal(err)
		}
		if n := f.client.pulled.Load() - before; n > turnReads*bufferSize {
			t.Fatalf("%d bytes in a turn", n)
		}
		return more
	})
}

// A member that speaks first is heard although clients used to; and whoever speaks first is learned.
func TestWhoSpeaksFirst(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", func(_ *origin, p *peer) {
		p.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if line, _ := p.r.ReadString('\n'); line != "" {
			p.send("got " + line)
			return
		}
		p.SetReadDeadline(time.Now().Add(testPatience))
		p.send("220 hello\r\n")
		p.rest()
	})
	b := tcpLab(t, plain(o))
	for range 3 {
		c := b.dial()
		c.send("x\n")
		if got, err := c.rest(); got != "got x\n" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if !b.l.speakers.clientFirst() {
		t.Error("clients speak first")
	}
	c := b.dial()
	if got := c.bytes(11); got != "220 hello\r\n" {
		t.Errorf("%q", got)
	}
	eventually(t, "members speak first", func() bool { return !b.l.speakers.clientFirst() }) // it is noted behind the bytes
}

// The acknowledgement is due once, in the order in which it was withheld.
func TestWithheld(t *testing.T) {
	var a acks
	defer a.stop()
	r := make([]*relay, 3)
	for i := range r {
		r[i] = &relay{}
		r[i].spoken.Store(true)
		a.withhold(r[i])
	}
	eventually(t, "all are released", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.list) == 0 && !a.armed
	})
	a.withhold(r[0])
	if early := a.take(time.Now().Add(-time.Second)); len(early) != 0 {
		t.Error("too early")
	}
	if due := a.take(time.Now().Add(time.Second)); len(due) != 1 || due[0].relay != r[0] {
		t.Errorf("%d are due", len(due))
	}
}

// A member's connection ends with a reset only where the member knows that it is over.
func TestHowMembersConnectionEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		request, answer string
		reset           bool
	}{
		"client_closes": {get("Connection: close"), ok("s"), true},
		"member_closes": {get(), strings.Replace(ok("s"), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), true},
		"kept":          {get(), ok("s"), false},
	} {
		t.Run(name, func(t *testing.T) {
			end := make(chan error, 1)
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				o.read(p)
				p.send(tt.answer)
				_, err := io.ReadAll(p.r)
				end <- err
			})
			c := httpLab(t, plain(o)).dial()
			c.send(tt.request)
			expect(t, c.response(), "s", nil)
			c.Conn.(*net.TCPConn).CloseWrite()
			if err := <-end; errors.Is(err, syscall.ECONNRESET) != tt.reset {
				t.Errorf("the member sees %v", err)
			}
		})
	}
}

// Who finds no descriptor left when the first listener comes does not stay without events for ever.
func TestPollsStartAgain(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var ps polls
	var ds doors
	defer func() {
		ds.close()
		ps.close()
	}()
	none := before
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	first := errors.Join(ps.start(), ds.start(&ps))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(first, unix.EMFILE) {
		t.Errorf("without descriptors: %v", first)
	}
	if err := errors.Join(ps.start(), ds.start(&ps)); err != nil {
		t.Errorf("with descriptors again: %v", err)
	}
	if len(ps.list) == 0 || len(ds.list) == 0 {
		t.Error("nothing was opened")
	}
}
