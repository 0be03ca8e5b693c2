package grammar

import (
	"fmt"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	pb "bigpipe/proto/bigpipe/v1"
)

// The generators make objects that a text can say: they draw from the attribute tables, so that a new row is covered by itself.

var (
	genName = rapid.StringMatching(`[a-z][a-zA-Z0-9_.~/-]{0,30}`).Filter(func(s string) bool {
		return s != "show" && s != "persist" && s != "stats" && s != "weight" && s != "none"
	})
	genText    = rapid.StringMatching(`[ -~äß€]{0,40}`)
	genLiteral = rapid.StringMatching(`[ -~äß€]{1,63}`)
	genAddress = rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "ip")
			return fmt.Sprintf("%d.%d.%d.%d", b[0], b[1], b[2], b[3])
		}),
		rapid.SampledFrom([]string{"2001:db8::1", "::1", "host.example", "n1"}),
	)
	genMask = rapid.Custom(func(t *rapid.T) string { return pb.MaskText(rapid.IntRange(0, 32).Draw(t, "bits")) })
)

func genEndpoint(t *rapid.T) string {
	return endpoint{host: genAddress.Draw(t, "host"), port: rapid.Uint32Range(0, 65535).Draw(t, "port"), hasPort: true}.String()
}

// fill sets some attributes of a message as its table says.
func fill(t *rapid.T, table *Table, m proto.Message) {
	r := m.ProtoReflect()
	for _, a := range table.Rows {
		if !rapid.Bool().Draw(t, a.Field) {
			continue
		}
		if a.Value == valueForm {
			fillForm(t, a.Field, m)
			continue
		}
		v := draw(t, a)
		if a.field.IsList() {
			r.Mutable(a.field).List().Append(v)
			continue
		}
		r.Set(a.field, v)
	}
}

func draw(t *rapid.T, a *Attribute) protoreflect.Value {
	switch a.Value {
	case ValueNone:
		return protoreflect.ValueOfBool(a.Opposite == nil || rapid.Bool().Draw(t, "on"))
	case ValueSwitch, ValueFlag:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "on"))
	case ValueWord:
		return protoreflect.ValueOfEnum(a.enum[rapid.SampledFrom(a.ValueWords()).Draw(t, "word")])
	case ValueMask:
		return protoreflect.ValueOfString(genMask.Draw(t, "mask"))
	case ValueAddress:
		return protoreflect.ValueOfString(genAddress.Draw(t, "address"))
	case ValueName:
		return protoreflect.ValueOfString(genName.Draw(t, "name"))
	case ValueText, ValuePlain:
		return protoreflect.ValueOfString(genText.Draw(t, "text"))
	case ValueService:
		return protoreflect.ValueOfUint32(rapid.Uint32Range(0, 65535).Draw(t, "service"))
	case ValueExpiration:
		return protoreflect.ValueOfUint64(rapid.Uint64Range(0, maxExpiration).Draw(t, "seconds"))
	case ValueDuration:
		return protoreflect.ValueOfUint64(rapid.Uint64Range(0, uint64(maxTimeout.Milliseconds())).Draw(t, "ms"))
	}
	n := rapid.Uint64Range(a.Min, min(a.maxOf(), math.MaxUint32)).Draw(t, "number")
	if a.field.Kind() == protoreflect.Uint32Kind {
		return protoreflect.ValueOfUint32(uint32(n))
	}
	return protoreflect.ValueOfUint64(n)
}

