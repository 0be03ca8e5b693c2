package forward

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Events that a socket is watched for. They are reported once, when they begin, so a watched socket costs one system call in
// its life: closing it ends the watch.
const (
	watchIn  = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	watchOut = watchIn | unix.EPOLLOUT

	// eventEnd says that no more bytes than those that are there can be read.
	eventEnd = unix.EPOLLRDHUP | eventGone
	// eventGone says that the connection is over in both directions.
	eventGone = unix.EPOLLHUP | unix.EPOLLERR
)

// polls watch the sockets of a table: an epoll descriptor for each thread, which is itself watched by the runtime's poller. A
// socket of its own in the runtime's poller costs an os.File with four more system calls and a finalizer, 10 % of the work of a
// connection that carries one request.
type polls struct {
	starting sync.Mutex // held by start
	started  bool       // guarded by starting; list changes no more
	list     []*poll
	next     atomic.Uint32
	running  sync.WaitGroup
	owners   owners
}

// poll is an epoll descriptor and what is read from it.
type poll struct {
	fd     int
	file   *os.File
	mu     sync.Mutex // held while events are taken
	events [pollBatch]unix.EpollEvent
}

// pollBatch is how many events are taken at a time.
const pollBatch = 128

// start opens the descriptors, the first time; where that fails the next one goes on.
func (ps *polls) start() error {
	ps.starting.Lock()
	defer ps.starting.Unlock()
	for !ps.started {
		if err := ps.open(); err != nil {
			return err
		}
		ps.started = len(ps.list) >= runtime.GOMAXPROCS(0)
	}
	return nil
}

// newEpoll opens an epoll descriptor that the runtime's poller watches.
func newEpoll() (file *os.File, raw syscall.RawConn, fd int, err error) {
	fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, nil, -1, os.NewSyscallError("epoll_create", err)
	}
	// The runtime's poller takes only what does not block.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, nil, -1, os.NewSyscallError("fcntl", err)
	}
	file = os.NewFile(uintptr(fd), "epoll")
	if raw, err = file.SyscallConn(); err != nil {
		_ = file.Close()
		return nil, nil, -1, fmt.Errorf("epoll: %w", err)
	}
	return file, raw, fd, nil
}

func (ps *polls) open() error {
	file, raw, fd, err := newEpoll()
	if err != nil {
		return err
	}
	p := &poll{fd: fd, file: file}
	ps.list = append(ps.list, p)
	ps.running.Go(func() {
		// It returns when the file is closed.
		_ = raw.Read(func(uintptr) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.dispatch(&ps.owners)
			return false
		})
	})
	return nil
}

// close ends the watching. No socket may be watched any more.
func (ps *polls) close() {
	ps.starting.Lock()
	ps.started = true // or not to be
	ps.starting.Unlock()
	for _, p := range ps.list {
		_ = p.file.Close()
	}
	ps.running.Wait()
}

// choose returns the poll for the next connection, all in turn.
func (ps *polls) choose() *poll { return ps.list[ps.next.Add(1)%uint32(len(ps.list))] }

// giveWay lets others have the thread in the middle of much work. The scheduler itself asks for events only when nothing is
// left to do, or after 10 ms.
func (ps *polls) giveWay() {
	for _, p := range ps.list {
		if p.mu.TryLock() { // else somebody is about it
			p.dispatch(&ps.owners)
			p.mu.Unlock()
		}
	}
	runtime.Gosched()
}

// dispatch tells the owners of sockets what happened to them, until nothing more has. The poll must be locked.
func (p *poll) dispatch(o *owners) {
	for {
		n, errno := epollWait(p.fd, p.events[:])
		if errno != 0 && errno != unix.EINTR {
			return
		}
		for i := range n {
			e := &p.events[i]
			if c := o.find(int(e.Fd), uint32(e.Pad)); c != nil {
				c.happened(e.Events)
			}
		}
		if n < len(p.events) && errno == 0 {
			return
		}
		// Those who were woken go first: their workers serve the next ones too. Otherwise 2,000 clients that send a byte in the
		// same moment would make 2,000 workers.
		runtime.Gosched()
	}
}

// epollWait takes events that are there; it never blocks.
func epollWait(fd int, events []unix.EpollEvent) (n int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// epollControl begins to watch a descriptor or changes what it is watched for.
func epollControl(epoll, op, fd int, e *unix.EpollEvent) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(e)), 0, 0)
	return errno
}

// Descriptors are small numbers, so who owns one is found by its number in pages that are made when they are needed.
const (
	ownersPage  = 1 << 10
	ownersPages = 1 << 12
)

// owners knows which conn a watched descriptor belongs to.
type owners struct {
	mu    sync.Mutex // held while a page is made
	pages [ownersPages]atomic.Pointer[[ownersPage]owner]
}

// owner is the conn that a descriptor belongs to. Turn counts the owners that the descriptor had: an event carries the turn
// that it was meant for, so that none reaches a later owner of the same number.
type owner struct {
	conn atomic.Pointer[conn]
	turn atomic.Uint32
}

// at returns the place of a descriptor; nil if the number is beyond all that a process can have here.
func (o *owners) at(fd int) *owner {
	n := fd / ownersPage
	if n >= ownersPages {
		return nil
	}
	page := o.pages[n].Load()
	if page == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if page = o.pages[n].Load(); page == nil {
			page = new([ownersPage]owner)
			o.pages[n].Store(page)
		}
	}
	return &page[fd%ownersPage]
}

// find returns whom an event is for; nil if the descriptor is another's by now, or nobody's.
func (o *owners) find(fd int, turn uint32) *conn {
	place := o.at(fd)
	if place == nil || place.turn.Load() != turn {
		return nil
	}
	c := place.conn.Load()
	if place.turn.Load() != turn {
		return nil
	}
	return c
}

// forget makes a descriptor nobody's. It must happen before the descriptor is closed.
func (o *owners) forget(fd int) {
	if place := o.at(fd); place != nil {
		place.conn.Store(nil)
	}
}
