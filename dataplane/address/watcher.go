package address

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Available reports whether a socket of this host can be bound to an address. An address that still waits to be found unique
// cannot.
func Available(addr netip.Addr) bool {
	addr = addr.Unmap()
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: addr.As16()})
	if addr.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: addr.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Bind(fd, to) == nil
}

// subscribeAgain is the pause before a subscription that ended is renewed.
const subscribeAgain = time.Second

// Watcher collects the addresses that the host got or lost. Its methods may be called from any goroutine.
type Watcher struct {
	log   *slog.Logger
	wake  chan struct{}
	stop  chan struct{}
	done  sync.WaitGroup
	works atomic.Bool

	mu      sync.Mutex
	changed map[netip.Addr]struct{} // guarded by mu
	missed  bool                    // guarded by mu: others may have changed too
}

// Watch begins to watch the addresses of the network namespace that the caller is in. Close ends it.
func Watch(log *slog.Logger) *Watcher {
	w := &Watcher{log: log, wake: make(chan struct{}, 1), stop: make(chan struct{}), changed: map[netip.Addr]struct{}{}}
	updates, cancel := w.subscribe()
	w.done.Go(func() { w.run(updates, cancel) })
	return w
}

// Close ends the watch.
func (w *Watcher) Close() {
	close(w.stop)
	w.done.Wait()
}

// Wake has a value when there may be something to take.
func (w *Watcher) Wake() <-chan struct{} { return w.wake }

// Works reports whether changes are noticed. While they are not, addresses must be looked at again and again.
func (w *Watcher) Works() bool { return w.works.Load() }

// Take returns the addresses that came or went since the last call; nil if there are none. The kernel may need a moment until a
// change is true for sockets. Missed: others may have changed too.
func (w *Watcher) Take() (changed map[netip.Addr]struct{}, missed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	missed, w.missed = w.missed, false
	if len(w.changed) > 0 {
		changed, w.changed = w.changed, map[netip.Addr]struct{}{}
	}
	return changed, missed
}

// subscribe returns a channel that is closed when the subscription ends, nil if there can be none, and what ends it.
func (w *Watcher) subscribe() (updates chan netlink.AddrUpdate, cancel func()) {
	updates = make(chan netlink.AddrUpdate, 64)
	done := make(chan struct{})
	err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{ErrorCallback: func(err error) {
		w.log.Debug("subscription to addresses", "error", err)
	}})
	if err != nil {
		if w.works.Swap(false) {
			w.log.Warn("changes of the host's addresses are not noticed at once", "error", err)
		}
		return nil, func() {}
	}
	w.works.Store(true)
	return updates, func() { close(done) }
}

func (w *Watcher) run(updates chan netlink.AddrUpdate, cancel func()) {
	for {
		for updates != nil {
			select {
			case u, ok := <-updates:
				if !ok {
					updates = nil
					break
				}
				if addr, ok := netip.AddrFromSlice(u.LinkAddress.IP); ok {
					w.note(addr.Unmap())
				}
			case <-w.stop:
				cancel()
				for range updates { // the library's goroutine ends
				}
				return
			}
		}
		cancel()
		w.works.Store(false)
		select {
		case <-w.stop:
			return
		case <-time.After(subscribeAgain):
		}
		if updates, cancel = w.subscribe(); updates != nil {
			w.mu.Lock()
			w.missed = true
			w.mu.Unlock()
			w.awake()
		}
	}
}

func (w *Watcher) note(addr netip.Addr) {
	w.mu.Lock()
	w.changed[addr] = struct{}{}
	w.mu.Unlock()
	w.awake()
}

func (w *Watcher) awake() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is there already
	}
}
