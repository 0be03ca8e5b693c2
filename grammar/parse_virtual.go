package grammar

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// virtual reads all forms of vip and virtual: servers (ADDRESS:SERVICE, or a VLAN's name) and addresses.
func (cl *clause) virtual() {
	p, c := cl.p, cl.c
	t, ok := c.peek()
	switch {
	case !ok && c.done():
		cl.emit(ActionShow, KindVirtual, "", lexer.Token{})
		return
	case !ok:
		p.faults.at(c.here(), CodeSyntax, "", "%s needs ADDRESS:SERVICE", cl.keyword.Value)
		return
	case t.Value == "show" || t.Value == "stats":
		cl.verb(KindVirtual, "", lexer.Token{})
		return
	}
	c.i++
	e, fault, suggestion := parseEndpoint(t.Value)
	if fault != "" {
		p.faults.at(t, CodeValue, suggestion, "%s: %s", cl.keyword.Value, fault)
	}
	if _, err := netip.ParseAddr(e.host); err == nil && !e.hasPort {
		cl.virtualAddress(e.host, t)
		return
	}
	vs := &pb.VirtualServer{Address: e.String(), Meta: cl.meta()}
	object := &pb.Object{Kind: &pb.Object_Virtual{Virtual: vs}}
	if cl.virtualCommand(object, t) {
		return
	}
	action := ActionSet
	if _, ok := c.word("modify"); ok {
		action = ActionModify
	}
	b := cl.build(Virtuals, vs, vs.Meta)
	nodes := &nodeList{b: b}
	// Words before the brace are attributes too: vip A:P unit 1 { ... }.
	header := *c
	if i := slices.IndexFunc(c.items[c.i:], func(it item) bool { return it.Group != nil }); i >= 0 {
		header.items = c.items[:c.i+i]
		header.end = c.items[c.i+i].token()
	}
	b.body(&header, []string{"define"}, nodes.read)
	c.i = header.i
	if g, ok := c.group(tokenOpenBrace); ok {
		if action == ActionSet {
			action = ActionDefine
		}
		b.body(g.inside(), []string{"define"}, nodes.read)
	} else if action == ActionModify {
		p.faults.at(c.here(), CodeSyntax, "", "a { is expected here")
	}
	cl.end()
	nodes.check(vs)
	cl.emitObject(action, object, b, t)
}

func (cl *clause) virtualAddress(address string, name lexer.Token) {
	va := &pb.VirtualAddress{Address: address, Meta: cl.meta()}
	object := &pb.Object{Kind: &pb.Object_VirtualAddress{VirtualAddress: va}}
	if t, ok := cl.c.peek(); ok && (t.Value == "show" || t.Value == "delete" || t.Value == "stats") || cl.c.done() {
		cl.verb(KindVirtualAddress, object.Key(), name)
		return
	}
	b := cl.build(VirtualAddresses, va, va.Meta)
	c, action := cl.c, ActionSet
	if g, ok := cl.c.group(tokenOpenBrace); ok {
		c, action = g.inside(), ActionDefine
	}
	b.body(c, nil, func(c *cursor) bool {
		t, _ := c.peek()
		if VirtualAddresses.knows(t.Value) || !Virtuals.knows(t.Value) && t.Value != "define" {
			return false
		}
		b.p.faults.at(t, CodeUnknownAttribute, "", "%s needs a virtual server: write %s:SERVICE", t.Value, address)
		c.i++
		b.skip(c, nil)
		return true
	})
	cl.end()
	cl.emitObject(action, object, b, name)
}

// virtualCommand reads the forms that are no attributes: queries and what acts on the pool behind the virtual server (rule B-20).
// False: something else follows.
func (cl *clause) virtualCommand(object *pb.Object, name lexer.Token) bool {
	c := cl.c
	t, ok := c.peek()
	if !ok {
		if c.done() {
			cl.emit(ActionShow, KindVirtual, object.Key(), name)
		}
		return c.done()
	}
	switch t.Value {
	case "show", "delete", "stats":
		cl.verb(KindVirtual, object.Key(), name)
	case "persist":
		cl.virtualPersist(object.Key(), name)
	case "sticky":
		cl.virtualSticky(object.Key(), name)
	case "mirror":
		next, ok := c.peekAt(1)
		last, valued := c.peekAt(2)
		if !ok || next.Value != "persist" || !valued || Virtuals.knows(last.Value) && last.Value != "enable" && last.Value != "disable" {
			return false
		}
		c.i += 3
		switch last.Value {
		case "enable", "disable":
			cl.emit(ActionVirtualMirrorPersist, KindVirtual, object.Key(), name).Words = []string{last.Value}
		case "show":
			cl.emit(ActionVirtualQuery, KindVirtual, object.Key(), name).Words = []string{"mirror", "persist", "show"}
		default:
			cl.wrongWord(last, "enable", "disable", "show")
		}
		cl.end()
	default:
		return false
	}
	return true
}

