package forward

import (
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udpFlows holds the flows of all UDP listeners, in as many parts as there are processors. A listener and its flows belong to one
// part, whose worker alone receives and sends for them.
type udpFlows struct {
	table *Table
	limit atomic.Int64 // flows at most
	open  atomic.Int64 // flows now
	// evicted counts the flows that made room for others.
	evicted atomic.Uint64

	mu      sync.Mutex
	workers []*udpWorker // made with the first listener
	running sync.WaitGroup
	// draining are listeners that were closed and still have flows, by the address that they were bound to.
	draining map[netip.AddrPort]*UDPListener
}

func newUDPFlows(t *Table) *udpFlows {
	f := &udpFlows{table: t, draining: map[netip.AddrPort]*UDPListener{}}
	f.limit.Store(udpFlowLimit())
	return f
}

// udpFlowLimit leaves half of the descriptors to everything else.
func udpFlowLimit() int64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1 << 9
	}
	return int64(min(r.Cur/2, 1<<20))
}

// place returns the worker with the fewest listeners. The caller holds the lock.
func (f *udpFlows) place() (*udpWorker, error) {
	for len(f.workers) < runtime.GOMAXPROCS(0) {
		w, err := newUDPWorker(f)
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, w)
	}
	best := f.workers[0]
	for _, w := range f.workers[1:] {
		if w.listeners.Load() < best.listeners.Load() {
			best = w
		}
	}
	return best, nil
}

// each calls fn for the workers with their locks held.
func (f *udpFlows) each(fn func(*udpWorker)) {
	f.mu.Lock()
	workers := f.workers
	f.mu.Unlock()
	for _, w := range workers {
		w.mu.Lock()
		fn(w)
		w.mu.Unlock()
	}
}

// sweep ends the flows that were idle for too long, and counts the bytes of the others if it is time to.
func (f *udpFlows) sweep(now instant, count bool) {
	f.each(func(w *udpWorker) {
		for l := range w.all {
			l.sweep(now)
			if count {
				l.count(now)
			}
		}
	})
}

// list calls fn for the flows of one worker after the other, until it returns false.
func (f *udpFlows) list(fn func(Connection) bool) {
	f.mu.Lock()
	workers := f.workers
	f.mu.Unlock()
	now := f.table.clock.now()
	for _, w := range workers {
		var list []Connection
		w.mu.Lock()
		for l := range w.all {
			for x := l.flows.newest; x != nil; x = x.older {
				list = append(list, x.describe(now))
			}
		}
		w.mu.Unlock()
		for _, c := range list {
			if !fn(c) {
				return
			}
		}
	}
}

// close ends the workers. All listeners must have been drained.
func (f *udpFlows) close() {
	f.mu.Lock()
	for _, w := range f.workers {
		_ = w.file.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// udpWorker receives and sends for its listeners.
type udpWorker struct {
	owner     *udpFlows
	file      *os.File // an epoll descriptor
	fd        int
	listeners atomic.Int64

	mu    sync.Mutex // guards all below, its listeners and their flows
	all   map[*UDPListener]struct{}
	slots []slot
	free  []uint32 // slots that are not used
	// eager is the listener whose client got the last new flow.
	eager *UDPListener

	events  [batchSize]unix.EpollEvent
	ready   int
	in, out *batch       // from clients; to clients
	held    int          // datagrams in out
	heldFor *UDPListener // whose clients get them
	heldBy  int          // the socket of the only flow that they are of; -1: the listener's
	now     instant
}

// slot is what an event of the kernel names: a listener or a flow.
type slot struct {
	listener *UDPListener
	flow     *udpFlow
}

func newUDPWorker(f *udpFlows) (*udpWorker, error) {
	file, raw, fd, err := newEpoll()
	if err != nil {
		return nil, err
	}
	w := &udpWorker{owner: f, fd: fd, file: file, heldBy: -1, all: map[*UDPListener]struct{}{}}
	f.running.Go(func() { w.run(raw) })
	return w, nil
}

// run handles events until the worker is closed. The processor is offered to others after each round, because under load there
// is always more to do.
func (w *udpWorker) run(raw syscall.RawConn) {
	for raw.Read(w.look) == nil {
		w.handle()
		runtime.Gosched()
	}
}

// look reports whether there are events; it does not wait.
func (w *udpWorker) look(fd uintptr) bool {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&w.events[0])), uintptr(len(w.events)), 0, 0, 0)
	w.ready = int(n)
	return errno == 0 && n > 0
}

