package forward

import (
	"errors"
	"io"
	"os"
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
	fd     int // -1: closed
	poller atomic.Pointer[poller]
	attach sync.Mutex // held while the poller is made
	clock  *clock
	killed *atomic.Bool // the flow is to end

	reader, writer side

	in      *buffer // of the read in progress
	short   bool    // reads take little at a time
	into    *pipe   // where the read in progress goes instead, and how much of it
	most    int
	out     [2][]byte
	outOf   *pipe    // what the write in progress sends instead
	peer    sockaddr // of the connect in progress
	state   connState
	sends   uint8         // successful sends, up to 2
	opened  instant       // when connecting began
	reuses  int           // how often it was taken from the spares
	ended   bool          // the peer has sent its last byte, or reading failed: nothing more can come
	silent  bool          // the peer promised to send nothing more, and has little to receive
	aborted atomic.Bool   // the close resets
	pulled  atomic.Uint64 // bytes read
	pushed  atomic.Uint64 // bytes written
	inErr   error
	outErr  error
	scratch [1]byte
}

// side is one direction of a conn.
type side struct {
	// deadline is when waiting ends with errTimeout; alreadyOver when the side was told to end.
	deadline atomic.Int64
	// renew moves the deadline this far ahead with each progress; zero leaves it. It belongs to who reads or writes.
	renew time.Duration
}

// alreadyOver is a deadline that only set takes away.
const alreadyOver = 1

type connState uint8

const (
	connOpen connState = iota
	connConnecting
)

// poller is what a conn has once it had to wait.
type poller struct {
	file        *os.File
	raw         syscall.RawConn
	read, write func(uintptr) bool
}

// open makes c the socket fd. The clock and killed must be set.
func (c *conn) open(fd int) {
	c.fd, c.state, c.sends, c.ended, c.silent = fd, connOpen, 0, false, false
	c.aborted.Store(false)
	c.poller.Store(nil)
	c.reader.set(0, 0)
	c.writer.set(0, 0)
}

func (c *conn) isOpen() bool { return c.fd >= 0 }

// set gives the side a deadline and how it is renewed, whatever it was told before.
func (s *side) set(deadline instant, renew time.Duration) {
	s.deadline.Store(int64(deadline))
	s.renew = renew
}

func (s *side) passed(now instant) bool {
	d := s.deadline.Load()
	return d != 0 && instant(d) < now
}

