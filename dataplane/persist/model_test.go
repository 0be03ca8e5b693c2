package persist

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelRecord is one binding of the plain model; a move makes a new one.
type modelRecord struct {
	node          netip.AddrPort
	pool          PoolID
	policy        Policy // that last refreshed it
	created, used int64
	open          int
	accepted      bool
}

type modelConn struct {
	key      Key
	policy   Policy
	binding  Binding
	record   *modelRecord // nil: unrecorded
	accepted bool
	settled  bool // Accepted changes nothing any more
}

type model struct {
	table   *Table
	clock   *fakeClock
	limit   int
	records map[Key]*modelRecord
	conns   []*modelConn
	keys    []Key
	nodes   []netip.AddrPort
	pols    []Policy
}

func (m *model) alive(r *modelRecord) bool {
	now := m.clock.now()
	switch {
	case r.policy.Timeout == 0:
		return true
	case r.policy.Timer == Fixed:
		return now-r.created < int64(r.policy.Timeout)
	}
	return r.open > 0 || now-r.used < int64(r.policy.Timeout)
}

func (m *model) get(k Key) *modelRecord {
	r := m.records[k]
	if r != nil && !m.alive(r) {
		delete(m.records, k)
		return nil
	}
	return r
}

// oldestIdle is the record that has to go first: of a pool, or of all.
func (m *model) oldestIdle(pool PoolID) (oldest Key, found bool) {
	for k, r := range m.records {
		if r.open == 0 && m.alive(r) && (pool == 0 || r.pool == pool) &&
			(!found || r.used-m.records[oldest].used < 0) { // the clock may overflow
			oldest, found = k, true
		}
	}
	return oldest, found
}

// room is what decides who is evicted for a new record.
type room struct {
	full    PoolID // the pool if it is at its limit, so that one of its own must go; else 0
	evicted uint64
}

func (m *model) room(pool PoolID) room {
	r := room{evicted: m.table.Stats().Evicted}
	if s := m.table.PoolStats(pool); s.Limit > 0 && s.Records >= s.Limit {
		r.full = pool
	}
	return r
}

func (m *model) bind(t *rapid.T, c *modelConn, before room) {
	now := m.clock.now()
	c.settled = false
	switch c.binding.Outcome {
	case Found:
		c.record = m.get(c.key)
		if c.record == nil {
			t.Fatalf("found a record that is not there: %v", c.key)
		}
		if c.binding.Node != c.record.node || c.binding.Pool != c.record.pool {
			t.Fatalf("found %v of %v, want %v of %v", c.binding.Node, c.binding.Pool, c.record.node, c.record.pool)
		}
		c.record.open++
		c.settled = c.record.accepted && c.record.policy == c.policy
	case Bound:
		if m.get(c.key) != nil {
			t.Fatalf("a record was bound twice: %v", c.key)
		}
		if after := m.table.Stats(); after.Evicted > before.evicted {
			oldest, found := m.oldestIdle(before.full)
			if _, still := m.table.Lookup(oldest); !found || still {
				t.Fatalf("evicted another than the oldest idle record %v", oldest)
			}
			delete(m.records, oldest)
		}
		c.record = &modelRecord{node: c.binding.Node, pool: c.policy.Pool, policy: c.policy, created: now, used: now, open: 1}
		m.records[c.key] = c.record
	case Full:
		if m.get(c.key) != nil {
			t.Fatalf("table full for a key that has a record: %v", c.key)
		}
		c.record = nil
	default:
		t.Fatalf("unexpected outcome %v", c.binding.Outcome)
	}
}

func (m *model) Bind(t *rapid.T) {
	c := &modelConn{key: rapid.SampledFrom(m.keys).Draw(t, "key"), policy: rapid.SampledFrom(m.pols).Draw(t, "policy")}
	before := m.room(c.policy.Pool)
	c.binding = m.table.Bind(c.key, c.policy, pick(rapid.SampledFrom(m.nodes).Draw(t, "node")))
	if c.binding.Outcome == Full {
		pool := PoolID(0)
		if s := m.table.PoolStats(c.policy.Pool); s.Limit > 0 && s.Records >= s.Limit {
			pool = c.policy.Pool
		}
		if k, found := m.oldestIdle(pool); found {
			t.Fatalf("table full, but %v is idle", k)
		}
	}
	m.bind(t, c, before)
	m.conns = append(m.conns, c)
}

func (m *model) BindNothing(t *rapid.T) {
	k := rapid.SampledFrom(m.keys).Draw(t, "key")
	if m.get(k) != nil {
		t.Skip("the key has a record")
	}
	m.evictedBefore(t, func() {
		if b := m.table.Bind(k, m.pols[0], pickNone); b.Outcome != NoNode || b.Handle != (Handle{}) {
			t.Fatalf("no node to choose, and yet %v", b)
		}
	})
}

