package forward

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Table holds the open connections of all listeners, and ends what waits beyond its deadline. Methods may be called from any
// goroutine.
type Table struct {
	clock  *clock
	log    *slog.Logger
	shards [tableShards]tableShard

	polls   polls
	doors   doors
	workers workers
	acks    acks
	udp     *udpFlows

	stop chan struct{}
	done chan struct{}

	open, most  atomic.Int64  // connections now, and at a time
	longTargets atomic.Uint64 // requests with one, which were refused
	spares      spares
}

const tableShards = 16

type tableShard struct {
	mu    sync.Mutex
	first *flow // guarded by mu, as are the links

	leaving departures
	_       [5]uint64
}

// Connection describes an open connection, or a flow of UDP. Addresses are those of the configuration.
type Connection struct {
	Client, Virtual netip.AddrPort
	UDP             bool
	// Node is the member's address; invalid while none is chosen.
	Node netip.AddrPort
	// Age is the time since the connection was accepted, Idle since bytes last moved; both to about 100 ms.
	Age, Idle time.Duration
}

// NewTable makes a table and starts its clock.
func NewTable(log *slog.Logger) *Table {
	t := &Table{clock: newClock(), log: log, stop: make(chan struct{}), done: make(chan struct{})}
	t.workers.clock = t.clock
	t.udp = newUDPFlows(t)
	go t.run()
	return t
}

// Close stops the clock. All listeners must have been drained. It waits a moment, half a second at most, for clients that have
// not taken the end of their connection yet.
func (t *Table) Close() {
	close(t.stop)
	<-t.done
	t.acks.stop()
	t.workers.stop()
	t.spares.close()
	t.udp.close()
	t.endLeaving()
	t.doors.close()
	t.polls.close()
	dropPipes()
}

// Range calls fn for each open connection until it returns false. Connections that begin or end meanwhile may be missing.
func (t *Table) Range(fn func(Connection) bool) {
	var list []Connection
	for i := range t.shards {
		list = list[:0]
		t.each(i, func(f *flow) { list = append(list, f.describe()) })
		for _, c := range list {
			if !fn(c) {
				return
			}
		}
	}
	t.udp.list(fn)
}

// Len returns the number of open connections.
func (t *Table) Len() int { return int(t.open.Load()) }

// Spares returns the number of open connections to members that no request uses, kept for the next one.
func (t *Table) Spares() int { return t.spares.len() }

// Most returns how many connections were open at a time, at most, since the last ResetCounts.
func (t *Table) Most() int { return int(t.most.Load()) }

// LongTargets is how many requests were answered 414 since the last ResetCounts (rule J-20).
func (t *Table) LongTargets() uint64 { return t.longTargets.Load() }

// EvictedFlows is how many flows of UDP were ended to make room for others since the last ResetCounts.
func (t *Table) EvictedFlows() uint64 { return t.udp.evicted.Load() }

// ResetCounts begins again: with the connections that are open, without a long target and without a flow that was ended.
func (t *Table) ResetCounts() {
	t.most.Store(t.open.Load())
	t.longTargets.Store(0)
	t.udp.evicted.Store(0)
}

// each calls fn for the flows of a shard, which cannot end while it runs.
func (t *Table) each(shard int, fn func(*flow)) {
	sh := &t.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for f := sh.first; f != nil; f = f.next {
		fn(f)
	}
}

func (t *Table) add(f *flow) {
	f.shard = uint8(rand.Uint32() % tableShards)
	sh := &t.shards[f.shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f.next = sh.first; f.next != nil {
		f.next.prev = f
	}
	sh.first = f
	t.opened()
}

// opened counts one more open connection, ended one less.
func (t *Table) opened() {
	n := t.open.Add(1)
	for m := t.most.Load(); n > m && !t.most.CompareAndSwap(m, n); m = t.most.Load() {
	}
}

func (t *Table) remove(f *flow) {
	sh := &t.shards[f.shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		sh.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
	f.next, f.prev = nil, nil
	t.ended()
}

func (t *Table) ended() { t.open.Add(-1) }

// patience is how long a flow waits for a member before it ends because its client is gone. Only who reset the connection is
// gone: a client that has merely sent its last byte may still read.
const patience = instant(time.Second)

// countTicks is after how many ticks bytes are counted that are moving.
const countTicks = 10

// finishBatch is how many connections are told that their time is over before others are served: those that began together also
// end together, each with an answer and a close.
const finishBatch = 16

func (t *Table) run() {
	defer close(t.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var late []*flow
	for ticks := 1; ; ticks++ {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
		}
		now := t.clock.update()
		for i := range t.shards {
			late = late[:0]
			t.each(i, func(f *flow) {
				if f.sweep(now) {
					late = append(late, f)
				}
				if ticks%countTicks == 0 {
					f.countMoved()
				}
			})
			for i, f := range late {
				f.finish(now)
				late[i] = nil
				if i%finishBatch == finishBatch-1 {
					t.polls.giveWay()
					now = t.clock.update()
				}
			}
		}
		t.workers.dismiss(now - workerRest)
		t.udp.sweep(now, ticks%countTicks == 0)
		t.visitLeaving(now)
		t.spares.visit(now)
	}
}
