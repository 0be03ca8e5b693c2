package grammar

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	pb "bigpipe/proto/bigpipe/v1"
)

// command parses one command and fails on faults.
func command(t *testing.T, text string) []*Statement {
	t.Helper()
	statements, faults := ParseCommand(&pb.Position{}, []byte(text))
	if len(faults) > 0 {
		var b bytes.Buffer
		Render(&b, faults, false)
		t.Fatalf("%s:\n%s", text, b.String())
	}
	return statements
}

// TestParse/B-T16: every command of seed 002 with its placeholders filled.
func TestParse(t *testing.T) {
	t.Run("B-T16_commands_of_seed_002", func(t *testing.T) {
		for text, want := range map[string]Action{
			"pool p { lb_mode rr persist_mode \ncookie cookie_mode insert cookie_expiration 1d 02:03:04 member 10.1.1.1:80 }":                   ActionDefine,
			"pool p { persist_mode \\\ncookie cookie_mode rewrite cookie_expiration 10d member 10.1.1.1:80 }":                                   ActionDefine,
			"pool p { persist_mode \ncookie cookie_mode passive member 10.1.1.1:80 }":                                                           ActionDefine,
			"pool p { persist_mode \ncookie cookie_mode hash cookie_hash_name c cookie_hash_offset 2 cookie_hash_length 4 member 10.1.1.1:80 }": ActionDefine,
			"pool p modify { persist_mode sticky enable sticky_mask 255.255.0.0 }":                                                              ActionModify,
			"pool p modify { persist_mode sticky disable \nsticky_mask 255.255.0.0 }":                                                           ActionModify,
			"pool p sticky clear": ActionStickyClear,
			"pool p persist show": ActionPersistShow,
			"pool p modify { lb_mode round_robin \npersist_mode simple simple_timeout 60 simple_mask 255.255.255.0 }": ActionModify,
			"pool classc_pool modify { persist_mode simple \nsimple_timeout 1200 simple_mask 255.255.255.0 }":         ActionModify,
			"pool classc_pool modify { simple_mask none }":                                                            ActionModify,

			"pool classc_pool persist show":                  ActionPersistShow,
			"vip v1:http use pool http_pool":                 ActionSet,
			"vip v1:ssl use pool ssl_pool":                   ActionSet,
			"vip v2:ssl use pool ssl_pool":                   ActionSet,
			"vip v1:http use pool http1_pool":                ActionSet,
			"vip v1:ssl use pool ssl1_pool":                  ActionSet,
			"vip v2:http use pool http2_pool":                ActionSet,
			"vip v2:ssl use pool ssl2_pool":                  ActionSet,
			"sysctl -w bigip.persist_on_any_port_same_vip=1": ActionSet,
			"sysctl -w bigip.persist_on_any_port_same_vip=0": ActionSet,
			"sysctl -w bigip.persist_on_any_vip=1":           ActionSet,
			"sysctl -w bigip.persist_on_any_vip=0":           ActionSet,
			"vip 10.0.0.1:80 persist 300":                    ActionVirtualPersist,
			"vip 10.0.0.1:80 persist mask 255.255.255.0":     ActionVirtualPersistMask,
			"vip 10.0.0.1:80 sticky enable":                  ActionVirtualSticky,
			"vip 10.0.0.1:80 sticky disable":                 ActionVirtualSticky,
			"vip 10.0.0.1:80 sticky clear":                   ActionVirtualSticky,
			"vip 10.0.0.1:80 sticky mask 255.255.0.0":        ActionVirtualStickyMask,
			"vip 10.0.0.1:80 mirror persist enable":          ActionVirtualMirrorPersist,
			"vip 10.0.0.1:80 mirror persist disable":         ActionVirtualMirrorPersist,
			"persist 80 300":                                 ActionPortPersist,
		} {
			if got := command(t, text); len(got) != 1 || got[0].Action != want {
				t.Errorf("%s: %d statements, action %d, want %d", text, len(got), got[0].Action, want)
			}
		}
	})
	t.Run("B-T17_refused_queries_are_recognised", func(t *testing.T) {
		for _, text := range []string{
			"persist show", "persist dump", "persist mask show", "sticky show", "sticky dump", "sticky mask show", "mirror persist show",
		} {
			st := command(t, "vip 10.0.0.1:80 "+text)[0]
			if st.Action != ActionVirtualQuery || strings.Join(st.Words, " ") != text || st.Key != "virtual/10.0.0.1:80" {
				t.Errorf("%s: %+v", text, st)
			}
		}
		if st := command(t, "persist http show")[0]; st.Action != ActionPortPersistShow || st.Port != 80 {
			t.Errorf("persist http show: %+v", st)
		}
	})
	t.Run("B-22_sticky_disable", func(t *testing.T) {
		st := command(t, "pool p modify { persist_mode sticky disable sticky_mask 255.255.0.0 }")[0]
		if !st.StickyDisable || st.Object.GetPool().GetPersistMode() != pb.PersistMode_PERSIST_MODE_NONE || st.Object.GetPool().GetStickyMask() != "255.255.0.0" {
			t.Errorf("%+v", st)
		}
	})
	t.Run("B-11_mask_none_clears", func(t *testing.T) {
		st := command(t, "pool p modify { simple_mask none }")[0]
		if d := cmp.Diff([]string{"simple_mask"}, st.Cleared); d != "" || st.Object.GetPool().SimpleMask != nil {
			t.Error(d, st.Object)
		}
	})
	t.Run("B-18_node_list", func(t *testing.T) {
		st := command(t, "vip 10.0.0.1:80 { define 10.1.1.1:80 10.2.2.2:http special ssl 600 300 }")[0]
		want := &pb.Pool{
			LbMode: pb.LbMode_LB_MODE_ROUND_ROBIN.Enum(), PersistMode: pb.PersistMode_PERSIST_MODE_SSL.Enum(),
			Members: []*pb.Member{{Address: "10.1.1.1:80"}, {Address: "10.2.2.2:80"}},
		}
		a, b := Pools.Find("ssl_timeout"), Pools.Find("simple_timeout")
		if st.NodeList.GetSslTimeout() != 600 || st.NodeList.GetSimpleTimeout() != 300 || a == nil || b == nil {
			t.Errorf("timers: %v", st.NodeList)
		}
		if d := cmp.Diff(want, st.NodeList, protocmp.Transform(), protocmp.IgnoreMessages(&pb.Meta{}),
			protocmp.IgnoreFields(&pb.Pool{}, "ssl_timeout", "simple_timeout", "meta"), protocmp.IgnoreFields(&pb.Member{}, "meta")); d != "" {
			t.Error(d)
		}
	})
}

