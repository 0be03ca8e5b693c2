// Package config holds the rules of the model: which configurations are valid, how two of them differ, what refers to what,
// and what an absent attribute means. It is pure: no files, no clocks, no network.
//
// Objects in a View are immutable by convention: whoever wants to change one takes a Clone and puts the clone into an Overlay.
package config

import (
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// View is a readable configuration. Tree and Overlay implement it. What it returns must not be modified.
type View interface {
	// Get returns the object with a key ("pool/web", "global"), or nil.
	Get(key string) *pb.Object
	// Range calls fn for each object of a kind ("pool"; "" for all), in the order of keys, until fn returns false.
	Range(kind string, fn func(*pb.Object) bool)
	// Len counts the objects of a kind; "" counts all.
	Len(kind string) int
	// Referrers calls fn with the key of each object that refers to key, in the order of keys, until fn returns false.
	// The object key need not exist. Besides what an object names, a pool refers to the nodes of its members
	// ("node/10.1.1.1" and "node/10.1.1.1:80"), a virtual server to its address and its service
	// ("virtual_address/10.0.0.1", "service/80"). A kept statement refers to what it stands for (see KeptAs).
	Referrers(key string, fn func(from string) bool)
	// LastOrder returns a rank that no object of the kind exceeds; a new object takes the next one as its Meta.order.
	LastOrder(kind string) uint64
}

// Change is what happened to one key. Old is nil for a new object, New for one that is gone.
type Change struct {
	Key      string
	Old, New *pb.Object
}

// Effective reports whether old and new differ in more than what they remember of their text (see Equal).
func (c Change) Effective() bool { return !Equal(c.Old, c.New) }

// Clone returns a deep copy that may be modified.
func Clone(o *pb.Object) *pb.Object {
	return proto.CloneOf(o)
}
