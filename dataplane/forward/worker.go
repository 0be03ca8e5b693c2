package forward

import (
	"sync"
)

// workers are goroutines that serve flows, each one until it is over or waits for its client. They stay for the next one, with
// the stack that they have grown: a new goroutine for each request would have to grow its own.
type workers struct {
	clock *clock

	mu      sync.Mutex
	idle    []*worker // guarded by mu; the last one was used last
	stopped bool      // guarded by mu
	running sync.WaitGroup
}

type worker struct {
	next  chan *flow // nil ends it
	since instant    // idle since then
}

// workerRest is how long a worker stays that has nothing to do.
const workerRest = instant(5e9)

// serve lets a worker go on with a flow.
func (ws *workers) serve(f *flow) {
	ws.mu.Lock()
	if n := len(ws.idle); n > 0 {
		w := ws.idle[n-1]
		ws.idle = ws.idle[:n-1]
		ws.mu.Unlock()
		w.next <- f // never blocks: the channel holds one
		return
	}
	ws.mu.Unlock()
	w := &worker{next: make(chan *flow, 1)}
	ws.running.Go(func() {
		for f := f; f != nil; f = <-w.next {
			f.run()
			if !ws.rest(w) {
				return
			}
		}
	})
}

// rest makes w one of the idle ones, unless it has to end.
func (ws *workers) rest(w *worker) bool {
	w.since = ws.clock.now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.stopped {
		ws.idle = append(ws.idle, w)
	}
	return !ws.stopped
}

// dismiss ends the workers that were idle since a moment.
func (ws *workers) dismiss(since instant) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for n < len(ws.idle) && ws.idle[n].since <= since {
		ws.idle[n].next <- nil
		n++
	}
	if n > 0 {
		ws.idle = append([]*worker(nil), ws.idle[n:]...)
	}
}

// stop ends all workers and waits for them. No flow may be left.
func (ws *workers) stop() {
	ws.mu.Lock()
	ws.stopped = true
	ws.mu.Unlock()
	ws.dismiss(ws.clock.now())
	ws.running.Wait()
}
