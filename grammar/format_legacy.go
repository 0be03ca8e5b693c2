package grammar

import (
	"strings"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// legacy writes an object of a kind of the old unit.
func (f *formatter) legacy(o *pb.Object) {
	kind, name := pb.SplitKey(o.Key())
	t := TableOf(Kind(kind))
	if t == nil {
		return
	}
	m := o.Message().Interface()
	switch k := o.GetKind().(type) {
	case *pb.Object_Interface, *pb.Object_Trunk:
		f.eachOrEmpty(t, m, kind+" "+name)
	case *pb.Object_Ipalias:
		f.oneLine(t, m, "ipalias "+k.Ipalias.GetInterface()+" "+name)
	case *pb.Object_Alias:
		f.line("alias ", name, " ", k.Alias.GetAddress())
	case *pb.Object_Active:
		f.active(k.Active)
	case *pb.Object_Nat:
		f.nat(t, k.Nat)
	case *pb.Object_Snat:
		f.snat(t, k.Snat)
	case *pb.Object_MonitorUse:
		f.monitorUse(k.MonitorUse)
	case *pb.Object_Proxy:
		head := "proxy " + name
		if k.Proxy.Unit != nil {
			head += " unit " + number(k.Proxy.GetUnit())
		}
		f.block(t, m, head, "unit")
	default:
		f.block(t, m, kind+" "+name, "")
	}
}

// words are those of an attribute in the formatter's dialect.
func (f *formatter) words(a *Attribute) string {
	if f.Dialect == 3 && a.Words3 != nil {
		return strings.Join(a.Words3, " ")
	}
	return a.Name()
}

// attributes returns the attributes that are given, an element a line, but the one that sets the field skip.
func (f *formatter) attributes(t *Table, m proto.Message, skip string) []string {
	var lines []string
	for _, a := range t.Rows {
		if a.Field != skip {
			lines = append(lines, a.lines(m, f.words(a))...)
		}
	}
	return lines
}

// eachOrEmpty writes a statement for each attribute, or empty braces.
func (f *formatter) eachOrEmpty(t *Table, m proto.Message, head string) {
	lines := f.attributes(t, m, "")
	for _, l := range lines {
		f.line(head, " ", l)
	}
	if lines == nil {
		f.line(head, " { }")
	}
}

// oneLine writes all attributes on the line of the head.
func (f *formatter) oneLine(t *Table, m proto.Message, head string) {
	f.line(strings.Join(append([]string{head}, f.attributes(t, m, "")...), " "))
}

// block writes the attributes in braces: on one line where there is one at most.
func (f *formatter) block(t *Table, m proto.Message, head, skip string) {
	lines := f.attributes(t, m, skip)
	switch len(lines) {
	case 0:
		f.line(head, " { }")
	case 1:
		f.line(head, " { ", lines[0], " }")
	default:
		f.line(head, " {")
		for _, l := range lines {
			f.line(indent, l)
		}
		f.line("}")
	}
}

// nat writes one line, or braces where the other address is not known.
func (f *formatter) nat(t *Table, n *pb.Nat) {
	if n.GetTo() == "" {
		f.block(t, n, "nat "+n.GetNode(), "")
		return
	}
	f.oneLine(t, n, "nat "+n.GetNode()+" to "+n.GetTo())
}

// snat writes a statement for default and one for the origins.
func (f *formatter) snat(t *Table, s *pb.Snat) {
	write := func(origins string) {
		words := append([]string{"snat map {", origins, "to", s.GetTo()}, f.attributes(t, s, "")...)
		f.line(strings.Join(append(words, "}"), " "))
	}
	if s.GetDefault() {
		write("default")
	}
	if len(s.GetOrigins()) > 0 {
		write(strings.Join(s.GetOrigins(), " "))
	}
}

func (f *formatter) monitorUse(u *pb.MonitorUse) {
	if len(u.GetMonitors()) > 0 {
		f.line("node ", u.GetTarget(), " monitor use ", strings.Join(u.GetMonitors(), " and "))
	}
	if u.Enabled != nil {
		f.line("monitor instance ", u.GetTarget(), " ", switchWord(u.GetEnabled()))
	}
}
