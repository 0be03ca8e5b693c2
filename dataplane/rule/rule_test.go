package rule

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// fakeRequest is a request made of words.
type fakeRequest struct {
	method, uri, version, host string
	headers, cookies           map[string]string
}

func (r *fakeRequest) Method() []byte  { return []byte(r.method) }
func (r *fakeRequest) URI() []byte     { return []byte(r.uri) }
func (r *fakeRequest) Version() []byte { return []byte(r.version) }
func (r *fakeRequest) Host() []byte    { return []byte(r.host) }

func (r *fakeRequest) Header(name string) ([]byte, bool) {
	v, ok := r.headers[name]
	return []byte(v), ok
}

func (r *fakeRequest) Cookie(name string) ([]byte, bool) {
	v, ok := r.cookies[name]
	return []byte(v), ok
}

func variable(name string, argument ...string) *pb.RuleVariable {
	n, ok := pb.ParseEnum(pb.RuleVariableName(0).Descriptor(), name)
	if !ok {
		panic(name)
	}
	v := &pb.RuleVariable{Name: pb.RuleVariableName(n)}
	if len(argument) > 0 {
		v.Argument = &argument[0]
	}
	return v
}

// compare makes a comparison with a text.
func compare(v *pb.RuleVariable, op pb.RuleOperator, text string) *pb.RuleExpression {
	return comparison(&pb.RuleComparison{Variable: v, Operator: op, Value: &pb.RuleComparison_Text{Text: text}})
}

func comparison(c *pb.RuleComparison) *pb.RuleExpression {
	return &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: c}}
}

func address(v *pb.RuleVariable, addr, mask string) *pb.RuleExpression {
	a := &pb.RuleAddress{Address: addr}
	if mask != "" {
		a.Netmask = &mask
	}
	return comparison(&pb.RuleComparison{Variable: v, Operator: equals, Value: &pb.RuleComparison_Address{Address: a}})
}

func number(v *pb.RuleVariable, n uint32) *pb.RuleExpression {
	return comparison(&pb.RuleComparison{Variable: v, Operator: equals, Value: &pb.RuleComparison_Number{Number: n}})
}

func oneOf(v *pb.RuleVariable, class string) *pb.RuleExpression {
	return comparison(&pb.RuleComparison{
		Variable: v, Operator: pb.RuleOperator_RULE_OPERATOR_ONE_OF,
		Value: &pb.RuleComparison_Class{Class: class},
	})
}

func not(e *pb.RuleExpression) *pb.RuleExpression {
	return &pb.RuleExpression{Kind: &pb.RuleExpression_Not{Not: e}}
}

func and(l, r *pb.RuleExpression) *pb.RuleExpression {
	return &pb.RuleExpression{Kind: &pb.RuleExpression_And{And: &pb.RuleBinary{Left: l, Right: r}}}
}

func or(l, r *pb.RuleExpression) *pb.RuleExpression {
	return &pb.RuleExpression{Kind: &pb.RuleExpression_Or{Or: &pb.RuleBinary{Left: l, Right: r}}}
}

func exists(v *pb.RuleVariable) *pb.RuleExpression {
	return &pb.RuleExpression{Kind: &pb.RuleExpression_Exists{Exists: v}}
}

func use(names ...string) *pb.RuleStatement {
	u := &pb.RuleUse{}
	for _, n := range names {
		u.Pools = append(u.Pools, &pb.WeightedPool{Pool: n})
	}
	return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: u}}
}

func branch(cond *pb.RuleExpression, then, otherwise *pb.RuleStatement) *pb.RuleStatement {
	return &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{Condition: cond, Then: then, Else: otherwise}}}
}

func block(list ...*pb.RuleStatement) *pb.RuleStatement {
	return &pb.RuleStatement{Kind: &pb.RuleStatement_Block{Block: &pb.RuleBlock{Statements: list}}}
}

const (
	equals     = pb.RuleOperator_RULE_OPERATOR_EQUALS
	contains   = pb.RuleOperator_RULE_OPERATOR_CONTAINS
	startsWith = pb.RuleOperator_RULE_OPERATOR_STARTS_WITH
	endsWith   = pb.RuleOperator_RULE_OPERATOR_ENDS_WITH
	matches    = pb.RuleOperator_RULE_OPERATOR_MATCHES_REGEX
)

