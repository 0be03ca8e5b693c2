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

// The attribute tables of health checks, of lists that rules compare with, and of the SSL proxy's authorization.
var Monitors, MonitorUses, Actives, Classes, Authzs *Table

// templateWords are attributes of templates that nothing here acts on; each takes one value.
var templateWords = []string{
	"agent", "agent_type", "base", "cmd", "community", "database", "domain", "filter", "folder", "method", "metrics", "newsgroup", "secret", "sendpass", "version",
	"cpu_coefficient", "cpu_threshold", "disk_coefficient", "disk_threshold", "memory_coefficient", "memory_threshold",
}

func init() {
	text := func(word, help string) *Attribute {
		return &Attribute{Words: w(word), Release: Release4, Value: ValueText, Field: word, Help: help, Acts: true}
	}
	flag := func(word, help string) *Attribute {
		return &Attribute{Words: w(word), Release: Release4, Value: ValueFlag, Default: "disable", Field: word, Help: help, Acts: true}
	}
	send := text("send", "what is sent; get FILE says the same as send \"GET FILE\"")
	send.Value, send.form = valueForm, sendForm
	send.Aliases = [][]string{w("get")}
	others := &Attribute{Words: w(templateWords[0]), Bare: true, Release: Release4, Value: valueForm, Field: "others", form: othersForm, Help: "attribute of a template"}
	for _, word := range templateWords[1:] {
		others.Aliases = append(others.Aliases, w(word))
	}
	Monitors = legacyTable(KindMonitor, "monitor", &pb.Monitor{}, nil, []*Attribute{
		{Words: w("use"), Release: Release4, Value: ValueName, Names: KindMonitor, Field: "use", Help: "template or monitor that this one is derived from", Acts: true},
		{Words: w("interval"), Release: Release4, Value: ValueSeconds, Default: "5", Field: "interval", Help: "seconds between checks", Acts: true},
		{Words: w("timeout"), Release: Release4, Value: ValueSeconds, Default: "16", Field: "timeout", Help: "seconds without an answer after which a node is down", Acts: true},
		{Words: w("dest"), Release: Release4, Value: valueForm, Default: "*:*", Field: "dest", form: destForm, Help: "where to look; * is the node's own", Acts: true},
		send,
		text("recv", "what the answer must hold"),
		text("username", "name to log in with"),
		text("password", "password to log in with"),
		text("url", "page to ask for; names the destination too"),
		// Before the flags: enable behind one of them would be its value.
		stateRow("enable", "disable", "enabled", "check", true),
		flag("transparent", "look through the node at what dest names"),
		flag("reverse", "a node is down when the answer holds recv"),
		text("run", "program of an external monitor"),
		{Words: w("args"), Release: Release4, Value: valueForm, Field: "args", form: argsForm, Help: "arguments of the program", Acts: true},
		{
			Words: w("active_healthcheck"), Release: Ours, Value: ValueSwitch, Default: "disable", Field: "active_healthcheck",
			Help: "of health_checker: check members that are well too", Acts: true,
		},
		{
			Words: w("healthcheck_retries"), Release: Ours, Value: ValueNumber, Min: 1, Default: "3", Field: "healthcheck_retries",
			Help: "of health_checker: failures in a row after which a member that was well is down", Acts: true,
		},
		others,
	})
	MonitorUses = legacyTable(KindMonitorUse, "node", &pb.MonitorUse{}, nil, []*Attribute{
		{Words: w("monitor use"), Release: Release4, Value: valueForm, Names: KindMonitor, Field: "monitors", form: monitorsForm, Help: "monitors that must all succeed", Acts: true},
		stateRow("enable", "disable", "enabled", "check; written monitor instance", true),
	})
	Actives = legacyTable(KindActive, "active", &pb.Active{}, w("send recv"), nil)
	Actives.acts = true
	Classes = legacyTable(KindClass, "class", &pb.Class{}, nil, []*Attribute{
		{Words: w(`"TEXT"`), Bare: true, Release: Release4, Value: valueForm, Field: "strings", form: stringsForm, Help: "texts and numbers", Acts: true},
		{Words: w("host"), Release: Release4, Value: ValueAddress, Field: "hosts", Help: "an address; repeatable", Acts: true},
		{Words: w("network"), Release: Release4, Value: valueForm, Field: "networks", form: networkForm, Help: "a network; repeatable", Acts: true},
		{Words: w("file"), Release: Ours, Value: ValueText, Field: "file", Help: "file whose contents are added to the list: what stands between the braces; commas between are allowed", Acts: true},
	})
	Authzs = legacyTable(KindAuthz, "authz", &pb.Authz{}, nil, []*Attribute{
		{Words: w("SETTING"), Bare: true, Release: Release4, Value: valueForm, Field: "settings", form: settingsForm, Help: "any words, a setting a line"},
	})
}

// sendForm is a text; get FILE is send "GET FILE".
var sendForm = &form{
	usage: `"TEXT"`,
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if !ok {
			p.faults.at(at, CodeValue, "", "%s needs a text", at.Value)
			return false
		}
		c.i++
		text := unquote(t)
		if at.Value == "get" {
			text = "GET " + text
		}
		b.msg.Set(a.field, protoreflect.ValueOfString(text))
		return true
	},
	print: func(m proto.Message) []string {
		if m.(*pb.Monitor).Send == nil {
			return nil
		}
		return []string{quote(m.(*pb.Monitor).GetSend())}
	},
}

