package config

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestReach(t *testing.T) {
	v := NewTree(pool("a"), pool("b"), pool("c"), ruleOf(1, "r", "b", "c", "b"), virtual("10.0.0.1:80", "a"), virtual("10.0.0.2:80", "b"),
		virtualOf(1, &pb.VirtualServer{Address: "10.0.0.3:80", Rule: proto.String("r")}),
		virtualOf(1, &pb.VirtualServer{Address: "10.0.0.4:80", LasthopPool: proto.String("b")}, "a"))
	if direct, byRule := PoolsOf(v, FindVirtual(v, "10.0.0.3:80")); len(direct) != 0 || !slices.Equal(byRule, []string{"b", "c"}) {
		t.Errorf("PoolsOf: %v %v", direct, byRule)
	}
	addresses := func(list []*pb.VirtualServer) (names []string) {
		for _, vs := range list {
			names = append(names, vs.GetAddress())
		}
		return names
	}
	direct, byRule := VirtualsOf(v, "b")
	if !slices.Equal(addresses(direct), []string{"10.0.0.2:80"}) || !slices.Equal(addresses(byRule), []string{"10.0.0.3:80"}) {
		t.Errorf("VirtualsOf: %v %v", addresses(direct), addresses(byRule))
	}
}

func TestIsHTTP(t *testing.T) {
	reads := func(name pb.RuleVariableName) *pb.Object {
		return &pb.Object{Kind: &pb.Object_Rule{Rule: &pb.Rule{Name: "r", Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{
			Condition: &pb.RuleExpression{Kind: &pb.RuleExpression_Not{Not: &pb.RuleExpression{Kind: &pb.RuleExpression_Exists{
				Exists: &pb.RuleVariable{Name: name},
			}}}},
			Then: &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{}},
		}}}}}}
	}
	redirect := &pb.Object{Kind: &pb.Object_Rule{Rule: &pb.Rule{Name: "r", Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_Redirect{
		Redirect: &pb.RuleRedirect{Url: "http://a/"},
	}}}}}
	byRule := &pb.VirtualServer{Address: "10.0.0.1:80", Rule: proto.String("r")}
	byPool := func(vs *pb.VirtualServer) *pb.VirtualServer {
		vs.Address, vs.Pools = "10.0.0.1:80", []*pb.WeightedPool{{Pool: "p"}}
		return vs
	}
	plain := pool("p")
	for _, tt := range []struct {
		name   string
		object *pb.Object
		vs     *pb.VirtualServer
		http   bool
		reason string
	}{
		{"plain", plain, byPool(&pb.VirtualServer{}), false, ""},
		{"cookie", poolOf(1, &pb.Pool{Name: "p", PersistMode: cookie}), byPool(&pb.VirtualServer{}), true, "pool p uses persist_mode cookie"},
		{"token", poolOf(1, &pb.Pool{Name: "p", PersistMode: token}), byPool(&pb.VirtualServer{}), true, "pool p uses persist_mode token"},
		{"fallback", poolOf(1, &pb.Pool{Name: "p", Fallback: proto.String("h")}), byPool(&pb.VirtualServer{}), true, "pool p has a fallback"},
		{"header", poolOf(1, &pb.Pool{Name: "p", HeaderInsert: proto.String("a:b")}), byPool(&pb.VirtualServer{}), true, "pool p inserts a header"},
		{"rule_reads", reads(pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_URI), byRule, true, "rule r reads http_uri"},
		{"rule_reads_packets", reads(pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_ADDR), byRule, false, ""},
		{"rule_redirects", redirect, byRule, true, "rule r redirects"},
		{"oneconnect", plain, byPool(&pb.VirtualServer{Oneconnect: proto.Bool(true)}), true, "oneconnect"},
		{"x_forwarded_for", plain, byPool(&pb.VirtualServer{XForwardedFor: proto.Bool(true)}), true, "x_forwarded_for"},
		{"trusted_proxies", plain, byPool(&pb.VirtualServer{TrustedProxies: []string{"10.0.0.0/8"}}), true, "trusted_proxies"},
		{"enable", plain, byPool(&pb.VirtualServer{Http: pb.HttpProcessing_HTTP_PROCESSING_ENABLE.Enum()}), true, "http enable"},
		{"disable", plain, byPool(&pb.VirtualServer{Http: pb.HttpProcessing_HTTP_PROCESSING_DISABLE.Enum()}), false, "http disable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if http, reason := IsHTTP(NewTree(tt.object), tt.vs); http != tt.http || reason != tt.reason {
				t.Errorf("%v %q, want %v %q", http, reason, tt.http, tt.reason)
			}
		})
	}
}

