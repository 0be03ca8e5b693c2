package forward

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/sip"
)

// UDPListener forwards the datagrams of one virtual server. All that a client sends within the idle timeout is one flow, and
// goes to one member.
type UDPListener struct {
	worker   *udpWorker
	wanted   netip.AddrPort // what was asked for
	addr     netip.AddrPort // what is bound
	settings atomic.Pointer[Settings]
	sources  *sources // open flows of each client, where they are limited

	// The fields below are guarded by the worker's lock.

	fd    int // -1: closed
	slot  uint32
	flows udpTable
	// counted is when the bytes of flows were counted last.
	counted instant
	// paused means that clients' datagrams are left where they are.
	paused bool
	// draining means that no flow begins any more.
	draining bool
	done     chan struct{} // closed when the socket is closed or another listener's
}

// ListenUDP binds an address, which may have port 0, and begins to forward. An IPv6 address receives only IPv6. Where a listener
// of the same address is still draining, its flows go on with the new one. The error wraps the kernel's, as with Listen.
// Settings.IdleTimeout ends flows; zero is DefaultUDPTimeout.
func ListenUDP(t *Table, addr netip.AddrPort, s Settings) (*UDPListener, error) {
	all := t.udp
	all.mu.Lock()
	defer all.mu.Unlock()
	l := newUDPListener(addr, s)
	if old := all.draining[addr]; old != nil && old.handOver(l) {
		delete(all.draining, addr)
		return l, nil
	}
	fd, err := listenUDP(addr, s.Intercepts)
	if err == nil {
		err = l.begin(all, fd)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s, udp: %w", addr, err)
	}
	l.Resume()
	return l, nil
}

// ListenUDPOn makes a listener of a socket that is bound already: another process has opened it. It begins to receive with
// Resume. The file stays the caller's.
func ListenUDPOn(t *Table, file *os.File, s Settings) (*UDPListener, error) {
	t.udp.mu.Lock()
	defer t.udp.mu.Unlock()
	fd, err := copyDescriptor(file)
	if err == nil {
		if err = adoptUDP(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on a socket that is there, udp: %w", err)
	}
	l := newUDPListener(localAddr(fd), s)
	if err := l.begin(t.udp, fd); err != nil {
		return nil, fmt.Errorf("listen on a socket that is there, udp: %w", err)
	}
	return l, nil
}

func newUDPListener(wanted netip.AddrPort, s Settings) *UDPListener {
	l := &UDPListener{wanted: wanted, fd: -1, sources: &sources{}, paused: true, done: make(chan struct{})}
	l.Set(s)
	return l
}

// begin gives the listener its socket and its worker. The socket is closed if that fails.
func (l *UDPListener) begin(all *udpFlows, fd int) (err error) {
	if l.worker, err = all.place(); err != nil {
		_ = unix.Close(fd)
		return err
	}
	w := l.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	l.fd, l.addr = fd, localAddr(fd)
	if l.slot, err = w.watch(fd, 0, slot{listener: l}); err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.all[l] = struct{}{}
	w.listeners.Add(1)
	return nil
}

// File returns a copy of the socket. The caller closes it.
func (l *UDPListener) File() (*os.File, error) {
	l.worker.mu.Lock()
	defer l.worker.mu.Unlock()
	fd, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy the socket of %s, udp: %w", l.addr, err)
	}
	return os.NewFile(uintptr(fd), "udp"), nil
}

// Pause stops receiving from clients until Resume; their datagrams wait in the socket's queue, as many as it holds. Members'
// replies go on.
func (l *UDPListener) Pause() { l.pause(true) }

// Resume begins to receive from clients.
func (l *UDPListener) Resume() { l.pause(false) }

func (l *UDPListener) pause(pause bool) {
	w := l.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.fd < 0 || l.paused == pause {
		return
	}
	l.paused = pause
	e := unix.EpollEvent{Fd: int32(l.slot)}
	if !pause {
		e.Events = unix.EPOLLIN
	}
	// It fails only for descriptors that are not there.
	_ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_MOD, l.fd, &e)
}

