package grammar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// attempt runs read. What it finds wrong is taken back together with the statements that it added, and the first fault is returned;
// nil where all is well.
func (cl *clause) attempt(read func()) *pb.Diagnostic {
	p, f := cl.p, cl.p.faults
	statements, mark, comments, i := len(p.statements), f.mark(), cl.comments, cl.c.i
	read()
	d, found := f.rewind(mark)
	if !found {
		return nil
	}
	p.statements, cl.comments, cl.c.i = p.statements[:statements], comments, i
	if d == nil {
		d = &pb.Diagnostic{}
	}
	return d
}

// legacy reads the statements of the old unit's kinds. A statement that says what the rows do not know is kept whole, with a warning
// that names it: the old unit may have known more words.
func (cl *clause) legacy(word *statementWord) {
	if cl.legacyQuery(word.kind) {
		return
	}
	if d := cl.attempt(func() { cl.legacyStatement(word.kind) }); d != nil {
		cl.keep(d)
	}
}

// keep keeps the statement whole and warns of what is not known in it; nil where no row describes the statement.
func (cl *clause) keep(why *pb.Diagnostic) {
	text := withoutReturns(cl.p.textOf(cl.span))
	kept := &pb.Kept{Meta: &pb.Meta{Position: cl.p.startOf(cl.span.first), Comments: cl.outside}, Keyword: cl.keyword.Value, Text: text}
	st := cl.emit(ActionKeep, KindKept, "", lexer.Token{})
	st.Object = &pb.Object{Kind: &pb.Object_Kept{Kept: kept}}
	st.Key = st.Object.Key()
	if why.GetMessage() == "" {
		return
	}
	message := fmt.Sprintf("%s; the statement is kept as it is, not in effect", why.GetMessage())
	if why.GetSuggestion() != "" {
		message += fmt.Sprintf("; did you mean %q?", why.GetSuggestion())
	}
	at := place{line: why.GetPosition().GetLine(), col: why.GetPosition().GetColumn(), length: why.GetLength()}
	cl.p.faults.warn(at, CodeKept, "%s", message)
}