func fillForm(t *rapid.T, field string, m proto.Message) {
	switch m := m.(type) {
	case *pb.Pool:
		switch field {
		case "persist_mode":
			m.PersistMode = pb.PersistMode(rapid.Int32Range(1, 9).Draw(t, "mode")).Enum()
		case "hash_bits":
			m.HashBits = proto.Uint32(rapid.SampledFrom([]uint32{24, 32}).Draw(t, "bits"))
		case "persist_expression":
			m.PersistExpression = proto.String(`findstr ( http_uri, "a b" , 3 )`)
		case "select_expression":
			m.SelectExpression = proto.String("node ( http_cookie x )")
		case "jroute_idempotent":
			m.JrouteIdempotent = append(m.JrouteIdempotent, &pb.IdempotentPattern{Pattern: genText.Draw(t, "pattern"), Retries: proto.Int32(rapid.Int32().Draw(t, "retries"))},
				&pb.IdempotentPattern{Pattern: "/x"})
		}
	case *pb.Member:
		m.Epoch = proto.Uint64(rapid.Uint64().Draw(t, "epoch"))
	case *pb.VirtualServer:
		switch field {
		case "vlans":
			m.Vlans = rapid.SliceOfN(genName, 1, 3).Draw(t, "vlans")
			m.VlansEnabled = proto.Bool(rapid.Bool().Draw(t, "on"))
		case "trusted_proxies":
			m.TrustedProxies = []string{"10.0.0.0/8", "192.168.1.1", "2001:db8::/32"}
		case "pools":
			m.Pools = genPools(t)
		}
	case *pb.Nat:
		m.Vlans, m.VlansEnabled = rapid.SliceOfN(genName, 1, 3).Draw(t, "vlans"), proto.Bool(rapid.Bool().Draw(t, "on"))
	case *pb.Trunk:
		m.Interfaces = genInterfaces.Draw(t, "interfaces")
	case *pb.Stp:
		m.Interfaces = genInterfaces.Draw(t, "interfaces")
	case *pb.Vlan:
		if field == "tagged_interfaces" {
			m.TaggedInterfaces = genInterfaces.Draw(t, "interfaces")
		} else {
			m.Interfaces = genInterfaces.Draw(t, "interfaces")
		}
	case *pb.Vlangroup:
		m.Vlans = rapid.SliceOfN(rapid.StringMatching(`v[0-9]{1,5}`), 1, 3).Draw(t, "vlans")
	case *pb.Proxy:
		if field == "target_virtual" {
			m.TargetVirtual = proto.String(genEndpoint(t))
		} else {
			m.TargetServer = proto.String(genEndpoint(t))
		}
	case *pb.Monitor:
		switch field {
		case "send":
			m.Send = proto.String(genText.Draw(t, "send"))
		case "dest":
			m.Dest = proto.String(rapid.SampledFrom([]string{"*:*", "*:80", "10.1.1.1:*", "10.1.1.1:80", "10.1.1.1", "[2001:db8::1]:80"}).Draw(t, "dest"))
		case "args":
			m.Args = rapid.SliceOfN(genText, 1, 3).Draw(t, "args")
		case "others":
			m.Others = []string{`database "a b"`, "secret x", "folder use"}
		}
	case *pb.MonitorUse:
		m.Monitors = rapid.SliceOfN(genName, 1, 3).Draw(t, "monitors")
	case *pb.Class:
		if field == "strings" {
			m.Strings = rapid.SliceOfN(genText, 1, 5).Draw(t, "strings")
		} else {
			m.Networks = []*pb.ClassNetwork{{Address: "10.0.0.0", Netmask: genMask.Draw(t, "mask")}, {Address: "192.168.0.0", Netmask: "255.255.0.0"}}
		}
	case *pb.Authz:
		m.Settings = []string{"model ldap", `server "a b" 10.1.1.1`, "group { a b }"}
	case *pb.Global:
		switch field {
		case "map_proxies":
			m.MapProxies = []*pb.MapProxy{{Network: "195.93.0.0/16", Address: "152.163.0.0"}}
		case "cookie_keys":
			m.CookieKeys = []*pb.CookieKey{{Name: "a", File: "/etc/x y"}, {Name: "b", File: "k"}}
		case "sysctls":
			m.Sysctls = []*pb.Sysctl{{Name: "vipnoarp", Value: true}, {Name: "bonfire_mode"}}
		}
	}
}

var genInterfaces = rapid.SliceOfN(rapid.StringMatching(`[0-9]{1,2}\.[0-9]{1,2}`), 1, 4)

func genPools(t *rapid.T) []*pb.WeightedPool {
	if rapid.Bool().Draw(t, "one") {
		return []*pb.WeightedPool{{Pool: genName.Draw(t, "pool")}}
	}
	var list []*pb.WeightedPool
	for range rapid.IntRange(1, 3).Draw(t, "pools") {
		list = append(list, &pb.WeightedPool{Pool: genName.Draw(t, "pool"), Weight: proto.Uint32(rapid.Uint32Range(0, maxWeight).Draw(t, "weight"))})
	}
	return list
}

func genVariable(t *rapid.T) *pb.RuleVariable {
	v := &pb.RuleVariable{Name: pb.RuleVariableName(rapid.Int32Range(1, 13).Draw(t, "variable"))}
	if v.Name >= pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_COOKIE {
		v.Argument = proto.String(genLiteral.Draw(t, "argument"))
	}
	return v
}