func classes(name string) *pb.Class {
	switch name {
	case "hosts":
		return &pb.Class{
			Name: name, Hosts: []string{"10.1.1.1", "2001:db8::1"}, Strings: []string{"10.1.1.9"},
			Networks: []*pb.ClassNetwork{{Address: "192.168.0.0", Netmask: "255.255.0.0"}},
		}
	case "words":
		return &pb.Class{Name: name, Strings: []string{"/a", "/b"}}
	case "ports":
		return &pb.Class{Name: name, Strings: []string{"80", "443"}}
	}
	return nil
}

func compile(t testing.TB, s *pb.RuleStatement) *Rule {
	t.Helper()
	r, err := Compile(&pb.Rule{Name: "r", Statement: s}, classes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func input() *Input {
	return &Input{
		Client: netip.MustParseAddrPort("206.0.7.9:40000"),
		Server: netip.MustParseAddrPort("10.0.0.1:8080"),
		Request: &fakeRequest{
			method: "GET", uri: "/buy.asp?x=1", version: "HTTP/1.1", host: "www.example.com:8080",
			headers: map[string]string{"user-agent": "curl/8", "x-empty": ""},
			cookies: map[string]string{"blue-cookie": "horses", "green-cookie": "4"},
		},
	}
}

func TestCondition(t *testing.T) {
	client, server, uri := variable("client_addr"), variable("server_addr"), variable("http_uri")
	tests := []struct {
		name string
		cond *pb.RuleExpression
		want bool
	}{
		{"client_addr", address(client, "206.0.7.9", ""), true},
		{"client_addr other", address(client, "206.0.7.8", ""), false},
		{"client_addr netmask", address(client, "206.0.0.0", "255.0.0.0"), true},
		{"client_addr netmask with host bits", address(client, "206.9.9.9", "255.0.0.0"), true},
		{"client_addr other netmask", address(client, "207.0.0.0", "255.0.0.0"), false},
		{"client_addr IPv6", address(client, "2001:db8::", ""), false},
		{"client_addr text", compare(client, equals, "206.0.7.9"), true},
		{"client_addr class", oneOf(client, "hosts"), false},
		{"server_addr", address(server, "10.0.0.1", ""), true},
		{"client_port", number(variable("client_port"), 40000), true},
		{"server_port", number(variable("server_port"), 80), false},
		{"server_port text", compare(variable("server_port"), equals, "8080"), true},
		{"server_port class", oneOf(variable("server_port"), "ports"), false},
		{"ip_protocol", compare(variable("ip_protocol"), equals, "TCP"), true},
		{"ip_protocol UDP", compare(variable("ip_protocol"), equals, "UDP"), false},
		{"http_method", compare(variable("http_method"), equals, "GET"), true},
		{"http_uri equals", compare(uri, equals, "/buy.asp?x=1"), true},
		{"http_uri equals part", compare(uri, equals, "/buy.asp"), false},
		{"http_uri contains", compare(uri, contains, ".asp"), true},
		{"http_uri starts_with", compare(uri, startsWith, "/buy"), true},
		{"http_uri starts_with longer", compare(uri, startsWith, "/buy.asp?x=12"), false},
		{"http_uri ends_with", compare(uri, endsWith, "=1"), true},
		{"http_uri regex", compare(uri, matches, `^/b.y\.(asp|php)`), true},
		{"http_uri case", compare(uri, startsWith, "/BUY"), false},
		{"http_uri class", oneOf(uri, "words"), false},
		{"http_version", compare(variable("http_version"), equals, "HTTP/1.1"), true},
		{"http_host", compare(variable("http_host"), startsWith, "www."), true},
		{"http_header Host", compare(variable("http_header", "Host"), equals, "www.example.com:8080"), true},
		{"http_header case of the name", compare(variable("http_header", "USER-Agent"), startsWith, "curl"), true},
		{"http_cookie", compare(variable("http_cookie", "blue-cookie"), equals, "horses"), true},
		{"http_cookie number", number(variable("http_cookie", "green-cookie"), 4), true},
		{"http_cookie case of the name", exists(variable("http_cookie", "Blue-Cookie")), false},
		{"absent satisfies no comparison", compare(variable("http_header", "nope"), contains, ""), false},
		{"not absent", not(compare(variable("http_header", "nope"), equals, "x")), true},
		{"exists", exists(variable("http_header", "X-Empty")), true},
		{"exists absent", exists(variable("http_header", "SSLClientCertStatus")), false},
		{"exists client_addr", exists(client), true},
		{"and", and(exists(client), number(variable("client_port"), 1)), false},
		{"or", or(number(variable("client_port"), 1), exists(client)), true},
		{"not or", not(or(number(variable("client_port"), 1), exists(client))), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := compile(t, branch(tt.cond, use("yes"), use("no")))
			d := r.Decide(input())
			if got := r.Pools()[d.Pool] == "yes"; d.Action != UsePool || got != tt.want {
				t.Errorf("decided %+v, pools %v; want %v", d, r.Pools(), tt.want)
			}
		})
	}
}

func TestClassMembers(t *testing.T) {
	r := compile(t, branch(oneOf(variable("client_addr"), "hosts"), use("yes"), use("no")))
	for addr, want := range map[string]string{
		"10.1.1.1": "yes", "10.1.1.2": "no", "10.1.1.9": "yes", "192.168.77.1": "yes", "192.169.0.1": "no",
		"2001:db8::1": "yes", "2001:db8::2": "no", "::ffff:10.1.1.1": "yes",
	} {
		in := &Input{Client: netip.AddrPortFrom(netip.MustParseAddr(addr), 1)}
		if got := r.Pools()[r.Decide(in).Pool]; got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	r = compile(t, branch(oneOf(variable("http_uri"), "words"), use("yes"), use("no")))
	if d := r.Decide(&Input{Request: &fakeRequest{uri: "/b"}}); d.Pool != 0 {
		t.Errorf("uri /b of class words: %+v", d)
	}
}

func TestConditionWithoutRequest(t *testing.T) {
	r := compile(t, branch(exists(variable("http_host")), use("yes"), use("no")))
	in := input()
	in.Request = nil
	if d := r.Decide(in); r.Pools()[d.Pool] != "no" {
		t.Errorf("decided %+v", d)
	}
}

func TestStatements(t *testing.T) {
	uri := func(prefix string) *pb.RuleExpression { return compare(variable("http_uri"), startsWith, prefix) }
	discard := &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{Discard: &pb.RuleDiscard{}}}
	redirect := &pb.RuleStatement{Kind: &pb.RuleStatement_Redirect{Redirect: &pb.RuleRedirect{Url: "https://%h:8443%u"}}}
	fresh := use("web")
	yes := true
	fresh.GetUse().PersistNone = &yes
	r := compile(t, block(
		branch(uri("/a"), use("a"), branch(uri("/b"), use("b"), nil)),
		branch(uri("/gone"), discard, nil),
		branch(uri("/secure"), redirect, nil),
		branch(uri("/start"), fresh, nil),
		branch(uri("/last"), use("a"), nil),
	))
	tests := []struct {
		uri, pool, location string
		action              Action
		persistNone         bool
	}{
		{uri: "/a/1", action: UsePool, pool: "a"},
		{uri: "/b", action: UsePool, pool: "b"},
		{uri: "/gone", action: Discard},
		{uri: "/secure?q", action: Redirect, location: "https://h:8443/secure?q"},
		{uri: "/start", action: UsePool, pool: "web", persistNone: true},
		{uri: "/last", action: UsePool, pool: "a"},
		{uri: "/other", action: Nothing},
	}
	for _, tt := range tests {
		in := input()
		in.Request = &fakeRequest{uri: tt.uri, host: "h:99"}
		d := r.Decide(in)
		if d.Action != tt.action || d.PersistNone != tt.persistNone || d.Action == UsePool && r.Pools()[d.Pool] != tt.pool {
			t.Errorf("%s: %+v", tt.uri, d)
		}
		if d.Location != nil && string(d.Location.Append(nil, in)) != tt.location {
			t.Errorf("%s: location %q", tt.uri, d.Location.Append(nil, in))
		}
	}
	if got := strings.Join(r.Pools(), " "); got != "a b web" {
		t.Errorf("pools %q", got)
	}
}

func TestErrors(t *testing.T) {
	at := func(line uint32, e *pb.RuleExpression) *pb.RuleExpression {
		e.Position = &pb.Position{File: "bigip.conf", Line: line, Column: 7}
		return e
	}
	two := use("web")
	word := "cathost"
	two.GetUse().Selector = &word
	s := branch(and(
		and(at(3, compare(variable("http_uri"), matches, "(")), at(4, oneOf(variable("client_addr"), "nope"))),
		or(at(5, compare(variable("ip_tos"), equals, "1")), at(6, compare(variable("client_addr"), contains, "1"))),
	), two, use())
	_, err := Compile(&pb.Rule{Name: "r", Statement: s}, classes, nil)
	if err == nil {
		t.Fatal("compiled")
	}
	for _, want := range []string{
		`bigip.conf:3:7: bad regular expression "("`, `bigip.conf:4:7: class "nope" not found`,
		`bigip.conf:5:7: variable "ip_tos" is not supported`, `bigip.conf:6:7: client_addr cannot be compared by contains`,
		`use of "cathost" before the pool`, `use without a pool`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	var first *Error
	if !errors.As(err, &first) || first.Position.GetLine() != 3 {
		t.Errorf("first fault %+v", first)
	}
}

func TestErrorsEach(t *testing.T) {
	statements := map[string]*pb.RuleStatement{
		"a statement is missing":                       branch(exists(variable("http_uri")), nil, nil),
		"a condition is missing":                       branch(nil, use("a"), nil),
		"redirect without a URL":                       {Kind: &pb.RuleStatement_Redirect{Redirect: &pb.RuleRedirect{}}},
		"cache is not supported":                       {Kind: &pb.RuleStatement_Cache{Cache: &pb.RuleCache{}}},
		"hash is not supported":                        {Kind: &pb.RuleStatement_Hash{Hash: &pb.RuleHash{}}},
		"http_cookie without a name":                   branch(exists(variable("http_cookie")), use("a"), nil),
		"needs a port":                                 branch(number(variable("client_port"), 65536), use("a"), nil),
		`bad address "10.1.1"`:                         branch(address(variable("client_addr"), "10.1.1", ""), use("a"), nil),
		`bad netmask "ffff::" for address 2001:db8::1`: branch(address(variable("client_addr"), "2001:db8::1", "ffff::"), use("a"), nil),
		`bad netmask "/24"`:                            branch(address(variable("client_addr"), "10.1.1.1", "/24"), use("a"), nil),
		"needs TCP or UDP":                             branch(compare(variable("ip_protocol"), equals, "ICMP"), use("a"), nil),
		"needs a text":                                 branch(comparison(&pb.RuleComparison{Variable: variable("http_uri"), Operator: equals}), use("a"), nil),
		"an operator is missing":                       branch(compare(variable("http_uri"), 0, "x"), use("a"), nil),
		`"/a" in class words is not a `:                branch(oneOf(variable("server_port"), "words"), use("a"), nil),
	}
	for want, s := range statements {
		if _, err := Compile(&pb.Rule{Statement: s}, classes, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

// bytesRequest makes nothing when it is asked.
type bytesRequest struct {
	fakeRequest
	bytes []byte
}

func (r *bytesRequest) URI() []byte { return r.bytes }

// fiveComparisons is a rule that reaches its last statement.
func fiveComparisons(t testing.TB) (*Rule, *Input) {
	var s *pb.RuleStatement
	for _, p := range []string{"/e", "/d", "/c", "/b", "/a"} {
		s = branch(compare(variable("http_uri"), startsWith, p), use(p), s)
	}
	in := input()
	in.Request = &bytesRequest{bytes: []byte("/other")}
	return compile(t, block(s, use("x", "y"))), in
}

func TestDecideAllocatesNothing(t *testing.T) {
	r, in := fiveComparisons(t)
	if n := testing.AllocsPerRun(100, func() { r.Decide(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	r, in := fiveComparisons(b)
	b.ReportAllocs()
	for b.Loop() {
		if d := r.Decide(in); d.Action != UsePool {
			b.Fatal(d)
		}
	}
}
