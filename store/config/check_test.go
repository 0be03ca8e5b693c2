package config

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// meta stands on a line of bigip.conf; attributes, one a column from 4 on, stand on it too.
func meta(line uint32, attributes ...string) *pb.Meta {
	m := &pb.Meta{Position: &pb.Position{File: "bigip.conf", Line: line, Column: 1}}
	for i, a := range attributes {
		m.Attributes = append(m.Attributes, &pb.AttributePosition{Attribute: a, Line: line, Column: uint32(4 + i), Length: uint32(len(a))})
	}
	return m
}

// poolOf returns a pool on a line with its members on that line too, from column 50 on.
func poolOf(line uint32, p *pb.Pool, members ...string) *pb.Object {
	for i, m := range members {
		p.Members = append(p.Members, &pb.Member{Address: m, Meta: &pb.Meta{
			Position: &pb.Position{File: "bigip.conf", Line: line, Column: uint32(50 + i)},
		}})
	}
	if p.Meta == nil {
		p.Meta = meta(line)
	}
	return &pb.Object{Kind: &pb.Object_Pool{Pool: p}}
}

func virtualOf(line uint32, v *pb.VirtualServer, pools ...string) *pb.Object {
	v.Meta = meta(line, "use", "netmask", "http", "limit")
	for _, p := range pools {
		v.Pools = append(v.Pools, &pb.WeightedPool{Pool: p})
	}
	return &pb.Object{Kind: &pb.Object_Virtual{Virtual: v}}
}

func ruleOf(line uint32, name string, pools ...string) *pb.Object {
	block := &pb.RuleBlock{}
	for i, p := range pools {
		block.Statements = append(block.Statements, &pb.RuleStatement{
			Position: &pb.Position{File: "bigip.conf", Line: line, Column: uint32(10 + i)},
			Kind:     &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: p}}}},
		})
	}
	return &pb.Object{Kind: &pb.Object_Rule{Rule: &pb.Rule{
		Meta: meta(line), Name: name,
		Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_Block{Block: block}},
	}}}
}

func globalOf(g *pb.Global) *pb.Object { return &pb.Object{Kind: &pb.Object_Global{Global: g}} }