func TestListening(t *testing.T) {
	service := func(s *pb.Service) *pb.Object {
		s.Port = 80
		return &pb.Object{Kind: &pb.Object_Service{Service: s}}
	}
	sip := poolOf(1, &pb.Pool{Name: "p", PersistMode: pb.PersistMode_PERSIST_MODE_SIP.Enum()})
	for _, tt := range []struct {
		name     string
		objects  []*pb.Object
		tcp, udp bool
	}{
		{"by_default", []*pb.Object{pool("p")}, true, false},
		{"port_disable", []*pb.Object{pool("p"), service(&pb.Service{Tcp: proto.Bool(false)})}, false, false},
		{"service_udp_enable", []*pb.Object{pool("p"), service(&pb.Service{Udp: proto.Bool(true)})}, true, true},
		{"udp_80_60", []*pb.Object{pool("p"), service(&pb.Service{TimeoutUdp: proto.Uint32(60)})}, true, true},
		{"sip", []*pb.Object{sip}, true, true},
		{"sip_with_udp_disabled", []*pb.Object{sip, service(&pb.Service{Udp: proto.Bool(false)})}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := NewTree(append(tt.objects, virtual("10.0.0.1:80", "p"))...)
			if tcp, udp := Listening(v, FindVirtual(v, "10.0.0.1:80")); tcp != tt.tcp || udp != tt.udp {
				t.Errorf("tcp %v, udp %v", tcp, udp)
			}
		})
	}
}

func TestIdleTimes(t *testing.T) {
	service := func(s *pb.Service) *pb.Object {
		s.Port = 80
		return &pb.Object{Kind: &pb.Object_Service{Service: s}}
	}
	both := service(&pb.Service{TimeoutTcp: proto.Uint32(1005), TimeoutUdp: proto.Uint32(30)})
	for _, tt := range []struct {
		name     string
		virtual  *pb.VirtualServer
		service  *pb.Object
		tcp, udp time.Duration
	}{
		{"nothing", &pb.VirtualServer{}, service(&pb.Service{}), 0, 0},
		{"treaper_and_udp", &pb.VirtualServer{}, both, 1005 * time.Second, 30 * time.Second},
		{"virtual_server", &pb.VirtualServer{IdleTimeout: proto.Uint32(7)}, service(&pb.Service{}), 7 * time.Second, 7 * time.Second},
		{"both", &pb.VirtualServer{IdleTimeout: proto.Uint32(7)}, both, 7 * time.Second, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.virtual.Address = "10.0.0.1:80"
			v := NewTree(tt.service)
			if tcp, udp := IdleTCP(v, tt.virtual), IdleUDP(v, tt.virtual); tcp != tt.tcp || udp != tt.udp {
				t.Errorf("tcp %v, udp %v", tcp, udp)
			}
		})
	}
}

func TestPersistTimeout(t *testing.T) {
	mode := func(m pb.PersistMode) *pb.Pool { return &pb.Pool{PersistMode: m.Enum()} }
	for _, tt := range []struct {
		name string
		pool *pb.Pool
		mode string
		want time.Duration
	}{
		{"B-15_simple_without_a_timeout_is_off", mode(pb.PersistMode_PERSIST_MODE_SIMPLE), "none", 0},
		{"B-15_ssl", mode(pb.PersistMode_PERSIST_MODE_SSL), "ssl", 600 * time.Second},
		{"B-15_sticky_never", mode(pb.PersistMode_PERSIST_MODE_STICKY), "sticky", 0},
		{"sip", mode(pb.PersistMode_PERSIST_MODE_SIP), "sip", 32 * time.Second},
		{"simple", &pb.Pool{PersistMode: simple, SimpleTimeout: proto.Uint32(7)}, "simple", 7 * time.Second},
		{"nothing", &pb.Pool{SimpleTimeout: proto.Uint32(7)}, "none", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := PersistTimeout(tt.pool); got != tt.want || pb.EnumWord(PersistModeOf(tt.pool)) != tt.mode {
				t.Errorf("%s %v", pb.EnumWord(PersistModeOf(tt.pool)), got)
			}
		})
	}
}

