package forward

import (
	"sync"
	"sync/atomic"
	"time"
)

// side is one direction of a conn.
type side struct {
	// deadline is when waiting ends with errTimeout; alreadyOver when the side was told to end.
	deadline atomic.Int64
	// renew moves the deadline this far ahead with each progress; zero leaves it. It belongs to who reads or writes.
	renew time.Duration
	// news is nil while nothing has happened since the last try, or one of the marks below, or who waits.
	news atomic.Pointer[waiter]
}

// alreadyOver is a deadline that only set takes away.
const alreadyOver = 1

// waiter is who waits for a side: a goroutine, or a flow that has none.
type waiter struct {
	woken chan struct{}
	flow  *flow
}

// The marks of what has happened while nobody waited.
var (
	// ready: a try may get further.
	ready = &waiter{}
	// ended: a try may get further, and after the bytes that are there comes the end, of which nothing more will be heard.
	ended = &waiter{}
)

// waiters are those that no goroutine uses.
var waiters = sync.Pool{New: func() any { return &waiter{woken: make(chan struct{}, 1)} }}

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

// take reports whether something has happened since the last try, which is about to be made. It must be asked before the try:
// what happens during it counts for the next one.
func (s *side) take() bool {
	n := s.news.Load()
	if n == ready {
		s.news.CompareAndSwap(ready, nil)
	}
	return n != nil
}

// emptied notes that a try found nothing, and reports whether it must be made once more: while the side was marked as ended
// nothing else could be noted.
func (s *side) emptied() (again bool) {
	return s.news.Load() == ended && s.news.CompareAndSwap(ended, nil)
}

// more notes that a try would get further at once.
func (s *side) more() { s.news.CompareAndSwap(nil, ready) }

// wake notes what happened, and wakes who waits.
func (s *side) wake(mark *waiter) {
	for {
		n := s.news.Load()
		if n == ended || n == mark {
			return
		}
		if s.news.CompareAndSwap(n, mark) {
			if n != nil && n != ready {
				n.wake()
			}
			return
		}
	}
}

// hurry wakes who waits; if nobody does nothing is noted.
func (s *side) hurry() {
	if n := s.news.Load(); n != nil && n != ready && n != ended && s.news.CompareAndSwap(n, ready) {
		n.wake()
	}
}

// waited reports whether anybody waits.
func (s *side) waited() bool {
	n := s.news.Load()
	return n != nil && n != ready && n != ended
}

func (w *waiter) wake() {
	if w.flow != nil {
		w.flow.listener.table.workers.serve(w.flow)
		return
	}
	w.woken <- struct{}{} // never blocks: a waiter is taken off its side before it is woken
}

// wait waits until something has happened, unless it has.
func (s *side) wait() {
	w := waiters.Get().(*waiter)
	if s.news.CompareAndSwap(nil, w) {
		<-w.woken
	}
	waiters.Put(w)
}

// park makes the flow wait without a goroutine: one begins to serve it when something has happened. False means that it has.
// After true the flow is no longer the caller's.
func (s *side) park(f *flow) bool { return s.news.CompareAndSwap(nil, &f.parked) }
