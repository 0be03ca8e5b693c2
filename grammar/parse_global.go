package grammar

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// newGlobal begins a change of global variables.
func (cl *clause) newGlobal() (*pb.Object, *building) {
	g := &pb.Global{Meta: cl.meta()}
	return &pb.Object{Kind: &pb.Object_Global{Global: g}}, cl.build(Globals, g, g.Meta)
}

// global reads global NAME VALUE, several at once, and global [NAME] [show].
func (cl *clause) global() {
	c := cl.c
	n := len(c.items)
	if last := c.items[n-1]; n > 1 && last.Group == nil && last.Token.Value == "show" {
		cl.globalShow(c.items[1 : n-1])
		return
	}
	switch {
	case cl.p.command && (c.done() || cl.asksVariable(c.items[1:])):
		cl.globalShow(c.items[1:])
		return
	case c.done():
		cl.p.faults.at(c.here(), CodeSyntax, "", "global is followed by a variable or show")
		return
	}
	object, b := cl.newGlobal()
	b.body(c, nil, nil)
	cl.emitObject(ActionSet, object, b, lexer.Token{})
}

// asksVariable tells whether words name a variable, or begin to, and give it no value.
func (cl *clause) asksVariable(items []item) bool {
	var words []string
	for _, it := range items {
		if it.Group != nil {
			return false
		}
		words = append(words, it.Token.Value)
	}
	return slices.ContainsFunc(Globals.byFirst[words[0]], func(s spelling) bool {
		return len(words) <= len(s.words) && slices.Equal(s.words[:len(words)], words) && s.row.Value != ValueFlag && s.row.Value != ValueNone
	})
}

// globalShow asks for the variable that some words name or begin to name, for all where there are none.
func (cl *clause) globalShow(items []item) {
	var words []string
	for _, it := range items {
		words = append(words, it.token().Value)
	}
	if len(words) > 0 {
		name := strings.Join(words, " ")
		var row *Attribute
		for _, s := range Globals.byFirst[words[0]] {
			if firstWords(strings.Join(s.words, " "), len(words)) == name {
				row = s.row
			}
		}
		if row == nil {
			cl.p.faults.at(items[0].token(), CodeUnknownWord, nearest(name, Globals.spellings()), "unknown global variable %q", name)
			return
		}
		words = row.Words
	}
	cl.emit(ActionGlobalShow, KindGlobal, "global", lexer.Token{}).Words = words
}

// variable reads the 3.x statements that set one global variable: lb, mirror, gateway failsafe, ...
func (cl *clause) variable() {
	c := cl.c
	if last := c.items[len(c.items)-1]; len(c.items) > 1 && last.Group == nil && last.Token.Value == "show" {
		cl.globalShow(c.items[:len(c.items)-1])
		return
	}
	switch field := cl.keyword.Value; {
	case field == "maint" && len(c.items) == 1:
		cl.emit(ActionToggle, KindGlobal, "global", lexer.Token{}).Words = []string{field}
		return
	case field == "unit" && len(c.items) == 1, cl.p.command && cl.asksVariable(c.items):
		cl.globalShow(c.items)
		return
	}
	c.i = 0
	object, b := cl.newGlobal()
	s, at, ok := Globals.match(c)
	if !ok {
		c.i = 1
		cl.wrongWord(c.here(), cl.secondWords()...)
		return
	}
	if b.attribute(s, at, c) {
		cl.end()
	}
	cl.emitObject(ActionSet, object, b, lexer.Token{})
}

// secondWords are the words that may follow the keyword of a variable of several words.
func (cl *clause) secondWords() []string {
	var words []string
	for _, s := range Globals.byFirst[cl.keyword.Value] {
		if len(s.words) > 1 && !slices.Contains(words, s.words[1]) {
			words = append(words, s.words[1])
		}
	}
	return words
}

// sysctl reads sysctl -w NAME=VALUE ..., sysctl NAME and sysctl -a.
func (cl *clause) sysctl() {
	c := cl.c
	t, ok := c.peek()
	switch {
	case !ok:
		cl.p.faults.at(c.here(), CodeSyntax, "", "sysctl is followed by -w NAME=VALUE, NAME or -a")
	case t.Value == "-a":
		c.i++
		cl.emit(ActionSysctlShow, KindGlobal, "global", lexer.Token{})
		cl.end()
	case t.Value == "-w":
		c.i++
		object, b := cl.newGlobal()
		if c.done() {
			cl.p.faults.at(c.here(), CodeSyntax, "", "sysctl -w is followed by NAME=VALUE")
		}
		for !c.done() {
			readSysctl(cl.p, b, c)
		}
		cl.emitObject(ActionSet, object, b, lexer.Token{})
	case strings.Contains(t.Value, "="):
		cl.p.faults.at(t, CodeSyntax, "-w "+t.Value, "a variable is set with sysctl -w")
	default:
		c.i++
		name, fault, suggestion := sysctlName(t.Value)
		if fault != "" {
			cl.p.faults.at(t, CodeUnknownWord, suggestion, "%s", fault)
			return
		}
		cl.emit(ActionSysctlShow, KindGlobal, "global", lexer.Token{}).Words = []string{name}
		cl.end()
	}
}

// MaintModeOff is the 3.x variable that is 1 while maintenance mode is off.
const MaintModeOff = "maint-mode-off"

// Sysctls maps the 3.x variables that mean something here to the proto fields of Global; persist_time_used_as_limit sets
// persist_timer (1 is limit), MaintModeOff sets maint the other way round.
var Sysctls = map[string]string{
	MaintModeOff:                   "maint",
	"persist_on_any_vip":           "persist_across_virtuals",
	"persist_on_any_port_same_vip": "persist_across_services",
	"persist_map_proxies":          "persist_map_proxies",
	"persist_time_used_as_limit":   "persist_timer",
}

