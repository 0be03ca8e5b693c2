package forward

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// errTimeout means that a deadline passed while waiting.
	errTimeout = errors.New("timed out")
	// errKilled means that the flow is to end at once.
	errKilled = errors.New("ended by its owner")
)

// instant is a time of the table's clock in nanoseconds; zero is none.
type instant int64

// conn is a non-blocking socket of a flow. One goroutine may read while another writes; opening and closing is for the
// flow when nobody else uses it.
type conn struct {
	fd      int           // -1: closed
	watched atomic.Uint32 // the events that poll watches the socket for; 0: it does not
	attach  sync.Mutex    // held while that changes
	poll    *poll
	owners  *owners
	clock   *clock
	killed  *atomic.Bool          // the flow is to end
	as      introduction          // of a connection to a member
	relay   atomic.Pointer[relay] // who is told what happens, instead of those who wait

	reader, writer side

	in      *buffer // of the read in progress
	into    *pipe   // where the read in progress goes instead, and how much of it
	most    int
	out     [2][]byte
	outOf   *pipe         // what the write in progress sends instead
	short   bool          // reads take little at a time
	sends   uint8         // successful sends, up to 2
	opened  instant       // when connecting began
	reuses  int           // how often it was taken from the spares
	ended   bool          // the peer has sent its last byte, or reading failed: nothing more can come
	silent  bool          // the peer promised to send nothing more, and has little to receive
	aborted atomic.Bool   // the close resets
	gone    atomic.Bool   // the connection is over in both directions
	pulled  atomic.Uint64 // bytes read
	pushed  atomic.Uint64 // bytes written
}

// open makes c the socket fd. The clock, killed and the fields for waiting must be set.
func (c *conn) open(fd int) {
	c.fd, c.sends, c.ended, c.silent = fd, 0, false, false
	c.watched.Store(0)
	c.aborted.Store(false)
	c.gone.Store(false)
	c.reader.news.Store(nil)
	c.writer.news.Store(nil)
	c.reader.set(0, 0)
	c.writer.set(0, 0)
}

func (c *conn) isOpen() bool { return c.fd >= 0 }

// watch has the socket watched for events, besides those that it is watched for.
func (c *conn) watch(events uint32) error {
	if c.watched.Load()&events == events {
		return nil
	}
	c.attach.Lock()
	defer c.attach.Unlock()
	place := c.owners.at(c.fd)
	if place == nil {
		return unix.EMFILE
	}
	op := unix.EPOLL_CTL_MOD
	if c.watched.Load() == 0 {
		op = unix.EPOLL_CTL_ADD
		place.turn.Add(1)
		place.conn.Store(c)
	}
	events |= c.watched.Load()
	e := unix.EpollEvent{Events: events, Fd: int32(c.fd), Pad: int32(place.turn.Load())}
	if errno := epollControl(c.poll.fd, op, c.fd, &e); errno != 0 {
		return errno
	}
	c.watched.Store(events)
	return nil
}

// happened is told the events of the socket.
func (c *conn) happened(events uint32) {
	if r := c.relay.Load(); r != nil {
		r.happened(c, events)
		return
	}
	if events&eventGone != 0 {
		c.gone.Store(true)
	}
	switch {
	case events&eventEnd != 0:
		c.reader.wake(ended)
	case events&unix.EPOLLIN != 0:
		c.reader.wake(ready)
	}
	if events&(unix.EPOLLOUT|eventGone) != 0 {
		c.writer.wake(ready)
	}
}

// progress renews the deadline.
func (c *conn) progress(s *side) {
	if s.renew > 0 {
		s.move(c.clock.after(s.renew))
	}
}

// within makes each read, or each write, fail that gets nowhere for d.
func (c *conn) within(s *side, d time.Duration) { s.set(c.clock.after(d), d) }

// until makes reads or writes fail after d, whatever progress they make.
func (c *conn) until(s *side, d time.Duration) { s.set(c.clock.after(d), 0) }

