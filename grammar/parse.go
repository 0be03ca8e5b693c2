package grammar

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// Parse reads a file. It returns every statement that it could make out and all faults (at most 50, then a note that counts the
// rest); statements with faults are marked Faulty. An object that the file defines twice is a fault.
func Parse(file string, src []byte) ([]*Statement, []*pb.Diagnostic) {
	return ParseAt(&pb.Position{File: file, Line: 1, Column: 1}, src)
}

// Word returns a text as one word of the language: as it is where it can be one, else in quotes.
func Word(text string) string { return plain(text) }

// ParseAt is Parse for a text whose first character stands at origin.
func ParseAt(origin *pb.Position, src []byte) ([]*Statement, []*pb.Diagnostic) {
	return parse(origin, src, false)
}

// ParseCommand reads commands: words of a command line, lines of a shell. A rule's body may stand in single quotes, and an object
// may be defined again.
func ParseCommand(origin *pb.Position, src []byte) ([]*Statement, []*pb.Diagnostic) {
	return parse(origin, src, true)
}

// parser is the state of one text.
type parser struct {
	*source
	command    bool
	statements []*Statement
}

func parse(origin *pb.Position, src []byte, command bool) ([]*Statement, []*pb.Diagnostic) {
	var f faults
	s := lex(origin.GetFile(), max(1, origin.GetLine()), max(1, origin.GetColumn()), src, &f)
	p := &parser{source: s, command: command}
	spans := s.split(true)
	next := 0
	for i, sp := range spans {
		cl := &clause{p: p, span: sp}
		last := i == len(spans)-1
		cl.comments, cl.outside, next = s.commentsOf(sp, next, last)
		before := f.count()
		first := len(p.statements)
		cl.parse()
		for _, st := range p.statements[first:] {
			st.Faulty = st.Faulty || sp.faulty || sp.open || f.count() > before
		}
	}
	if !command {
		list, more := duplicates(p.statements)
		f.more += more
		for _, d := range list {
			at := place{line: d.Position.Line, col: d.Position.Column, length: d.Length}
			if n := f.add(at, d.Code, "", "%s", d.Message); n != nil {
				n.Related = d.Related
			}
		}
	}
	return p.statements, f.result()
}

// clause is one statement while it is read.
type clause struct {
	p        *parser
	span     span
	keyword  lexer.Token
	c        *cursor
	comments []string
	// outside are those of the comments that stand before or behind the statement and not in it.
	outside []string
}

func (cl *clause) parse() {
	p := cl.p
	if cl.span.faulty || cl.span.open {
		cl.salvage()
		return
	}
	sh := p.shapeOf(cl.span)
	end := p.positionAfter(cl.span.end)
	cl.c = &cursor{items: sh.Items, i: 1, end: lexer.Token{Type: lexer.EOF, Pos: end}}
	first := sh.Items[0]
	cl.keyword = first.token()
	word := statementWords[cl.keyword.Value]
	switch {
	case first.Group != nil:
		p.faults.at(cl.keyword, CodeSyntax, "", "%q cannot begin a statement", cl.keyword.Value)
	case cl.keyword.Value == "-?":
		cl.emit(ActionHelp, "", "", lexer.Token{})
	case word == nil:
		p.faults.at(cl.keyword, CodeUnknownStatement, p.faults.nearest(cl.keyword.Value, statementNames),
			"unknown statement %q", cl.keyword.Value)
	case word.missing != "":
		p.faults.at(cl.keyword, CodeUnavailable, "", "%s is a command of the old unit that does not exist here: %s", cl.keyword.Value, word.missing)
	case cl.asksHelp():
		st := cl.emit(ActionHelp, "", "", lexer.Token{})
		st.Words = []string{cl.keyword.Value}
	case word.kept:
		cl.whole()
	case word.legacy:
		cl.legacy(word)
	default:
		cl.typed()
	}
}

// asksHelp tells whether the statement ends with -?.
func (cl *clause) asksHelp() bool {
	items := cl.c.items
	last := items[len(items)-1]
	return len(items) > 1 && last.Group == nil && last.Token.Value == "-?"
}

// salvage notes the name of an object whose brackets do not match, so that what refers to it is not at fault too.
func (cl *clause) salvage() {
	s := cl.p.source
	i := cl.span.first
	if cl.span.end-i < 2 || s.tokens[i+1].kind != tokenWord {
		return
	}
	keyword, name := s.value(i), s.value(i+1)
	var object *pb.Object
	kind := statementWords[keyword]
	switch {
	case kind == nil:
		return
	case kind.kind == KindPool:
		object = &pb.Object{Kind: &pb.Object_Pool{Pool: &pb.Pool{Name: name}}}
	case kind.kind == KindRule:
		object = &pb.Object{Kind: &pb.Object_Rule{Rule: &pb.Rule{Name: name}}}
	case kind.kind == KindVirtual:
		e, fault, _ := parseEndpoint(name)
		if fault != "" || !e.hasPort {
			return
		}
		object = &pb.Object{Kind: &pb.Object_Virtual{Virtual: &pb.VirtualServer{Address: e.String()}}}
	default:
		return
	}
	cl.p.statements = append(cl.p.statements, &Statement{
		Position: s.startOf(i), End: s.endOf(cl.span.end), Text: s.textOf(cl.span),
		Action: ActionDefine, Kind: kind.kind, Key: object.Key(), KeyPosition: s.startOf(i + 1),
		KeyLength: uint32(utf8.RuneCountInString(name)), Object: object, Faulty: true,
	})
}

