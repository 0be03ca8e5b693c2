package eval

import (
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
	case grammar.ValueNone, grammar.ValueSwitch:
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
	}
	return protoreflect.Value{}, false
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
			fill(t, m, grammar.Members, "epoch")
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
			if len(faults) > 0 {
				rt.Fatalf("%s\n%s", text, show(faults))
			}
			for _, mode := range []Mode{ModeLoad, ModeMerge} {
				out := Evaluate(map[Mode]config.View{ModeLoad: nil, ModeMerge: want}[mode], statements, Options{Mode: mode})
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

// BenchmarkLoad20000 loads 10,000 pools and as many virtual servers.
func BenchmarkLoad20000(b *testing.B) {
	var objects []*pb.Object
	large(10000).Range("", func(o *pb.Object) bool { objects = append(objects, o); return true })
	statements, _ := grammar.Parse("f", grammar.Format(objects, grammar.FormatOptions{}))
	b.ResetTimer()
	for range b.N {
		if out := Evaluate(nil, statements, Options{Mode: ModeLoad}); out.Exit != 0 || len(out.Changes) != 20000 {
			b.Fatal(show(out.Diagnostics))
		}
	}
}