// destForm is ADDRESS[:SERVICE] with * for what is not given.
var destForm = &form{
	usage: "ADDRESS|*[:SERVICE|*]",
	words: []string{"*:*"},
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if !ok {
			p.faults.at(at, CodeValue, "", "dest needs ADDRESS:SERVICE")
			return false
		}
		c.i++
		text, fault, suggestion := parseTarget(t.Value)
		if fault != "" {
			p.faults.at(t, CodeValue, suggestion, "dest: %s", fault)
			return false
		}
		b.msg.Set(a.field, protoreflect.ValueOfString(text))
		return true
	},
	print: stringPrinter("dest"),
}

// parseTarget reads ADDRESS, ADDRESS:SERVICE, *:SERVICE, ADDRESS:* and *:*.
func parseTarget(text string) (target, fault, suggestion string) {
	if text == "*" {
		return "*:*", "", ""
	}
	host, service, found := strings.Cut(text, ":")
	if !found || strings.Contains(service, ":") || host != "*" && service != "*" {
		e, fault, suggestion := parseEndpoint(text)
		return e.String(), fault, suggestion
	}
	if host != "*" {
		if host, fault = parseAddress(host); fault != "" {
			return "", fault, ""
		}
	}
	if service != "*" {
		e, fault, suggestion := parseEndpoint("0.0.0.0:" + service)
		if fault != "" {
			return "", fault, suggestion
		}
		service = strconv.FormatUint(uint64(e.port), 10)
	}
	return host + ":" + service, "", ""
}

// argsForm is one text or several.
var argsForm = &form{
	usage: `"TEXT" ...`,
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		list := b.msg.Mutable(a.field).List()
		for {
			t, ok := c.peek()
			if !ok || t.Type == lexer.TokenType(tokenWord) && b.table.knows(t.Value) {
				break
			}
			c.i++
			list.Append(protoreflect.ValueOfString(unquote(t)))
		}
		if list.Len() == 0 {
			p.faults.at(at, CodeValue, "", "args needs a text")
			return false
		}
		return true
	},
	print: func(m proto.Message) []string {
		var texts []string
		for _, text := range m.(*pb.Monitor).GetArgs() {
			texts = append(texts, quote(text))
		}
		if texts == nil {
			return nil
		}
		return []string{strings.Join(texts, " ")}
	},
}

// othersForm is a word of a template and its value; both are kept.
var othersForm = &form{
	usage: "VALUE",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if !ok {
			p.faults.at(at, CodeValue, "", "%s needs a value", at.Value)
			return false
		}
		c.i++
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfString(at.Value + " " + t.Value))
		return true
	},
	print: func(m proto.Message) []string { return slices.Clone(m.(*pb.Monitor).GetOthers()) },
}

// monitorsForm is NAME and NAME ...
var monitorsForm = &form{
	usage: "NAME [and NAME ...]",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		list := b.msg.Mutable(a.field).List()
		for {
			t, ok := c.peek()
			if !ok {
				p.faults.at(at, CodeValue, "", "monitor use needs the name of a monitor")
				return false
			}
			c.i++
			if fault := nameFault("monitor", t.Value); fault != "" {
				p.faults.at(t, CodeName, "", "monitor use: %s", fault)
				return false
			}
			list.Append(protoreflect.ValueOfString(t.Value))
			if _, ok := c.word("and"); !ok {
				return true
			}
		}
	},
	print: func(m proto.Message) []string {
		if list := m.(*pb.MonitorUse).GetMonitors(); len(list) > 0 {
			return []string{strings.Join(list, " and ")}
		}
		return nil
	},
}

// stringsForm is a text or a number; it stands for itself.
var stringsForm = &form{
	usage: `"TEXT"`,
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfString(unquote(at)))
		return true
	},
	print: func(m proto.Message) []string {
		var lines []string
		for _, text := range m.(*pb.Class).GetStrings() {
			if !isNumber(text) {
				text = quote(text)
			}
			lines = append(lines, text)
		}
		return lines
	},
}

// networkForm is ADDRESS mask MASK.
var networkForm = &form{
	usage: "ADDRESS mask MASK",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		t, ok := c.peek()
		if _, err := netip.ParseAddr(t.Value); !ok || err != nil {
			p.faults.at(orElse(t, at, ok), CodeValue, "", "network needs ADDRESS mask MASK")
			return false
		}
		c.i++
		address, _ := parseAddress(t.Value)
		network := &pb.ClassNetwork{Address: address}
		_, masked := c.word("mask")
		if !masked {
			_, masked = c.word("netmask")
		}
		m, ok := c.peek()
		mask, none, fault, suggestion := parseMask(m.Value)
		if !masked || !ok || none || fault != "" {
			p.faults.at(orElse(m, t, ok), CodeValue, suggestion, "network %s is followed by mask MASK", address)
			return false
		}
		c.i++
		network.Netmask = mask
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfMessage(network.ProtoReflect()))
		return true
	},
	print: func(m proto.Message) []string {
		var lines []string
		for _, n := range m.(*pb.Class).GetNetworks() {
			lines = append(lines, n.GetAddress()+" mask "+n.GetNetmask())
		}
		return lines
	},
}

// settingsForm takes the words up to the end of their line.
var settingsForm = &form{
	usage: "WORDS",
	parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
		c.i--
		line := at.Pos.Line
		var words []string
		for !c.done() && c.here().Pos.Line == line {
			it := c.items[c.i]
			words = appendWords(words, c.items[c.i:c.i+1])
			c.i++
			if it.Group != nil {
				line = it.Group.Close.Pos.Line
			}
		}
		b.msg.Mutable(a.field).List().Append(protoreflect.ValueOfString(strings.Join(words, " ")))
		return true
	},
	print: func(m proto.Message) []string { return slices.Clone(m.(*pb.Authz).GetSettings()) },
}
