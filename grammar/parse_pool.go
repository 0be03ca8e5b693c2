package grammar

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// pool reads all forms of the pool statement.
func (cl *clause) pool() {
	p, c := cl.p, cl.c
	if t, ok := c.peek(); ok && !cl.nextIsGroup(1) {
		switch t.Value {
		case "show", "persist", "stats":
			cl.verb(KindPool, "", lexer.Token{})
			return
		}
	}
	if c.done() {
		cl.emit(ActionShow, KindPool, "", lexer.Token{})
		return
	}
	name, ok := cl.name("pool")
	if !ok {
		return
	}
	pool := &pb.Pool{Name: name.Value, Meta: cl.meta()}
	object := &pb.Object{Kind: &pb.Object_Pool{Pool: pool}}
	if _, ok := c.group(tokenOpenBrace); ok {
		c.i--
		cl.poolBody(ActionDefine, object, pool, name)
		return
	}
	verb, ok := c.peek()
	if c.done() && p.command {
		cl.emit(ActionShow, KindPool, object.Key(), name)
		return
	}
	if !ok {
		p.faults.at(c.here(), CodeSyntax, "", "pool %s is followed by { or by one of %s", name.Value, strings.Join(poolVerbs, ", "))
		return
	}
	actions := map[string]Action{"modify": ActionModify, "add": ActionAdd, "delete": ActionRemove}
	if action := actions[verb.Value]; action != 0 {
		c.i++
		if action == ActionRemove && c.done() {
			cl.emit(ActionDelete, KindPool, object.Key(), name)
			return
		}
		cl.poolBody(action, object, pool, name)
		return
	}
	cl.verb(KindPool, object.Key(), name)
}

var poolVerbs = []string{"modify", "add", "delete", "show", "persist", "sticky", "lb_mode", "stats"}

// nextIsGroup tells whether the item after the next n is a group.
func (cl *clause) nextIsGroup(n int) bool {
	return cl.c.i+n < len(cl.c.items) && cl.c.items[cl.c.i+n].Group != nil
}

// poolBody reads the braces of a pool.
func (cl *clause) poolBody(action Action, object *pb.Object, pool *pb.Pool, name lexer.Token) {
	g, ok := cl.c.group(tokenOpenBrace)
	if !ok {
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "a { is expected here")
		return
	}
	b := cl.build(Pools, pool, pool.Meta)
	ms := &members{b: b, pool: pool, only: action == ActionAdd || action == ActionRemove}
	b.body(g.inside(), []string{"member"}, ms.read)
	cl.end()
	cl.emitObject(action, object, b, name)
}

// members reads the members of a pool and the attributes that follow each and bind to it until the
// next member or an attribute of the pool.
type members struct {
	b    *building
	pool *pb.Pool
	// only: nothing but members may stand here.
	only      bool
	open      *building
	last      *pb.Member
	byAddress map[string]*pb.Member
}

// read takes a member or an attribute of the open one; false where the next word is neither.
func (ms *members) read(c *cursor) bool {
	t, _ := c.peek()
	if t.Value == "member" {
		c.i++
		ms.member(t, c)
		return true
	}
	if ms.open != nil && Members.knows(t.Value) {
		s, at, ok := Members.match(c)
		if !ok {
			return false
		}
		ms.open.newEpoch = nil
		if !ms.open.attribute(s, at, c) {
			ms.b.skip(c, append(Members.words, "member"))
		}
		if ms.open.newEpoch != nil {
			ms.b.newEpoch = append(ms.b.newEpoch, ms.last.Address)
		}
		return true
	}
	known := Pools.knows(t.Value)
	if !known && Members.knows(t.Value) {
		ms.b.p.faults.at(t, CodeUnknownAttribute, "", "%s belongs to a member: it stands after member ADDRESS:SERVICE", t.Value)
		c.i++
		ms.b.skip(c, []string{"member"})
		return true
	}
	if known && ms.only {
		ms.b.p.faults.at(t, CodeUnknownAttribute, "", "only members can stand here, %s is an attribute of the pool", t.Value)
		c.i++
		ms.b.skip(c, []string{"member"})
		return true
	}
	if known {
		ms.open = nil
	}
	return false
}

// member reads ADDRESS:SERVICE.
func (ms *members) member(at lexer.Token, c *cursor) {
	p := ms.b.p
	t, ok := c.peek()
	if !ok || Pools.knows(t.Value) || t.Value == "member" {
		p.faults.at(at, CodeValue, "", "member needs ADDRESS:SERVICE")
		ms.open = ms.build(&pb.Member{})
		return
	}
	c.i++
	e, fault, suggestion := parseEndpoint(t.Value)
	if fault == "" && !e.hasPort {
		fault = fmt.Sprintf("%q has no service; a member is ADDRESS:SERVICE", t.Value)
	}
	m := &pb.Member{Address: e.String(), Meta: &pb.Meta{Position: p.position(t)}}
	ms.open, ms.last = ms.build(m), m
	if fault != "" {
		p.faults.at(t, CodeValue, suggestion, "member: %s", fault)
		return
	}
	if other := ms.find(m.Address); other != nil {
		p.faults.at(t, CodeDuplicate, "", "existing member %s: it stands on line %d too", m.Address, other.Meta.Position.Line)
		return
	}
	ms.pool.Members = append(ms.pool.Members, m)
	if ms.byAddress != nil {
		ms.byAddress[m.Address] = m
	}
}

// find returns the member with an address. Large pools get a map.
func (ms *members) find(address string) *pb.Member {
	const small = 16
	if ms.byAddress == nil && len(ms.pool.Members) < small {
		for _, m := range ms.pool.Members {
			if m.Address == address {
				return m
			}
		}
		return nil
	}
	if ms.byAddress == nil {
		ms.byAddress = make(map[string]*pb.Member)
		for _, m := range ms.pool.Members {
			ms.byAddress[m.Address] = m
		}
	}
	return ms.byAddress[address]
}

