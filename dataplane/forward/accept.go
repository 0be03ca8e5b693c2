package forward

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// doors watch the listening sockets of a table: an epoll descriptor for each thread, which is itself watched by the runtime's
// poller. A goroutine and an os.File for each listener were a third of the memory of an idle virtual server.
type doors struct {
	starting sync.Mutex // held by start
	started  bool       // guarded by starting; list changes no more
	list     []*door
	running  sync.WaitGroup
}

// door is an epoll descriptor and the listeners behind it.
type door struct {
	fd     int
	file   *os.File
	events [doorBatch]unix.EpollEvent

	mu        sync.Mutex
	listeners map[int]*Listener // by descriptor; guarded by mu
}

const (
	// doorBatch is how many listeners are looked at before the kernel is asked again.
	doorBatch = 64
	// acceptBatch is how many connections one listener accepts before others have their turn.
	acceptBatch = 32
)

// start opens the descriptors, the first time; where that fails the next one goes on.
func (ds *doors) start(polls *polls) error {
	ds.starting.Lock()
	defer ds.starting.Unlock()
	for !ds.started {
		if err := ds.open(polls); err != nil {
			return err
		}
		ds.started = len(ds.list) >= runtime.GOMAXPROCS(0)
	}
	return nil
}

func (ds *doors) open(polls *polls) error {
	file, raw, fd, err := newEpoll()
	if err != nil {
		return err
	}
	d := &door{fd: fd, file: file, listeners: map[int]*Listener{}}
	ds.list = append(ds.list, d)
	ds.running.Go(func() {
		// It returns when the file is closed.
		_ = raw.Read(func(uintptr) bool {
			d.dispatch(polls)
			return false
		})
	})
	return nil
}

// close ends the watching. All listeners must be closed.
func (ds *doors) close() {
	ds.starting.Lock()
	ds.started = true // or not to be
	ds.starting.Unlock()
	for _, d := range ds.list {
		_ = d.file.Close()
	}
	ds.running.Wait()
}

// of returns the door of a descriptor.
func (ds *doors) of(fd int) *door { return ds.list[fd%len(ds.list)] }

// watch begins to watch for connections to a listener.
func (d *door) watch(l *Listener) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners[l.fd] = l
	// Not edge-triggered: what is left after a batch, or was there before, is told again.
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.fd)}
	if errno := epollControl(d.fd, unix.EPOLL_CTL_ADD, l.fd, &e); errno != 0 {
		delete(d.listeners, l.fd)
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// ignore ends what watch began. An event that is on its way may still come.
func (d *door) ignore(l *Listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listeners[l.fd] == l {
		delete(d.listeners, l.fd)
		_ = epollControl(d.fd, unix.EPOLL_CTL_DEL, l.fd, nil)
	}
}

func (d *door) find(fd int) *Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listeners[fd]
}

// dispatch lets listeners accept until no more of them have connections that wait.
func (d *door) dispatch(polls *polls) {
	for {
		n, errno := epollWait(d.fd, d.events[:])
		if errno != 0 && errno != unix.EINTR {
			return
		}
		again := n == len(d.events) || errno != 0
		for i := range n {
			if l := d.find(int(d.events[i].Fd)); l != nil {
				again = l.acceptSome() || again
			}
		}
		if !again {
			return
		}
		polls.giveWay()
	}
}

// Waits after a failed accept.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Second
)

// warnAgain is how long a failure of accept is not mentioned again.
const warnAgain = 10 * time.Second

// acceptSome accepts what waits, and reports whether more may wait.
func (l *Listener) acceptSome() (more bool) {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	for n := 0; l.resumed && n < acceptBatch; {
		fd, peer, errno := accept(l.fd)
		switch errno {
		case 0:
			n++
			l.pause = 0
			l.serve(fd, peer.addrPort())
		case unix.EAGAIN:
			return false
		case unix.EINTR, unix.ECONNABORTED:
		default:
			l.restLocked(errno)
			return false
		}
	}
	return l.resumed
}

// restLocked stops accepting for a moment, a longer one each time, because descriptors or memory ran out. Sockets that are kept
// only to take the last bytes of clients, and those that wait for a next use, give theirs up.
func (l *Listener) restLocked(reason error) {
	l.table.dropLeaving()
	l.table.spares.drop(nil)
	dropPipes()
	if now := l.table.clock.now(); now >= l.quiet {
		l.table.log.Warn("cannot accept connections", "address", l.addr, "error", reason)
		l.quiet = now + instant(warnAgain)
	}
	l.pause = min(max(2*l.pause, shortestPause), longestPause)
	l.table.doors.of(l.fd).ignore(l)
	l.rest = time.AfterFunc(l.pause, func() {
		l.accepting.Lock()
		defer l.accepting.Unlock()
		if l.rest != nil { // not paused meanwhile
			l.rest = nil
			l.watchLocked()
		}
	})
}

// watchLocked waits for connections. Where the kernel watches no more sockets it is tried again.
func (l *Listener) watchLocked() {
	if err := l.table.doors.of(l.fd).watch(l); err != nil {
		l.restLocked(err)
	}
}