// virtualPersist reads vip A:P persist SECONDS | mask MASK | show | dump | mask show.
func (cl *clause) virtualPersist(key string, name lexer.Token) {
	c := cl.c
	c.i++
	t, ok := c.peek()
	if !ok {
		cl.p.faults.at(c.here(), CodeSyntax, "", "persist is followed by SECONDS, mask, show or dump")
		return
	}
	c.i++
	switch {
	case t.Value == "show" || t.Value == "dump":
		cl.emit(ActionVirtualQuery, KindVirtual, key, name).Words = []string{"persist", t.Value}
	case t.Value == "mask":
		cl.virtualMask(ActionVirtualPersistMask, "persist", key, name)
	case isNumber(t.Value):
		seconds, err := strconv.ParseUint(t.Value, 10, 32)
		if err != nil {
			cl.p.faults.at(t, CodeValue, "", "%s is not a number of seconds from 0 to 4294967295", t.Value)
			return
		}
		cl.emit(ActionVirtualPersist, KindVirtual, key, name).Seconds = seconds
	default:
		cl.wrongWord(t, "SECONDS", "mask", "show", "dump")
		return
	}
	cl.end()
}

// virtualSticky reads vip A:P sticky enable | disable | clear | mask MASK | show | dump | mask show.
func (cl *clause) virtualSticky(key string, name lexer.Token) {
	c := cl.c
	c.i++
	t, _ := c.peek()
	c.i++
	switch t.Value {
	case "enable", "disable", "clear":
		cl.emit(ActionVirtualSticky, KindVirtual, key, name).Words = []string{t.Value}
	case "show", "dump":
		cl.emit(ActionVirtualQuery, KindVirtual, key, name).Words = []string{"sticky", t.Value}
	case "mask":
		cl.virtualMask(ActionVirtualStickyMask, "sticky", key, name)
	default:
		c.i--
		cl.wrongWord(c.here(), "enable", "disable", "clear", "mask", "show", "dump")
		return
	}
	cl.end()
}

func (cl *clause) virtualMask(action Action, word, key string, name lexer.Token) {
	t, ok := cl.c.peek()
	if !ok {
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "mask is followed by a mask, none or show")
		return
	}
	cl.c.i++
	if t.Value == "show" {
		cl.emit(ActionVirtualQuery, KindVirtual, key, name).Words = []string{word, "mask", "show"}
		return
	}
	mask, none, fault, suggestion := parseMask(t.Value)
	if fault != "" {
		cl.p.faults.at(t, CodeValue, suggestion, "mask: %s", fault)
		return
	}
	if none {
		mask = "none"
	}
	cl.emit(action, KindVirtual, key, name).Words = []string{mask}
}

// nodeList reads define N ... [special ...] (rule B-18).
type nodeList struct {
	b  *building
	at lexer.Token
}

func (n *nodeList) read(c *cursor) bool {
	t, _ := c.peek()
	if t.Value != "define" {
		return false
	}
	c.i++
	n.at = t
	if n.b.nodeList == nil {
		n.b.nodeList = &pb.Pool{LbMode: pb.LbMode_LB_MODE_ROUND_ROBIN.Enum(), Meta: &pb.Meta{Position: n.b.p.position(t)}}
	}
	ms := &members{b: n.b, pool: n.b.nodeList}
	for {
		next, ok := c.peek()
		if !ok || Virtuals.knows(next.Value) || Pools.knows(next.Value) || slices.Contains([]string{"special", "define", "member"}, next.Value) {
			break
		}
		ms.member(next, c)
	}
	if next, ok := c.peekAt(-1); ok && next.Value == "define" {
		n.b.p.faults.at(t, CodeValue, "", "define needs ADDRESS:SERVICE, once or more often")
	}
	if s, ok := c.word("special"); ok {
		n.special(s, c)
	}
	return true
}

// special reads cookie MODE [LIFETIME] or ssl SECONDS [SECONDS].
func (n *nodeList) special(at lexer.Token, c *cursor) {
	p, pool := n.b.p, n.b.nodeList
	b := &building{p: p, table: Pools, msg: pool.ProtoReflect(), meta: pool.Meta}
	value := func(field string, at lexer.Token) bool {
		a := Pools.Find(field)
		v, ok := p.readValue(a, at, c, nil)
		if ok && !v.none {
			b.msg.Set(a.field, v.v)
		}
		return ok
	}
	t, ok := c.peek()
	switch {
	case ok && t.Value == "cookie":
		c.i++
		pool.PersistMode = pb.PersistMode_PERSIST_MODE_COOKIE.Enum()
		if !value("cookie_mode", t) {
			n.b.skip(c, nil)
			return
		}
		if next, ok := c.peek(); ok && !Virtuals.knows(next.Value) && next.Value != "define" {
			value("cookie_expiration", t)
		}
	case ok && t.Value == "ssl":
		c.i++
		pool.PersistMode = pb.PersistMode_PERSIST_MODE_SSL.Enum()
		if !value("ssl_timeout", t) {
			n.b.skip(c, nil)
			return
		}
		if next, ok := c.peek(); ok && isNumber(next.Value) {
			value("simple_timeout", t)
		}
	default:
		where := at
		if ok {
			where = t
		}
		p.faults.at(where, CodeValue, nearest(t.Value, []string{"cookie", "ssl"}), "special is followed by cookie MODE [LIFETIME] or ssl SECONDS [SECONDS]")
		n.b.skip(c, nil)
	}
}