func genExpression(t *rapid.T, depth int) *pb.RuleExpression {
	kind := rapid.IntRange(0, 4).Draw(t, "expression")
	if depth <= 0 {
		kind = min(kind, 1)
	}
	binary := func() *pb.RuleBinary {
		return &pb.RuleBinary{Left: genExpression(t, depth-1), Right: genExpression(t, depth-1)}
	}
	switch kind {
	case 2:
		return &pb.RuleExpression{Kind: &pb.RuleExpression_Or{Or: binary()}}
	case 3:
		return &pb.RuleExpression{Kind: &pb.RuleExpression_And{And: binary()}}
	case 4:
		return &pb.RuleExpression{Kind: &pb.RuleExpression_Not{Not: genExpression(t, depth-1)}}
	case 1:
		return &pb.RuleExpression{Kind: &pb.RuleExpression_Exists{Exists: genVariable(t)}}
	}
	c := &pb.RuleComparison{Variable: genVariable(t), Operator: pb.RuleOperator_RULE_OPERATOR_EQUALS}
	switch v := c.Variable.GetName(); {
	case rapid.IntRange(0, 5).Draw(t, "class") == 0:
		c.Operator = pb.RuleOperator_RULE_OPERATOR_ONE_OF
		c.Value = &pb.RuleComparison_Class{Class: genName.Draw(t, "class")}
	case isText(v):
		c.Operator = pb.RuleOperator(rapid.Int32Range(1, 5).Draw(t, "operator"))
		c.Value = &pb.RuleComparison_Text{Text: genLiteral.Draw(t, "text")}
	case isRuleAddress(v):
		a := &pb.RuleAddress{Address: genAddress.Draw(t, "address")}
		if rapid.Bool().Draw(t, "masked") {
			a.Netmask = proto.String(genMask.Draw(t, "mask"))
		}
		c.Value = &pb.RuleComparison_Address{Address: a}
	case v == pb.RuleVariableName_RULE_VARIABLE_NAME_IP_PROTOCOL:
		c.Value = &pb.RuleComparison_Protocol{Protocol: "UDP"}
	default:
		c.Value = &pb.RuleComparison_Number{Number: rapid.Uint32Range(0, 255).Draw(t, "number")}
	}
	return &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: c}}
}

func genStatement(t *rapid.T, depth int) *pb.RuleStatement {
	kind := rapid.IntRange(0, 6).Draw(t, "statement")
	if depth <= 0 {
		kind = min(kind, 3)
	}
	switch kind {
	case 0:
		use := &pb.RuleUse{Pools: genPools(t)}
		if rapid.Bool().Draw(t, "again") {
			use.PersistNone = proto.Bool(true)
		}
		if len(use.Pools) == 1 && use.Pools[0].Weight == nil && rapid.Bool().Draw(t, "two") {
			use.Selector = proto.String("cathost")
		}
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: use}}
	case 1:
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{Discard: &pb.RuleDiscard{}}}
	case 2:
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Redirect{Redirect: &pb.RuleRedirect{Url: genLiteral.Draw(t, "url")}}}
	case 3:
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Hash{Hash: &pb.RuleHash{Variable: genVariable(t)}}}
	case 4:
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Cache{Cache: &pb.RuleCache{
			Condition:  genExpression(t, 1),
			OriginPool: proto.String("a"), CachePool: proto.String("b"), HitPeriod: proto.Uint32(rapid.Uint32().Draw(t, "period")),
		}}}
	case 5:
		block := &pb.RuleBlock{}
		for range rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "block") {
			block.Statements = append(block.Statements, genStatement(t, depth-1))
		}
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Block{Block: block}}
	}
	decision := &pb.RuleIf{Condition: genExpression(t, 3), Then: genStatement(t, depth-1)}
	if rapid.Bool().Draw(t, "else") {
		decision.Else = genStatement(t, depth-1)
	}
	return &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: decision}}
}

