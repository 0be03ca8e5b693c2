package eval

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// fill gives a message values for some rows of its attribute table.
func fill(t *rapid.T, m proto.Message, table *grammar.Table, skip ...string) {
	for _, row := range table.Rows {
		if slices.Contains(skip, row.Field) || rapid.IntRange(0, 5).Draw(t, row.Field) != 0 {
			continue
		}
		fd := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(row.Field))
		if fd.IsList() {
			continue
		}
		if v, ok := draw(t, row, fd); ok {
			m.ProtoReflect().Set(fd, v)
		}
	}
}

// samples are values of rows that do not allow any text.
var samples = map[string][]string{
	"jroute_cookie": {"JROUTE", "R"}, "jroute_session_cookie": {"JSESSIONID", "S"}, "jroute_suffix": {".", "!"},
	"jroute_error_url": {"/sorry", "http://sorry/?a=b"},
}

// draw returns a value that a row allows; false for rows with a form of their own.
func draw(t *rapid.T, row *grammar.Attribute, fd protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	number := func(least, most uint64) protoreflect.Value {
		if most == 0 {
			most = 65535
		}
		n := rapid.Uint64Range(least, most).Draw(t, "number")
		if fd.Kind() == protoreflect.Uint32Kind {
			return protoreflect.ValueOfUint32(uint32(n))
		}
		return protoreflect.ValueOfUint64(n)
	}
	switch row.Value {
	case grammar.ValueNone, grammar.ValueSwitch, grammar.ValueFlag:
		return protoreflect.ValueOfBool(row.Opposite == nil && row.Value == grammar.ValueNone || rapid.Bool().Draw(t, "on")), true
	case grammar.ValueWord:
		word := rapid.SampledFrom(row.ValueWords()).Draw(t, "word")
		n, ok := pb.ParseEnum(fd.Enum(), word)
		return protoreflect.ValueOfEnum(n), ok
	case grammar.ValueNumber, grammar.ValueSeconds, grammar.ValueExpiration:
		return number(row.Min, row.Max), true
	case grammar.ValueDuration:
		return number(1, 1<<20), true
	case grammar.ValueMask:
		return protoreflect.ValueOfString(rapid.SampledFrom([]string{"255.255.255.0", "255.0.0.0", "255.255.255.255", "0.0.0.0"}).Draw(t, "mask")), true
	case grammar.ValueAddress:
		return protoreflect.ValueOfString("192.0.2.255"), true
	case grammar.ValueService:
		return number(0, 65535), true
	case grammar.ValueText, grammar.ValuePlain:
		if list := samples[row.Field]; list != nil {
			return protoreflect.ValueOfString(rapid.SampledFrom(list).Draw(t, "text")), true
		}
		return protoreflect.ValueOfString(rapid.StringMatching(`[ -~äß]{0,20}`).Draw(t, "text")), true
	case grammar.ValueName:
		return protoreflect.ValueOfString(rapid.SampledFrom([]string{"http", "p0", "tcp"}).Draw(t, "name")), true
	}
	return protoreflect.Value{}, false
}

// legacy draws an object of a kind of the old unit; i makes its name.
func legacy(t *rapid.T, table *grammar.Table, i int) *pb.Object {
	o := &pb.Object{}
	m := o.ProtoReflect().Mutable(o.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(table.Kind))).Message()
	name := fmt.Sprintf("n%d", i)
	switch table.Kind {
	case grammar.KindSelf, grammar.KindIpalias, grammar.KindNat, grammar.KindAlias, grammar.KindSnat:
		name = fmt.Sprintf("10.9.0.%d", i)
	case grammar.KindProxy:
		name = fmt.Sprintf("10.9.0.%d:443", i)
	case grammar.KindMonitorUse:
		name = fmt.Sprintf("*:%d", i+1)
	case grammar.KindActive:
		name = fmt.Sprintf("10.9.0.%d:80", i)
	}
	m.Set(m.Descriptor().Fields().ByNumber(2), protoreflect.ValueOfString(name))
	fill(t, m.Interface(), table)
	list := rapid.SampledFrom([][]string{nil, {"1.1"}, {"1.1", "2.1"}}).Draw(t, "list")
	switch m := m.Interface().(type) {
	case *pb.Vlan:
		m.Interfaces, m.TaggedInterfaces = list, list
	case *pb.Trunk:
		m.Interfaces = list
	case *pb.Stp:
		m.Interfaces = list
	case *pb.Vlangroup:
		m.Vlans = list
	case *pb.Ipalias:
		m.Interface = "exp0"
	case *pb.Alias:
		m.Address = "10.9.0.200"
	case *pb.Active:
		m.Send, m.Recv = proto.String(`GET /\r\n`), proto.String("")
	case *pb.Nat:
		m.To = "10.9.0.201"
		if list != nil {
			m.Vlans, m.VlansEnabled = list, proto.Bool(rapid.Bool().Draw(t, "vlans"))
		}
	case *pb.Snat:
		m.Default = list == nil || rapid.Bool().Draw(t, "default")
		m.Origins = []string{"10.1.1.1", "10.1.1.2"}[:len(list)]
	case *pb.MonitorUse:
		m.Monitors = []string{"http", "tcp"}[:rapid.IntRange(1, 2).Draw(t, "monitors")]
	case *pb.Class:
		m.Strings, m.Hosts = list, []string{"10.1.1.1"}
		m.Networks = []*pb.ClassNetwork{{Address: "10.0.0.0", Netmask: "255.0.0.0"}}
		if m.GetFile() != "" {
			m.Contents = &pb.ClassContents{Strings: []string{"of the file"}}
		}
	case *pb.Authz:
		m.Settings = list
	case *pb.Monitor:
		m.Args, m.Dest = list, proto.String("*:80")
		m.Others = []string{"database x", `secret "a b"`}
	case *pb.Proxy:
		m.TargetServer = proto.String("10.1.1.1:80")
	}
	return o
}

