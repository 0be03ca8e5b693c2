package forward

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The acknowledgement of a member's handshake can ride on the client's first bytes, which saves both machines a segment and
// the member a wake-up: of 18.4 segments of a short connection 16.5 are left. A member that speaks first would wait for it,
// so it is withheld only where clients have spoken first until now, and no longer than ackDelay.
const ackDelay = time.Millisecond

// speakers says who speaks first on the connections of a listener: above zero the client, as far as is known.
type speakers struct{ score atomic.Int32 }

// speakersMost bounds how long one connection is remembered.
const speakersMost = 16

// clientFirst reports whether the client of a new connection is expected to speak first.
func (s *speakers) clientFirst() bool { return s.score.Load() > 0 }

// client notes that a client spoke first.
func (s *speakers) client() {
	if n := s.score.Load(); n < speakersMost {
		s.score.CompareAndSwap(n, n+1)
	}
}

// member notes that a member did, which counts for more: to be wrong about it costs ackDelay.
func (s *speakers) member() {
	if s.score.Load() != -speakersMost {
		s.score.Store(-speakersMost)
	}
}

// acks are the relays that withhold an acknowledgement, for which one timer is enough.
type acks struct {
	mu    sync.Mutex
	list  []withheld // guarded by mu; the oldest is first
	timer *time.Timer
	armed bool // guarded by mu
}

type withheld struct {
	relay *relay
	until time.Time
}

// withhold lets the relay know when the acknowledgement is due.
func (a *acks) withhold(r *relay) {
	until := time.Now().Add(ackDelay)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, withheld{r, until})
	if !a.armed {
		a.armed = true
		if a.timer == nil {
			a.timer = time.AfterFunc(ackDelay, a.release)
		} else {
			a.timer.Reset(ackDelay)
		}
	}
}

// release tells those whose time has come.
func (a *acks) release() {
	now := time.Now()
	for _, w := range a.take(now) {
		if !w.relay.spoken.Load() {
			w.relay.tell(happenedAck)
		}
	}
}

// take takes those off the list whose time has come.
func (a *acks) take(now time.Time) []withheld {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.list) && !a.list[n].until.After(now) {
		n++
	}
	due := a.list[:n:n]
	if a.list = a.list[n:]; len(a.list) == 0 {
		a.list, a.armed = nil, false
	} else {
		a.timer.Reset(a.list[0].until.Sub(now))
	}
	return due
}

// stop ends the timer. No relay may be left.
func (a *acks) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}

// withholdAck makes the acknowledgement of the handshake wait, where the client is likely to speak first. It must be called
// before the connect.
func (r *relay) withholdAck() {
	r.withholds = r.up.readable != readNothing || r.up.buffer.len() > 0 || r.f.listener.speakers.clientFirst()
	if r.withholds {
		setOption(r.f.server.fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
	}
}

// spoke notes who spoke first.
func (r *relay) spoke(s *stream) {
	r.spoken.Store(true)
	if s == &r.up {
		r.f.listener.speakers.client()
	} else {
		r.f.listener.speakers.member()
	}
}
