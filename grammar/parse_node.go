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
	p, c := cl.p, cl.c
	if t, ok := c.peek(); c.done() || ok && (t.Value == "show" || t.Value == "stats") {
		if c.done() {
			cl.emit(ActionShow, KindNode, "", lexer.Token{})
			return
		}
		cl.verb(KindNode, "", lexer.Token{})
		return
	}
	if t, ok := c.peek(); ok && t.Value == "monitor" {
		cl.kept(&statementWord{kind: KindMonitorUse})
		return
	}
	type target struct {
		at      lexer.Token
		address string
	}
	var targets []target
	for {
		t, ok := c.peek()
		if !ok || Nodes.knows(t.Value) || len(targets) > 0 && (nodeVerbs[t.Value] || !strings.ContainsAny(t.Value, ".:")) {
			break
		}
		if i := c.i + 1; strings.HasPrefix(t.Value, "*:") && i < len(c.items) && c.items[i].token().Value == "monitor" {
			cl.kept(&statementWord{kind: KindMonitorUse})
			return
		}
		c.i++
		e, fault, suggestion := parseEndpoint(t.Value)
		if fault != "" {
			p.faults.at(t, CodeValue, suggestion, "node: %s", fault)
			if len(targets) > 0 {
				return
			}
		}
		targets = append(targets, target{at: t, address: e.String()})
	}
	if len(targets) == 0 {
		p.faults.at(c.here(), CodeSyntax, "", "node needs ADDRESS or ADDRESS:SERVICE")
		return
	}
	if t, ok := c.peek(); c.done() || ok && nodeVerbs[t.Value] {
		if t.Value == "monitor" {
			cl.nodeMonitor(targets[0].address, targets[0].at)
			return
		}
		for _, n := range targets {
			cl.verb(KindNode, "node/"+n.address, n.at)
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

var nodeVerbs = map[string]bool{"show": true, "stats": true, "delete": true, "monitor": true}

// nodeMonitor keeps node A monitor use M; node A monitor delete and show name the association.
func (cl *clause) nodeMonitor(address string, name lexer.Token) {
	next, _ := cl.c.peekAt(1)
	switch next.Value {
	case "delete":
		cl.emit(ActionDelete, KindMonitorUse, "monitor_use/"+address, name)
	case "show":
		cl.emit(ActionShow, KindMonitorUse, "monitor_use/"+address, name)
	default:
		cl.kept(&statementWord{kind: KindMonitorUse})
	}
}

// ratio reads ratio ADDRESS ... N and ratio { ADDRESS ... } N.
func (cl *clause) ratio() {
	p, c := cl.p, cl.c
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

// service reads port, service, treaper and udp: services, then what holds for them.
func (cl *clause) service() {
	p, c := cl.p, cl.c
	if t, ok := c.peek(); ok && t.Value == "show" {
		cl.verb(KindService, "", lexer.Token{})
		return
	}
	var ports []lexer.Token
	for {
		t, ok := c.peek()
		if !ok {
			break
		}
		// The last number of treaper and udp is the timeout.
		if (cl.keyword.Value == "treaper" || cl.keyword.Value == "udp") && c.i == len(c.items)-1 && len(ports) > 0 {
			break
		}
		if _, ok := ParseService(t.Value); !ok {
			break
		}
		ports = append(ports, t)
		c.i++
	}
	if len(ports) == 0 {
		t := c.here()
		p.faults.at(t, CodeValue, nearest(t.Value, serviceNames), "%s needs a service: a name or a number from 0 to 65535", cl.keyword.Value)
		return
	}
	if t, ok := c.peek(); ok && (t.Value == "show" || t.Value == "delete" || t.Value == "stats") || c.done() && cl.keyword.Value != "treaper" && cl.keyword.Value != "udp" {
		for _, t := range ports {
			cl.verb(KindService, serviceKey(t), t)
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

func (cl *clause) serviceBody(b *building, s *pb.Service) {
	c := cl.c
	seconds := func(field string) (uint32, bool) {
		a := Services.Find(field)
		b.note(a, cl.keyword, []string{cl.keyword.Value})
		v, ok := cl.p.readValue(a, cl.keyword, c, nil)
		if !ok {
			return 0, false
		}
		return uint32(v.v.Uint()), true
	}
	switch cl.keyword.Value {
	case "treaper":
		if n, ok := seconds("timeout_tcp"); ok {
			s.TimeoutTcp = &n
		}
	case "udp":
		if n, ok := seconds("timeout_udp"); ok {
			s.TimeoutUdp, s.Udp = &n, proto.Bool(true)
		}
	default:
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
}