// evictedBefore allows f to evict the oldest idle record.
func (m *model) evictedBefore(t *rapid.T, f func()) {
	before := m.table.Stats()
	f()
	if m.table.Stats().Evicted > before.Evicted {
		for k := range m.records {
			if _, ok := m.table.Lookup(k); !ok && m.records[k].open == 0 {
				delete(m.records, k)
			}
		}
	}
}

func (m *model) Acquire(t *rapid.T) {
	c := &modelConn{key: rapid.SampledFrom(m.keys).Draw(t, "key"), policy: rapid.SampledFrom(m.pols).Draw(t, "policy")}
	c.binding = m.table.Acquire(c.key, c.policy)
	if c.binding.Outcome == NoNode {
		if m.get(c.key) != nil {
			t.Fatalf("record not found: %v", c.key)
		}
		return
	}
	m.bind(t, c, room{})
	m.conns = append(m.conns, c)
}

func (m *model) conn(t *rapid.T) int {
	if len(m.conns) == 0 {
		t.Skip("no connection is open")
	}
	return rapid.IntRange(0, len(m.conns)-1).Draw(t, "connection")
}

func (m *model) Accepted(t *rapid.T) {
	c := m.conns[m.conn(t)]
	m.table.Accepted(&c.binding.Handle)
	if c.record == nil || m.get(c.key) != c.record {
		return
	}
	c.accepted, c.record.accepted = true, true
	if !c.settled {
		c.settled = true
		c.record.used, c.record.policy = m.clock.now(), c.policy
	}
	m.get(c.key)
}

func (m *model) Release(t *rapid.T) {
	i := m.conn(t)
	c := m.conns[i]
	m.conns = append(m.conns[:i], m.conns[i+1:]...)
	m.table.Release(&c.binding.Handle)
	m.table.Release(&c.binding.Handle) // once more is harmless
	m.release(c)
}

func (m *model) release(c *modelConn) {
	if c.record == nil || m.get(c.key) != c.record {
		return
	}
	c.record.open--
	if c.accepted {
		c.record.used = m.clock.now()
	}
	if c.record.open == 0 && !c.record.accepted {
		delete(m.records, c.key)
	}
	m.get(c.key)
}

func (m *model) Rebind(t *rapid.T) {
	c := m.conns[m.conn(t)]
	failed := c.binding.Node
	current := m.get(c.key)
	own := current != nil && current == c.record
	node := rapid.SampledFrom(m.nodes).Draw(t, "node")
	before := m.room(c.policy.Pool)
	if !m.table.Rebind(c.key, c.policy, &c.binding, pick(node)) {
		t.Fatalf("a node was offered and not taken")
	}
	switch {
	case current != nil && current.node != failed || current != nil && node == failed:
		c.accepted = c.accepted && own
		m.bind(t, c, before)
		if own { // still held once only
			current.open--
		}
		if c.binding.Outcome != Found || c.record != current {
			t.Fatalf("rebind did not join the record that others moved: %v", c.binding)
		}
	case current != nil:
		if c.binding.Outcome != Moved || c.binding.Node != node {
			t.Fatalf("got %v, want the record moved to %v", c.binding, node)
		}
		c.accepted, c.settled = false, false
		now := m.clock.now()
		c.record = &modelRecord{node: node, pool: c.policy.Pool, policy: c.policy, created: now, used: now, open: 1}
		m.records[c.key] = c.record
	default:
		c.accepted = false
		m.bind(t, c, before)
	}
}

func (m *model) Clear(t *rapid.T) {
	f := Filter{Node: rapid.SampledFrom(m.nodes).Draw(t, "node"), Pool: rapid.SampledFrom(m.pols).Draw(t, "pool").Pool}
	want := 0
	for k, r := range m.records {
		if m.alive(r) && r.node == f.Node && r.pool == f.Pool {
			delete(m.records, k)
			want++
		}
	}
	if got := m.table.Clear(f, nil); got != want {
		t.Fatalf("cleared %d, want %d", got, want)
	}
}

func (m *model) Retime(t *rapid.T) {
	change := rapid.SampledFrom(m.pols).Draw(t, "policy")
	m.table.Retime(func(r *Record) (Policy, bool) { return change, r.Refresher == change.Pool })
	for k, r := range m.records {
		if m.get(k) != nil && r.policy.Pool == change.Pool {
			r.policy = change
			m.get(k)
		}
	}
}