// late says why the side has to end by now, if it has.
func (c *conn) late(s *side) error {
	if c.killed.Load() {
		return errKilled
	}
	if s.passed(c.clock.now()) {
		return errTimeout
	}
	return nil
}

// fill waits for bytes and adds them to b. While it waits b holds no memory, unless it holds bytes. At the end of the stream
// the error is io.EOF.
func (c *conn) fill(b *buffer) error {
	c.in = b
	return c.read()
}

// fillOrPark is fill, but where it would wait it parks the flow, which is no longer the caller's then. What b holds is kept in
// little memory meanwhile.
func (c *conn) fillOrPark(b *buffer, f *flow) (parked bool, err error) {
	c.in = b
	for {
		if done, err := c.tryRead(); done {
			return false, err
		}
		b.shrink()
		if err := c.watch(watchIn); err != nil {
			return false, err
		}
		if c.reader.park(f) {
			return true, nil
		}
	}
}

// read carries out the read that was prepared.
func (c *conn) read() error {
	c.progress(&c.reader)
	for {
		if done, err := c.tryRead(); done {
			return err
		}
		if c.into == nil {
			c.in.release()
		}
		if err := c.watch(watchIn); err != nil {
			return err
		}
		c.reader.wait()
	}
}

// tryRead reports whether the read is over. Nothing is tried while nothing has happened: that saves two of seven system calls
// of a request on a kept connection.
func (c *conn) tryRead() (done bool, err error) {
	if err := c.late(&c.reader); err != nil {
		return true, err
	}
	for c.reader.take() {
		n, full, errno := c.readOnce()
		switch {
		case errno == unix.EINTR:
			c.reader.more()
		case errno == unix.EAGAIN:
			if c.reader.emptied() {
				c.reader.more()
			}
		case errno != 0:
			c.ended = true
			return true, c.unfilled(errno)
		case n == 0:
			c.ended = true
			return true, c.unfilled(io.EOF)
		default:
			if full {
				c.reader.more()
			}
			c.pulled.Add(uint64(n))
			c.progress(&c.reader)
			return true, nil
		}
	}
	return false, nil
}

// unfilled gives memory back that nothing was read into.
func (c *conn) unfilled(err error) error {
	if c.into == nil {
		c.in.release()
	}
	return err
}

// readOnce reads what is there. Full says that there may be more.
func (c *conn) readOnce() (n int, full bool, errno syscall.Errno) {
	if c.into != nil {
		n, errno = splice(c.fd, c.into.w, c.most)
		if errno == 0 {
			c.into.held += n
		}
		return n, true, errno
	}
	room := c.in.free()
	if c.short {
		room = room[:min(len(room), shortRead)]
	}
	n, errno = recv(c.fd, room, 0)
	if errno == 0 {
		c.in.w += n
	}
	return n, n == len(room), errno
}

// write sends all of b.
func (c *conn) write(b []byte) error { return c.writeTwo(b, nil) }

// writeTwo sends all of a and then all of b.
func (c *conn) writeTwo(a, b []byte) error {
	if len(a) == 0 {
		a, b = b, nil
	}
	c.out = [2][]byte{a, b}
	return c.send()
}

// send carries out the write that was prepared.
func (c *conn) send() error {
	c.progress(&c.writer)
	c.delayNoMore()
	err := c.untilSent()
	c.out = [2][]byte{}
	return err
}

func (c *conn) untilSent() error {
	for {
		if err := c.late(&c.writer); err != nil {
			return err
		}
		c.writer.take()
		errno := c.writeOnce()
		switch errno {
		case 0:
			return nil
		case unix.EAGAIN:
		default:
			return errno
		}
		if err := c.watch(watchOut); err != nil {
			return err
		}
		c.writer.wait()
	}
}

