package persist

import (
	"sync"
	"sync/atomic"
)

// interner gives small numbers to keys that many records share, so that records hold no pointers, and keeps a value for
// each. Keys are what a configuration names (members, scopes, pools, timeouts): they are few and never given back.
type interner[K comparable, V any] struct {
	value  func(K) V
	mu     sync.RWMutex
	ids    map[K]uint32
	values atomic.Pointer[[]V]
}

// same is the interner whose values are its keys.
func same[K comparable](k K) K { return k }

// id returns the number of k, a new one the first time.
func (in *interner[K, V]) id(k K) uint32 {
	in.mu.RLock()
	id, ok := in.ids[k]
	in.mu.RUnlock()
	if ok {
		return id
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if id, ok := in.ids[k]; ok {
		return id
	}
	if in.ids == nil {
		in.ids = map[K]uint32{}
	}
	values := in.all()
	id = uint32(len(values))
	values = append(values, in.value(k)) // readers of the shorter slice never look behind its end
	in.ids[k] = id
	in.values.Store(&values)
	return id
}

// find is id that gives out no new number.
func (in *interner[K, V]) find(k K) (uint32, bool) {
	in.mu.RLock()
	defer in.mu.RUnlock()
	id, ok := in.ids[k]
	return id, ok
}

// at returns the value of a number that id has given out. It must not be changed.
func (in *interner[K, V]) at(id uint32) *V { return &(*in.values.Load())[id] }

func (in *interner[K, V]) all() []V {
	if p := in.values.Load(); p != nil {
		return *p
	}
	return nil
}