func TestMask(t *testing.T) {
	for _, tt := range []struct {
		pool *pb.Pool
		want Mask
	}{
		{&pb.Pool{}, Mask{32, 128}},
		{&pb.Pool{SimpleMask: proto.String("255.255.255.0")}, Mask{24, 128}},
		{&pb.Pool{SimpleMask: proto.String("0.0.0.0")}, Mask{0, 128}},
		{&pb.Pool{SimpleMask6: proto.Uint32(48)}, Mask{32, 48}},
		{&pb.Pool{SimpleMask: proto.String("255.0.255.0"), SimpleMask6: proto.Uint32(129)}, Mask{32, 128}},
	} {
		if got := SimpleMaskOf(tt.pool); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.pool, got, tt.want)
		}
	}
}

func TestMemberState(t *testing.T) {
	node := func(n *pb.Node) *pb.Object { return &pb.Object{Kind: &pb.Object_Node{Node: n}} }
	no := proto.Bool(false)
	for _, tt := range []struct {
		name    string
		objects []*pb.Object
		want    State
	}{
		{"by_default", nil, State{true, true, pb.MemberState_MEMBER_STATE_UNCHECKED}},
		{"disabled", []*pb.Object{node(&pb.Node{Address: "10.0.0.1:80", Enabled: no})}, State{false, true, pb.MemberState_MEMBER_STATE_DISABLED}},
		{"address_disabled", []*pb.Object{node(&pb.Node{Address: "10.0.0.1", Enabled: no})}, State{false, true, pb.MemberState_MEMBER_STATE_ADDRESS_DISABLED}},
		{"down", []*pb.Object{node(&pb.Node{Address: "10.0.0.1:80", Up: no})}, State{true, false, pb.MemberState_MEMBER_STATE_FORCED_DOWN}},
		{"address_down", []*pb.Object{node(&pb.Node{Address: "10.0.0.1", Up: no})}, State{true, false, pb.MemberState_MEMBER_STATE_ADDRESS_DOWN}},
		{"port_disabled", []*pb.Object{{Kind: &pb.Object_Service{Service: &pb.Service{Port: 80, Tcp: no}}}}, State{false, true, pb.MemberState_MEMBER_STATE_PORT_DISABLED}},
		{"another_port", []*pb.Object{node(&pb.Node{Address: "10.0.0.1:81", Enabled: no})}, State{true, true, pb.MemberState_MEMBER_STATE_UNCHECKED}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := MemberState(NewTree(tt.objects...), "10.0.0.1:80"); got != tt.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestScoped(t *testing.T) {
	for _, tt := range []struct {
		name string
		pool *pb.Pool
		want bool
	}{
		{"B-4_none", &pb.Pool{}, false},
		{"B-2_simple", &pb.Pool{PersistMode: simple, SimpleTimeout: proto.Uint32(1)}, true},
		{"B-17_ssl", &pb.Pool{PersistMode: pb.PersistMode_PERSIST_MODE_SSL.Enum()}, true},
		{"B-10_insert", &pb.Pool{PersistMode: cookie}, false},
		{"B-10_hash", &pb.Pool{PersistMode: cookie, CookieMode: pb.CookieMode_COOKIE_MODE_HASH.Enum()}, true},
		{"B-12_sticky", &pb.Pool{PersistMode: sticky}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if Scoped(tt.pool) != tt.want {
				t.Error(!tt.want)
			}
		})
	}
}