// keptSysctls are known variables of the old unit without a meaning here.
var keptSysctls = []string{"vipnoarp", "bonfire_mode"}

var knownSysctls = append(sortedKeys(Sysctls), keptSysctls...)

// sysctlName strips "bigip." and refuses names that are probably misspelt.
func sysctlName(text string) (name, fault, suggestion string) {
	name = strings.TrimPrefix(text, "bigip.")
	for i := range len(name) {
		c := name[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return name, fmt.Sprintf("%q is no variable of bigip", text), ""
		}
	}
	if name == "" {
		return name, "a variable's name is missing", ""
	}
	if slices.Contains(knownSysctls, name) {
		return name, "", ""
	}
	if near := nearest(name, knownSysctls); near != "" {
		return name, fmt.Sprintf("unknown variable %q", text), "bigip." + near
	}
	return name, "", ""
}

// readSysctl reads [bigip.]NAME=VALUE.
func readSysctl(p *parser, b *building, c *cursor) bool {
	t := c.here()
	c.i++
	text, number, found := strings.Cut(t.Value, "=")
	name, fault, suggestion := sysctlName(text)
	switch {
	case !found:
		p.faults.at(t, CodeSyntax, "", "%q is not NAME=VALUE", t.Value)
		return false
	case fault != "":
		p.faults.at(t, CodeUnknownWord, suggestion, "%s", fault)
		return false
	case number != "0" && number != "1":
		p.faults.at(t, CodeValue, "", "%s: the value is 0 or 1, not %q", name, number)
		return false
	}
	on := number == "1"
	field := Sysctls[name]
	if field == "" {
		sysctl := &pb.Sysctl{Name: name, Value: on}
		a := Globals.Find("sysctls")
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfMessage(sysctl.ProtoReflect()))
		return true
	}
	a := Globals.Find(field)
	b.note(a, t, []string{t.Value})
	v := protoreflect.ValueOfBool(on != (name == MaintModeOff))
	if a.Value == ValueWord {
		timer := pb.PersistTimer_PERSIST_TIMER_TIMEOUT
		if on {
			timer = pb.PersistTimer_PERSIST_TIMER_LIMIT
		}
		v = protoreflect.ValueOfEnum(timer.Number())
	}
	b.msg.Set(a.field, v)
	return true
}

// sysctlForm prints the variables without a meaning; they are read by sysctl -w.
var sysctlForm = &form{
	usage: "NAME=0|1",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		if c.done() {
			p.faults.at(at, CodeValue, "", "sysctl needs NAME=VALUE")
			return false
		}
		return readSysctl(p, b, c)
	},
	print: func(m proto.Message) []string {
		var lines []string
		for _, s := range m.(*pb.Global).GetSysctls() {
			n := "0"
			if s.GetValue() {
				n = "1"
			}
			lines = append(lines, "-w bigip."+s.GetName()+"="+n)
		}
		return lines
	},
}

// mapProxyForm is NETWORK to ADDRESS, or none, which empties the list.
var mapProxyForm = &form{
	usage: "NETWORK to ADDRESS|none",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		from, ok := c.peek()
		if from.Value == "none" {
			c.i++
			b.cleared = append(b.cleared, a.Field)
			return true
		}
		network, valid := parseNetwork(from.Value)
		if !ok || !valid {
			p.faults.at(orElse(from, at, ok), CodeValue, "", "map_proxy needs NETWORK to ADDRESS, such as 195.93.0.0/16 to 152.163.0.0")
			return false
		}
		c.i++
		if _, ok := c.word("to"); !ok {
			p.faults.at(c.here(), CodeValue, "", "map_proxy NETWORK is followed by to ADDRESS")
			return false
		}
		to, ok := c.peek()
		address, err := netip.ParseAddr(to.Value)
		if !ok || err != nil || address.Zone() != "" {
			p.faults.at(orElse(to, at, ok), CodeValue, "", "map_proxy NETWORK to needs an address")
			return false
		}
		c.i++
		mp := &pb.MapProxy{Network: network, Address: address.Unmap().String()}
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfMessage(mp.ProtoReflect()))
		return true
	},
	print: func(m proto.Message) []string {
		var lines []string
		for _, mp := range m.(*pb.Global).GetMapProxies() {
			lines = append(lines, mp.GetNetwork()+" to "+mp.GetAddress())
		}
		return lines
	},
}

// orElse is t where there is one.
func orElse(t, other lexer.Token, ok bool) lexer.Token {
	if ok {
		return t
	}
	return other
}

// cookieKeyForm is NAME FILE.
var cookieKeyForm = &form{
	usage: "NAME FILE",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		name, ok1 := c.peek()
		file, ok2 := c.peekAt(1)
		if !ok1 || !ok2 {
			p.faults.at(at, CodeValue, "", "cookie_key needs NAME FILE")
			return false
		}
		c.i += 2
		if fault := nameFault("key", name.Value); fault != "" {
			p.faults.at(name, CodeName, "", "%s", fault)
			return false
		}
		key := &pb.CookieKey{Name: name.Value, File: unquote(file)}
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfMessage(key.ProtoReflect()))
		return true
	},
	print: func(m proto.Message) []string {
		var lines []string
		for _, k := range m.(*pb.Global).GetCookieKeys() {
			lines = append(lines, k.GetName()+" "+plain(k.GetFile()))
		}
		return lines
	},
}
