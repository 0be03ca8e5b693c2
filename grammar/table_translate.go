package grammar

import (
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// The attribute tables of address translation, of proxies and of ping aliases. Nothing here acts on them.
var Snats, Nats, Proxies, Aliases *Table

func init() {
	Snats = legacyTable(KindSnat, "snat", &pb.Snat{}, w("default origins"), []*Attribute{
		unitRow(Legacy, "unit that translates"), netmaskRow(Legacy),
	})
	Nats = legacyTable(KindNat, "nat", &pb.Nat{}, w("to vlans_enabled"), []*Attribute{
		netmaskRow(Legacy), broadcastRow(Legacy), unitRow(Legacy, "unit that translates"),
		{Words: w("interface"), Release: Release3, Value: ValuePlain, Field: "interface", Help: "interface of the outer address"},
		{
			Words: w("vlans"), Aliases: [][]string{w("vlan")}, Release: Release4, Value: valueForm, Field: "vlans", form: vlansForm,
			Help: "VLANs where the translation is enabled or disabled",
		},
		{Words: w("arp"), Release: Release4, Value: ValueSwitch, Default: "enable", Field: "arp", Help: "answer for the outer address"},
		stateRow("enable", "disable", "enabled", "translate", false),
	})
	Proxies = legacyTable(KindProxy, "proxy", &pb.Proxy{}, nil, []*Attribute{
		unitRow(Legacy, "unit that owns the address"), netmaskRow(Legacy), broadcastRow(Legacy),
		{
			Words: w("target virtual"), Words3: w("target vip"), Aliases: [][]string{w("target vip")}, Release: Legacy, Value: valueForm, Field: "target_virtual",
			form: endpointForm("target_virtual"), Names: KindVirtual, Help: "virtual server behind",
		},
		{Words: w("target server"), Release: Legacy, Value: valueForm, Field: "target_server", form: endpointForm("target_server"), Help: "server behind"},
		{Words: w("ssl"), Aliases: [][]string{w("clientssl")}, Release: Legacy, Value: ValueSwitch, Field: "ssl", Help: "speak TLS to clients"},
		{Words: w("key"), Aliases: [][]string{w("clientssl key")}, Release: Legacy, Value: ValuePlain, Field: "key", Help: "file of the private key"},
		{Words: w("cert"), Aliases: [][]string{w("clientssl cert")}, Release: Legacy, Value: ValuePlain, Field: "cert", Help: "file of the certificate"},
		{
			Words: w("cipher insert"), Aliases: [][]string{w("clientssl cipher insert")}, Release: Release4, Value: ValueSwitch, Field: "cipher_insert",
			Help: "tell the server the cipher in a header",
		},
	})
	Aliases = legacyTable(KindAlias, "alias", &pb.Alias{}, w("address"), nil)
}

// readName takes what can be a name.
func readName(text string) (name, fault string) { return text, nameFault("name", text) }

// listForm is a list of words up to the next attribute.
func listForm(usage string, field protoreflect.Name, read func(text string) (value, fault string)) *form {
	return &form{
		usage: usage,
		parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
			list := b.msg.Mutable(a.field).List()
			before := list.Len()
			for {
				t, ok := c.peek()
				if !ok || b.table.knows(t.Value) {
					break
				}
				c.i++
				v, fault := read(t.Value)
				if fault != "" {
					p.faults.at(t, CodeValue, "", "%s: %s", a.Name(), fault)
					return false
				}
				list.Append(protoreflect.ValueOfString(v))
			}
			if list.Len() == before {
				p.faults.at(at, CodeValue, "", "%s needs %s", a.Name(), usage)
				return false
			}
			return true
		},
		print: func(m proto.Message) []string {
			list := m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByName(field)).List()
			if list.Len() == 0 {
				return nil
			}
			words := make([]string, list.Len())
			for i := range words {
				words[i] = list.Get(i).String()
			}
			return []string{strings.Join(words, " ")}
		},
	}
}

// endpointForm is ADDRESS:SERVICE.
func endpointForm(field protoreflect.Name) *form {
	return &form{
		usage: "ADDRESS:SERVICE",
		parse: func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool {
			t, ok := c.peek()
			if !ok {
				p.faults.at(at, CodeValue, "", "%s needs ADDRESS:SERVICE", a.Name())
				return false
			}
			c.i++
			e, fault, suggestion := parseEndpoint(t.Value)
			if fault != "" {
				p.faults.at(t, CodeValue, suggestion, "%s: %s", a.Name(), fault)
				return false
			}
			b.msg.Set(a.field, protoreflect.ValueOfString(e.String()))
			return true
		},
		print: stringPrinter(field),
	}
}

// stringPrinter prints a string field as it is, where it is given.
func stringPrinter(field protoreflect.Name) func(m proto.Message) []string {
	return func(m proto.Message) []string {
		r := m.ProtoReflect()
		fd := r.Descriptor().Fields().ByName(field)
		if !r.Has(fd) {
			return nil
		}
		return []string{r.Get(fd).String()}
	}
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