// move moves the deadline, unless the side was told to end: another goroutine may do that at any moment.
func (s *side) move(deadline instant) {
	for {
		d := s.deadline.Load()
		if d == alreadyOver || d == int64(deadline) || s.deadline.CompareAndSwap(d, int64(deadline)) {
			return
		}
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

// fill waits for bytes and adds them to b. While it waits b holds no memory, unless it holds bytes. At the end of the stream
// the error is io.EOF.
func (c *conn) fill(b *buffer) error {
	c.in = b
	return c.read()
}

// read carries out the read that was prepared.
func (c *conn) read() error {
	p := c.poller.Load()
	if p == nil {
		if c.tryRead(0) {
			return c.inErr
		}
		var err error
		if p, err = c.attachPoller(); err != nil {
			return err
		}
	}
	return c.wait(&c.reader, p.raw.Read, p.read, &c.inErr)
}

// tryRead reports whether the read is over.
func (c *conn) tryRead(uintptr) bool {
	if c.into != nil {
		return c.trySpliceIn()
	}
	for {
		room := c.in.free()
		if c.short {
			room = room[:min(len(room), shortRead)]
		}
		n, errno := recv(c.fd, room, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			c.in.release()
			return false
		case errno != 0:
			c.inErr, c.ended = errno, true
		case n == 0:
			c.inErr, c.ended = io.EOF, true
		default:
			c.inErr = nil
			c.in.w += n
			c.pulled.Add(uint64(n))
			c.progress(&c.reader)
			return true
		}
		c.in.release()
		return true
	}
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
	c.delayNoMore()
	if c.tryWrite(0) {
		return c.outErr
	}
	p := c.poller.Load()
	if p == nil {
		var err error
		if p, err = c.attachPoller(); err != nil {
			return err
		}
	}
	return c.wait(&c.writer, p.raw.Write, p.write, &c.outErr)
}

// delayNoMore switches the delay of small segments off when a second send begins: the first goes out at once anyway.
func (c *conn) delayNoMore() {
	switch c.sends {
	case 0:
		c.sends = 1
	case 1:
		c.sends = 2
		_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
}

// tryWrite reports whether the write, or the connect, is over.
func (c *conn) tryWrite(uintptr) bool {
	if c.state == connConnecting {
		return c.tryConnect()
	}
	if c.outOf != nil {
		return c.trySpliceOut()
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
		case unix.EAGAIN:
			return false
		default:
			c.out, c.outErr = [2][]byte{}, errno
			return true
		}
	}
	c.outErr = nil
	return true
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
	c.peer, c.state = *to, connConnecting
	c.until(&c.writer, timeout)
	for range 2 { // the second time finds a connection on the same machine already made
		if c.tryConnect() {
			return c.outErr
		}
	}
	p, err := c.attachPoller()
	if err != nil {
		return err
	}
	return c.wait(&c.writer, p.raw.Write, p.write, &c.outErr)
}

// tryConnect reports whether the connect is over.
func (c *conn) tryConnect() bool {
	errno := connect(c.fd, &c.peer)
	switch errno {
	case unix.EINPROGRESS, unix.EALREADY, unix.EINTR:
		return false
	case 0, unix.EISCONN:
		c.outErr = nil
	default:
		c.outErr = errno
	}
	c.state = connOpen
	return true
}

// wait runs attempt whenever the socket becomes ready, until it is over or the deadline passes.
func (c *conn) wait(s *side, ready func(func(uintptr) bool) error, attempt func(uintptr) bool, result *error) error {
	for {
		err := ready(attempt)
		if err == nil {
			return *result
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		p := c.poller.Load()
		if s == &c.reader {
			_ = p.file.SetReadDeadline(time.Time{})
		} else {
			_ = p.file.SetWriteDeadline(time.Time{})
		}
		if c.killed.Load() {
			return errKilled
		}
		if s.passed(c.clock.now()) {
			return errTimeout
		}
	}
}

// attachPoller makes the poller, if no other goroutine has.
func (c *conn) attachPoller() (*poller, error) {
	c.attach.Lock()
	defer c.attach.Unlock()
	if p := c.poller.Load(); p != nil {
		return p, nil
	}
	p := &poller{file: os.NewFile(uintptr(c.fd), "socket"), read: c.tryRead, write: c.tryWrite}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	p.raw = raw
	c.poller.Store(p)
	return p, nil
}

// past is a deadline that wakes whoever waits.
var past = time.Unix(1, 0)

// expire wakes what waits on the conn beyond its deadline, or all of it. It may be called from any goroutine.
func (c *conn) expire(now instant, all bool) {
	p := c.poller.Load()
	if p == nil {
		return
	}
	if all || c.reader.passed(now) {
		_ = p.file.SetReadDeadline(past)
	}
	if all || c.writer.passed(now) {
		_ = p.file.SetWriteDeadline(past)
	}
}

// end makes a side time out now and until it is set anew. It may be called from any goroutine.
func (c *conn) end(s *side) {
	s.deadline.Store(alreadyOver)
	if p := c.poller.Load(); p != nil {
		if s == &c.reader {
			_ = p.file.SetReadDeadline(past)
		} else {
			_ = p.file.SetWriteDeadline(past)
		}
	}
}

// quiet reports whether an idle conn is as it should be: not closed, and nothing sent that was not asked for.
func (c *conn) quiet() bool {
	for {
		_, errno := recv(c.fd, c.scratch[:], unix.MSG_PEEK)
		if errno != unix.EINTR {
			return errno == unix.EAGAIN
		}
	}
}

// closeWrite tells the peer that nothing more will be sent.
func (c *conn) closeWrite() { _ = shutdownWrite(c.fd) }

// detach takes the socket away from the conn, which is closed then.
func (c *conn) detach() (fd int, file *os.File) {
	fd, c.fd = c.fd, -1
	if p := c.poller.Swap(nil); p != nil {
		file = p.file
	}
	return fd, file
}

// reset makes the close that follows a reset.
func (c *conn) reset() {
	if c.fd < 0 {
		return
	}
	c.aborted.Store(true)
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// close closes the socket. Closing twice does nothing.
func (c *conn) close() {
	if c.fd >= 0 {
		closeSocket(c.detach())
	}
}

// closeSocket closes what detach returned.
func closeSocket(fd int, file *os.File) {
	if file != nil {
		_ = file.Close()
		return
	}
	_ = unix.Close(fd)
}
