package dataplane

import (
	"context"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
)

// Follower returns what takes in the records that another dataplane publishes: those of pools that are here, too, and persist the
// same way. Each source has its own.
func (e *Engine) Follower() *persist.Follower {
	return persist.NewFollower(e.records, func(r *persist.Record, id persist.PoolID) (persist.Policy, bool) {
		return policyOf(e.running.Load().poolByID(id), r)
	})
}

// publish hands the records of pools with mirror persist to a mirror until the engine stops.
func (e *Engine) publish(m persist.Mirror) {
	p := persist.NewPublisher(e.records, m, func(id persist.PoolID) bool {
		return e.running.Load().poolByID(id).Mirrored()
	})
	e.publisher = p
	ctx, cancel := context.WithCancel(context.Background())
	e.stopped.Go(func() {
		<-e.stop
		cancel()
	})
	e.stopped.Go(func() { p.Run(ctx) })
}

// countMirror adds what is known of the mirror to the unit's counters.
func (e *Engine) countMirror(counters map[string]uint64) {
	if p := e.publisher; p != nil {
		counters["mirror_published"], counters["mirror_failed"], counters[MirrorBehind] = p.Published(), p.Failed(), uint64(p.Behind())
	}
}

// MirrorBehind is among the unit's counters where there is a mirror: how many records it has to be told of.
const MirrorBehind = "mirror_behind"

// poolByID finds a pool by the name that records have for it; nil: there is none.
func (r *runtime) poolByID(id persist.PoolID) *pool.Pool {
	r.idsOnce.Do(func() {
		r.ids = make(map[persist.PoolID]*pool.Pool, len(r.pools))
		for _, p := range r.pools {
			r.ids[p.ID] = p
		}
	})
	return r.ids[id]
}