// typed reads the statements whose words the tables know.
func (cl *clause) typed() {
	switch cl.keyword.Value {
	case "pool":
		cl.pool()
	case "rule":
		cl.rule()
	case "vip", "virtual":
		cl.virtual()
	case "node":
		cl.node()
	case "ratio":
		cl.ratio()
	case "port", "service", "treaper", "udp", "tping_svc", "timeout_svc":
		cl.service()
	case "global":
		cl.global()
	case "sysctl":
		cl.sysctl()
	case "lb", "mirror", "gateway", "maint", "unit", "tping_node", "timeout_node":
		cl.variable()
	case "verbose":
		if d := cl.attempt(cl.variable); d != nil {
			cl.keep(d)
		}
	case "default_gateway":
		cl.defaultGateway()
	default:
		cl.operation()
	}
}

// emit adds a statement; name is the token of the object's name, if any.
func (cl *clause) emit(action Action, kind Kind, key string, name lexer.Token) *Statement {
	s := cl.p.source
	st := &Statement{
		Position: s.startOf(cl.span.first), End: s.endOf(cl.span.end), Text: s.textOf(cl.span),
		Action: action, Kind: kind, Key: key,
	}
	if name.Value != "" {
		st.KeyPosition, st.KeyLength = s.position(name), placeOf(name).length
	}
	cl.p.statements = append(cl.p.statements, st)
	return st
}

// emitObject adds a statement that carries what b gathered.
func (cl *clause) emitObject(action Action, object *pb.Object, b *building, name lexer.Token) *Statement {
	kind, _ := pb.SplitKey(object.Key())
	st := cl.emit(action, Kind(kind), object.Key(), name)
	st.Object, st.Cleared = object, b.cleared
	st.StickyDisable, st.NewEpoch, st.NodeList = b.stickyDisable, b.newEpoch, b.nodeList
	cl.comments = nil
	return st
}

// meta begins an object's memory of its text. The comments go to the first object of the statement.
func (cl *clause) meta() *pb.Meta {
	return &pb.Meta{Position: cl.p.startOf(cl.span.first), Comments: cl.comments}
}

// end reports words that are left over.
func (cl *clause) end() {
	if !cl.c.done() {
		t := cl.c.here()
		cl.p.faults.at(t, CodeSyntax, "", "%q is too much here", t.Value)
	}
}

// name reads an object's name; what is the kind of object, for faults.
func (cl *clause) name(what string) (lexer.Token, bool) {
	t, ok := cl.c.peek()
	if !ok {
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "%s needs a name", cl.keyword.Value)
		return t, false
	}
	cl.c.i++
	if fault := nameFault(what, t.Value); fault != "" {
		cl.p.faults.at(t, CodeName, "", "%s", fault)
	}
	return t, true
}

// commentsOf returns the comments that belong to a statement: those before it, inside it, and behind it on its last line; outside are
// those that are not inside. Those at the end of a text go to its last statement. next is the first comment that is not given away.
func (s *source) commentsOf(sp span, next int, last bool) (all, outside []string, after int) {
	endLine := s.tokens[sp.end-1].line
	for ; next < len(s.comments); next++ {
		c := s.comments[next]
		behind := c.next == sp.end && c.line == endLine
		if c.next >= sp.end && !behind && !last {
			break
		}
		all = append(all, c.text)
		if c.next <= sp.first || c.next >= sp.end {
			outside = append(outside, c.text)
		}
	}
	return all, outside, next
}

// building is an object while its attributes are read.
type building struct {
	p     *parser
	table *Table
	msg   protoreflect.Message
	meta  *pb.Meta
	// given holds the attributes that were given, each once.
	given []*Attribute
	// What the statement says beside the message, as in Statement.
	cleared       []string
	stickyDisable bool
	newEpoch      []string
	nodeList      *pb.Pool
	// removes is set when elements are to be taken out of a list.
	removes bool
}

func (cl *clause) build(t *Table, m proto.Message, meta *pb.Meta) *building {
	return &building{p: cl.p, table: t, msg: m.ProtoReflect(), meta: meta}
}

