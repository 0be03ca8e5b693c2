package pool

import (
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

// Of returns the value of a key: that which somebody holds, else a new one, which made may change before anybody else has it. Nil
// changes nothing.
func (r *Registry[K, V]) Of(key K, made func(*V)) *V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.held[key].Value(); v != nil {
		return v
	}
	if r.held == nil {
		r.held, r.gone = map[K]weak.Pointer[V]{}, r.forget
	}
	v := new(V)
	if made != nil {
		made(v)
	}
	r.held[key] = weak.Make(v)
	runtime.AddCleanup(v, r.gone, key)
	return v
}

// get returns the value of a key, nil when nobody holds one.
func (r *Registry[K, V]) get(key K) *V {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[key].Value()
}

// each calls fn for each value that somebody holds, in no order.
func (r *Registry[K, V]) each(fn func(K, *V)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, held := range r.held {
		if v := held.Value(); v != nil {
			fn(key, v)
		}
	}
}

func (r *Registry[K, V]) forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[key].Value() == nil {
		delete(r.held, key)
	}
}

// Len is how many keys there are, those of values included that nobody has held for a short time.
func (r *Registry[K, V]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}