// withoutReturns takes the carriage returns from the ends of lines. A backslash before several does not join the lines, and does not
// afterwards.
func withoutReturns(text string) string {
	if !strings.Contains(text, "\r\n") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines[:len(lines)-1] {
		lines[i] = strings.TrimRight(line, "\r")
		if strings.HasSuffix(lines[i], `\`) && len(line)-len(lines[i]) > 1 {
			lines[i] += " "
		}
	}
	return strings.Join(lines, "\n")
}

// whole keeps a statement of which no row describes the words; KEYWORD show prints what is kept.
func (cl *clause) whole() {
	items := cl.c.items
	switch {
	case len(items) == 1 && !cl.p.command:
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "%s is not complete", cl.keyword.Value)
	case len(items) == 1, len(items) == 2 && items[1].Group == nil && items[1].Token.Value == "show":
		cl.emit(ActionShow, KindKept, "", lexer.Token{}).Words = []string{cl.keyword.Value}
	default:
		cl.keep(nil)
	}
}

// legacyQuery reads what is asked of objects, and deletions: KEYWORD [NAME] show, KEYWORD NAME delete. False: it is something else.
func (cl *clause) legacyQuery(kind Kind) bool {
	items := cl.c.items
	n := len(items)
	for _, it := range items {
		if it.Group != nil {
			return false
		}
	}
	if kind == KindSnat && n > 1 && snatVariable[items[1].Token.Value] {
		return false
	}
	last := items[n-1].Token.Value
	action := map[string]Action{"show": ActionShow, "delete": ActionDelete}[last]
	if last == "dump" && kind == KindMonitor {
		action = ActionMonitorDump
	}
	switch {
	case n == 1 && cl.p.command:
		cl.emit(ActionShow, kind, "", lexer.Token{})
	case n == 1:
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "%s is not complete", cl.keyword.Value)
	case n == 2 && (last == "show" || action == ActionMonitorDump):
		cl.emit(action, kind, "", lexer.Token{})
	case n == 3 && last == "all" && kind == KindMonitor && (items[1].Token.Value == "show" || items[1].Token.Value == "dump"):
		action = map[string]Action{"show": ActionShow, "dump": ActionMonitorDump}[items[1].Token.Value]
		cl.emit(action, kind, "", lexer.Token{}).Words = []string{"all"}
	case n == 2 && cl.p.command && kind != KindActive:
		cl.emit(ActionShow, kind, cl.legacyKey(kind, items[1].Token), items[1].Token)
	case n == 3 && action != 0:
		cl.emit(action, kind, cl.legacyKey(kind, items[1].Token), items[1].Token)
	default:
		return false
	}
	return true
}

// legacyKey is the key of the object that a token names.
func (cl *clause) legacyKey(kind Kind, t lexer.Token) string {
	name, _ := legacyName(kind, t.Value)
	if name == "" {
		name = t.Value
	}
	return string(kind) + "/" + name
}

// legacyName reads the name of an object.
func legacyName(kind Kind, text string) (name, fault string) {
	switch kind {
	case KindSelf, KindIpalias, KindNat, KindAlias, KindSnat:
		return parseAddress(text)
	case KindProxy:
		e, fault, _ := parseEndpoint(text)
		if fault == "" && !e.hasPort {
			fault = fmt.Sprintf("%q has no service; a proxy is ADDRESS:SERVICE", text)
		}
		return e.String(), fault
	case KindMonitorUse:
		return monitored(text)
	case KindActive:
		return activeTarget(text)
	}
	return text, nameFault(string(kind), text)
}

// monitored reads what monitors are associated with: ADDRESS, ADDRESS:SERVICE or *:SERVICE.
func monitored(text string) (target, fault string) {
	if service, all := strings.CutPrefix(text, "*:"); all {
		port, ok := ParseService(service)
		if !ok || port == 0 {
			return "", fmt.Sprintf("%q is not *:SERVICE", text)
		}
		return "*:" + number(uint32(port)), ""
	}
	e, fault, _ := parseEndpoint(text)
	if e.port == 0 {
		e.hasPort = false
	}
	return e.String(), fault
}

// newObject returns an object of a kind that has only its name.
func newObject(kind Kind, name string, meta *pb.Meta) (*pb.Object, protoreflect.Message) {
	o := &pb.Object{}
	r := o.ProtoReflect()
	m := r.Mutable(r.Descriptor().Fields().ByName(protoreflect.Name(kind))).Message()
	fields := m.Descriptor().Fields()
	m.Set(fields.ByNumber(nameNumber), protoreflect.ValueOfString(name))
	m.Set(fields.ByName("meta"), protoreflect.ValueOfMessage(meta.ProtoReflect()))
	return o, m
}

// nameNumber is the number of the field that names an object, in all messages of named objects.
const nameNumber = 2

// snatVariable are the words behind snat that set variables of the unit.
var snatVariable = map[string]bool{"limit": true, "timeout": true}

// legacyStatement reads KEYWORD NAME HEAD ATTRIBUTES; attributes stand in braces, without, or before them.
func (cl *clause) legacyStatement(kind Kind) {
	switch first, _ := cl.c.peek(); {
	case kind == KindSnat && snatVariable[first.Value]:
		cl.variable()
	case kind == KindSnat:
		cl.snat()
	case kind == KindIpalias:
		cl.ipalias()
	case kind == KindAlias:
		cl.alias()
	case kind == KindMonitor && first.Value == "instance":
		cl.monitorInstance()
	case kind == KindActive:
		cl.active()
	default:
		name, ok := cl.legacyNamed(kind)
		if !ok {
			return
		}
		key, _ := legacyName(kind, name.Value)
		object, m := newObject(kind, key, cl.meta())
		if kind == KindNat && !cl.natTo(m) {
			return
		}
		cl.legacyBody(object, name)
	}
}

// legacyNamed reads the name of an object of a kind.
func (cl *clause) legacyNamed(kind Kind) (lexer.Token, bool) {
	t, ok := cl.c.peek()
	if !ok {
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "%s needs a name", cl.keyword.Value)
		return t, false
	}
	cl.c.i++
	if _, fault := legacyName(kind, t.Value); fault != "" {
		cl.p.faults.at(t, CodeName, "", "%s: %s", cl.keyword.Value, fault)
		return t, false
	}
	return t, true
}

// legacyBody reads the attributes of an object and adds the statement.
func (cl *clause) legacyBody(object *pb.Object, name lexer.Token) {
	c := cl.c
	kind, _ := pb.SplitKey(object.Key())
	b := cl.build(TableOf(Kind(kind)), object.Message().Interface(), object.ObjectMeta())
	action := ActionSet
	if _, ok := c.word("modify"); ok {
		action = ActionModify
	}
	header := *c
	if i := slices.IndexFunc(c.items[c.i:], func(it item) bool { return it.Group != nil }); i >= 0 {
		header.items, header.end = c.items[:c.i+i], c.items[c.i+i].token()
	}
	b.body(&header, nil, nil)
	c.i = header.i
	if g := cl.braces(); g != nil {
		if action == ActionSet {
			action = ActionDefine
		}
		b.body(g.inside(), nil, nil)
	} else if action == ActionModify {
		cl.p.faults.at(c.here(), CodeSyntax, "", "a { is expected here")
	}
	cl.end()
	if b.removes {
		action = ActionRemove
	}
	cl.emitObject(action, object, b, name)
}

// braces takes a group in braces, or one in single quotes that holds nothing else but one: '{ ... }' on a command line.
func (cl *clause) braces() *group {
	if g, ok := cl.c.group(tokenOpenBrace); ok {
		return g
	}
	g, ok := cl.c.group(tokenOpenQuote)
	if !ok {
		return nil
	}
	if len(g.Items) == 1 && g.Items[0].Group != nil {
		return g.Items[0].Group
	}
	return g
}

// natTo reads to ADDRESS.
func (cl *clause) natTo(m protoreflect.Message) bool {
	if _, ok := cl.c.word("to"); !ok {
		return true
	}
	t, ok := cl.c.peek()
	to, fault := parseAddress(t.Value)
	if !ok || fault != "" {
		cl.p.faults.at(orElse(t, cl.c.here(), ok), CodeValue, "", "nat: to is followed by an address")
		return false
	}
	cl.c.i++
	m.Set(m.Descriptor().Fields().ByName("to"), protoreflect.ValueOfString(to))
	return true
}

// ipalias reads ipalias INTERFACE ADDRESS or ipalias ADDRESS INTERFACE, then attributes.
func (cl *clause) ipalias() {
	c := cl.c
	first, ok1 := c.peek()
	second, ok2 := c.peekAt(1)
	if !ok1 || !ok2 {
		cl.p.faults.at(c.here(), CodeSyntax, "", "ipalias is followed by INTERFACE ADDRESS")
		return
	}
	c.i += 2
	name, device := second, first
	if isAddress(first.Value) {
		name, device = first, second
	}
	address, fault := parseAddress(name.Value)
	if fault == "" {
		fault = nameFault("interface", device.Value)
	}
	if fault != "" {
		cl.p.faults.at(name, CodeValue, "", "ipalias: %s", fault)
		return
	}
	object, _ := newObject(KindIpalias, address, cl.meta())
	object.GetIpalias().Interface = device.Value
	cl.legacyBody(object, name)
}

// alias reads alias NODE ... ADDRESS and alias { NODE ... } ADDRESS.
func (cl *clause) alias() {
	c := cl.c
	var nodes []item
	if g, ok := c.group(tokenOpenBrace); ok {
		nodes = g.Items
	} else if len(c.items) > 2 {
		nodes = c.items[1 : len(c.items)-1]
		c.i = len(c.items) - 1
	}
	t, ok := c.peek()
	to, fault := parseAddress(t.Value)
	if len(nodes) == 0 || !ok || fault != "" {
		cl.p.faults.at(orElse(t, c.here(), ok), CodeSyntax, "", "alias is followed by addresses of nodes and the address to ping")
		return
	}
	c.i++
	cl.end()
	for _, it := range nodes {
		node := it.token()
		name, fault := parseAddress(node.Value)
		if it.Group != nil || fault != "" {
			cl.p.faults.at(node, CodeValue, "", "alias: %q is not an address", node.Value)
			return
		}
		object, m := newObject(KindAlias, name, cl.meta())
		object.GetAlias().Address = to
		cl.emitObject(ActionSet, object, cl.build(Aliases, m.Interface(), object.ObjectMeta()), node)
	}
}

// snat reads snat map { ORIGINS to ADDRESS ATTRIBUTES }; the braces and map may be missing. ORIGINS are default or addresses.
func (cl *clause) snat() {
	c := cl.c
	c.word("map")
	inner := c
	if g, ok := c.group(tokenOpenBrace); ok {
		inner = g.inside()
	}
	snat := &pb.Snat{Meta: cl.meta()}
	if !cl.snatOrigins(inner, snat) {
		return
	}
	if _, ok := inner.word("to"); !ok {
		inner = c // the braces held origins alone
		if _, ok := inner.word("to"); !ok {
			cl.p.faults.at(c.here(), CodeSyntax, "", "snat map ORIGINS is followed by to ADDRESS")
			return
		}
	}
	t, ok := inner.peek()
	to, fault := parseAddress(t.Value)
	if !ok || fault != "" {
		cl.p.faults.at(orElse(t, inner.here(), ok), CodeValue, "", "snat map: to is followed by an address or auto")
		return
	}
	inner.i++
	snat.To = to
	object := &pb.Object{Kind: &pb.Object_Snat{Snat: snat}}
	b := cl.build(Snats, snat, snat.Meta)
	b.body(inner, nil, nil)
	if inner != c {
		b.body(c, nil, nil)
	}
	cl.emitObject(ActionSet, object, b, t)
}

// snatOrigins reads default, or addresses and names of VLANs, up to the word to.
func (cl *clause) snatOrigins(c *cursor, snat *pb.Snat) bool {
	for {
		t, ok := c.peek()
		if !ok || t.Value == "to" {
			break
		}
		c.i++
		if t.Value == "default" {
			snat.Default = true
			continue
		}
		origin, fault := parseAddress(t.Value)
		if fault != "" {
			cl.p.faults.at(t, CodeValue, "", "snat map: %s", fault)
			return false
		}
		snat.Origins = append(snat.Origins, origin)
	}
	if !snat.Default && snat.Origins == nil {
		cl.p.faults.at(c.here(), CodeSyntax, "", "snat map is followed by default or addresses")
		return false
	}
	return true
}

// monitorInstance reads monitor instance ADDRESS[:SERVICE] enable|disable.
func (cl *clause) monitorInstance() {
	c := cl.c
	c.i++
	t, ok := cl.legacyNamed(KindMonitorUse)
	if !ok {
		return
	}
	target, _ := legacyName(KindMonitorUse, t.Value)
	object, m := newObject(KindMonitorUse, target, cl.meta())
	b := cl.build(MonitorUses, m.Interface(), object.ObjectMeta())
	s, at, ok := MonitorUses.match(c)
	if !ok || s.row.Field != "enabled" {
		cl.wrongWord(c.here(), "enable", "disable")
		return
	}
	b.attribute(s, at, c)
	cl.end()
	cl.emitObject(ActionSet, object, b, t)
}

// nodeMonitor reads what follows node TARGET ...: monitor use M and M, monitor delete, monitor show.
func (cl *clause) nodeMonitor(targets []lexer.Token) {
	c := cl.c
	if next, ok := c.peekAt(1); ok && c.i+2 == len(c.items) && (next.Value == "delete" || next.Value == "show") {
		action := map[string]Action{"delete": ActionDelete, "show": ActionShow}[next.Value]
		for _, t := range targets {
			cl.emit(action, KindMonitorUse, cl.legacyKey(KindMonitorUse, t), t)
		}
		return
	}
	d := cl.attempt(func() {
		template := &pb.MonitorUse{Meta: cl.meta()}
		b := cl.build(MonitorUses, template, template.Meta)
		s, at, ok := MonitorUses.match(c)
		if !ok {
			c.i++
			cl.wrongWord(c.here(), "use", "delete", "show")
			return
		}
		b.attribute(s, at, c)
		cl.end()
		for i, t := range targets {
			target, fault := legacyName(KindMonitorUse, t.Value)
			if fault != "" {
				cl.p.faults.at(t, CodeValue, "", "node: %s", fault)
				return
			}
			object, _ := newObject(KindMonitorUse, target, &pb.Meta{Position: template.Meta.Position, Attributes: template.Meta.Attributes})
			object.GetMonitorUse().Monitors = slices.Clone(template.Monitors)
			if i == 0 {
				object.GetMonitorUse().Meta.Comments = template.Meta.Comments
			}
			cl.emitObject(ActionSet, object, b, t)
		}
	})
	if d != nil {
		cl.keep(d)
	}
}

// defaultGateway reads default_gateway use pool NAME, with or without braces, and delete.
func (cl *clause) defaultGateway() {
	c := cl.c
	if len(c.items) == 2 && c.items[1].Group == nil && c.items[1].Token.Value == "delete" {
		object, b := cl.newGlobal()
		b.cleared = []string{"default_gateway_pool"}
		cl.emitObject(ActionSet, object, b, lexer.Token{})
		return
	}
	d := cl.attempt(func() {
		if len(c.items) == 2 && c.items[1].Group != nil {
			g := c.items[1].Group
			c = &cursor{items: append([]item{c.items[0]}, g.Items...), i: 1, end: g.Close}
		}
		outer := cl.c
		cl.c = c
		cl.variable()
		cl.c = outer
	})
	if d != nil {
		cl.keep(d)
	}
}
