package dataplane

import (
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
)

// retiming says what happens to records whose pools were changed: their timing follows the pool, and those of a pool that
// is gone, or persists in another way now, are cleared.
type retiming struct {
	pools map[persist.PoolID]*pool.Pool   // as they are now; nil: gone
	whole bool                            // there are no other pools
	find  func(persist.PoolID) *pool.Pool // also of those that were not changed; nil: there is none
}

// note takes in the change of a pool; next is nil for one that is gone. One that has bound no record may have refreshed those of
// others (rule B-14).
func (t *retiming) note(old, next *pool.Pool) {
	if old == nil || old.SamePolicies(next) {
		return
	}
	if old.Records() == 0 && (next == nil || !old.KeepsRecords()) {
		return
	}
	t.pools[old.ID] = next
}

// all takes in every pool that there is.
func (t *retiming) all(pools map[string]*pool.Pool) {
	t.whole = true
	for _, p := range pools {
		t.pools[p.ID] = p
	}
}

// over reports whether the pool that bound a record has no use for it any more. While it is there, a record that another pool has
// used since is that one's.
func (t *retiming) over(r *persist.Record) bool {
	p, ok := t.pools[r.Pool]
	if !ok {
		return t.whole
	}
	_, keeps := policyOf(p, r)
	if !keeps && p != nil && r.Refresher != r.Pool {
		_, keeps = policyOf(t.find(r.Refresher), r)
	}
	return !keeps
}

func (t *retiming) policy(r *persist.Record) (persist.Policy, bool) {
	p, ok := t.pools[r.Refresher]
	if !ok {
		return persist.Policy{}, false
	}
	return policyOf(p, r)
}

// policyOf is how a record lives in a pool; nil is one that is gone.
func policyOf(p *pool.Pool, r *persist.Record) (persist.Policy, bool) {
	if p == nil {
		return persist.Policy{}, false
	}
	return p.PolicyOf(r.Key.Kind(), r.Node)
}

func (t *retiming) apply(table *persist.Table) {
	if len(t.pools) == 0 && !t.whole {
		return
	}
	table.Clear(persist.Filter{}, func(r *persist.Record) bool { return !t.over(r) })
	table.Retime(t.policy)
}
