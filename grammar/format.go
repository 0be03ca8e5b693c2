package grammar

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// FormatOptions choose how a configuration is written.
type FormatOptions struct {
	// Dialect is 3 or 4; 0 is 4. Attributes that the dialect does not know are written all the same.
	Dialect int
	// OmitComments leaves out the comments before statements.
	OmitComments bool
}

// Format writes objects as a configuration file: sections in the order of the kinds, objects of a section by their rank. What it
// writes reads back as the same objects, and it is a fixed point: formatting that again changes nothing.
func Format(objects []*pb.Object, o FormatOptions) []byte {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *pb.Object) int {
		return cmp.Or(cmp.Compare(section(a), section(b)), cmp.Compare(lastOfSection(a), lastOfSection(b)),
			cmp.Compare(a.ObjectMeta().GetOrder(), b.ObjectMeta().GetOrder()))
	})
	f := &formatter{FormatOptions: o}
	for _, object := range sorted {
		f.object(object)
	}
	return []byte(f.b.String())
}

// FormatObject writes one object.
func FormatObject(object *pb.Object, o FormatOptions) []byte {
	f := &formatter{FormatOptions: o}
	f.object(object)
	return []byte(f.b.String())
}

// sections ranks the kinds as a file is written.
var sections = func() map[Kind]int {
	m := make(map[Kind]int)
	for i, k := range []Kind{
		KindInterface, KindIpalias, KindTrunk, KindStp, KindVlan, KindVlangroup, KindSelf, KindGlobal, KindService, KindClass, KindAuthz, KindMonitor,
		KindPool, KindRule, KindVirtualAddress, KindVirtual, KindNode, KindMonitorUse, KindSnat, KindNat, KindProxy, KindAlias, KindActive, KindKept,
	} {
		m[k] = i
	}
	return m
}()

// section is the rank of an object's kind; a kept statement stands in the section of its keyword.
func section(o *pb.Object) int {
	kept := o.GetKept()
	if kept == nil {
		kind, _ := pb.SplitKey(o.Key())
		return sections[Kind(kind)]
	}
	word := statementWords[kept.GetKeyword()]
	switch {
	case kept.GetKeyword() == "node":
		return sections[KindMonitorUse]
	case word == nil:
		return sections[KindKept]
	}
	return sections[word.kind]
}

// lastOfSection is 1 for kept statements: they stand behind the others of their section.
func lastOfSection(o *pb.Object) int {
	if o.GetKept() != nil {
		return 1
	}
	return 0
}

type formatter struct {
	FormatOptions
	b strings.Builder
}

func (f *formatter) line(parts ...string) {
	for _, p := range parts {
		f.b.WriteString(p)
	}
	f.b.WriteByte('\n')
}