// handOver gives the socket and the flows to another listener; false if they are no more.
func (l *UDPListener) handOver(to *UDPListener) bool {
	w := l.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.fd < 0 {
		return false
	}
	to.sources = l.sources
	to.worker, to.addr, to.fd, to.slot, to.flows, to.counted, to.paused = w, l.addr, l.fd, l.slot, l.flows, l.counted, l.paused
	for f := to.flows.newest; f != nil; f = f.older {
		f.listener = to
	}
	w.slots[to.slot].listener = to
	delete(w.all, l)
	w.all[to] = struct{}{}
	if w.eager == l {
		w.eager = to
	}
	l.fd, l.flows = -1, udpTable{}
	close(l.done)
	return true
}

// Addr returns the address that is bound.
func (l *UDPListener) Addr() netip.AddrPort { return l.addr }

// Set replaces the settings. Flows keep their member; the idle timeout holds for all at once.
func (l *UDPListener) Set(s Settings) {
	if s.IdleTimeout <= 0 {
		s.IdleTimeout = DefaultUDPTimeout
	}
	l.settings.Store(s.withDefaults())
}

// Close begins no more flows; those that are open go on. The address is given up with the last one.
func (l *UDPListener) Close() {
	all := l.worker.owner
	all.mu.Lock()
	defer all.mu.Unlock()
	l.worker.mu.Lock()
	defer l.worker.mu.Unlock()
	l.draining = true
	if l.fd >= 0 && l.wanted.Port() != 0 && l.flows.len() > 0 {
		all.draining[l.wanted] = l
	}
	l.closeIfDrained()
}

// Retire is Close: a flow ends by itself, whatever the grace.
func (l *UDPListener) Retire(time.Duration) { l.Close() }

// Drain closes the listener and returns when no flow is open, or when a new listener has taken its place. Flows that are open
// when ctx ends are ended.
func (l *UDPListener) Drain(ctx context.Context) {
	l.Close()
	select {
	case <-l.done:
	case <-ctx.Done():
		l.worker.mu.Lock()
		for l.flows.oldest != nil {
			l.flows.oldest.end()
		}
		l.worker.mu.Unlock()
		<-l.done
	}
	all := l.worker.owner
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.draining[l.wanted] == l {
		delete(all.draining, l.wanted)
	}
}

// closeIfDrained closes the socket after the last flow of a listener that drains.
func (l *UDPListener) closeIfDrained() {
	if !l.draining || l.fd < 0 || l.flows.len() > 0 {
		return
	}
	w := l.worker
	if w.heldFor == l {
		w.flush()
	}
	w.forget(l.slot)
	_ = unix.Close(l.fd)
	l.fd = -1
	delete(w.all, l)
	w.listeners.Add(-1)
	if w.eager == l {
		w.eager = nil
	}
	close(l.done)
}

// sweep ends flows that were idle for too long.
func (l *UDPListener) sweep(now instant) {
	idle := instant(l.settings.Load().IdleTimeout)
	for f := l.flows.oldest; f != nil && now-f.active > idle; f = l.flows.oldest {
		f.end()
	}
}

// count counts the bytes of the flows that were used since the last call.
func (l *UDPListener) count(now instant) {
	for f := l.flows.newest; f != nil && f.active >= l.counted; f = f.older {
		f.count()
	}
	l.counted = now
}

// receive takes datagrams of clients, and sends them to the members of their flows.
func (l *UDPListener) receive() {
	w := l.worker
	w.in.expect(0, batchSize, true, l.addr.Addr().IsUnspecified())
	n, errno := w.in.receive(l.fd, 0, batchSize)
	if errno != 0 {
		return
	}
	calls := l.settings.Load().calls
	for first := 0; first < n; {
		key := l.key(first, calls)
		end := first + 1
		for end < n && l.key(end, calls) == key {
			end++
		}
		f := l.flows.lookup(&key)
		if f == nil {
			f = l.open(&key, first)
		}
		if f != nil {
			l.forward(f, first, end)
		}
		first = end
	}
}

