package pool

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"
)

// tellEvery is how often one outcome of one pool is logged, at most.
const tellEvery = 10 * time.Second

// levels are those at which outcomes are logged: what operators look for at info, a record that could not be made as a warning,
// and what happens all the time for debugging only.
var levels = [outcomes]slog.Level{
	OutcomeNone: slog.LevelDebug, OutcomeValid: slog.LevelDebug, OutcomeBound: slog.LevelDebug, OutcomeTableFull: slog.LevelWarn,
}

// telling keeps logs of outcomes apart in time. The zero value is ready.
type telling struct {
	last  [outcomes]atomic.Int64 // when it was logged, in nanoseconds of Unix time; 0: never
	count [outcomes]atomic.Uint64
}

// due counts an outcome n times and reports whether it is to be logged now, and how often it came since the last time.
func (t *telling) due(o Outcome, n uint64, now time.Time) (times uint64, ok bool) {
	count := t.count[o].Add(n)
	last, at := t.last[o].Load(), now.UnixNano()
	if since := at - last; last != 0 && since >= 0 && since < int64(tellEvery) || !t.last[o].CompareAndSwap(last, at) {
		return 0, false
	}
	t.count[o].Add(-count)
	return count, true
}

// tell logs an outcome that came n times, unless it was logged lately. The client is one of those that it came to.
func (p *Pool) tell(o Outcome, n uint64, client netip.Addr) {
	level := levels[o]
	if o == OutcomeUnknownMember && p.jroutes != nil { // rule J-12
		level = slog.LevelWarn
	}
	if o == OutcomeOff || !p.log.Enabled(context.Background(), level) {
		return
	}
	times, ok := p.shared.telling.due(o, n, p.now())
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("pool", p.Name), slog.String("outcome", o.String()), slog.Uint64("times", times)}
	if client.IsValid() {
		attrs = append(attrs, slog.String("client", client.String()))
	}
	p.log.LogAttrs(context.Background(), level, "persistence", attrs...)
}

// Tell logs what happened to records of the pool without a connection: they ran out or made room for others. Its owner calls it
// now and then.
func (p *Pool) Tell() {
	if p.persisted == nil {
		return
	}
	records := p.recordStats()
	for _, x := range []struct {
		outcome Outcome
		now     uint64
		before  *atomic.Uint64
	}{{OutcomeExpired, records.Expired, &p.shared.toldExpired}, {OutcomeEvicted, records.Evicted, &p.shared.toldEvicted}} {
		if before := x.before.Swap(x.now); x.now > before {
			p.tell(x.outcome, x.now-before, netip.Addr{})
		}
	}
}