func (w *udpWorker) handle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in == nil {
		w.in, w.out = newBatch(), newBatch()
	}
	w.now = w.owner.table.clock.now()
	for i := range w.events[:w.ready] {
		// What an event names may have ended since, and be another's: then there is just nothing to receive.
		switch s := w.slots[w.events[i].Fd]; {
		case s.listener != nil:
			s.listener.receive()
		case s.flow != nil:
			w.reply(s.flow)
		}
	}
	w.flush()
}

// watch makes the events of a socket that are asked for name a slot.
func (w *udpWorker) watch(fd int, events uint32, s slot) (uint32, error) {
	i := uint32(len(w.slots))
	if n := len(w.free); n > 0 {
		i = w.free[n-1]
	}
	if err := w.register(fd, events, i); err != nil {
		return 0, err
	}
	if n := len(w.free); n > 0 {
		w.free = w.free[:n-1]
		w.slots[i] = s
	} else {
		w.slots = append(w.slots, s)
	}
	return i, nil
}

func (w *udpWorker) register(fd int, events, slot uint32) error {
	e := unix.EpollEvent{Events: events, Fd: int32(slot)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, fd, &e))
}

// forget frees a slot; its socket is closed, or will be.
func (w *udpWorker) forget(i uint32) {
	w.slots[i] = slot{}
	w.free = append(w.free, i)
}

// repliesAtOnce is how many datagrams of one flow are taken before others get their turn.
const repliesAtOnce = 16

// reply takes datagrams of the member for the client.
func (w *udpWorker) reply(f *udpFlow) {
	if w.heldFor != f.listener || w.heldBy != f.back || w.held == batchSize {
		w.flush()
		w.heldFor, w.heldBy = f.listener, f.back
	}
	end := min(w.held+repliesAtOnce, batchSize)
	w.out.expect(w.held, end, false, false)
	n, errno := w.out.receive(f.fd, w.held, end)
	switch errno {
	case 0:
	case unix.EAGAIN, unix.ENOMEM, unix.ENOBUFS:
		return
	default:
		w.refused(f)
		return
	}
	for i := w.held; i < w.held+n; i++ {
		m := &w.out.messages[i]
		m.Flags = 0
		m.Name, m.Namelen = &f.peer.bytes[0], f.peer.size
		if f.control != nil {
			m.Control = &f.control[0]
			m.SetControllen(len(f.control))
		}
		f.out += uint64(m.size)
	}
	w.held += n
	f.listener.flows.touch(f, w.now)
}

// flush sends what is held to the clients. What cannot be sent now is dropped.
func (w *udpWorker) flush() {
	for first := 0; first < w.held; {
		fd := w.heldFor.fd
		if w.heldBy >= 0 {
			fd = w.heldBy
		}
		n, errno := w.out.send(fd, first, w.held)
		if errno != 0 {
			n = 1 // that client cannot be reached
		}
		first += n
	}
	w.held, w.heldFor, w.heldBy = 0, nil, -1
}

// refused goes on with another member after the one of a flow could not be reached; the flow ends if there is none. It reports
// whether there is one.
func (w *udpWorker) refused(f *udpFlow) bool {
	f.count()
	err := f.decision.Refused()
	if err == nil {
		_ = unix.Close(f.fd)
		f.fd = -1
		if err = f.reach(); err == nil {
			err = w.register(f.fd, unix.EPOLLIN, f.slot)
		}
	}
	if err != nil {
		f.end()
		return false
	}
	return true
}