func (m *model) Import(t *rapid.T) {
	k, p := rapid.SampledFrom(m.keys).Draw(t, "key"), rapid.SampledFrom(m.pols).Draw(t, "policy")
	if p.Timeout == 0 {
		t.Skip("covered by TestImport")
	}
	remaining := time.Duration(rapid.Int64Range(0, int64(2*p.Timeout)).Draw(t, "remaining"))
	rec := Record{Key: k, Node: m.nodes[0], Pool: p.Pool, Refresher: p.Pool, Timeout: p.Timeout, Timer: p.Timer, Remaining: remaining, Accepted: true}
	now := m.clock.now()
	since := now - int64(p.Timeout-min(remaining, p.Timeout))
	r := &modelRecord{node: rec.Node, pool: p.Pool, policy: p, created: since, used: since, accepted: true}
	if p.Timer == Fixed {
		r.used = now
	}
	old := m.get(k)
	took := m.table.Import(rec)
	stats, pool := m.table.Stats(), m.table.PoolStats(p.Pool)
	room := old != nil && old.pool == p.Pool || stats.Records < stats.Limit && (pool.Limit == 0 || pool.Records < pool.Limit)
	should := remaining > 0 && (old == nil || old.open == 0 && old.used-r.used < 0)
	switch {
	case took && !should:
		t.Fatalf("took %v over %v", rec, old)
	case took:
		m.records[k] = r
	case should && room && stats.Records < stats.Limit:
		t.Fatalf("did not take %v over %v", rec, old)
	case should && old != nil: // dropped, and no seat was left for it
		delete(m.records, k)
	}
}

func (m *model) Time(t *rapid.T) {
	m.clock.add(time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(40*time.Second)).Draw(t, "time")))
}

// Sweep evicts only where a record moved into a pool that was full already.
func (m *model) Sweep(t *rapid.T) {
	over, before := m.table.PoolStats(sslPool), m.table.Stats()
	m.evictedBefore(t, func() { m.table.Sweep(rapid.IntRange(1, 5000).Draw(t, "budget")) })
	evicted := m.table.Stats().Evicted - before.Evicted
	if room := over.Limit == 0 || over.Records <= over.Limit; evicted > 0 && room {
		t.Fatalf("evicted %d of pools below their limits", evicted)
	}
}

// Check runs after every step. It also moves the clock a little, so that no two uses are equally old.
func (m *model) Check(t *rapid.T) {
	check(t, m.table)
	if n := m.table.Len(); n > m.limit {
		t.Fatalf("%d records, the limit is %d", n, m.limit)
	}
	got := collect(m.table, Filter{})
	now := m.clock.now()
	for k, r := range m.records {
		if !m.alive(r) {
			if node, _, ok := m.table.NodeOf(&k); ok {
				t.Fatalf("the record of %v has run out and names %v", k, node)
			}
			continue
		}
		want := Record{
			Key: k, Node: r.node, Pool: r.pool, Refresher: r.policy.Pool, Timeout: r.policy.Timeout, Timer: r.policy.Timer,
			Age: time.Duration(now - r.created), Idle: time.Duration(now - r.used), Remaining: Forever, Open: r.open, Accepted: r.accepted,
		}
		if r.open > 0 {
			want.Idle = 0
		}
		if r.policy.Timeout > 0 {
			want.Remaining = r.policy.Timeout - want.Idle
			if r.policy.Timer == Fixed {
				want.Remaining = r.policy.Timeout - want.Age
			}
		}
		if got[k] != want {
			t.Fatalf("record\n got %+v\nwant %+v", got[k], want)
		}
		if one, ok := m.table.Lookup(k); !ok || one != want {
			t.Fatalf("looked up %+v, listed %+v", one, want)
		}
		if node, pool, ok := m.table.NodeOf(&k); !ok || node != want.Node || pool != want.Pool {
			t.Fatalf("node %v of pool %v (%v), looked up %+v", node, pool, ok, want)
		}
		delete(got, k)
	}
	for k, r := range got {
		t.Fatalf("record that should not be there: %v %+v", k, r)
	}
	m.clock.add(1)
}

// TestModel compares the table with a plain map over random histories.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{}
		clock.set(rapid.Int64().Draw(t, "start"))
		m := &model{clock: clock, limit: rapid.IntRange(2, 12).Draw(t, "limit"), records: map[Key]*modelRecord{}}
		m.table = New(Options{Clock: clock.now, Limit: m.limit})
		m.nodes = []netip.AddrPort{n1, n2, n3}
		for i := range 8 {
			m.keys = append(m.keys, client(i),
				IDKey(SSL, ScopeOf(Globals{PersistOnAnyVIP: true}, v1, webPool), []byte(fmt.Sprintf("session %d of more than sixteen", i))))
		}
		m.pols = []Policy{
			{Pool: webPool, Timeout: 60 * time.Second},
			{Pool: webPool, Timeout: 20 * time.Second, Timer: Fixed},
			{Pool: sslPool, Timeout: 90 * time.Second},
			{Pool: sslPool},
		}
		if rapid.Bool().Draw(t, "pool limit") {
			m.table.SetPoolLimit(sslPool, 3)
		}
		t.Repeat(rapid.StateMachineActions(m))
	})
}
