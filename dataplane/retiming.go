package dataplane

import (
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
)

// retiming says what happens to records whose pools were changed: their timing follows the pool, and those of a pool that
// is gone, or persists in another way now, are cleared.
type retiming struct {
	pools map[persist.PoolID]timing
	whole bool // there are no other pools
}

type timing struct {
	kind   persist.Kind // of the records that live on; 0: none
	policy persist.Policy
}

func newRetiming() *retiming { return &retiming{pools: map[persist.PoolID]timing{}} }

// note takes in the change of a pool; next is nil for one that is gone.
func (t *retiming) note(old, next *pool.Pool) {
	if old == nil || old.Records() == 0 {
		return
	}
	now := timing{}
	if next != nil {
		now.kind, now.policy = next.Policy()
	}
	if kind, policy := old.Policy(); kind != now.kind || policy != now.policy {
		t.pools[old.ID] = now
	}
}

// all takes in every pool that there is.
func (t *retiming) all(pools map[string]*pool.Pool) {
	t.whole = true
	for _, p := range pools {
		kind, policy := p.Policy()
		t.pools[p.ID] = timing{kind: kind, policy: policy}
	}
}

// over reports whether the pool that bound a record has no use for it any more.
func (t *retiming) over(r *persist.Record) bool {
	now, ok := t.pools[r.Pool]
	return ok && now.kind != r.Key.Kind() || !ok && t.whole
}

func (t *retiming) policy(r *persist.Record) (persist.Policy, bool) {
	now, ok := t.pools[r.Refresher]
	return now.policy, ok && now.kind == r.Key.Kind()
}

func (t *retiming) apply(table *persist.Table) {
	if len(t.pools) == 0 && !t.whole {
		return
	}
	table.Clear(persist.Filter{}, func(r *persist.Record) bool { return !t.over(r) })
	table.Retime(t.policy)
}
