package grammar

import (
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// node reads node ADDRESS[:SERVICE] ... ATTRIBUTE ..., and its queries.
func (cl *clause) node() {
	c := cl.c
	if t, ok := c.peek(); c.done() || ok && (t.Value == "show" || t.Value == "stats") {
		if c.done() {
			cl.emit(ActionShow, KindNode, "", lexer.Token{})
			return
		}
		cl.verb(KindNode, "", lexer.Token{})
		return
	}
	if t, ok := c.peek(); ok && t.Value == "monitor" {
		c.i++
		if _, ok := c.word("show"); !ok {
			cl.wrongWord(c.here(), "show")
			return
		}
		cl.emit(ActionNodeMonitorShow, KindMonitorUse, "", lexer.Token{})
		cl.end()
		return
	}
	targets, ok := cl.nodes()
	if !ok {
		return
	}
	if t, ok := c.peek(); c.done() || ok && nodeVerbs[t.Value] {
		for _, n := range targets {
			mark := c.i
			cl.verb(KindNode, "node/"+n.address, n.at)
			c.i = mark
		}
		return
	}
	template := &pb.Node{Meta: cl.meta()}
	b := cl.build(Nodes, template, template.Meta)
	b.body(c, nil, nil)
	for i, n := range targets {
		node := proto.CloneOf(template)
		node.Address = n.address
		if i > 0 {
			node.Meta.Comments = nil
		}
		cl.emitObject(ActionSet, &pb.Object{Kind: &pb.Object_Node{Node: node}}, b, n.at)
	}
}

// nodeTarget is a node that a statement names.
type nodeTarget struct {
	at      lexer.Token
	address string
}

// nodes reads ADDRESS[:SERVICE] ...; false where the statement is at its end: what follows belongs to monitors, or a fault is noted.
func (cl *clause) nodes() ([]nodeTarget, bool) {
	p, c := cl.p, cl.c
	var targets []nodeTarget
	var names []lexer.Token
	for {
		t, ok := c.peek()
		if !ok || Nodes.knows(t.Value) || len(names) > 0 && (nodeVerbs[t.Value] || t.Value == "monitor" || !strings.ContainsAny(t.Value, ".:")) {
			break
		}
		c.i++
		names = append(names, t)
	}
	if t, ok := c.peek(); ok && t.Value == "monitor" && len(names) > 0 {
		cl.nodeMonitor(names)
		return nil, false
	}
	for _, t := range names {
		e, fault, suggestion := parseEndpoint(t.Value)
		if fault != "" {
			p.faults.at(t, CodeValue, suggestion, "node: %s", fault)
			if len(targets) > 0 {
				return nil, false
			}
		}
		targets = append(targets, nodeTarget{at: t, address: e.String()})
	}
	if len(targets) == 0 {
		p.faults.at(c.here(), CodeSyntax, "", "node needs ADDRESS or ADDRESS:SERVICE")
		return nil, false
	}
	return targets, true
}

var nodeVerbs = map[string]bool{"show": true, "stats": true, "delete": true}

// ratio reads ratio ADDRESS ... N and ratio { ADDRESS ... } N.
func (cl *clause) ratio() {
	p, c := cl.p, cl.c
	if last := c.items[len(c.items)-1]; len(c.items) > 1 && last.Group == nil && last.Token.Value == "show" {
		cl.ratioShow()
		return
	}
	var addresses []item
	if g, ok := c.group(tokenOpenBrace); ok {
		addresses = g.Items
	} else if c.i < len(c.items)-1 {
		addresses = c.items[c.i : len(c.items)-1]
		c.i = len(c.items) - 1
	}
	if len(addresses) == 0 {
		p.faults.at(c.here(), CodeSyntax, "", "ratio is followed by addresses and a weight: ratio { ADDRESS ... } N")
		return
	}
	v, ok := p.readValue(Nodes.Find("ratio"), cl.keyword, c, nil)
	if !ok {
		return
	}
	cl.end()
	for _, it := range addresses {
		t := it.token()
		e, fault, suggestion := parseEndpoint(t.Value)
		if it.Group != nil || fault != "" {
			p.faults.at(t, CodeValue, suggestion, "ratio: %q is not an address", t.Value)
			continue
		}
		node := &pb.Node{Address: e.String(), Ratio: proto.Uint32(uint32(v.v.Uint())), Meta: cl.meta()}
		b := cl.build(Nodes, node, node.Meta)
		b.note(Nodes.Find("ratio"), cl.keyword, w("ratio"))
		cl.emitObject(ActionSet, &pb.Object{Kind: &pb.Object_Node{Node: node}}, b, t)
	}
}

// ratioShow reads ratio [ADDRESS ...] show.
func (cl *clause) ratioShow() {
	names := cl.c.items[1 : len(cl.c.items)-1]
	if len(names) == 0 {
		cl.emit(ActionShow, KindNode, "", lexer.Token{})
	}
	for _, it := range names {
		t := it.token()
		e, fault, suggestion := parseEndpoint(t.Value)
		if it.Group != nil || fault != "" {
			cl.p.faults.at(t, CodeValue, suggestion, "ratio: %q is not an address", t.Value)
			continue
		}
		cl.emit(ActionShow, KindNode, "node/"+e.String(), t)
	}
}

// service reads port, service, treaper and udp: services, then what holds for them.
func (cl *clause) service() {
	p, c := cl.p, cl.c
	if t, ok := c.peek(); ok && t.Value == "show" || c.done() && cl.p.command {
		cl.verb(KindService, "", lexer.Token{})
		return
	}
	var ports []lexer.Token
	named := make(map[uint16]bool) // a service counts once
	for {
		t, ok := c.peek()
		if !ok {
			break
		}
		// The last number of treaper and the like is the time.
		if timed[cl.keyword.Value] != "" && c.i == len(c.items)-1 && len(ports) > 0 {
			break
		}
		port, ok := ParseService(t.Value)
		if !ok {
			break
		}
		if !named[port] {
			named[port] = true
			ports = append(ports, t)
		}
		c.i++
	}
	if len(ports) == 0 {
		t := c.here()
		p.faults.at(t, CodeValue, nearest(t.Value, serviceNames), "%s needs a service: a name or a number from 0 to 65535", cl.keyword.Value)
		return
	}
	if t, ok := c.peek(); ok && (t.Value == "show" || t.Value == "delete" || t.Value == "stats") || c.done() && timed[cl.keyword.Value] == "" {
		for _, t := range ports {
			mark := c.i
			cl.verb(KindService, serviceKey(t), t)
			c.i = mark
		}
		return
	}
	template := &pb.Service{Meta: cl.meta()}
	b := cl.build(Services, template, template.Meta)
	cl.serviceBody(b, template)
	cl.end()
	for i, t := range ports {
		s := proto.CloneOf(template)
		if i > 0 {
			s.Meta.Comments = nil
		}
		port, _ := ParseService(t.Value)
		s.Port = uint32(port)
		cl.emitObject(ActionSet, &pb.Object{Kind: &pb.Object_Service{Service: s}}, b, t)
	}
}

func serviceKey(t lexer.Token) string {
	port, _ := ParseService(t.Value)
	return "service/" + strconv.Itoa(int(port))
}

// timed maps the 3.x words that set seconds of services to the proto field that they set.
var timed = map[string]string{"treaper": "timeout_tcp", "udp": "timeout_udp", "tping_svc": "tping", "timeout_svc": "tping_timeout"}

func (cl *clause) serviceBody(b *building, s *pb.Service) {
	c := cl.c
	if field := timed[cl.keyword.Value]; field != "" {
		a := Services.Find(field)
		b.note(a, cl.keyword, []string{cl.keyword.Value})
		v, ok := cl.p.readValue(a, cl.keyword, c, nil)
		if !ok {
			return
		}
		b.msg.Set(a.field, v.v)
		if cl.keyword.Value == "udp" {
			s.Udp = proto.Bool(true)
		}
		return
	}
	b.body(c, []string{"enable", "disable"}, func(c *cursor) bool {
		t, _ := c.peek()
		if t.Value != "enable" && t.Value != "disable" {
			return false
		}
		c.i++
		b.note(Services.Find("tcp"), t, []string{t.Value})
		s.Tcp = proto.Bool(t.Value == "enable")
		return true
	})
}