// delayNoMore switches the delay of small segments off when a second send begins: the first goes out at once anyway.
func (c *conn) delayNoMore() {
	switch c.sends {
	case 0:
		c.sends = 1
	case 1:
		c.sends = 2
		setOption(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
}

// writeOnce sends what it can; zero says that this was all.
func (c *conn) writeOnce() syscall.Errno {
	if c.outOf != nil {
		return c.spliceOut()
	}
	for len(c.out[0]) > 0 {
		var n int
		var errno syscall.Errno
		if len(c.out[1]) > 0 {
			n, errno = sendTwo(c.fd, c.out[0], c.out[1])
		} else {
			n, errno = send(c.fd, c.out[0])
		}
		switch errno {
		case 0:
			c.pushed.Add(uint64(n))
			c.progress(&c.writer)
			c.sent(n)
		case unix.EINTR:
		default:
			return errno
		}
	}
	return 0
}

// sent takes n bytes off what is to be sent.
func (c *conn) sent(n int) {
	if n < len(c.out[0]) {
		c.out[0] = c.out[0][n:]
		return
	}
	n -= len(c.out[0])
	c.out = [2][]byte{c.out[1][n:]}
}

// connect opens a socket to an address and waits until it is accepted.
func (c *conn) connect(to *sockaddr, fd int, timeout time.Duration) error {
	c.open(fd)
	c.opened, c.reuses = c.clock.now(), 0
	c.until(&c.writer, timeout)
	done, err := c.tryConnect(to)
	for !done { // the second time finds a connection on the same machine already made
		if done, err = c.tryConnect(to); done {
			break
		}
		if err := c.watch(watchOut); err != nil {
			return err
		}
		c.writer.wait()
		if err := c.late(&c.writer); err != nil {
			return err
		}
		c.writer.take()
	}
	return err
}

// tryConnect reports whether the connect is over.
func (c *conn) tryConnect(to *sockaddr) (done bool, err error) {
	switch errno := connect(c.fd, to); errno {
	case unix.EINPROGRESS, unix.EALREADY, unix.EINTR:
		return false, nil
	case 0, unix.EISCONN:
		return true, nil
	default:
		return true, errno
	}
}

// overdue reports whether somebody waits on the conn beyond a deadline.
func (c *conn) overdue(now instant) bool {
	return c.reader.passed(now) && c.reader.waited() || c.writer.passed(now) && c.writer.waited()
}

// expire wakes who waits on the conn beyond a deadline, or whoever waits. It may be called from any goroutine.
func (c *conn) expire(now instant, all bool) {
	if all || c.reader.passed(now) {
		c.reader.hurry()
	}
	if all || c.writer.passed(now) {
		c.writer.hurry()
	}
}

// end makes a side time out now and until it is set anew. It may be called from any goroutine.
func (c *conn) end(s *side) {
	s.deadline.Store(alreadyOver)
	s.wake(ready)
}

// peek looks whether something can be read; n is 0 at the end of the stream.
func (c *conn) peek() (n int, errno syscall.Errno) {
	var b [1]byte
	for {
		if n, errno = recv(c.fd, b[:], unix.MSG_PEEK); errno != unix.EINTR {
			return n, errno
		}
	}
}

// quiet reports whether an idle conn is as it should be: not closed, and nothing sent that was not asked for.
func (c *conn) quiet() bool {
	_, errno := c.peek()
	return errno == unix.EAGAIN
}

// quietSoFar is quiet as far as is known without asking the kernel.
func (c *conn) quietSoFar() bool {
	if c.watched.Load() == 0 || c.reader.news.Load() != nil {
		return c.quiet()
	}
	return true
}

// closeWrite tells the peer that nothing more will be sent.
func (c *conn) closeWrite() { _ = shutdownWrite(c.fd) }

// detach takes the socket away from the conn, which is closed then.
func (c *conn) detach() (fd int) {
	if c.watched.Load() != 0 {
		c.owners.forget(c.fd)
		c.watched.Store(0)
	}
	fd, c.fd = c.fd, -1
	return fd
}

// reset makes the close that follows a reset.
func (c *conn) reset() {
	if c.fd < 0 {
		return
	}
	c.aborted.Store(true)
	resetOnClose(c.fd)
}

// close closes the socket. Closing twice does nothing.
func (c *conn) close() {
	if c.fd >= 0 {
		closeSocket(c.detach())
	}
}