func (ms *members) build(m *pb.Member) *building {
	return &building{p: ms.b.p, table: Members, msg: m.ProtoReflect(), meta: m.Meta}
}

// persistModeForm is the value of persist_mode: a mode; sticky may be followed by enable or disable (rule B-22).
var persistModeForm = &form{
	usage: strings.Join(pb.EnumWords(pb.PersistMode(0).Descriptor()), "|"),
	words: pb.EnumWords(pb.PersistMode(0).Descriptor()),
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if !ok || Pools.knows(t.Value) {
			p.faults.at(at, CodeValue, "", "persist_mode needs a value: %s", a.Usage())
			return false
		}
		c.i++
		n, ok := pb.ParseEnum(a.field.Enum(), unquote(t))
		if !ok {
			_, fault, suggestion := unknownValue(unquote(t), a.form.words, a.form.words)
			p.faults.at(t, CodeValue, suggestion, "persist_mode: %s", fault)
			return false
		}
		if pb.PersistMode(n) == pb.PersistMode_PERSIST_MODE_STICKY {
			if _, ok := c.word("disable"); ok {
				n, b.stickyDisable = pb.PersistMode_PERSIST_MODE_NONE.Number(), true
			} else {
				c.word("enable")
			}
		}
		b.msg.Set(a.field, protoreflect.ValueOfEnum(n))
		return true
	},
	print: func(m proto.Message) []string {
		pool := m.(*pb.Pool)
		if pool.PersistMode == nil {
			return nil
		}
		return []string{enumText(pool.GetPersistMode().Descriptor(), pool.GetPersistMode().Number())}
	},
}

// expressionForm keeps the words up to the next attribute as text.
func expressionForm(field protoreflect.Name) *form {
	return &form{
		usage: "EXPRESSION",
		parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
			var words []string
			for !c.done() {
				if t, ok := c.peek(); ok && (Pools.knows(t.Value) || t.Value == "member") {
					break
				}
				words = appendWords(words, c.items[c.i:c.i+1])
				c.i++
			}
			if len(words) == 0 {
				p.faults.at(at, CodeValue, "", "%s needs an expression", a.Name())
				return false
			}
			b.msg.Set(a.field, protoreflect.ValueOfString(strings.Join(words, " ")))
			return true
		},
		print: func(m proto.Message) []string {
			fd := m.ProtoReflect().Descriptor().Fields().ByName(field)
			if !m.ProtoReflect().Has(fd) {
				return nil
			}
			return []string{m.ProtoReflect().Get(fd).String()}
		},
	}
}

// appendWords adds the words of items as they were written, brackets included.
func appendWords(words []string, items []item) []string {
	for _, it := range items {
		if it.Group == nil {
			words = append(words, it.Token.Value)
			continue
		}
		words = append(words, it.Group.Open.Value)
		words = appendWords(words, it.Group.Items)
		words = append(words, it.Group.Close.Value)
	}
	return words
}

// idempotentForm is "PATTERN" [N] (rule J-15).
var idempotentForm = &form{
	usage: `"PATTERN" [N]`,
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if !ok || Pools.knows(t.Value) {
			p.faults.at(at, CodeValue, "", "jroute_idempotent needs a pattern")
			return false
		}
		c.i++
		pattern := &pb.IdempotentPattern{Pattern: unquote(t)}
		if next, ok := c.peek(); ok && next.Pos.Line >= t.Pos.Line {
			if n, err := strconv.ParseInt(next.Value, 10, 32); err == nil {
				pattern.Retries = proto.Int32(int32(n))
				c.i++
			}
		}
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfMessage(pattern.ProtoReflect()))
		return true
	},
	print: func(m proto.Message) []string {
		var lines []string
		for _, ip := range m.(*pb.Pool).GetJrouteIdempotent() {
			line := quote(ip.GetPattern())
			if ip.Retries != nil {
				line += " " + strconv.Itoa(int(ip.GetRetries()))
			}
			lines = append(lines, line)
		}
		return lines
	},
}

// hashBitsForm is 32 or 24.
var hashBitsForm = &form{
	usage: "32|24",
	words: []string{"32", "24"},
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if !ok || t.Value != "32" && t.Value != "24" {
			p.faults.at(orElse(t, at, ok), CodeValue, "", "hash_bits is 32 or 24")
			return false
		}
		c.i++
		n, _ := strconv.ParseUint(t.Value, 10, 32)
		b.msg.Set(a.field, protoreflect.ValueOfUint32(uint32(n)))
		return true
	},
	print: func(m proto.Message) []string {
		pool := m.(*pb.Pool)
		if pool.HashBits == nil {
			return nil
		}
		return []string{strconv.FormatUint(uint64(pool.GetHashBits()), 10)}
	},
}

// epochForm is new or the number that save writes.
var epochForm = &form{
	usage: "new|NUMBER",
	words: []string{"new"},
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if ok && t.Value == "new" {
			c.i++
			b.newEpoch = []string{"new"}
			return true
		}
		n, err := strconv.ParseUint(t.Value, 10, 64)
		if !ok || err != nil {
			p.faults.at(at, CodeValue, "", "epoch needs a value: new or a number")
			return false
		}
		c.i++
		b.msg.Set(a.field, protoreflect.ValueOfUint64(n))
		return true
	},
	print: func(m proto.Message) []string {
		member := m.(*pb.Member)
		if member.Epoch == nil {
			return nil
		}
		return []string{strconv.FormatUint(member.GetEpoch(), 10)}
	},
}
