package forward

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of how long a client that is done with is listened to.
const (
	// leavingTime bounds it in any case.
	leavingTime = instant(10 * time.Second)
	// leavingQuiet is enough where the client sends nothing and has acknowledged everything.
	leavingQuiet = instant(2 * time.Second)
	// leavingBytes is how much the client may send.
	leavingBytes = 16 << 20
	// leavingSlice is how much of that is taken at a time.
	leavingSlice = 1 << 20
	// leavingMost is how many there may be for each shard of the table; the oldest goes first.
	leavingMost = 512
	// leavingLittle is how many bytes are as good as received when they are sent.
	leavingLittle = 64 << 10
	// leavingEnd is how long the end of the table waits for them.
	leavingEnd = 500 * time.Millisecond
)

// leaving is the socket of a client that was told everything, the end included. Closing it while bytes of the client wait, or
// before more arrive, would make the kernel send a reset, which destroys what is still on its way to the client. So what comes
// is taken and forgotten until the client ends too (RFC 9112, 9.6).
type leaving struct {
	fd    int
	began instant
	heard instant // when the last bytes came
	taken int
}

// look takes what has come, and reports whether the socket can be closed.
func (l *leaving) look(now instant) bool {
	for taken := 0; taken < leavingSlice; {
		n, errno := discard(l.fd)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return now-l.began > leavingTime || now-l.heard > leavingQuiet && unacknowledged(l.fd) == 0
		case errno != 0 || n == 0:
			return true
		}
		taken += n
		l.taken += n
		l.heard = now
	}
	return l.taken > leavingBytes || now-l.began > leavingTime
}

func (l *leaving) close() { closeSocket(l.fd) }

// departures are the sockets that are leaving. There is no goroutine for them: whoever adds one looks at the oldest, and the
// table looks at all of them with each tick.
type departures struct {
	mu   sync.Mutex
	list []leaving // guarded by mu; who was looked at last is last
}

// take returns the first.
func (d *departures) take() (l leaving, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) == 0 {
		return l, false
	}
	l = d.list[0]
	d.list = d.list[1:]
	return l, true
}

// put adds one at the end. If there are too many the first is returned, to be closed.
func (d *departures) put(l leaving) (first leaving, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if full = len(d.list) == leavingMost; full {
		first, d.list = d.list[0], d.list[1:]
	}
	d.list = append(d.list, l)
	return first, full
}

func (d *departures) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.list)
}

// visit looks at up to n of them, the first ones, and closes those that are done. It returns how many stay.
func (d *departures) visit(n int, now instant) (stay int) {
	for ; n > 0; n-- {
		l, ok := d.take()
		if !ok {
			break
		}
		if l.look(now) {
			l.close()
			continue
		}
		stay++
		if first, full := d.put(l); full {
			first.close()
		}
	}
	return stay
}

// leave ends the connection of a client without losing what it was sent. The conn is closed then. Where nothing can be lost,
// or everything shall be, it is closed at once.
func (t *Table) leave(c *conn, shard uint8) {
	if !c.isOpen() {
		return
	}
	over := c.aborted.Load() || c.ended
	if !over {
		n, errno := c.peek()
		over = n == 0 && errno == 0 || c.silent && errno == unix.EAGAIN
	}
	if over || shutdownWrite(c.fd) != 0 {
		c.close()
		return
	}
	now := t.clock.now()
	l := leaving{began: now, heard: now}
	l.fd = c.detach()
	d := &t.shards[shard].leaving
	d.visit(1, now)
	if first, full := d.put(l); full {
		first.close()
	}
}

// visitLeaving looks at all sockets that are leaving and returns how many stay.
func (t *Table) visitLeaving(now instant) (stay int) {
	for i := range t.shards {
		d := &t.shards[i].leaving
		stay += d.visit(d.len(), now)
	}
	return stay
}

// dropLeaving closes all sockets that are leaving, whatever gets lost: their descriptors are needed.
func (t *Table) dropLeaving() {
	for i := range t.shards {
		for d := &t.shards[i].leaving; ; {
			l, ok := d.take()
			if !ok {
				break
			}
			l.close()
		}
	}
}

// endLeaving waits a moment for those that are leaving, then closes them.
func (t *Table) endLeaving() {
	for end := time.Now().Add(leavingEnd); t.visitLeaving(t.clock.now()) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	t.dropLeaving()
}