func genObject(t *rapid.T) *pb.Object {
	meta := &pb.Meta{}
	if rapid.Bool().Draw(t, "commented") {
		meta.Comments = []string{" a comment", "close#"}
	}
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		v := &pb.VirtualServer{Address: genEndpoint(t), Meta: meta}
		fill(t, Virtuals, v)
		return &pb.Object{Kind: &pb.Object_Virtual{Virtual: v}}
	case 1:
		v := &pb.VirtualAddress{Address: "10.0.0.1", Meta: meta}
		fill(t, VirtualAddresses, v)
		return &pb.Object{Kind: &pb.Object_VirtualAddress{VirtualAddress: v}}
	case 2:
		n := &pb.Node{Address: genEndpoint(t), Meta: meta}
		fill(t, Nodes, n)
		return &pb.Object{Kind: &pb.Object_Node{Node: n}}
	case 3:
		s := &pb.Service{Port: rapid.Uint32Range(0, 65535).Draw(t, "port"), Meta: meta}
		fill(t, Services, s)
		return &pb.Object{Kind: &pb.Object_Service{Service: s}}
	case 4:
		g := &pb.Global{Meta: meta}
		fill(t, Globals, g)
		return &pb.Object{Kind: &pb.Object_Global{Global: g}}
	case 5:
		r := &pb.Rule{Name: genName.Draw(t, "name"), Meta: meta, Statement: genStatement(t, 4)}
		if b := r.Statement.GetBlock(); b != nil && len(b.Statements) == 0 {
			r.Statement = &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{Discard: &pb.RuleDiscard{}}}
		}
		return &pb.Object{Kind: &pb.Object_Rule{Rule: r}}
	case 6, 7: // a pool, below
	default:
		return genLegacy(t, meta)
	}
	p := &pb.Pool{Name: genName.Draw(t, "name"), Meta: meta}
	fill(t, Pools, p)
	seen := make(map[string]bool)
	for range rapid.IntRange(0, 20).Draw(t, "members") {
		m := &pb.Member{Address: genEndpoint(t)}
		fill(t, Members, m)
		if !seen[m.Address] {
			seen[m.Address] = true
			p.Members = append(p.Members, m)
		}
	}
	return &pb.Object{Kind: &pb.Object_Pool{Pool: p}}
}

// genLegacy makes an object of a kind of the old unit, or a statement that is kept as it is.
func genLegacy(t *rapid.T, meta *pb.Meta) *pb.Object {
	var tables []*Table
	for _, table := range Tables() {
		if table.Lenient {
			tables = append(tables, table)
		}
	}
	i := rapid.IntRange(0, len(tables)).Draw(t, "table")
	if i == len(tables) {
		word := genName.Draw(t, "word")
		return &pb.Object{Kind: &pb.Object_Kept{Kept: &pb.Kept{Meta: meta, Keyword: "power", Text: "power " + word + " {\n  a\t# b\n}"}}}
	}
	table := tables[i]
	name := genName.Draw(t, "name")
	switch table.Kind {
	case KindSelf, KindIpalias, KindNat, KindAlias, KindSnat:
		name = genAddress.Draw(t, "address")
	case KindProxy:
		name = genEndpoint(t)
	case KindMonitorUse:
		name = rapid.SampledFrom([]string{"*:443", "10.1.1.1", "10.1.1.1:80", "[2001:db8::1]:80"}).Draw(t, "target")
	case KindActive:
		name = rapid.SampledFrom([]string{"*:443", "10.1.1.1:80", "[2001:db8::1]:80"}).Draw(t, "target")
	}
	o, m := newObject(table.Kind, name, meta)
	switch m := m.Interface().(type) {
	case *pb.Ipalias:
		m.Interface = "exp0"
	case *pb.Alias:
		m.Address = genAddress.Draw(t, "to")
	case *pb.Active:
		if texts := rapid.SliceOfN(rapid.StringMatching(`[ -~äß]{0,20}`), 0, 2).Draw(t, "texts"); len(texts) > 0 {
			m.Send = &texts[0]
			if len(texts) > 1 {
				m.Recv = &texts[1]
			}
		}
	case *pb.Nat:
		m.To = rapid.SampledFrom([]string{"", "10.0.0.9"}).Draw(t, "to")
	case *pb.Snat:
		m.Default = rapid.Bool().Draw(t, "default")
		if !m.Default || rapid.Bool().Draw(t, "origins") {
			m.Origins = []string{"10.1.1.1", "internal"}
		}
	}
	fill(t, table, m.Interface())
	return o
}

// TestFormatGenerated: whatever the tables can say reads back the same in both dialects.
func TestFormatGenerated(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seen := make(map[string]bool)
		var objects []*pb.Object
		for range rapid.IntRange(1, 4).Draw(r, "objects") {
			if o := genObject(r); !seen[o.Key()] {
				seen[o.Key()] = true
				objects = append(objects, o)
			}
		}
		stable(r, objects)
	})
}