// TestSplit checks where statements end: keywords, not lines, and not in the middle of an attribute.
func TestSplit(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"several on a line":      {"tping_node 5 timeout_node 16", []string{"tping_node 5", "timeout_node 16"}},
		"three words on a line":  {"tping_svc 80 61 timeout_svc 80 129 mirror enable", []string{"tping_svc 80 61", "timeout_svc 80 129", "mirror enable"}},
		"brace on the next line": {"pool a\n{\n}\nvip 10.0.0.1:80 unit 1\n{ use pool a }", []string{"pool a\n{\n}", "vip 10.0.0.1:80 unit 1\n{ use pool a }"}},
		"list of ports":          {"port 80 443 22 enable pool a { }", []string{"port 80 443 22 enable", "pool a { }"}},
		"group before the value": {"ratio { 10.1.1.1 10.1.1.2 } 1 ratio 10.1.1.3 2", []string{"ratio { 10.1.1.1 10.1.1.2 } 1", "ratio 10.1.1.3 2"}},
		"attribute words":        {"vip 10.0.0.1:80 mirror persist enable mirror enable", []string{"vip 10.0.0.1:80 mirror persist enable mirror enable"}},
		"new line, new word":     {"vip 10.0.0.1:80 use pool a\nmirror enable", []string{"vip 10.0.0.1:80 use pool a", "mirror enable"}},
		"use over lines":         {"vip 10.0.0.1:80\nuse pool a\nnetmask 255.0.0.0\npool b { }", []string{"vip 10.0.0.1:80\nuse pool a\nnetmask 255.0.0.0", "pool b { }"}},
		"use pool over lines":    {"vip 10.0.0.1:80 use\npool a pool b { }", []string{"vip 10.0.0.1:80 use\npool a", "pool b { }"}},
		"weighted use":           {"vip 10.0.0.1:80 use pool a weight 7 pool b weight 3 pool c { }", []string{"vip 10.0.0.1:80 use pool a weight 7 pool b weight 3", "pool c { }"}},
		"name like a keyword":    {"lb ratio pool mirror { }", []string{"lb ratio", "pool mirror { }"}},
		"backslash":              {"lb \\\nratio\\\r\nmirror enable", []string{"lb \\\nratio", "mirror enable"}},
		"crlf":                   {"lb ratio\r\nmirror enable\r\n", []string{"lb ratio", "mirror enable"}},
		"comments":               {"#type http\nlb ratio#x\n # y\nmirror enable", []string{"lb ratio", "mirror enable"}},
		"monitor comments":       {"monitor m {\n//reverse }\nurl \"http://x\" }\nlb ratio", []string{"monitor m {\n//reverse }\nurl \"http://x\" }", "lb ratio"}},
		"snat timeout":           {"snat timeout udp 60 snat limit 0", []string{"snat timeout udp 60", "snat limit 0"}},
		"node ratio":             {"node 10.1.1.1 ratio 3 node 10.1.1.2 disable", []string{"node 10.1.1.1 ratio 3", "node 10.1.1.2 disable"}},
		"persist filter":         {"pool a persist dump node 10.1.1.1 virtual 10.0.0.1:80", []string{"pool a persist dump node 10.1.1.1 virtual 10.0.0.1:80"}},
		"stats reset":            {"pool a stats reset\nreset", []string{"pool a stats reset", "reset"}},
		"global words":           {"global persist timer limit global mirror enable", []string{"global persist timer limit", "global mirror enable"}},
		"unknown statement":      {"foo bar { baz } lb ratio", []string{"foo bar { baz }", "lb ratio"}},
		"service name sip":       {"port 80 sip enable udp sip 32", []string{"port 80 sip enable", "udp sip 32"}},
	} {
		t.Run(name, func(t *testing.T) {
			bounds, faults := Split("f", []byte(c.text))
			var got []string
			for _, b := range bounds {
				got = append(got, b.Text)
				if b.Open {
					t.Errorf("%q is open", b.Text)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" || len(faults) > 0 {
				t.Errorf("%s%v", d, faults)
			}
		})
	}
}

