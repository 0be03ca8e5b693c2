package grammar

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// idle are the values that switch something off: that nothing acts on such an attribute makes no difference.
var idle = []string{"disable", "disarm", "none"}

// inEffect tells whether the dataplane does what a line of an attribute says, words included.
func (a *Attribute) inEffect(line string) bool {
	value := strings.TrimPrefix(line, a.Name()+" ")
	switch {
	case a.Acts && a.Acting == nil:
		return true
	case a.Acts:
		return slices.Contains(a.Acting, value)
	}
	return a.Default == value && slices.Contains(idle, value)
}

// InEffect tells whether anything that a statement says is in effect: an attribute that the dataplane acts on, or the definition of
// a pool, a rule or a virtual server. Queries and commands are in effect.
func (s *Statement) InEffect() bool {
	if s.Action == ActionKeep {
		return false
	}
	switch s.Kind {
	case KindPool, KindRule, KindVirtual:
		return true
	}
	t := TableOf(s.Kind)
	if t == nil || s.Object == nil || s.Object.Message() == nil {
		return true
	}
	if !t.Acts() {
		return false
	}
	given := false
	for _, a := range t.Rows {
		for _, line := range a.Lines(s.Object.Message().Interface()) {
			given = true
			if a.inEffect(line) {
				return true
			}
		}
	}
	return !given
}

// NotInEffect lists what an object says that nothing acts on, as it is written: "lb_mode fastest", "mirror persist enable". Where
// nothing acts on the kind at all, it is the first line of the object.
func NotInEffect(o *pb.Object) []string {
	kind, _ := pb.SplitKey(o.Key())
	t := TableOf(Kind(kind))
	if o.GetKept() != nil || t != nil && !t.Acts() {
		first, _, _ := strings.Cut(string(FormatObject(o, FormatOptions{OmitComments: true})), "\n")
		return []string{first}
	}
	if t == nil {
		return nil
	}
	list := t.notInEffect(o.Message().Interface(), "")
	for _, m := range o.GetPool().GetMembers() {
		list = append(list, Members.notInEffect(m, "member "+m.GetAddress()+" ")...)
	}
	return list
}

func (t *Table) notInEffect(m proto.Message, prefix string) []string {
	var list []string
	for _, a := range t.Rows {
		for _, line := range a.Lines(m) {
			if !a.inEffect(line) {
				list = append(list, prefix+line)
			}
		}
	}
	return list
}

// Ignored lists the attributes that a statement sets and that nothing acts on, by their words: "min_active_members", "member
// priority". Left out are values that make no difference (a default, something switched off), what the dataplane reports itself
// because it acts on other values of the attribute, and statements of which nothing is in effect.
func (s *Statement) Ignored() []string {
	t := TableOf(s.Kind)
	if s.Object == nil || t == nil || !s.InEffect() {
		return nil
	}
	list := t.ignored(s.Object.Message().Interface(), "")
	for _, m := range s.Object.GetPool().GetMembers() {
		for _, name := range Members.ignored(m, "member ") {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

func (t *Table) ignored(m proto.Message, prefix string) []string {
	var list []string
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		a := t.Find(string(fd.Name()))
		if a == nil || a.Acts {
			return true
		}
		matters := slices.ContainsFunc(a.Lines(m), func(line string) bool {
			value := strings.TrimPrefix(line, a.Name()+" ")
			off := slices.Contains(idle, value) && (a.Default == "" || slices.Contains(idle, a.Default))
			return value != a.Default && !off
		})
		if matters {
			list = append(list, prefix+a.Name())
		}
		return true
	})
	slices.Sort(list)
	return list
}
