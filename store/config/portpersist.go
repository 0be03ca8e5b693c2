package config

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// ApplyPortPersist returns the view that is in effect under volatile persistence timeouts of ports, in seconds (rule B-19):
// in every pool that a virtual server on such a port uses directly, persist_mode none becomes simple and a simple timeout of
// 0 becomes the port's. Pools that rules reach are untouched. With several ports the lowest one counts. Nothing is computed
// before it is read, so that the result costs nothing on a large configuration; a later view needs a new call.
func ApplyPortPersist(v View, seconds map[uint32]uint32) View {
	if len(seconds) == 0 {
		return v
	}
	return &portView{View: v, seconds: seconds}
}

type portView struct {
	View
	seconds map[uint32]uint32
}

// Get implements View.
func (v *portView) Get(key string) *pb.Object { return v.effective(v.View.Get(key)) }

// Range implements View.
func (v *portView) Range(kind string, fn func(*pb.Object) bool) {
	v.View.Range(kind, func(o *pb.Object) bool { return fn(v.effective(o)) })
}

// tree returns the effective configuration as a Tree that shares all other objects with the base.
func (v *portView) tree() *Tree {
	overlay := NewOverlay(v.View)
	for port := range v.seconds {
		v.Referrers("service/"+strconv.Itoa(int(port)), func(from string) bool {
			for _, p := range v.View.Get(from).GetVirtual().GetPools() {
				if o := v.Get("pool/" + p.GetPool()); o != nil {
					overlay.Put(o)
				}
			}
			return true
		})
	}
	return overlay.Tree()
}

// effective returns o itself unless a port's timeout changes it.
func (v *portView) effective(o *pb.Object) *pb.Object {
	p := o.GetPool()
	if p == nil {
		return o
	}
	switch p.GetPersistMode() {
	case pb.PersistMode_PERSIST_MODE_UNSPECIFIED, pb.PersistMode_PERSIST_MODE_NONE:
	case pb.PersistMode_PERSIST_MODE_SIMPLE:
		if p.GetSimpleTimeout() != 0 {
			return o
		}
	default:
		return o
	}
	timeout := v.timeout(p.GetName())
	if timeout == 0 {
		return o
	}
	c := Clone(o)
	c.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum()
	if p.GetSimpleTimeout() == 0 {
		c.GetPool().SimpleTimeout = proto.Uint32(timeout)
	}
	return c
}

// timeout returns the seconds that a port gives to a pool; 0 for none.
func (v *portView) timeout(pool string) uint32 {
	lowest, timeout := uint32(1<<16), uint32(0)
	v.Referrers("pool/"+pool, func(from string) bool {
		address, isVirtual := strings.CutPrefix(from, "virtual/")
		if !isVirtual {
			return true
		}
		_, port, ok := SplitAddress(address)
		seconds, set := v.seconds[uint32(port)]
		if ok && set && seconds > 0 && uint32(port) < lowest && usesDirectly(FindVirtual(v.View, address), pool) {
			lowest, timeout = uint32(port), seconds
		}
		return true
	})
	return timeout
}

// EffectiveChanges turns changes between two configurations into those between the views that are in effect before and
// after, under the same port timeouts: a virtual server that comes or goes may change pools that it names. Objects that are
// Equal are left out. It costs what the changes touch.
func EffectiveChanges(old, new View, seconds map[uint32]uint32, changes []Change) []Change {
	keys := map[string]struct{}{}
	for _, c := range changes {
		keys[c.Key] = struct{}{}
		for _, o := range []*pb.Object{c.Old, c.New} {
			for _, p := range o.GetVirtual().GetPools() {
				keys["pool/"+p.GetPool()] = struct{}{}
			}
		}
	}
	before, after := ApplyPortPersist(old, seconds), ApplyPortPersist(new, seconds)
	var effective []Change
	for key := range keys {
		c := Change{Key: key, Old: before.Get(key), New: after.Get(key)}
		if !Equal(c.Old, c.New) {
			effective = append(effective, c)
		}
	}
	slices.SortFunc(effective, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return effective
}