func TestSplitOpen(t *testing.T) {
	for text, open := range map[string]bool{
		"pool a {":                    true,
		"pool a { member 10.1.1.1:80": true,
		"rule r '{ use ( a )":         true,
		"rule r { if ( x":             true,
		"pool a \\":                   true,
		"pool a \\\n":                 true,
		"pool a { }":                  false,
		"mirror enable":               false,
		"pool a { } #{":               false,
	} {
		bounds, faults := Split("", []byte(text))
		if len(faults) > 0 || bounds[len(bounds)-1].Open != open {
			t.Errorf("%q: open %v, want %v, faults %v", text, !open, open, faults)
		}
	}
}

// siteText is a generated configuration: pools of 4 members and as many virtual servers.
func siteText(pools int) []byte {
	var b bytes.Buffer
	for i := range pools {
		fmt.Fprintf(&b, "pool pool_%d {\n   lb_mode round_robin\n   persist_mode simple\n   simple_timeout 300\n", i)
		for m := range 4 {
			fmt.Fprintf(&b, "   member 10.%d.%d.%d:8080\n", i>>8, i&255, m+1)
		}
		b.WriteString("}\n")
	}
	for i := range pools {
		fmt.Fprintf(&b, "virtual 172.%d.%d.1:80 unit 1 {\n   netmask 255.255.255.0\n   use pool pool_%d\n}\n", 16+i>>8, i&255, i)
	}
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	text := siteText(10000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if statements, faults := Parse("bigip.conf", text); len(faults) > 0 || len(statements) != 20000 {
			b.Fatal(len(statements), faults)
		}
	}
}

func BenchmarkFormat(b *testing.B) {
	statements, _ := Parse("bigip.conf", siteText(10000))
	objects := fold(statements)
	b.ReportAllocs()
	for b.Loop() {
		Format(objects, FormatOptions{})
	}
}

// TestHalfStatements: every prefix of a statement, word by word, and every word in every place ends in a fault or a statement.
func TestHalfStatements(t *testing.T) {
	var vocabulary []string
	for _, table := range Tables() {
		vocabulary = append(vocabulary, table.spellings()...)
	}
	vocabulary = append(vocabulary, sortedKeys(statementWords)...)
	vocabulary = append(vocabulary, ruleWords...)
	vocabulary = append(vocabulary, "{", "}", "(", "special", "define", "member", "modify", "show", "10.0.0.1:80", "\"x\"", "none", "5")
	for _, c := range Commands {
		words := strings.Fields(strings.NewReplacer("ATTRIBUTES", "use pool x", "POOL", "web", "VIRTUAL", "10.0.0.1:80", "NODE", "10.1.1.1", "[", "", "]", "", "MEMBER", "10.1.1.1:80").Replace(c.Form))
		for n := 1; n <= len(words); n++ {
			text := strings.Join(words[:n], " ")
			ParseCommand(&pb.Position{}, []byte(text))
			for _, word := range vocabulary {
				ParseCommand(&pb.Position{}, []byte(text+" "+word))
			}
			Complete(text+" ", len(text)+1, nil)
		}
	}
	for _, word := range vocabulary {
		for _, text := range []string{
			"pool p { member 10.0.0.1:80 " + word + " }", "pool p { " + word + " member }", "vip 10.0.0.1:80 { define " + word + " }",
			"vip 10.0.0.1:80 { define 10.0.0.1:80 special " + word + " }", "vip 10.0.0.1:80 " + word + " { use pool p }",
			"vip 10.0.0.1:80 define " + word, "node 10.0.0.1 " + word + " 5", "rule r { " + word + " }", "port 80 " + word,
		} {
			Parse("f", []byte(text))
		}
	}
}
