package config

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// Equal reports whether two objects are the same configuration: positions, comments and order do not count. Nil equals nil.
func Equal(a, b *pb.Object) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	if proto.Equal(a, b) {
		return true
	}
	return proto.Equal(StripMeta(a), StripMeta(b))
}

// StripMeta returns a copy without anything that an object remembers of its text: Meta, and the positions inside a rule.
// That is what a dataplane is sent.
func StripMeta(o *pb.Object) *pb.Object {
	if o == nil {
		return nil
	}
	c := Clone(o)
	strip(c.ProtoReflect())
	return c
}

var (
	metaName     = (*pb.Meta)(nil).ProtoReflect().Descriptor().FullName()
	positionName = (*pb.Position)(nil).ProtoReflect().Descriptor().FullName()
)

func strip(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() != protoreflect.MessageKind {
			return true
		}
		switch name := fd.Message().FullName(); {
		case name == metaName || name == positionName:
			m.Clear(fd)
		case fd.IsList():
			for i := range v.List().Len() {
				strip(v.List().Get(i).Message())
			}
		default:
			strip(v.Message())
		}
		return true
	})
}

// Diff returns what differs between two configurations, in the order of keys. Objects that are Equal are left out.
func Diff(old, new View) []Change {
	return diff(old, new, Equal)
}

// DiffExact is Diff that counts positions, comments and order as well: what a store must write to get from old to new.
func DiffExact(old, new View) []Change {
	return diff(old, new, func(a, b *pb.Object) bool { return a == b || proto.Equal(a, b) })
}

func diff(old, new View, equal func(a, b *pb.Object) bool) []Change {
	before, after := collect(old), collect(new)
	var changes []Change
	for len(before) > 0 || len(after) > 0 {
		var c Change
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].key < after[0].key:
			c = Change{Key: before[0].key, Old: before[0].object}
			before = before[1:]
		case len(before) == 0 || after[0].key < before[0].key:
			c = Change{Key: after[0].key, New: after[0].object}
			after = after[1:]
		default:
			c = Change{Key: before[0].key, Old: before[0].object, New: after[0].object}
			before, after = before[1:], after[1:]
			if equal(c.Old, c.New) {
				continue
			}
		}
		changes = append(changes, c)
	}
	return changes
}

type keyed struct {
	key    string
	object *pb.Object
}

// collect lists the objects of a view in the order of keys.
func collect(v View) []keyed {
	t := TreeOf(v)
	list := make([]keyed, 0, t.Len(""))
	t.objects.ascend("", func(key string, o *pb.Object) bool {
		list = append(list, keyed{key, o})
		return true
	})
	return list
}