// generate draws a valid configuration.
func generate(t *rapid.T) *config.Tree {
	o := config.NewOverlay(nil)
	order := map[string]uint64{}
	meta := func(kind string) *pb.Meta {
		order[kind]++
		return &pb.Meta{Order: order[kind]}
	}
	put := func(full, plain *pb.Object) {
		for _, obj := range []*pb.Object{full, plain} {
			if obj.Key() == "" {
				continue
			}
			o.Put(obj)
			if !slices.ContainsFunc(config.Validate(o, []string{obj.Key()}), func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR }) {
				return
			}
		}
	}
	pools := rapid.IntRange(1, 5).Draw(t, "pools")
	var nodes []string
	for i := range pools {
		plain := &pb.Pool{Name: fmt.Sprintf("p%d", i), Meta: meta("pool")}
		for j := range rapid.IntRange(0, 3).Draw(t, "members") {
			m := &pb.Member{Address: fmt.Sprintf("10.0.%d.%d:80", i, j)}
			fill(t, m, grammar.Members, "epoch", "route")
			if rapid.Bool().Draw(t, "route") {
				m.Route = proto.String(fmt.Sprintf("r%d", j))
			}
			plain.Members = append(plain.Members, m)
			nodes = append(nodes, m.GetAddress())
		}
		full := proto.CloneOf(plain)
		fill(t, full, grammar.Pools)
		put(&pb.Object{Kind: &pb.Object_Pool{Pool: full}}, &pb.Object{Kind: &pb.Object_Pool{Pool: plain}})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
		use := func(n int) *pb.RuleStatement {
			return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: fmt.Sprintf("p%d", n%pools)}}}}}
		}
		o.Put(&pb.Object{Kind: &pb.Object_Rule{Rule: &pb.Rule{Name: fmt.Sprintf("r%d", i), Meta: meta("rule"), Statement: use(i)}}})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "virtuals") {
		plain := &pb.VirtualServer{Address: fmt.Sprintf("192.0.2.%d:80", i), Meta: meta("virtual")}
		if rapid.Bool().Draw(t, "rule") && o.Len("rule") > 0 {
			plain.Rule = proto.String("r0")
		} else {
			plain.Pools = []*pb.WeightedPool{{Pool: fmt.Sprintf("p%d", i%pools)}}
		}
		full := proto.CloneOf(plain)
		fill(t, full, grammar.Virtuals, "pools", "rule", "forward", "lasthop_pool", "clone_pool")
		put(&pb.Object{Kind: &pb.Object_Virtual{Virtual: full}}, &pb.Object{Kind: &pb.Object_Virtual{Virtual: plain}})
	}
	for i, address := range nodes {
		n := &pb.Node{Address: address}
		fill(t, n, grammar.Nodes)
		if i < 2 && n.Enabled != nil {
			n.Meta = meta("node")
			o.Put(&pb.Object{Kind: &pb.Object_Node{Node: n}})
		}
	}
	for _, table := range grammar.Tables() {
		if !table.Lenient {
			continue
		}
		for i := range rapid.IntRange(0, 2).Draw(t, string(table.Kind)) {
			obj := legacy(t, table, i)
			m := obj.Message()
			m.Set(m.Descriptor().Fields().ByName("meta"), protoreflect.ValueOfMessage(meta(string(table.Kind)).ProtoReflect()))
			put(obj, obj)
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "kept") {
		put(&pb.Object{}, &pb.Object{Kind: &pb.Object_Kept{Kept: &pb.Kept{Meta: meta("kept"), Keyword: "vlan", Text: fmt.Sprintf("vlan k%d { colour # c\n red }", i)}}})
	}
	g := &pb.Global{Meta: meta("global")}
	fill(t, g, grammar.Globals)
	if !proto.Equal(g, &pb.Global{Meta: g.Meta}) {
		o.Put(&pb.Object{Kind: &pb.Object_Global{Global: g}})
	}
	return o.Tree()
}

