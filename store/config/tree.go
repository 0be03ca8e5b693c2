package config

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// Tree is an immutable configuration. Deriving one from another costs what differs. The zero value and nil are the empty
// configuration. Safe for concurrent use.
type Tree struct {
	objects *pnode[*pb.Object]
	// refs holds one key for each reference: the key referred to, a zero byte, the key of the referrer.
	refs   *pnode[struct{}]
	counts map[string]int
	orders map[string]uint64
}

// NewTree returns a configuration of the objects. Of several with one key the last counts.
func NewTree(objects ...*pb.Object) *Tree {
	o := NewOverlay(nil)
	for _, obj := range objects {
		o.Put(obj)
	}
	return o.Tree()
}

// TreeOf returns a snapshot of any view; it costs nothing for a Tree or an Overlay. A nil view is empty.
func TreeOf(v View) *Tree {
	switch v := v.(type) {
	case nil:
		return &Tree{}
	case *Tree:
		if v == nil {
			return &Tree{}
		}
		return v
	case *Overlay:
		return v.Tree()
	case *portView:
		return v.tree()
	}
	o := NewOverlay(nil)
	v.Range("", func(obj *pb.Object) bool { o.Put(obj); return true })
	return o.Tree()
}

// Get implements View.
func (t *Tree) Get(key string) *pb.Object {
	if t == nil {
		return nil
	}
	o, _ := t.objects.get(key)
	return o
}

// Range implements View.
func (t *Tree) Range(kind string, fn func(*pb.Object) bool) {
	if t == nil {
		return
	}
	if kind == "global" {
		if o := t.Get(kind); o != nil {
			fn(o)
		}
		return
	}
	prefix := ""
	if kind != "" {
		prefix = kind + "/"
	}
	t.objects.ascend(prefix, func(_ string, o *pb.Object) bool { return fn(o) })
}

// Len implements View.
func (t *Tree) Len(kind string) int {
	if t == nil {
		return 0
	}
	if kind != "" {
		return t.counts[kind]
	}
	n := 0
	for _, c := range t.counts {
		n += c
	}
	return n
}

// Referrers implements View.
func (t *Tree) Referrers(key string, fn func(from string) bool) {
	if t == nil {
		return
	}
	prefix := key + "\x00"
	t.refs.ascend(prefix, func(ref string, _ struct{}) bool { return fn(ref[len(prefix):]) })
}

// LastOrder implements View.
func (t *Tree) LastOrder(kind string) uint64 {
	if t == nil {
		return 0
	}
	return t.orders[kind]
}

// Apply returns the configuration with the changes made; Old of a change is not looked at.
func (t *Tree) Apply(changes []Change) *Tree {
	o := NewOverlay(t)
	for _, c := range changes {
		if c.New == nil {
			o.Delete(c.Key)
		} else {
			o.Put(c.New)
		}
	}
	return o.Tree()
}

// Overlay is a configuration that is being changed; its base stays as it is. Not safe for concurrent use.
type Overlay struct {
	base    *Tree
	tree    Tree
	touched map[string]struct{}
	// owner marks what this overlay has made since the last snapshot of it was taken.
	owner *edit
}

// NewOverlay returns an overlay without changes. A nil base is the empty configuration.
func NewOverlay(base View) *Overlay {
	b := TreeOf(base)
	o := &Overlay{base: b, tree: *b, touched: map[string]struct{}{}, owner: new(edit)}
	o.tree.counts = map[string]int{}
	maps.Copy(o.tree.counts, b.counts)
	o.tree.orders = map[string]uint64{}
	maps.Copy(o.tree.orders, b.orders)
	return o
}

// Get implements View.
func (o *Overlay) Get(key string) *pb.Object { return o.tree.Get(key) }

// Range implements View. The overlay must not be changed meanwhile.
func (o *Overlay) Range(kind string, fn func(*pb.Object) bool) { o.tree.Range(kind, fn) }

// Len implements View.
func (o *Overlay) Len(kind string) int { return o.tree.Len(kind) }

// Referrers implements View. The overlay must not be changed meanwhile.
func (o *Overlay) Referrers(key string, fn func(from string) bool) { o.tree.Referrers(key, fn) }

// LastOrder implements View.
func (o *Overlay) LastOrder(kind string) uint64 { return o.tree.LastOrder(kind) }

// Put adds the object or replaces the one with its key. The overlay keeps it: it must not be modified afterwards.
// An object without a kind is ignored.
func (o *Overlay) Put(obj *pb.Object) {
	key := obj.Key()
	if key == "" {
		return
	}
	kind, _ := pb.SplitKey(key)
	old := o.tree.Get(key)
	if old == obj {
		return
	}
	if old == nil {
		o.tree.counts[kind]++
	}
	if order := obj.ObjectMeta().GetOrder(); order > o.tree.orders[kind] {
		o.tree.orders[kind] = order
	}
	o.tree.objects = o.tree.objects.put(o.owner, key, obj)
	o.reindex(key, old, obj)
	o.touched[key] = struct{}{}
}

// Delete removes the object with the key, if there is one.
func (o *Overlay) Delete(key string) {
	old := o.tree.Get(key)
	if old == nil {
		return
	}
	kind, _ := pb.SplitKey(key)
	o.tree.counts[kind]--
	o.tree.objects = o.tree.objects.remove(o.owner, key)
	o.reindex(key, old, nil)
	o.touched[key] = struct{}{}
}

// reindex replaces the references that start from key.
func (o *Overlay) reindex(key string, old, new *pb.Object) {
	before, after := set{list: references(old)}, set{list: references(new)}
	for _, to := range before.list {
		if !after.has(to) {
			o.tree.refs = o.tree.refs.remove(o.owner, to+"\x00"+key)
		}
	}
	for _, to := range after.list {
		if !before.has(to) {
			o.tree.refs = o.tree.refs.put(o.owner, to+"\x00"+key, struct{}{})
		}
	}
}

// Tree returns a snapshot of the overlay; the overlay may be changed further.
func (o *Overlay) Tree() *Tree {
	o.owner = new(edit)
	t := o.tree
	t.counts, t.orders = maps.Clone(t.counts), maps.Clone(t.orders)
	return &t
}

// Changes returns how the overlay differs from its base, in the order of keys. Objects that were put but are the same,
// their Meta included, are left out.
func (o *Overlay) Changes() []Change {
	var changes []Change
	for key := range o.touched {
		c := Change{Key: key, Old: o.base.Get(key), New: o.tree.Get(key)}
		if c.Old != c.New && !proto.Equal(c.Old, c.New) {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return changes
}
