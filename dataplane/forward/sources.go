package forward

import (
	"hash/maphash"
	"net/netip"
	"sync"
)

// sourceShards is how many shards the counts of clients' addresses have.
const sourceShards = 16

// sources counts the open connections of each client address. The zero value is ready.
type sources struct{ shards [sourceShards]sourceShard }

type sourceShard struct {
	mu sync.Mutex
	n  map[netip.Addr]uint32 // guarded by mu; without those that have none
}

var sourceSeed = maphash.MakeSeed()

// sourceOf is what counts as one client: an IPv4 address, or the 64 bits of IPv6 that a network has.
func sourceOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if network, err := a.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}

func (s *sources) shard(source netip.Addr) *sourceShard {
	return &s.shards[maphash.Comparable(sourceSeed, source)%sourceShards]
}

// enter counts a connection of a source, unless there are limit already.
func (s *sources) enter(source netip.Addr, limit uint32) bool {
	sh := s.shard(source)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.n[source] >= limit {
		return false
	}
	if sh.n == nil {
		sh.n = map[netip.Addr]uint32{}
	}
	sh.n[source]++
	return true
}

// leave ends what enter began.
func (s *sources) leave(source netip.Addr) {
	sh := s.shard(source)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.n[source]--; sh.n[source] == 0 {
		delete(sh.n, source)
	}
}