func text(ds []*pb.Diagnostic) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s %d:%d %s", d.GetCode(), d.GetPosition().GetLine(), d.GetPosition().GetColumn(), d.GetMessage())
		if d.GetSuggestion() != "" {
			fmt.Fprintf(&b, " (%s?)", d.GetSuggestion())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var (
	simple = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum()
	sticky = pb.PersistMode_PERSIST_MODE_STICKY.Enum()
	cookie = pb.PersistMode_PERSIST_MODE_COOKIE.Enum()
	token  = pb.PersistMode_PERSIST_MODE_TOKEN.Enum()
	jroute = pb.PersistMode_PERSIST_MODE_JROUTE.Enum()
)

func TestWarnings(t *testing.T) {
	across := func(services, virtuals bool) *pb.Object {
		return globalOf(&pb.Global{PersistAcrossServices: &services, PersistAcrossVirtuals: &virtuals})
	}
	persistent := func(line uint32, name string, members ...string) *pb.Object {
		return poolOf(line, &pb.Pool{Name: name, PersistMode: simple, SimpleTimeout: proto.Uint32(60)}, members...)
	}
	for _, tt := range []struct {
		name    string
		objects []*pb.Object
		changed []string
		want    string
	}{
		{
			"W-1_sticky_with_a_dynamic_mode",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: sticky,
				LbMode: pb.LbMode_LB_MODE_LEAST_CONN.Enum(), Meta: meta(3, "persist_mode", "lb_mode"),
			})},
			nil,
			"W-1 3:5 pool p: persist_mode sticky with lb_mode least_conn: use a static load balancing mode such as round_robin\n",
		},
		{
			"W-1_by_the_global_mode",
			[]*pb.Object{
				globalOf(&pb.Global{Lb: pb.LbMode_LB_MODE_FASTEST.Enum()}),
				poolOf(3, &pb.Pool{Name: "p", PersistMode: sticky, Meta: meta(3, "persist_mode")}),
			},
			[]string{"global"},
			"W-1 3:4 pool p: persist_mode sticky with lb_mode fastest: use a static load balancing mode such as round_robin\n",
		},
		{"W-1_static", []*pb.Object{poolOf(3, &pb.Pool{Name: "p", PersistMode: sticky})}, nil, ""},
		{
			"W-2_other_nodes_on_one_address",
			[]*pb.Object{
				across(true, false),
				persistent(1, "a", "10.1.1.1:80", "10.1.1.2:80"), persistent(2, "b", "10.1.1.2:443", "10.1.1.3:443"),
				persistent(3, "c", "10.1.1.9:80"),
				virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:443"}, "b"), virtualOf(5, &pb.VirtualServer{Address: "10.0.0.1:80"}, "a"),
				virtualOf(6, &pb.VirtualServer{Address: "10.0.0.2:80"}, "c"),
			},
			nil,
			"W-2 5:4 persist_on_any_port_same_vip is on: virtual servers 10.0.0.1:443 and 10.0.0.1:80 should include the same node addresses: " +
				"10.0.0.1:443 lacks 10.1.1.1, 10.0.0.1:80 lacks 10.1.1.3\n",
		},
		{
			"W-2_at_a_later_change",
			[]*pb.Object{
				across(true, false),
				persistent(1, "a", "10.1.1.1:80"), persistent(2, "b", "10.1.1.2:443"),
				virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:443"}, "b"), virtualOf(5, &pb.VirtualServer{Address: "10.0.0.1:80"}, "a"),
			},
			[]string{"pool/b"},
			"W-2 5:4 persist_on_any_port_same_vip is on: virtual servers 10.0.0.1:443 and 10.0.0.1:80 should include the same node addresses: " +
				"10.0.0.1:443 lacks 10.1.1.1, 10.0.0.1:80 lacks 10.1.1.2\n",
		},
		{
			"W-3_other_nodes_anywhere",
			[]*pb.Object{
				across(true, true),
				persistent(1, "a", "10.1.1.1:80"), persistent(2, "b", "10.1.1.1:443", "10.1.1.3:443"),
				virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"}, "a"), virtualOf(5, &pb.VirtualServer{Address: "10.0.0.2:443"}, "b"),
			},
			[]string{"global"},
			"W-3 5:4 persist_on_any_vip is on: virtual servers 10.0.0.1:80 and 10.0.0.2:443 should include the same node addresses: " +
				"10.0.0.1:80 lacks 10.1.1.3\n",
		},
		{"W-3_equal_nodes", []*pb.Object{
			across(false, true),
			persistent(1, "a", "10.1.1.1:80"), persistent(2, "b", "10.1.1.1:443"),
			virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"}, "a"), virtualOf(5, &pb.VirtualServer{Address: "10.0.0.2:443"}, "b"),
		}, nil, ""},
		{"W-4_simple_mask_without_simple", []*pb.Object{poolOf(3, &pb.Pool{
			Name: "p", SimpleMask: proto.String("255.255.255.0"),
			Meta: meta(3, "simple_mask"),
		})}, nil, "W-4 3:4 pool p: simple_mask works only with persist_mode simple\n"},
		{
			"W-5_cookie_expiration_with_passive",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: cookie,
				CookieMode: pb.CookieMode_COOKIE_MODE_PASSIVE.Enum(), CookieExpiration: proto.Uint64(60), Meta: meta(3, "cookie_mode", "cookie_expiration"),
			})},
			nil,
			"W-5 3:5 pool p: cookie_expiration is not used with cookie_mode passive\n",
		},
		{
			"W-6_rewrite_by_rule",
			[]*pb.Object{ruleOf(7, "r", "p"), poolOf(3, &pb.Pool{
				Name: "p", PersistMode: cookie,
				CookieMode: pb.CookieMode_COOKIE_MODE_REWRITE.Enum(), Meta: meta(3, "persist_mode", "cookie_mode"),
			})},
			[]string{"rule/r"},
			"W-6 3:5 pool p: cookie_mode rewrite in a pool of rule r: blank cookies of 75 zeros stay as they are, let the server send 120\n",
		},
		{
			"W-7_sticky_not_wildcard",
			[]*pb.Object{
				poolOf(3, &pb.Pool{Name: "p", PersistMode: sticky, Meta: meta(3, "persist_mode")}),
				virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"}, "p"), virtualOf(5, &pb.VirtualServer{Address: "0.0.0.0:80"}, "p"),
				virtualOf(6, &pb.VirtualServer{Address: "192.168.1.0:0", Netmask: proto.String("255.255.255.0")}, "p"),
			},
			[]string{"virtual/10.0.0.1:80"},
			"W-7 3:4 pool p: persist_mode sticky on virtual server 10.0.0.1:80, which is not a wildcard: all clients reach one member\n",
		},
		{
			"W-8_split",
			[]*pb.Object{
				pool("a", "10.1.1.1:80"), persistent(2, "b", "10.1.1.2:80"),
				{Kind: &pb.Object_Virtual{Virtual: &pb.VirtualServer{Meta: meta(4, "use"), Address: "10.0.0.1:80", Pools: []*pb.WeightedPool{
					{Pool: "a", Weight: proto.Uint32(1)}, {Pool: "b", Weight: proto.Uint32(2)},
				}}}},
			},
			nil,
			"W-8 4:4 virtual server 10.0.0.1:80: a split in which only some pools persist: b; not a\n",
		},
		{
			"W-12_clear_tokens",
			[]*pb.Object{
				poolOf(3, &pb.Pool{Name: "p", PersistMode: token}), pool("q"),
				virtualOf(4, &pb.VirtualServer{Address: "192.0.2.1:80"}, "p"), virtualOf(5, &pb.VirtualServer{Address: "[2001:db8::1]:80"}, "p"),
				virtualOf(6, &pb.VirtualServer{Address: "10.0.0.1:80"}, "p"), virtualOf(7, &pb.VirtualServer{Address: "127.0.0.1:80"}, "p"),
				virtualOf(8, &pb.VirtualServer{Address: "192.0.2.2:80"}, "q"), virtualOf(9, &pb.VirtualServer{Address: "0.0.0.0:80"}, "p"),
			},
			nil,
			"W-12 4:4 virtual server 192.0.2.1:80: the tokens of pool p show the addresses of members: there is no cookie_key\n" +
				"W-12 5:4 virtual server [2001:db8::1]:80: the tokens of pool p show the addresses of members: there is no cookie_key\n",
		},
		{
			"W-12_encrypted_tokens",
			[]*pb.Object{
				{Kind: &pb.Object_Global{Global: &pb.Global{CookieKeys: []*pb.CookieKey{{Name: "k", File: "k"}}}}},
				poolOf(3, &pb.Pool{Name: "p", PersistMode: token}), virtualOf(4, &pb.VirtualServer{Address: "192.0.2.1:80"}, "p"),
			},
			nil,
			"",
		},
		{
			"W-9_mirror_persist",
			[]*pb.Object{poolOf(3, &pb.Pool{Name: "p", MirrorPersist: proto.Bool(true), Meta: meta(3, "mirror persist")})},
			nil,
			"W-9 3:4 pool p: mirror persist enable is kept, not in effect\n",
		},
		{
			"W-10_simple_timeout_absent",
			[]*pb.Object{poolOf(3, &pb.Pool{Name: "p", PersistMode: simple, Meta: meta(3, "persist_mode")})},
			nil,
			"W-10 3:4 pool p: simple_timeout is not given: persistence is off\n",
		},
		{
			"W-10_simple_timeout_0",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: simple, SimpleTimeout: proto.Uint32(0),
				Meta: meta(3, "persist_mode", "simple_timeout"),
			})},
			nil,
			"W-10 3:5 pool p: simple_timeout is 0: persistence is off\n",
		},
		{
			"W-11_one_node_twice",
			[]*pb.Object{across(true, false), persistent(3, "p", "10.1.1.1:8443", "10.1.1.2:8443", "10.1.1.1:9443")},
			nil,
			"W-11 3:52 pool p: node 10.1.1.1 is a member twice, 10.1.1.1:8443 and 10.1.1.1:9443: records of other pools name only its address\n",
		},
		{"W-11_only_under_a_wide_scope", []*pb.Object{persistent(3, "p", "10.1.1.1:8443", "10.1.1.1:9443")}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := Validate(NewTree(tt.objects...), tt.changed)
			if got := text(ds); got != tt.want {
				t.Errorf("got  %swant %s", got, tt.want)
			}
			for _, d := range ds {
				if d.GetSeverity() != pb.Severity_SEVERITY_WARNING {
					t.Errorf("not a warning: %v", d)
				}
			}
		})
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name    string
		objects []*pb.Object
		changed []string
		want    string
	}{
		{
			"undefined_pool",
			[]*pb.Object{pool("web"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"}, "wbe")},
			nil,
			`undefined 4:4 virtual server 10.0.0.1:80: pool "wbe" not found (web?)` + "\n",
		},
		{
			"undefined_rule",
			[]*pb.Object{virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Rule: proto.String("r")})},
			nil,
			`undefined 4:4 virtual server 10.0.0.1:80: rule "r" not found` + "\n",
		},
		{"undefined_pool_of_a_rule", []*pb.Object{ruleOf(2, "r", "web")}, nil, `undefined 2:10 rule r: pool "web" not found` + "\n"},
		{
			"pool_in_use",
			[]*pb.Object{ruleOf(2, "r", "web"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"}, "web")},
			[]string{"pool/web"},
			"in_use 0:0 pool web is in use by rule r, virtual server 10.0.0.1:80\n",
		},
		{
			"rule_in_use",
			[]*pb.Object{virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Rule: proto.String("r")})},
			[]string{"rule/r"},
			"in_use 0:0 rule r is in use by virtual server 10.0.0.1:80\n",
		},
		{
			"no_pool",
			[]*pb.Object{virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"})},
			nil,
			"missing 4:1 virtual server 10.0.0.1:80: names no pool and no rule to use\n",
		},
		{
			"netmask",
			[]*pb.Object{pool("web"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Netmask: proto.String("255.0.255.0")}, "web")},
			nil,
			"value 4:5 virtual server 10.0.0.1:80: netmask 255.0.255.0 has a one after a zero\n",
		},
		{
			"netmask_of_ipv6",
			[]*pb.Object{pool("web"), virtualOf(4, &pb.VirtualServer{Address: "[2001:db8::1]:80", Netmask: proto.String("255.0.0.0")}, "web")},
			nil,
			"conflict 4:5 virtual server [2001:db8::1]:80: netmask is for IPv4 addresses\n",
		},
		{
			"sticky_mask",
			[]*pb.Object{poolOf(3, &pb.Pool{Name: "p", StickyMask: proto.String("/24"), Meta: meta(3, "sticky_mask")})},
			nil,
			"value 3:4 pool p: sticky_mask \"/24\" is not a dotted mask such as 255.255.255.0\n",
		},
		{
			"http_disable",
			[]*pb.Object{
				poolOf(3, &pb.Pool{Name: "p", PersistMode: cookie}),
				virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Http: pb.HttpProcessing_HTTP_PROCESSING_DISABLE.Enum()}, "p"),
			},
			[]string{"pool/p"},
			"conflict 4:6 virtual server 10.0.0.1:80: http disable, but HTTP is needed: pool p uses persist_mode cookie\n",
		},
		{
			"samesite_none",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: cookie,
				CookieSamesite: pb.CookieSamesite_COOKIE_SAMESITE_NONE.Enum(),
			})},
			nil,
			"conflict 3:1 pool p: cookie_samesite none needs cookie_secure enable: browsers refuse the cookie otherwise\n",
		},
		{
			"fallback_is_primary",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: simple, SimpleTimeout: proto.Uint32(1),
				SslFallback: pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum(),
			})},
			nil,
			"conflict 3:1 pool p: ssl_fallback simple is what persist_mode simple does already\n",
		},
		{
			"G-20_permanent",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: token,
				TokenLifetime: pb.TokenLifetime_TOKEN_LIFETIME_PERMANENT.Enum(),
			})},
			nil,
			"missing 3:1 pool p: token_lifetime permanent needs token_timeout\n",
		},
		{
			"G-20_header",
			[]*pb.Object{poolOf(3, &pb.Pool{
				Name: "p", PersistMode: token, TokenPath: proto.String("/"),
				TokenType: pb.TokenType_TOKEN_TYPE_HEADER.Enum(), TokenLifetime: pb.TokenLifetime_TOKEN_LIFETIME_SESSION.Enum(),
			})},
			nil,
			"missing 3:1 pool p: token_type header needs token_name\n" +
				"conflict 3:1 pool p: token_path does not go with token_type header\n" +
				"conflict 3:1 pool p: token_lifetime does not go with token_type header\n",
		},
		{
			"G-20_names",
			[]*pb.Object{poolOf(3, &pb.Pool{Name: "p", PersistMode: token, TokenName: proto.String("a b"), TokenPath: proto.String("x")})},
			nil,
			"value 3:1 pool p: token_name \"a b\" is not a name of 1 to 256 letters, digits and !#$%&'*+-.^_`|~\n" +
				"value 3:1 pool p: token_path is not a path of 1 to 1024 characters that begins with /\n",
		},
		{
			"G-20_equal_names",
			[]*pb.Object{
				poolOf(1, &pb.Pool{Name: "a", PersistMode: token, TokenName: proto.String("X-T"), TokenType: pb.TokenType_TOKEN_TYPE_HEADER.Enum()}),
				poolOf(2, &pb.Pool{Name: "b", PersistMode: token, TokenName: proto.String("x-t"), TokenType: pb.TokenType_TOKEN_TYPE_HEADER.Enum()}),
				ruleOf(3, "r", "a", "b"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Rule: proto.String("r")}),
			},
			[]string{"pool/b"},
			`conflict 4:4 virtual server 10.0.0.1:80: pools a and b use the same token_name "x-t"` + "\n",
		},
		{
			"G-9_name_of_another_pool",
			[]*pb.Object{
				poolOf(1, &pb.Pool{Name: "a", PersistMode: token}),
				poolOf(2, &pb.Pool{Name: "b", PersistMode: token, TokenName: proto.String("gwsp-ca978112ca")}),
				ruleOf(3, "r", "a", "b"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Rule: proto.String("r")}),
			},
			nil,
			`conflict 4:4 virtual server 10.0.0.1:80: pools a and b use the same token_name "gwsp-ca978112ca"` + "\n",
		},
		{
			"J-4_equal_routes",
			[]*pb.Object{
				poolOf(1, &pb.Pool{Name: "p", PersistMode: jroute, Members: []*pb.Member{
					{Address: "10.1.1.1:80", Route: proto.String("a")},
					{Address: "10.1.1.2:80"},
					{Address: "10.1.1.3:80", Route: proto.String("a")},
					{Address: "10.1.1.4:80", Route: proto.String(opaqueRoute("10.1.1.2:80"))},
					{Address: "10.1.1.5:80", Route: proto.String("a:b")},
				}}),
				poolOf(2, &pb.Pool{Name: "q", Members: []*pb.Member{{Address: "10.1.1.1:80", Route: proto.String("")}}}),
			},
			nil,
			"duplicate 0:0 pool p: members 10.1.1.1:80 and 10.1.1.3:80 have the same route \"a\"\n" +
				"duplicate 0:0 pool p: members 10.1.1.2:80 and 10.1.1.4:80 have the same route \"" + opaqueRoute("10.1.1.2:80") + "\"\n" +
				"value 0:0 pool p: member 10.1.1.5:80: route \"a:b\" holds something else than letters, digits and !$&'*+-.^_`|~\n" +
				"value 0:0 pool q: member 10.1.1.1:80: route \"\" holds something else than letters, digits and !$&'*+-.^_`|~\n",
		},
		{
			"J_words",
			[]*pb.Object{
				poolOf(1, &pb.Pool{
					Name: "p", JrouteCookie: proto.String("a b"), JrouteSuffix: proto.String(";"), JrouteErrorUrl: proto.String("sorry"),
					JrouteContext: []string{"/ok", "app", "/a;b"},
				}),
				poolOf(2, &pb.Pool{Name: "q", JrouteCookie: proto.String("JSESSIONID")}),
				poolOf(3, &pb.Pool{
					Name: "r", JrouteCookie: proto.String("R"), JrouteSessionCookie: proto.String("S"), JrouteSuffix: proto.String("!"),
					JrouteErrorUrl: proto.String("https://sorry/?a=b"), JrouteContext: []string{"/", "/app/"},
				}),
			},
			nil,
			"value 1:1 pool p: jroute_cookie \"a b\" is not the name of a cookie\n" +
				"value 1:1 pool p: jroute_suffix \";\" cannot stand in a cookie\n" +
				"value 1:1 pool p: jroute_error_url \"sorry\" is neither a path nor begins with http:// or https://\n" +
				"value 1:1 pool p: jroute_context \"app\" is not a path that begins with /\n" +
				"value 1:1 pool p: jroute_context \"/a;b\" is not a path that begins with /\n" +
				"conflict 2:1 pool q: jroute_cookie and jroute_session_cookie are both \"JSESSIONID\"\n",
		},
		{
			"G-20_header_of_HTTP",
			[]*pb.Object{
				poolOf(1, &pb.Pool{Name: "a", PersistMode: token, TokenName: proto.String("Content-Length"), TokenType: pb.TokenType_TOKEN_TYPE_HEADER.Enum()}),
				poolOf(2, &pb.Pool{Name: "b", PersistMode: token, TokenName: proto.String("Content-Length")}),
			},
			nil,
			"value 1:1 pool a: token_name Content-Length is a header of HTTP itself\n",
		},
		{
			"G-16_timeout_0",
			[]*pb.Object{poolOf(3, &pb.Pool{Name: "p", TokenTimeoutMs: proto.Uint64(0)})},
			nil,
			"value 3:1 pool p: token_timeout must be more than 0\n",
		},
		{
			"weights",
			[]*pb.Object{pool("a"), pool("b"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80"}, "a", "b", "a")},
			nil,
			"missing 4:4 virtual server 10.0.0.1:80: pool a has no weight: each pool of a split has one\n" +
				"missing 4:4 virtual server 10.0.0.1:80: pool b has no weight: each pool of a split has one\n" +
				"missing 4:4 virtual server 10.0.0.1:80: pool a has no weight: each pool of a split has one\n" +
				"duplicate 4:4 virtual server 10.0.0.1:80: pool a is given twice\n",
		},
		{
			"weights_0",
			[]*pb.Object{pool("a"), pool("b"), {Kind: &pb.Object_Virtual{Virtual: &pb.VirtualServer{
				Meta: meta(4, "use"), Address: "10.0.0.1:80",
				Pools: []*pb.WeightedPool{{Pool: "a", Weight: proto.Uint32(0)}, {Pool: "b", Weight: proto.Uint32(0)}},
			}}}},
			nil,
			"value 4:4 virtual server 10.0.0.1:80: all weights are 0\n",
		},
		{
			"member_twice",
			[]*pb.Object{poolOf(3, &pb.Pool{Name: "p"}, "10.1.1.1:80", "10.1.1.1:80")},
			nil,
			"duplicate 3:51 pool p: member 10.1.1.1:80 is given twice\n",
		},
		{"empty_pool", []*pb.Object{poolOf(3, &pb.Pool{Name: "p"})}, nil, ""},
		{
			"limit",
			[]*pb.Object{
				pool("web"), virtualOf(4, &pb.VirtualServer{Address: "10.0.0.1:80", Limit: proto.Uint32(65536)}, "web"),
				{Kind: &pb.Object_Node{Node: &pb.Node{Address: "10.1.1.1", Limit: proto.Uint32(65535)}}},
			},
			nil,
			"value 4:7 virtual server 10.0.0.1:80: limit 65536 is not between 0 and 65535\n",
		},
		{
			"class_kept_as_text",
			[]*pb.Object{
				pool("web"),
				{Kind: &pb.Object_Kept{Kept: &pb.Kept{Keyword: "class", Text: "class images{ \".gif\" }"}}},
				{Kind: &pb.Object_Rule{Rule: &pb.Rule{Name: "r", Statement: &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{
					Condition: &pb.RuleExpression{Kind: &pb.RuleExpression_And{And: &pb.RuleBinary{Left: oneOf("images"), Right: oneOf("image")}}},
					Then:      &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{}},
				}}}}}},
			},
			nil,
			`undefined 0:0 rule r: class "image" not found` + "\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := Validate(NewTree(tt.objects...), tt.changed)
			if got := text(ds); got != tt.want {
				t.Errorf("got  %swant %s", got, tt.want)
			}
			for _, d := range ds {
				if d.GetSeverity() != pb.Severity_SEVERITY_ERROR {
					t.Errorf("not an error: %v", d)
				}
			}
		})
	}
}