// attribute reads one attribute whose words were matched. False: a fault is noted.
func (b *building) attribute(s spelling, at lexer.Token, c *cursor) bool {
	a := s.row
	repeated := a.field.IsList() && a.Field != "pools" && a.Field != "vlans" && a.Field != "trusted_proxies"
	if !repeated && slices.Contains(b.given, a) {
		b.p.faults.at(at, CodeDuplicate, "", "existing %s: it is given twice", a.Name())
	}
	b.note(a, at, s.words)
	b.removes = b.removes || s.off && a.field.IsList()
	if a.Value == valueForm {
		return a.form.parse(b.p, b, a, at, c)
	}
	if a.Value == ValueFlag {
		_, off := c.word("disable")
		if !off {
			c.word("enable")
		}
		b.msg.Set(a.field, protoreflect.ValueOfBool(!off))
		return true
	}
	if a.Value == ValueNone {
		b.msg.Set(a.field, protoreflect.ValueOfBool(!s.off))
		return true
	}
	v, ok := b.p.readValue(a, at, c, b.table)
	switch {
	case !ok:
		return false
	case v.none:
		b.cleared = append(b.cleared, a.Field)
	case a.field.IsList():
		b.msg.Mutable(a.field).List().Append(v.v)
	default:
		b.msg.Set(a.field, v.v)
	}
	return true
}

// note remembers that an attribute was given and where.
func (b *building) note(a *Attribute, at lexer.Token, words []string) {
	if !slices.Contains(b.given, a) {
		b.given = append(b.given, a)
	}
	if b.meta == nil {
		return
	}
	if words == nil {
		words = []string{at.Value}
	}
	length := len(words) - 1
	for _, word := range words {
		length += utf8.RuneCountInString(word)
	}
	b.meta.Attributes = append(b.meta.Attributes, &pb.AttributePosition{
		Attribute: a.Name(), Line: uint32(at.Pos.Line), Column: uint32(at.Pos.Column), Length: uint32(length),
	})
}

// body reads attributes up to the end of the list, going on after each fault. extra handles words that are no attribute of the
// table; it returns false for words that it does not know. others are the words that extra knows, for suggestions.
func (b *building) body(c *cursor, others []string, extra func(c *cursor) bool) {
	for !c.done() {
		if g := c.items[c.i].Group; g != nil {
			b.p.faults.at(g.Open, CodeSyntax, "", "%q cannot stand here in a %s", g.Open.Value, b.table.Title)
			c.i++
			continue
		}
		if extra != nil && extra(c) {
			continue
		}
		s, at, ok := b.table.match(c)
		if !ok {
			b.unknown(c, others)
			continue
		}
		if !b.attribute(s, at, c) {
			b.skip(c, others)
		}
	}
}

// unknown reports a word that is no attribute and goes to the next that is one.
func (b *building) unknown(c *cursor, others []string) {
	at := c.here()
	c.i++
	words := []string{unquote(at)}
	for n := 0; n < maxAttributeWords-1; n++ {
		if next, ok := c.peekAt(n); ok && next.Pos.Line == at.Pos.Line {
			words = append(words, next.Value)
		}
	}
	name := at.Value
	if len(words) > 1 && b.table.knows(at.Value) {
		name += " " + words[1]
	}
	d := b.p.faults.at(at, CodeUnknownAttribute, "", "unknown %s attribute %q", b.table.Title, name)
	b.p.faults.later(d, func() string { return b.suggest(words, others) })
	b.skip(c, others)
}

// maxAttributeWords is how many words the longest attribute has.
const maxAttributeWords = 4

// suggest returns the attribute that words, of which the first is no attribute's, were probably meant to begin with; "" if none is
// close. others may stand beside the attributes.
func (b *building) suggest(words, others []string) string {
	spellings := append(b.table.spellings(), others...)
	if b.table == Pools {
		spellings = append(spellings, Members.spellings()...)
	}
	best, least := "", 0
	for n := 1; n <= len(words); n++ {
		// What begins with so many words, by these; of several attributes that begin alike the words themselves.
		begins := make(map[string]string)
		for _, s := range spellings {
			head := firstWords(s, n)
			if head == "" {
				continue
			}
			if other, found := begins[head]; found && other != s {
				s = head
			}
			begins[head] = s
		}
		text := strings.Join(words[:n], " ")
		if near := nearest(text, sortedKeys(begins)); near != "" {
			if d := pb.EditDistance(text, near, utf8.RuneCountInString(near)); best == "" || d <= least {
				best, least = begins[near], d
			}
		}
	}
	return best
}

// firstWords returns the first n words of a text, "" if it has fewer.
func firstWords(text string, n int) string {
	for i := range len(text) {
		if text[i] == ' ' {
			if n--; n == 0 {
				return text[:i]
			}
		}
	}
	if n == 1 {
		return text
	}
	return ""
}

// skip passes the words of a faulty attribute: up to the end of their line or the next attribute.
func (b *building) skip(c *cursor, others []string) {
	if c.i == 0 || c.done() {
		return
	}
	line := c.items[c.i-1].token().Pos.Line
	for ; !c.done(); c.i++ {
		t := c.here()
		if t.Pos.Line != line || b.table.knows(t.Value) {
			return
		}
		for _, o := range others {
			if o == t.Value {
				return
			}
		}
	}
}

// spellings returns all ways to write the table's attributes.
func (t *Table) spellings() []string {
	var all []string
	for _, first := range t.words {
		for _, s := range t.byFirst[first] {
			all = append(all, strings.Join(s.words, " "))
		}
	}
	return all
}
