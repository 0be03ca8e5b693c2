package persist

// Room tells whether a record could be made through a pool now: below the limits, or in the place of an idle one. It changes
// nothing and takes each shard's lock for a moment.
func (t *Table) Room(id PoolID) bool {
	var own *poolState
	if number, ok := t.pools.find(id); ok {
		own = t.pool(number)
	}
	if own != nil {
		if limit := own.limit.Load(); limit > 0 && own.count.Load() >= limit {
			return t.idle(own)
		}
	}
	limit := t.limit.Load()
	return limit == 0 || t.count.Load() < limit || t.idle(nil)
}

// idle tells whether there is an idle record of the pool, or of any if p is nil.
func (t *Table) idle(p *poolState) bool {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		r := s.oldest(p)
		s.mu.Unlock()
		if r != 0 {
			return true
		}
	}
	return false
}