func oneOf(class string) *pb.RuleExpression {
	return &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: &pb.RuleComparison{Value: &pb.RuleComparison_Class{Class: class}}}}
}

// TestTooManyObjects wants a limit that a mistake in a script reaches before the machine's memory does.
func TestTooManyObjects(t *testing.T) {
	o := NewOverlay(nil)
	for i := range MaxObjects + 1 {
		o.Put(&pb.Object{Kind: &pb.Object_Node{Node: &pb.Node{Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}}})
	}
	if got := text(Validate(o, nil)); got != "limit 0:0 65537 objects are too many: the most is 65536\n" {
		t.Error(got)
	}
}

func BenchmarkValidateOne(b *testing.B) {
	t := large(10000)
	for range b.N {
		Validate(t, []string{"pool/p05000"})
	}
}

func BenchmarkValidateAll20000(b *testing.B) {
	t := large(10000)
	for range b.N {
		Validate(t, nil)
	}
}

// TestCheckLegacy: what nothing acts on may name what is not known here: the old unit knew more. That is a warning.
func TestCheckLegacy(t *testing.T) {
	monitor := func(name, use string) *pb.Object {
		return &pb.Object{Kind: &pb.Object_Monitor{Monitor: &pb.Monitor{Name: name, Use: use}}}
	}
	uses := func(target string, monitors ...string) *pb.Object {
		return &pb.Object{Kind: &pb.Object_MonitorUse{MonitorUse: &pb.MonitorUse{Target: target, Monitors: monitors}}}
	}
	proxy := &pb.Object{Kind: &pb.Object_Proxy{Proxy: &pb.Proxy{Address: "10.0.0.9:443", TargetVirtual: proto.String("10.0.0.1:80")}}}
	for _, tt := range []struct {
		name    string
		objects []*pb.Object
		changed []string
		want    string
	}{
		{"templates_are_known", []*pb.Object{monitor("m", "http"), uses("*:80", "m", "tcp_echo"), uses("10.1.1.1", "https_443")}, nil, ""},
		{
			"a_template_of_another_release",
			[]*pb.Object{monitor("m", "soap"), uses("*:80", "mm")},
			nil,
			"undefined 0:0 monitor m: monitor \"soap\" not found\nundefined 0:0 monitor of node *:80: monitor \"mm\" not found (m?)\n",
		},
		{"kept_as_text", []*pb.Object{uses("*:80", "m"), {Kind: &pb.Object_Kept{Kept: &pb.Kept{Keyword: "monitor", Text: "monitor m { colour red }"}}}}, nil, ""},
		{"a_proxy_without_its_virtual_server", []*pb.Object{proxy}, nil, "undefined 0:0 proxy 10.0.0.9:443: virtual server \"10.0.0.1:80\" not found\n"},
		{"a_virtual_server_that_a_proxy_names_can_go", []*pb.Object{proxy}, []string{"virtual/10.0.0.1:80"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := Validate(NewTree(tt.objects...), tt.changed)
			for i, d := range ds {
				if d.GetSeverity() != pb.Severity_SEVERITY_WARNING {
					t.Errorf("no warning: %v", ds[i])
				}
			}
			if got := text(ds); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
	if ds := Validate(NewTree(uses("10.1.1.1", "m")), []string{"monitor/m"}); len(ds) != 1 || ds[0].GetCode() != CodeInUse || ds[0].GetSeverity() != pb.Severity_SEVERITY_ERROR {
		t.Errorf("a monitor that is in use: %v", ds)
	}
}

// TestManySuggestions: among many names the first undefined ones are searched for, and the others are faults all the same.
func TestManySuggestions(t *testing.T) {
	var objects []*pb.Object
	for i := range 10000 {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Pool{Pool: &pb.Pool{Name: fmt.Sprintf("pool_%05d", i)}}})
	}
	for i := range 100 {
		objects = append(objects, virtualOf(uint32(i), &pb.VirtualServer{Address: fmt.Sprintf("10.0.0.%d:80", i)}, "poool_00001"))
	}
	suggested := 0
	faults := Validate(NewTree(objects...), nil)
	for _, d := range faults {
		if d.GetSuggestion() == "pool_00001" {
			suggested++
		}
	}
	if len(faults) != 100 || suggested != maxCompared/10000 {
		t.Errorf("%d faults, %d with a suggestion", len(faults), suggested)
	}
}

// TestRouteOf/J-4: the values that servers with this form have for their instances.
func TestRouteOf(t *testing.T) {
	for of, want := range map[string]string{"cluster1/instance1": "AGZGZEkklnQDkUAM", "cluster1/instance2": "pQRol8NcSfT7z_gG"} {
		if got := opaqueRoute(of); got != want {
			t.Errorf("%s: %s, want %s", of, got, want)
		}
	}
	m := &pb.Member{Address: "10.1.1.1:80"}
	if got := RouteOf(m); got != opaqueRoute("10.1.1.1:80") || !isRoute(got) {
		t.Errorf("route %q", got)
	}
	m.Route = proto.String("a.b")
	if got := RouteOf(m); got != "a.b" {
		t.Errorf("route %q", got)
	}
}
