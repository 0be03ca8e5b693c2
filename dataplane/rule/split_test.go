package rule

import (
	"net/netip"
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

func weight(n uint32) *uint32 { return &n }

// J-T10's shares, dealt to pools.
func TestCompileUse(t *testing.T) {
	r, err := CompileUse([]*pb.WeightedPool{{Pool: "a", Weight: weight(70)}, {Pool: "b", Weight: weight(30)}, {Pool: "c", Weight: weight(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Splits() {
		t.Error("it does not split")
	}
	counts := map[string]int{}
	for range 1000 {
		counts[r.Pools()[r.Decide(&Input{}).Pool]]++
	}
	if counts["a"] != 700 || counts["b"] != 300 {
		t.Errorf("chosen %v", counts)
	}
	if r, err = CompileUse([]*pb.WeightedPool{{Pool: "a", Weight: weight(0)}, {Pool: "b", Weight: weight(0)}}, nil); err != nil {
		t.Fatal(err)
	}
	if d := r.Decide(&Input{}); d.Action != Nothing {
		t.Errorf("all weights 0: %+v", d)
	}
	if _, err = CompileUse(nil, nil); err == nil {
		t.Error("no pool: compiled")
	}
}

// A rule that is compiled anew goes on with its splits.
func TestSplitsGoOn(t *testing.T) {
	half := func(pools ...string) *pb.RuleStatement {
		u := &pb.RuleUse{}
		for _, p := range pools {
			u.Pools = append(u.Pools, &pb.WeightedPool{Pool: p})
		}
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: u}}
	}
	statement := &pb.Rule{Statement: branch(exists(variable("http_uri")), half("a", "b"), half("c", "d"))}
	var r *Rule
	var got []string
	for i := range 8 {
		var err error
		if r, err = Compile(statement, classes, r); err != nil {
			t.Fatal(err)
		}
		in := input()
		if i%2 == 1 {
			in.Request = nil
		}
		got = append(got, r.Pools()[r.Decide(in).Pool])
	}
	if order := strings.Join(got, " "); order != "a c b d a c b d" {
		t.Errorf("chosen %s", order)
	}
}

func TestLocation(t *testing.T) {
	in := &Input{Server: netip.MustParseAddrPort("10.0.0.1:8080"), Request: &fakeRequest{uri: "/a?b", host: "h.example:99"}}
	six := &Input{Server: netip.MustParseAddrPort("[2001:db8::1]:80"), Request: &fakeRequest{uri: "/"}}
	tests := []struct {
		url  string
		in   *Input
		want string
	}{
		{"https://%h/sample.html", in, "https://h.example/sample.html"},
		{"https://%h:%p%u", in, "https://h.example:8080/a?b"},
		{"sorry.example.com", in, "http://sorry.example.com"},
		{"%h/sorry", in, "http://h.example/sorry"},
		{"%u?again", in, "/a?b?again"},
		{"/sorry%20page%", in, "/sorry%20page%"},
		{"http://%h/", six, "http://[2001:db8::1]/"},
		{"http://%h/", &Input{Server: in.Server}, "http://10.0.0.1/"},
		{"http://%h/", &Input{Server: in.Server, Request: &fakeRequest{host: "[::1]:80"}}, "http://[::1]/"},
		{"http://%h/", &Input{Server: in.Server, Request: &fakeRequest{host: "[::1]"}}, "http://[::1]/"},
	}
	for _, tt := range tests {
		if got := string(NewLocation(tt.url).Append(nil, tt.in)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.url, got, tt.want)
		}
	}
}

// What is appended is the text with its fields replaced, and nothing else is touched.
func FuzzLocation(f *testing.F) {
	f.Add("https://%h:%p%u", "h:1", "/x")
	f.Add("%%h%", "[::1]", "/%u")
	f.Fuzz(func(t *testing.T, url, host, uri string) {
		in := &Input{Server: netip.MustParseAddrPort("10.0.0.1:80"), Request: &fakeRequest{uri: uri, host: host}}
		name := string(hostName([]byte(host)))
		if name == "" {
			name = "10.0.0.1"
		}
		want := strings.NewReplacer("%h", name, "%p", "80", "%u", uri).Replace(url)
		got := string(NewLocation(url).Append(nil, in))
		if got != want && got != "http://"+want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	})
}

// returning knows the pools whose indexes it has.
type returning map[int]bool

func (r returning) Knows(pool int) bool { return r[pool] }

// Pain 46: a client goes back to the first pool that knows it, whatever its weight, and others go by the weights as if it had not
// come.
func TestSplitSticks(t *testing.T) {
	use := &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: "a", Weight: weight(1)}, {Pool: "b", Weight: weight(1)}, {Pool: "c", Weight: weight(0)}}}
	r, err := CompileUse(use.GetPools(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, known := range []Returning{nil, returning{}, returning{1: true}, returning{2: true}, returning{0: true, 2: true}, returning{7: true}, nil} {
		got = append(got, r.Pools()[r.Decide(&Input{Returning: known}).Pool])
	}
	if order := strings.Join(got, " "); order != "a b b c a a b" {
		t.Errorf("chosen %s", order)
	}
	use.PersistNone = new(true)
	if r, err = Compile(&pb.Rule{Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: use}}}, classes, nil); err != nil {
		t.Fatal(err)
	}
	if d := r.Decide(&Input{Returning: returning{2: true}}); d.Pool == 2 || !d.PersistNone {
		t.Errorf("persist none: %+v", d)
	}
	in := &Input{Returning: returning{1: true}}
	if n := testing.AllocsPerRun(100, func() { r.Decide(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
