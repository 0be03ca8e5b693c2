package pool

import (
	"net/netip"
	"runtime"
	"sync"
	"weak"
)

// Gauge counts the open connections of something that several pools or virtual servers share. The zero value is ready.
// Methods may be called from any goroutine.
type Gauge struct{ open counter }

// Open counts a connection unless there are already as many as limit, which is reported. Zero is no limit.
func (g *Gauge) Open(limit uint32) bool {
	if n := g.open.Add(1); limit > 0 && n > uint64(limit) {
		g.Close()
		return false
	}
	return true
}

// Close ends what Open began.
func (g *Gauge) Close() { g.open.Add(^uint64(0)) }

// Current is the number of open connections.
func (g *Gauge) Current() uint64 { return g.open.Load() }

// full reports whether there are as many as limit; zero is no limit.
func (g *Gauge) full(limit uint32) bool { return limit > 0 && g.Current() >= uint64(limit) }

// Registry holds what belongs to keys and outlives snapshots: one value a key for as long as anybody holds it. The zero value
// is empty. Methods may be called from any goroutine.
type Registry[K comparable, V any] struct {
	mu   sync.Mutex
	held map[K]weak.Pointer[V]
	gone func(K) // forget, made once
}

// Of returns the value of a key: that which somebody holds, else a new one.
func (r *Registry[K, V]) Of(key K) *V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.held[key].Value(); v != nil {
		return v
	}
	if r.held == nil {
		r.held, r.gone = map[K]weak.Pointer[V]{}, r.forget
	}
	v := new(V)
	r.held[key] = weak.Make(v)
	runtime.AddCleanup(v, r.gone, key)
	return v
}

func (r *Registry[K, V]) forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[key].Value() == nil {
		delete(r.held, key)
	}
}

// Node is what the members of all pools at one node address have together.
type Node struct {
	connections Gauge
	timing      timing
}

// Nodes are the node addresses of all pools.
type Nodes = Registry[netip.Addr, Node]
