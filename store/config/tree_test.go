package config

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "bigpipe/proto/bigpipe/v1"
)

func pool(name string, members ...string) *pb.Object {
	p := &pb.Pool{Name: name}
	for _, m := range members {
		p.Members = append(p.Members, &pb.Member{Address: m})
	}
	return &pb.Object{Kind: &pb.Object_Pool{Pool: p}}
}

func virtual(address string, pools ...string) *pb.Object {
	v := &pb.VirtualServer{Address: address}
	for _, p := range pools {
		v.Pools = append(v.Pools, &pb.WeightedPool{Pool: p})
	}
	return &pb.Object{Kind: &pb.Object_Virtual{Virtual: v}}
}

func referrers(v View, key string) []string {
	var keys []string
	v.Referrers(key, func(from string) bool { keys = append(keys, from); return true })
	return keys
}

func keysOf(v View, kind string) []string {
	var keys []string
	v.Range(kind, func(o *pb.Object) bool { keys = append(keys, o.Key()); return true })
	return keys
}

// checkView compares a view with what a plain map says.
func checkView(t *rapid.T, v View, want map[string]*pb.Object) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	if got := keysOf(v, ""); !slices.Equal(got, keys) {
		t.Fatalf("keys %v, want %v", got, keys)
	}
	refs := map[string][]string{}
	kinds := map[string]int{}
	for _, key := range keys {
		if v.Get(key) != want[key] {
			t.Fatalf("%s: another object", key)
		}
		kind, _ := pb.SplitKey(key)
		kinds[kind]++
		for _, to := range references(want[key]) {
			refs[to] = append(refs[to], key)
		}
	}
	for _, kind := range []string{"pool", "virtual", "rule"} {
		if v.Len(kind) != kinds[kind] || len(keysOf(v, kind)) != kinds[kind] {
			t.Fatalf("%d objects of kind %s, range %v, want %d", v.Len(kind), kind, keysOf(v, kind), kinds[kind])
		}
	}
	for _, to := range []string{"pool/p0", "pool/p1", "pool/p2", "node/10.0.0.1", "node/10.0.0.1:80", "virtual_address/10.1.0.0", "service/80"} {
		if got := referrers(v, to); !slices.Equal(got, refs[to]) {
			t.Fatalf("referrers of %s: %v, want %v", to, got, refs[to])
		}
	}
}

// TestOverlay drives overlays and trees against a plain map: old versions must stay as they were.
func TestOverlay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := NewTree()
		want := map[string]*pb.Object{}
		for range rapid.IntRange(1, 4).Draw(t, "versions") {
			frozen := maps.Clone(want)
			overlay := NewOverlay(base)
			for range rapid.IntRange(0, 12).Draw(t, "steps") {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				var o *pb.Object
				if rapid.Bool().Draw(t, "pool") {
					o = pool(fmt.Sprintf("p%d", n), fmt.Sprintf("10.0.0.%d:80", rapid.IntRange(0, 2).Draw(t, "member")))
				} else {
					o = virtual(fmt.Sprintf("10.1.0.%d:80", n), fmt.Sprintf("p%d", rapid.IntRange(0, 2).Draw(t, "uses")))
				}
				if rapid.IntRange(0, 2).Draw(t, "action") == 0 {
					overlay.Delete(o.Key())
					delete(want, o.Key())
				} else {
					overlay.Put(o)
					want[o.Key()] = o
				}
				if rapid.IntRange(0, 5).Draw(t, "snapshot") == 0 {
					overlay.Tree()
				}
			}
			checkView(t, overlay, want)
			checkView(t, base, frozen)
			next := overlay.Tree()
			if applied := base.Apply(overlay.Changes()); len(DiffExact(applied, next)) != 0 {
				t.Fatalf("Apply(Changes) differs: %v", DiffExact(applied, next))
			}
			if d := DiffExact(base, next); len(d) != len(overlay.Changes()) {
				t.Fatalf("diff %v, changes %v", d, overlay.Changes())
			}
			base = next
		}
	})
}

func TestEqualIgnoresMeta(t *testing.T) {
	at := func(line uint32) *pb.Position { return &pb.Position{File: "a", Line: line, Column: 1} }
	make := func(line uint32, url string) *pb.Object {
		return &pb.Object{Kind: &pb.Object_Rule{Rule: &pb.Rule{
			Meta: &pb.Meta{Position: at(line), Comments: []string{fmt.Sprint(line)}, Order: uint64(line)},
			Name: "r",
			Statement: &pb.RuleStatement{Position: at(line), Kind: &pb.RuleStatement_Redirect{
				Redirect: &pb.RuleRedirect{Url: url},
			}},
		}}}
	}
	a, b, c := make(1, "http://x/"), make(9, "http://x/"), make(1, "http://y/")
	if !Equal(a, b) || Equal(a, c) || Equal(a, nil) || !Equal(nil, nil) {
		t.Error("Equal must look at the configuration, and at nothing else")
	}
	if s := StripMeta(a); proto.Equal(s, a) || s.GetRule().GetStatement().GetPosition() != nil || a.GetRule().GetMeta() == nil {
		t.Errorf("StripMeta gave %v and left %v", s, a)
	}
	if d := Diff(NewTree(a), NewTree(b)); len(d) != 0 {
		t.Errorf("Diff %v", d)
	}
	if d := DiffExact(NewTree(a), NewTree(b)); len(d) != 1 || d[0].Effective() {
		t.Errorf("DiffExact %v", d)
	}
}

func TestSplitAddress(t *testing.T) {
	for _, tt := range []struct {
		in, address string
		port        uint16
		ok          bool
	}{
		{"10.0.0.1:80", "10.0.0.1", 80, true},
		{"[2001:db8::1]:443", "2001:db8::1", 443, true},
		{"2001:db8::1", "2001:db8::1", 0, false},
		{"10.0.0.1", "10.0.0.1", 0, false},
		{"internal", "internal", 0, false},
		{"v1:80", "v1", 80, true},
	} {
		address, port, ok := SplitAddress(tt.in)
		if address != tt.address || port != tt.port || ok != tt.ok {
			t.Errorf("SplitAddress(%q) = %q, %d, %v", tt.in, address, port, ok)
		}
		if ok && JoinAddress(address, port) != tt.in {
			t.Errorf("JoinAddress gives %q for %q", JoinAddress(address, port), tt.in)
		}
	}
}

// large is a configuration of n pools and n virtual servers.
func large(n int) *Tree {
	o := NewOverlay(nil)
	for i := range n {
		name := fmt.Sprintf("p%05d", i)
		o.Put(pool(name, fmt.Sprintf("10.%d.%d.1:80", i/250, i%250), fmt.Sprintf("10.%d.%d.2:80", i/250, i%250)))
		o.Put(virtual(fmt.Sprintf("172.16.%d.%d:80", i/250, i%250), name))
	}
	return o.Tree()
}

func BenchmarkNewTree20000(b *testing.B) {
	objects := []*pb.Object{}
	large(10000).Range("", func(o *pb.Object) bool { objects = append(objects, o); return true })
	b.ResetTimer()
	for range b.N {
		NewTree(objects...)
	}
}

func BenchmarkApplyOne(b *testing.B) {
	t := large(10000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		t.Apply([]Change{{Key: "pool/p05000", New: pool("p05000", "10.0.0.9:80")}})
	}
}
