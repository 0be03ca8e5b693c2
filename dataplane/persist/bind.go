package persist

import "net/netip"

// Outcome says how a connection came to its node.
type Outcome uint8

// The outcomes of Bind, Rebind and Acquire.
const (
	NoNode  Outcome = iota // choose had nothing to offer (or Acquire found no record); there is no node
	Found                  // the record was there
	Bound                  // a record was made
	Moved                  // the record was given another node
	Full                   // a node was chosen, but there was no room for a record
	Keyless                // a node was chosen, but the key is zero
)

var outcomeWords = [...]string{"no_node", "found", "bound", "moved", "table_full", "no_key"}

// String returns the word for logs and counters.
func (o Outcome) String() string {
	if int(o) < len(outcomeWords) {
		return outcomeWords[o]
	}
	return "unknown"
}

// Handle is a connection's hold on a record. While it is held the record is not evicted and its idle timer stands still.
// The zero Handle holds nothing and may be passed everywhere; so may one whose record was cleared, moved or has run
// out. A Handle belongs to one connection and is not copied.
type Handle struct {
	slot     ref
	gen      uint32
	class    uint32 // what the record's becomes when the member accepts
	shard    uint8
	accepted bool
	settled  bool // the record needs no change when the member accepts
}

// same says whether two handles are on one binding of one record.
func (h Handle) same(o Handle) bool { return h.gen == o.gen && h.slot == o.slot && h.shard == o.shard }

// Binding is the answer to a connection that asks for its node.
type Binding struct {
	Node    netip.AddrPort // not valid if Outcome is NoNode
	Pool    PoolID         // through which the record was bound; the asking pool if there is no record
	Outcome Outcome
	Handle  Handle
	// Expired tells why Acquire has nothing: the key's record was still there, but had run out. It is removed and counted.
	Expired bool
}

// Lookup returns a copy of the key's record and changes nothing. If the record has run out and is still there, ok is false and
// rec is what it was; else it is the zero Record. A sweep removes records within two seconds after they ran out.
func (t *Table) Lookup(key Key) (rec Record, ok bool) {
	if key.IsZero() {
		return rec, false
	}
	hash, now := key.hash(t.seed), t.now()
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(&key, hash)
	if r == 0 {
		return rec, false
	}
	s.record(&rec, r, now)
	return rec, !s.expired(r, now)
}

// NodeOf returns the node of the key's record and the pool through which it was bound, and changes nothing. It is Lookup for
// those who need no more, and takes half the time.
func (t *Table) NodeOf(key *Key) (node netip.AddrPort, pool PoolID, ok bool) {
	if key.IsZero() {
		return node, 0, false
	}
	hash, now := key.hash(t.seed), t.now()
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(key, hash)
	if r == 0 || s.expired(r, now) {
		return node, 0, false
	}
	sl := s.slab.at(r)
	return s.nodeOf(sl), t.pool(s.classOf(sl).pool).id, true
}

// Acquire is Bind that never makes a record: Found with the node and a held Handle, or NoNode.
func (t *Table) Acquire(key Key, p Policy) Binding {
	if key.IsZero() {
		return Binding{Pool: p.Pool}
	}
	hash, now := key.hash(t.seed), t.now()
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(&key, hash)
	switch {
	case r == 0:
		return Binding{Pool: p.Pool}
	case s.expired(r, now):
		s.expire(r)
		return Binding{Pool: p.Pool, Expired: true}
	}
	return s.join(r, hash, &p, Found, Handle{})
}

// Bind returns the node of the key's record, or the one that choose returns, which is recorded in the same moment: of
// simultaneous first connections one chooses and all get its choice. choose runs under a lock; it must be quick and must
// not call the table. When it returns false nothing is recorded.
//
// The Handle is held until Release. Accepted makes the record last; a record whose member never accepted goes with the
// last Release.
func (t *Table) Bind(key Key, p Policy, choose func() (node netip.AddrPort, ok bool)) Binding {
	return t.bind(&key, &p, Binding{}, choose)
}

// Rebind replaces b.Node, which refused the connection or is down (rule B-8). The first caller that fails on a node
// moves the record to the node that choose returns, which should be another; callers that failed on the same node later
// get that one. Handles of connections to the old node are void from then on. b is replaced by the new binding, its
// Handle held; it returns false, and b stays as it was, if choose returned false.
func (t *Table) Rebind(key Key, p Policy, b *Binding, choose func() (node netip.AddrPort, ok bool)) bool {
	next := t.bind(&key, &p, *b, choose)
	if next.Outcome == NoNode {
		return false
	}
	if !next.Handle.same(b.Handle) {
		t.Release(&b.Handle)
	}
	*b = next
	return true
}

func (t *Table) bind(key *Key, p *Policy, failed Binding, choose func() (netip.AddrPort, bool)) Binding {
	if key.IsZero() {
		return unrecorded(p, Keyless, choose)
	}
	hash := key.hash(t.seed)
	s := t.shardOf(hash)
	b, done := s.bind(key, hash, p, &failed, false, choose)
	if done {
		return b
	}
	if pool := t.poolOf(p.Pool); !t.seatByEviction(pool) {
		pool.full.Add(1)
		return unrecorded(p, Full, choose)
	}
	b, _ = s.bind(key, hash, p, &failed, true, choose)
	return b
}

func unrecorded(p *Policy, why Outcome, choose func() (netip.AddrPort, bool)) Binding {
	node, ok := choose()
	if !ok {
		return Binding{Pool: p.Pool}
	}
	return Binding{Node: node, Pool: p.Pool, Outcome: why}
}