func (f *formatter) object(o *pb.Object) {
	mark := f.b.Len()
	if !f.OmitComments {
		for _, text := range o.ObjectMeta().GetComments() {
			f.line("#", text)
		}
	}
	start := f.b.Len()
	switch k := o.GetKind().(type) {
	case *pb.Object_Pool:
		f.pool(k.Pool)
	case *pb.Object_Rule:
		f.line("rule ", k.Rule.GetName(), " {")
		for _, l := range statementLines(k.Rule.GetStatement(), 1) {
			f.line(l)
		}
		f.line("}")
	case *pb.Object_Virtual:
		f.virtual(k.Virtual)
	case *pb.Object_VirtualAddress:
		f.each(VirtualAddresses, k.VirtualAddress, f.virtualWord()+" "+k.VirtualAddress.GetAddress())
	case *pb.Object_Node:
		f.node(k.Node)
	case *pb.Object_Service:
		f.service(k.Service)
	case *pb.Object_Global:
		f.global(k.Global)
	case *pb.Object_Kept:
		text := k.Kept.GetText()
		if strings.HasSuffix(text, `\`) {
			text += " " // else it would join the next line
		}
		f.line(text)
	default:
		f.legacy(o)
	}
	if f.b.Len() == start && mark != start {
		// Nothing of the object is given: its comments have nothing to stand before.
		text := f.b.String()[:mark]
		f.b.Reset()
		f.b.WriteString(text)
	}
}

func (f *formatter) virtualWord() string {
	if f.Dialect == 3 {
		return "vip"
	}
	return "virtual"
}

// lines returns an attribute as it is written, an element a line; nothing where it is absent.
func (a *Attribute) lines(m proto.Message, words string) []string {
	if a.Value == valueForm {
		lines := a.form.print(m)
		if a.Bare {
			return lines
		}
		for i := range lines {
			lines[i] = words + " " + lines[i]
		}
		return lines
	}
	r := m.ProtoReflect()
	if !r.Has(a.field) {
		return nil
	}
	v := r.Get(a.field)
	switch {
	case a.field.IsList():
		var lines []string
		for i := range v.List().Len() {
			lines = append(lines, words+" "+a.text(v.List().Get(i)))
		}
		return lines
	case a.Value == ValueFlag && !v.Bool():
		return []string{words + " disable"}
	case a.Value == ValueFlag:
		return []string{words}
	case a.Value != ValueNone:
		return []string{words + " " + a.text(v)}
	case v.Bool():
		return []string{words}
	case a.Opposite != nil:
		return []string{strings.Join(a.Opposite, " ")}
	}
	return nil
}

func (f *formatter) pool(p *pb.Pool) {
	f.line("pool ", p.GetName(), " {")
	for _, a := range Pools.Rows {
		for _, l := range a.lines(p, a.Name()) {
			f.line(indent, l)
		}
	}
	for _, m := range p.GetMembers() {
		words := []string{"member", m.GetAddress()}
		for _, a := range Members.Rows {
			words = append(words, a.lines(m, a.Name())...)
		}
		f.line(indent, strings.Join(words, " "))
	}
	f.line("}")
}

// virtual writes a virtual server on one line where only use is given; unit stands before the brace.
func (f *formatter) virtual(v *pb.VirtualServer) {
	head := f.virtualWord() + " " + v.GetAddress()
	if v.Unit != nil {
		head += " unit " + strconv.FormatUint(uint64(v.GetUnit()), 10)
	}
	var lines []string
	short := true
	for _, a := range Virtuals.Rows {
		if a.Field == "unit" {
			continue
		}
		got := a.lines(v, a.Name())
		short = short && (len(got) == 0 || a.Words[0] == "use")
		lines = append(lines, got...)
	}
	if short && len(lines) == 1 {
		f.line(head, " { ", lines[0], " }")
		return
	}
	f.line(head, " {")
	for _, l := range lines {
		f.line(indent, l)
	}
	f.line("}")
}

// each writes a statement for each attribute that is given.
func (f *formatter) each(t *Table, m proto.Message, head string) {
	for _, a := range t.Rows {
		for _, l := range a.lines(m, a.Name()) {
			f.line(head, " ", l)
		}
	}
}

func (f *formatter) node(n *pb.Node) {
	head := "node " + n.GetAddress()
	for _, a := range Nodes.Rows {
		if f.Dialect == 3 && a.Field == "ratio" && n.Ratio != nil {
			f.line("ratio ", n.GetAddress(), " ", strconv.FormatUint(uint64(n.GetRatio()), 10))
			continue
		}
		for _, l := range a.lines(n, a.Name()) {
			f.line(head, " ", l)
		}
	}
}

func (f *formatter) service(s *pb.Service) {
	port := number(s.GetPort())
	rest := proto.CloneOf(s)
	rest.Tping, rest.TpingTimeout = nil, nil
	f.serviceOf(rest, port)
	if s.Tping != nil {
		f.line("tping_svc ", port, " ", number(s.GetTping()))
	}
	if s.TpingTimeout != nil {
		f.line("timeout_svc ", port, " ", number(s.GetTpingTimeout()))
	}
}

// serviceOf writes what both dialects have words for; it takes rest apart.
func (f *formatter) serviceOf(rest *pb.Service, port string) {
	s := proto.CloneOf(rest)
	if f.Dialect != 3 {
		f.each(Services, s, "service "+port)
		return
	}
	if s.Tcp != nil {
		f.line("port ", port, " ", switchWord(s.GetTcp()))
		rest.Tcp = nil
	}
	if s.Limit != nil {
		f.line("port ", port, " limit ", number(s.GetLimit()))
		rest.Limit = nil
	}
	if s.TimeoutTcp != nil {
		f.line("treaper ", port, " ", number(s.GetTimeoutTcp()))
		rest.TimeoutTcp = nil
	}
	// The statement udp also allows UDP; where that is not so, 4.x words say it.
	if s.TimeoutUdp != nil && s.GetUdp() {
		f.line("udp ", port, " ", number(s.GetTimeoutUdp()))
		rest.TimeoutUdp, rest.Udp = nil, nil
	}
	f.each(Services, rest, "service "+port)
}

// sysctlOf maps fields to the 3.x variables that set them.
var sysctlOf = map[string]string{
	"persist_across_virtuals": "persist_on_any_vip",
	"persist_across_services": "persist_on_any_port_same_vip",
	"persist_map_proxies":     "persist_map_proxies",
	"persist_timer":           "persist_time_used_as_limit",
}

func (f *formatter) global(g *pb.Global) {
	for _, a := range Globals.Rows {
		name, is := sysctlOf[a.Field]
		r := g.ProtoReflect()
		switch {
		case a.Field == "sysctls":
			for _, l := range a.lines(g, "sysctl") {
				f.line(l)
			}
		case f.Dialect == 3 && is && r.Has(a.field):
			f.line("sysctl -w bigip.", name, "=", bit(a, r.Get(a.field)))
		default:
			head := "global " + a.Name()
			if a.Statement != nil {
				head = strings.Join(a.Statement, " ")
			} else if f.Dialect == 3 && a.Words3 != nil {
				head = strings.Join(a.Words3, " ")
			}
			for _, l := range a.lines(g, head) {
				f.line(l)
			}
		}
	}
}

// bit is what sysctl says for a switch, and for a timer whether it is used as limit.
func bit(a *Attribute, v protoreflect.Value) string {
	if a.Value == ValueWord && v.Enum() == pb.PersistTimer_PERSIST_TIMER_LIMIT.Number() || a.Value != ValueWord && v.Bool() {
		return "1"
	}
	return "0"
}

// Lines returns an attribute of m as it is written, words first, an element a line; nothing where it is absent.
func (a *Attribute) Lines(m proto.Message) []string { return a.lines(m, a.Name()) }
