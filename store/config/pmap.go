package config

import (
	"hash/maphash"
	"strings"
)

// edit marks the nodes that one writer has made and may therefore change in place.
type edit struct{ _ byte }

// pnode is a node of a persistent treap: a sorted map whose versions share what they have in common. Its shape depends on
// its keys alone. A nil *pnode is the empty map.
type pnode[V any] struct {
	key         string
	value       V
	priority    uint64
	left, right *pnode[V]
	owner       *edit
}

var prioritySeed = maphash.MakeSeed()

func (n *pnode[V]) get(key string) (value V, ok bool) {
	for n != nil {
		switch c := strings.Compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	return value, false
}

// own returns n itself if e made it, else a copy that belongs to e.
func (n *pnode[V]) own(e *edit) *pnode[V] {
	if n.owner == e {
		return n
	}
	c := *n
	c.owner = e
	return &c
}

// put returns the map with key set to value.
func (n *pnode[V]) put(e *edit, key string, value V) *pnode[V] {
	if n == nil {
		return &pnode[V]{key: key, value: value, priority: maphash.String(prioritySeed, key), owner: e}
	}
	n = n.own(e)
	switch c := strings.Compare(key, n.key); {
	case c < 0:
		n.left = n.left.put(e, key, value)
		if l := n.left; l.priority > n.priority {
			n.left, l.right = l.right, n
			return l
		}
	case c > 0:
		n.right = n.right.put(e, key, value)
		if r := n.right; r.priority > n.priority {
			n.right, r.left = r.left, n
			return r
		}
	default:
		n.value = value
	}
	return n
}

// remove returns the map without key, which must be in it.
func (n *pnode[V]) remove(e *edit, key string) *pnode[V] {
	switch c := strings.Compare(key, n.key); {
	case c < 0:
		n = n.own(e)
		n.left = n.left.remove(e, key)
	case c > 0:
		n = n.own(e)
		n.right = n.right.remove(e, key)
	default:
		return join(e, n.left, n.right)
	}
	return n
}

// join merges two maps, every key of a being less than every key of b.
func join[V any](e *edit, a, b *pnode[V]) *pnode[V] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a = a.own(e)
		a.right = join(e, a.right, b)
		return a
	default:
		b = b.own(e)
		b.left = join(e, a, b.left)
		return b
	}
}

// ascend calls fn for each key that begins with prefix, in order, until fn returns false; it reports whether it went to the end.
func (n *pnode[V]) ascend(prefix string, fn func(key string, value V) bool) bool {
	if n == nil {
		return true
	}
	has := strings.HasPrefix(n.key, prefix)
	if (has || n.key > prefix) && !n.left.ascend(prefix, fn) {
		return false
	}
	if has && !fn(n.key, n.value) {
		return false
	}
	if has || n.key < prefix {
		return n.right.ascend(prefix, fn)
	}
	return true
}