// key is that of a datagram that was received.
func (l *UDPListener) key(i int, calls bool) udpKey {
	in := l.worker.in
	contact, port := in.contact(i)
	if port == l.addr.Port() {
		port = 0
	}
	var call []byte
	if calls {
		call = sip.CallID(in.bytes(i))
	}
	return newUDPKey(&in.peers[i], contact, port, call)
}

// forward sends datagrams to the member of a flow, or to the next one where that cannot be reached. What the kernel has no room
// for is dropped.
func (l *UDPListener) forward(f *udpFlow, first, end int) {
	w := l.worker
	l.flows.touch(f, w.now)
	w.in.toPeer(first, end)
	for first < end {
		n, errno := w.in.send(f.fd, first, end)
		switch errno {
		case 0:
			for i := first; i < first+n; i++ {
				f.in += w.in.parts[i].Len
			}
			first += n
		case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EMSGSIZE, unix.EPERM, unix.EACCES:
			first++
		default:
			if !w.refused(f) {
				return
			}
		}
	}
}

// open begins a flow with a datagram that was received; nil if there is to be none.
func (l *UDPListener) open(key *udpKey, datagram int) *udpFlow {
	set := l.settings.Load()
	if l.draining {
		return nil
	}
	w := l.worker
	from := &w.in.peers[datagram]
	f := &udpFlow{
		key: *key, listener: l, fd: -1, back: -1, peer: *from, began: w.now, active: w.now,
		counters: set.Counters, shared: set.Shared, traffic: pool.NewShard(),
	}
	f.peer.size = w.in.messages[datagram].Namelen
	var call []byte
	if key.call != 0 {
		call = sip.CallID(w.in.bytes(datagram))
	}
	if !f.admit(set) {
		return nil
	}
	switch {
	case key.port != 0:
		if f.back, _ = speakFor(f.contact()); f.back < 0 {
			closeShared(f.counters, f.shared)
			f.leave()
			return nil
		}
	case key.contact != [16]byte{}:
		f.control = sourceControl(key.contact, binary.NativeEndian.Uint32(from.bytes[24:]))
	}
	if !w.admit(l) || f.choose(set, call) != nil || !w.admitted(f) {
		f.decision.Release()
		for _, fd := range [...]int{f.fd, f.back} {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		}
		closeShared(f.counters, f.shared)
		f.leave()
		return nil
	}
	set.Counters.Opened()
	l.flows.insert(f)
	w.owner.open.Add(1)
	w.owner.table.opened()
	w.eager = l
	return f
}

// flowReserve is the share of the limit that is left to virtual servers whose worker has no flow to give up: those of another
// worker cannot be ended here, and one whose clients are many would leave no place to others.
const flowReserve = 16

// admit makes room for another flow where all places are taken: the one goes that was used longest ago, of the same virtual
// server or of the one that began the last flow.
func (w *udpWorker) admit(l *UDPListener) bool {
	all := w.owner
	for limit := all.limit.Load(); all.open.Load() >= limit; {
		if !w.evict(l, nil) {
			return all.open.Load() <= limit+limit/flowReserve
		}
	}
	return true
}

// evict ends a flow of a virtual server, or of the one that began the last flow, but not the given one.
func (w *udpWorker) evict(l *UDPListener, but *udpFlow) bool {
	for _, l := range [...]*UDPListener{l, w.eager} {
		if l == nil {
			continue
		}
		f := l.flows.oldest
		if f == but && f != nil {
			f = f.newer
		}
		if f != nil {
			f.end()
			w.owner.evicted.Add(1)
			return true
		}
	}
	return false
}

func (w *udpWorker) admitted(f *udpFlow) (ok bool) {
	var err error
	f.slot, err = w.watch(f.fd, unix.EPOLLIN, slot{flow: f})
	return err == nil
}
