package forward

import (
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// spliceLeast is how many bytes of a body must be left for them to go past us inside the kernel.
	spliceLeast = 24 << 10
	// pipeSize is how many bytes a pipe takes at a time.
	pipeSize = 256 << 10
	// pipesKept is how many pipes are kept for later.
	pipesKept = 64
	// shortRead is how much is read for the head of a response that is expected to be followed by a large body.
	shortRead = 4 << 10
)

// pipe carries bytes from one socket to another inside the kernel.
type pipe struct {
	r, w int
	held int // bytes in it
}

// pipes are those that nobody uses. They are empty.
var pipes struct {
	mu   sync.Mutex
	free []*pipe
}

// takePipe returns an empty pipe; nil if there is none to be had.
func takePipe() *pipe {
	pipes.mu.Lock()
	if n := len(pipes.free); n > 0 {
		p := pipes.free[n-1]
		pipes.free = pipes.free[:n-1]
		pipes.mu.Unlock()
		return p
	}
	pipes.mu.Unlock()
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		return nil
	}
	// A refusal leaves the size that pipes have, which will do.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	return &pipe{r: fds[0], w: fds[1]}
}

// giveBack keeps the pipe for later, unless something is in it or there are enough.
func (p *pipe) giveBack() {
	if p.held == 0 {
		pipes.mu.Lock()
		defer pipes.mu.Unlock()
		if len(pipes.free) < pipesKept {
			pipes.free = append(pipes.free, p)
			return
		}
	}
	p.close()
}

func (p *pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// dropPipes closes the pipes that nobody uses.
func dropPipes() {
	pipes.mu.Lock()
	defer pipes.mu.Unlock()
	for _, p := range pipes.free {
		p.close()
	}
	pipes.free = nil
}

// splice moves up to n bytes; one side is a pipe. It never blocks.
func splice(from, to, n int) (moved int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n),
		unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	return int(r), errno
}

// fillPipe waits for bytes and moves up to most of them into an empty pipe. At the end of the stream the error is io.EOF.
func (c *conn) fillPipe(p *pipe, most int64) error {
	c.into, c.most = p, int(min(most, pipeSize))
	err := c.read()
	c.into = nil
	return err
}

// emptyPipe sends all that a pipe holds.
func (c *conn) emptyPipe(p *pipe) error {
	c.outOf = p
	err := c.send()
	c.outOf = nil
	return err
}

// spliceOut sends what it can of the pipe that is to be sent; zero says that this was all.
func (c *conn) spliceOut() syscall.Errno {
	for c.outOf.held > 0 {
		n, errno := splice(c.outOf.r, c.fd, c.outOf.held)
		switch errno {
		case 0:
			c.outOf.held -= n
			c.pushed.Add(uint64(n))
			c.progress(&c.writer)
		case unix.EINTR:
		default:
			return errno
		}
	}
	return 0
}

// spliceBody moves what of the response's body needs no look past us. It reports whether it could: false leaves everything
// as it was. The error is io.EOF where the body has ended with the member's connection, as it may.
func (x *exchange) spliceBody() (could bool, err error) {
	f := x.f
	p := takePipe()
	if p == nil {
		return false, nil
	}
	defer p.giveBack()
	f.from.release()
	for left := x.down.Direct(); left > 0; left = x.down.Direct() {
		if x.upload.fault.Load() != nil {
			return true, errCut
		}
		if err := f.server.fillPipe(p, left); err != nil {
			if err = x.bodyEnd(err); err == nil {
				err = io.EOF
			}
			return true, err
		}
		x.down.Moved(int64(p.held))
		if x.down.Done() {
			x.detach()
		}
		if f.client.emptyPipe(p) != nil {
			return true, errAborted
		}
		f.touch()
	}
	return true, nil
}