// bind finds, moves or makes the record. It is not done if it needs a seat and there is none: the caller makes room,
// without the lock, and comes again seated.
func (s *shard) bind(k *Key, hash uint64, p *Policy, failed *Binding, seated bool, choose func() (netip.AddrPort, bool)) (b Binding, done bool) {
	t := s.table
	now := t.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.live(k, hash, now); r != 0 {
		if seated {
			t.leave(t.poolOf(p.Pool))
		}
		if s.nodeOf(s.slab.at(r)) != failed.Node {
			return s.join(r, hash, p, Found, failed.Handle), true
		}
		return s.move(r, hash, p, failed, now, choose), true
	}
	pool := t.poolOf(p.Pool)
	if !seated && !t.seat(pool) {
		return b, false
	}
	r := ref(0)
	defer func() { // also when choose panics
		if r == 0 {
			t.leave(pool)
		}
	}()
	node, ok := choose()
	if !ok {
		return Binding{Pool: p.Pool}, true
	}
	if r = s.create(k, hash, t.classFor(pool, p), t.nodes.id(node), now); r == 0 {
		pool.full.Add(1)
		return Binding{Node: node, Pool: p.Pool, Outcome: Full}, true
	}
	pool.bound.Add(1)
	return s.join(r, hash, p, Bound, Handle{}), true
}

// move gives the record the node that choose returns instead of the one that failed.
func (s *shard) move(r ref, hash uint64, p *Policy, failed *Binding, now uint64, choose func() (netip.AddrPort, bool)) Binding {
	t := s.table
	node, ok := choose()
	switch {
	case !ok:
		return Binding{Pool: p.Pool}
	case node == failed.Node:
		return s.join(r, hash, p, Found, failed.Handle)
	}
	from, to := t.pool(s.classOf(s.slab.at(r)).pool), t.poolOf(p.Pool)
	s.assign(r, t.classFor(to, p), t.nodes.id(node), now)
	from.count.Add(-1)
	to.count.Add(1)
	to.moved.Add(1)
	return s.join(r, hash, p, Moved, Handle{})
}

// join holds the record for a connection, unless held holds it already.
func (s *shard) join(r ref, hash uint64, p *Policy, how Outcome, held Handle) Binding {
	sl := s.slab.at(r)
	c := s.classOf(sl)
	pool := s.table.pool(c.pool)
	h := Handle{slot: r, gen: s.slab.rest(r).gen, shard: uint8(s.number), class: sl.class}
	if !c.follows(p) {
		h.class = s.table.classFor(pool, p)
	}
	h.settled = sl.class == h.class && sl.flags&flagAccepted != 0
	if h.same(held) {
		h.accepted = held.accepted
	} else {
		s.hold(r)
		s.noteKey(pool, hash)
	}
	return Binding{Node: s.nodeOf(sl), Pool: pool.id, Outcome: how, Handle: h}
}

// classFor is the class of a record of the pool that was refreshed under p.
func (t *Table) classFor(pool *poolState, p *Policy) uint32 {
	return t.classes.id(class{pool: pool.number, refresher: p.Pool, timeout: max(p.Timeout, 0), timer: p.Timer})
}

// Accepted refreshes the record: the member has accepted the connection. From now on the record has the timeout of the
// Policy that the connection came with (rule B-14). Failing attempts never refresh. It may be called again, once per
// request say; only the first call counts.
func (t *Table) Accepted(h *Handle) {
	if h.settled {
		h.accepted = true
		return
	}
	s, r, now := t.lockHeld(h)
	if r == 0 {
		return
	}
	defer s.mu.Unlock()
	h.accepted, h.settled = true, true
	sl := s.slab.at(r)
	if sl.flags&flagAccepted == 0 {
		sl.flags = sl.flags&^flagKept | flagAccepted
		s.slab.trace(r)
	}
	sl.used = max(sl.used, now)
	if sl.class != h.class {
		s.retime(r, h.class, now)
	}
}

// Follow replaces the Policy that the connection came with, where it depends on the node: a connection that has a record learns
// its node only with the answer. It must be called before Accepted.
func (t *Table) Follow(h *Handle, p Policy) {
	s, r, _ := t.lockHeld(h)
	if r == 0 {
		return
	}
	defer s.mu.Unlock()
	sl := s.slab.at(r)
	h.class = t.classFor(t.pool(s.classOf(sl).pool), &p)
	h.settled = sl.class == h.class && sl.flags&flagAccepted != 0
}

// Release ends the hold and empties the Handle. The idle timer starts when the last one of an accepted connection goes.
func (t *Table) Release(h *Handle) {
	s, r, now := t.lockHeld(h)
	accepted := h.accepted
	*h = Handle{}
	if r == 0 {
		return
	}
	defer s.mu.Unlock()
	s.unhold(r)
	sl := s.slab.at(r)
	if accepted { // the class stays: a Retime may have changed it meanwhile
		sl.used = max(sl.used, now)
	}
	switch {
	case sl.flags&flagOpen != 0:
	case sl.flags&flagAccepted == 0:
		s.drop(r, func(*poolState) {})
	case s.expired(r, now):
		s.expire(r)
	default:
		s.list(r)
	}
}

// lockHeld locks the shard of the handle's record, unless the record is gone or has run out under the fixed timer (0).
func (t *Table) lockHeld(h *Handle) (s *shard, r ref, now uint64) {
	if h.gen == 0 {
		return nil, 0, 0
	}
	s, now = &t.shards[h.shard], t.now()
	s.mu.Lock()
	if s.slab.has(h.slot) && s.slab.rest(h.slot).gen == h.gen {
		if !s.expired(h.slot, now) {
			return s, h.slot, now
		}
		s.expire(h.slot)
	}
	s.mu.Unlock()
	return nil, 0, 0
}