// check refuses a node list beside use.
func (n *nodeList) check(vs *pb.VirtualServer) {
	if n.b.nodeList != nil && (len(vs.Pools) > 0 || vs.Rule != nil) {
		n.b.p.faults.at(n.at, CodeSyntax, "", "a virtual server has either define or use")
	}
}

// usePoolForm is NAME [weight N] {pool NAME weight N}.
var usePoolForm = &form{
	usage: "NAME [weight N pool NAME weight N ...]",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		for {
			t, ok := c.peek()
			if !ok {
				p.faults.at(at, CodeValue, "", "use pool needs the name of a pool")
				return false
			}
			c.i++
			if fault := nameFault("pool", t.Value); fault != "" {
				p.faults.at(t, CodeName, "", "use pool: %s", fault)
				return false
			}
			wp := &pb.WeightedPool{Pool: t.Value}
			weight, ok := readWeight(p, c)
			if !ok {
				return false
			}
			wp.Weight = weight
			b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfMessage(wp.ProtoReflect()))
			if next, ok := c.peek(); !ok || next.Value != "pool" {
				return true
			}
			c.i++
		}
	},
	print: func(m proto.Message) []string {
		pools := m.(*pb.VirtualServer).GetPools()
		if len(pools) == 0 {
			return nil
		}
		return []string{weightedPools(pools)}
	},
}

// maxWeight bounds the weight of a pool in a use.
const maxWeight = 65535

func readWeight(p *parser, c *cursor) (*uint32, bool) {
	at, ok := c.word("weight")
	if !ok {
		return nil, true
	}
	t, ok := c.peek()
	n, err := strconv.ParseUint(t.Value, 10, 32)
	if !ok || err != nil || n > maxWeight {
		if !ok {
			t = at
		}
		p.faults.at(t, CodeValue, "", "weight needs a number from 0 to %d", maxWeight)
		return nil, false
	}
	c.i++
	return proto.Uint32(uint32(n)), true
}

// weightedPools writes what follows "use pool".
func weightedPools(pools []*pb.WeightedPool) string {
	var b strings.Builder
	for i, wp := range pools {
		if i > 0 {
			b.WriteString(" pool ")
		}
		b.WriteString(wp.GetPool())
		if wp.Weight != nil {
			b.WriteString(" weight " + strconv.FormatUint(uint64(wp.GetWeight()), 10))
		}
	}
	return b.String()
}

// vlansForm is NAME ... enable|disable.
var vlansForm = &form{
	usage: "NAME ... enable|disable",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		list := b.msg.Mutable(a.field).List()
		for {
			t, ok := c.peek()
			if !ok {
				p.faults.at(at, CodeValue, "", "vlans needs names, then enable or disable")
				return false
			}
			c.i++
			if t.Value == "enable" || t.Value == "disable" {
				fd := b.msg.Descriptor().Fields().ByName("vlans_enabled")
				b.msg.Set(fd, protoreflect.ValueOfBool(t.Value == "enable"))
				return true
			}
			if fault := nameFault("VLAN", t.Value); fault != "" {
				p.faults.at(t, CodeName, "", "vlans: %s", fault)
				return false
			}
			list.Append(protoreflect.ValueOfString(t.Value))
		}
	},
	print: func(m proto.Message) []string {
		o := m.(interface {
			GetVlans() []string
			GetVlansEnabled() bool
		})
		r := m.ProtoReflect()
		if len(o.GetVlans()) == 0 && !r.Has(r.Descriptor().Fields().ByName("vlans_enabled")) {
			return nil
		}
		return []string{strings.Join(append(slices.Clone(o.GetVlans()), switchWord(o.GetVlansEnabled())), " ")}
	},
}

// trustedForm is a list of addresses and networks.
var trustedForm = &form{
	usage: "ADDRESS|NETWORK ...",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		list := b.msg.Mutable(a.field).List()
		for {
			t, ok := c.peek()
			if !ok || Virtuals.knows(t.Value) || t.Value == "define" {
				break
			}
			network, ok := parseNetwork(t.Value)
			if !ok {
				p.faults.at(t, CodeValue, "", "trusted_proxies: %q is neither an address nor a network", t.Value)
				c.i++
				return false
			}
			c.i++
			list.Append(protoreflect.ValueOfString(network))
		}
		if list.Len() == 0 {
			p.faults.at(at, CodeValue, "", "trusted_proxies needs addresses or networks")
			return false
		}
		return true
	},
	print: func(m proto.Message) []string {
		if list := m.(*pb.VirtualServer).GetTrustedProxies(); len(list) > 0 {
			return []string{strings.Join(list, " ")}
		}
		return nil
	},
}