// TestFormatAndEvaluate: a configuration that is written and loaded is the same, in both dialects, and again by merging it
// into itself.
func TestFormatAndEvaluate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := generate(rt)
		var objects []*pb.Object
		want.Range("", func(o *pb.Object) bool { objects = append(objects, o); return true })
		for _, dialect := range []int{3, 4} {
			text := grammar.Format(objects, grammar.FormatOptions{Dialect: dialect})
			statements, faults := grammar.Parse("f", text)
			if slices.ContainsFunc(faults, isFault) {
				rt.Fatalf("%s\n%s", text, show(faults))
			}
			files := map[string][]byte{}
			for _, name := range grammar.ClassFiles(text) {
				files[name] = []byte(`"of the file"`)
			}
			for _, mode := range []Mode{ModeLoad, ModeMerge} {
				out := Evaluate(map[Mode]config.View{ModeLoad: nil, ModeMerge: want}[mode], statements, Options{Mode: mode, Files: files})
				if out.Exit != 0 {
					rt.Fatalf("%s\n%s", text, show(out.Diagnostics))
				}
				for _, c := range config.Diff(want, out.View) {
					rt.Errorf("dialect %d, mode %d, %s\nwant %v\ngot  %v\n%s", dialect, mode, c.Key, c.Old, c.New, text)
				}
			}
		}
	})
}

// large is a configuration of n pools and n virtual servers.
func large(n int) *config.Tree {
	o := config.NewOverlay(nil)
	for i := range n {
		p := &pb.Pool{Name: fmt.Sprintf("p%05d", i), Meta: &pb.Meta{Order: uint64(i + 1)}}
		for j := range 3 {
			p.Members = append(p.Members, &pb.Member{Address: fmt.Sprintf("10.%d.%d.%d:80", i/250, i%250, j+1)})
		}
		o.Put(&pb.Object{Kind: &pb.Object_Pool{Pool: p}})
		o.Put(&pb.Object{Kind: &pb.Object_Virtual{Virtual: &pb.VirtualServer{
			Address: fmt.Sprintf("172.16.%d.%d:80", i/250, i%250), Meta: &pb.Meta{Order: uint64(i + 1)},
			Pools: []*pb.WeightedPool{{Pool: p.Name}},
		}}})
	}
	return o.Tree()
}

// BenchmarkOneCommand wants the cost of what changes, not of what exists.
func BenchmarkOneCommand(b *testing.B) {
	for _, n := range []int{10, 10000} {
		base := large(n)
		b.Run(fmt.Sprintf("%d_pools", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				statements, faults := grammar.ParseCommand(&pb.Position{Line: 1, Column: 1}, []byte("pool p00005 modify { lb_mode ratio_member }"))
				out := Evaluate(base, statements, Options{})
				if len(faults) > 0 || len(out.Changes) != 1 {
					b.Fatal(show(faults), show(out.Diagnostics))
				}
			}
		})
	}
}

// siteText is a file of n pools of 4 members and as many virtual servers: 3 MB for 10,000.
func siteText(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "pool pool_%d {\n   lb_mode round_robin\n   persist_mode simple\n   simple_timeout 300\n", i)
		for m := range 4 {
			fmt.Fprintf(&b, "   member 10.%d.%d.%d:8080\n", i>>8, i&255, m+1)
		}
		b.WriteString("}\n")
	}
	for i := range n {
		fmt.Fprintf(&b, "virtual 172.%d.%d.1:80 unit 1 {\n   netmask 255.255.255.0\n   use pool pool_%d\n}\n", 16+i>>8, i&255, i)
	}
	return b.Bytes()
}

// BenchmarkCheck20000 is what a check of a file of 10,000 pools and as many virtual servers costs: parsing, evaluating, validating.
func BenchmarkCheck20000(b *testing.B) {
	text := siteText(10000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		statements, faults := grammar.Parse("bigip.conf", text)
		out := Evaluate(nil, statements, Options{Mode: ModeLoad})
		if len(faults) > 0 || out.Exit != 0 || len(out.Changes) != 20000 {
			b.Fatal(show(faults), show(out.Diagnostics))
		}
	}
}

// BenchmarkLoad20000 is the part of it that follows parsing.
func BenchmarkLoad20000(b *testing.B) {
	statements, _ := grammar.Parse("bigip.conf", siteText(10000))
	b.ReportAllocs()
	for b.Loop() {
		if out := Evaluate(nil, statements, Options{Mode: ModeLoad}); out.Exit != 0 || len(out.Changes) != 20000 {
			b.Fatal(show(out.Diagnostics))
		}
	}
}

// BenchmarkReload20000 loads what is there already, with one difference.
func BenchmarkReload20000(b *testing.B) {
	statements, _ := grammar.Parse("bigip.conf", siteText(10000))
	base := Evaluate(nil, statements, Options{Mode: ModeLoad}).View
	statements, _ = grammar.Parse("bigip.conf", bytes.Replace(siteText(10000), []byte("timeout 300"), []byte("timeout 301"), 1))
	b.ReportAllocs()
	for b.Loop() {
		if out := Evaluate(base, statements, Options{Mode: ModeLoad}); out.Exit != 0 || len(out.Changes) != 1 {
			b.Fatal(len(out.Changes), show(out.Diagnostics))
		}
	}
}
