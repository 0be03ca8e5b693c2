package grammar

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

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
