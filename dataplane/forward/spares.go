package forward

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"bigpipe/dataplane/pool"
)

// spareShards is how many shards the spares have: any worker that looks for one begins at another.
const spareShards = 8

// spares are the open connections to members that nobody uses, kept for the next request (rules O-6 to O-9). They cost no
// goroutine: the table looks after them with each tick, and whoever takes one looks whether it is as it was left.
type spares struct {
	shards [spareShards]spareShard
	shared spareOwner // of the listeners that share
}

type spareShard struct {
	mu    sync.Mutex
	lists map[spareKey]*spareList // guarded by mu
	keys  atomic.Int64            // how many lists
	n     atomic.Int64            // in all of them
	_     [3]uint64
}

// spareOwner counts the spares of a listener, or of those that share theirs.
type spareOwner struct{ n atomic.Int64 }

// spareKey says who may use a spare.
type spareKey struct {
	owner  *spareOwner
	member netip.AddrPort // that was dialled
	source netip.Addr     // the client's address, masked; the zero value where all share
	// transparent means that the connection comes from the source's address.
	transparent bool
}

// spareList holds the spares of one key; who was used last is last, and is taken first.
type spareList struct {
	list  []spare
	empty bool // since the last visit
}

// spare is a connection with what it depends on.
type spare struct {
	conn     *conn
	listener *Listener    // that has given it
	settings *Settings    // of the listener, by which it was looked at last
	target   *pool.Member // in these settings
	since    instant
}

// take returns a spare that is alive, nil when there is none. The search begins at the given shard.
func (s *spares) take(k *spareKey, shard uint8, one *OneConnect, now instant) *conn {
	for i := range uint8(spareShards) {
		sh := &s.shards[(shard+i)%spareShards]
		for sh.n.Load() > 0 {
			sp, ok := sh.take(k)
			if !ok {
				break
			}
			c := sp.conn
			if !one.worn(c, now) && c.quiet() {
				c.reuses++
				return c
			}
			c.close()
		}
	}
	return nil
}

func (sh *spareShard) take(k *spareKey) (sp spare, ok bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.lists[*k]
	if l == nil || len(l.list) == 0 {
		return sp, false
	}
	last := len(l.list) - 1
	sp, l.list[last] = l.list[last], spare{}
	l.list = l.list[:last]
	sh.n.Add(-1)
	k.owner.n.Add(-1)
	return sp, true
}

// put keeps a connection, unless there are enough or its listener is about to end.
func (s *spares) put(k *spareKey, shard uint8, sp spare) bool {
	if k.owner.n.Add(1) > int64(sp.settings.OneConnect.MaxSize) {
		k.owner.n.Add(-1)
		return false
	}
	sh := &s.shards[shard%spareShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sp.listener.draining.Load() {
		k.owner.n.Add(-1)
		return false
	}
	l := sh.lists[*k]
	if l == nil {
		if sh.lists == nil {
			sh.lists = map[spareKey]*spareList{}
		}
		l = &spareList{}
		sh.lists[*k] = l
		sh.keys.Add(1)
	}
	l.list = append(l.list, sp)
	l.empty = false
	sh.n.Add(1)
	return true
}

// len returns how many there are.
func (s *spares) len() (n int) {
	for i := range s.shards {
		n += int(s.shards[i].n.Load())
	}
	return n
}

// visit closes the spares that are of no more use: the member has closed them or said something unasked, they are too old, or
// the settings that they were kept under are no more.
func (s *spares) visit(now instant) {
	s.sift(func(k *spareKey, sp *spare) bool { return sp.conn.quietSoFar() && sp.valid(k, now) })
}

// drop closes the spares that a listener has given; nil means all.
func (s *spares) drop(l *Listener) {
	s.sift(func(_ *spareKey, sp *spare) bool { return l != nil && sp.listener != l })
}

// close closes all.
func (s *spares) close() { s.drop(nil) }

// sift closes the spares that keep does not want.
func (s *spares) sift(keep func(*spareKey, *spare) bool) {
	var gone []*conn
	for i := range s.shards {
		sh := &s.shards[i]
		if sh.keys.Load() > 0 {
			gone = sh.sift(keep, gone[:0])
			for _, c := range gone {
				c.close()
			}
		}
	}
}

// sift takes out those that keep does not want, and appends them to gone. A list that stays empty is given up.
func (sh *spareShard) sift(keep func(*spareKey, *spare) bool, gone []*conn) []*conn {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for k, l := range sh.lists {
		if len(l.list) == 0 && l.empty {
			delete(sh.lists, k)
			sh.keys.Add(-1)
			continue
		}
		kept := l.list[:0]
		for i := range l.list {
			if sp := &l.list[i]; keep(&k, sp) {
				kept = append(kept, *sp)
				continue
			}
			gone = append(gone, l.list[i].conn)
			sh.n.Add(-1)
			k.owner.n.Add(-1)
		}
		clear(l.list[len(kept):])
		l.list = kept
		l.empty = len(kept) == 0
	}
	return gone
}

// valid reports whether a spare may be kept under the settings that hold now. It was kept under others, perhaps.
func (sp *spare) valid(k *spareKey, now instant) bool {
	if set := sp.listener.settings.Load(); set != sp.settings {
		before, one := sp.settings.OneConnect, set.OneConnect
		if one == nil || set.Transparent != sp.settings.Transparent || one.Share != before.Share || one.SourceMask != before.SourceMask {
			return false
		}
		m := set.dialled(sp.target)
		if m == nil {
			return false
		}
		sp.settings, sp.target = set, m
	}
	one := sp.settings.OneConnect
	return sp.target.State().UsableForPersisted() && !sp.listener.draining.Load() && !one.worn(sp.conn, now) &&
		now-sp.since <= instant(sp.settings.IdleTimeout) && k.owner.n.Load() <= int64(one.MaxSize)
}

// worn reports whether a connection is too old to be used again, or was used too often (rule O-8).
func (one *OneConnect) worn(c *conn, now instant) bool {
	return c.reuses >= one.MaxReuse || now-c.opened > instant(one.MaxAge)
}

// dialled finds the member that is the same machine and port, nil when no pool has it any more.
func (set *Settings) dialled(m *pool.Member) *pool.Member {
	for _, p := range set.Pools {
		if found := p.Member(m.Addr); found != nil && found.Dial == m.Dial {
			return found
		}
	}
	return nil
}
