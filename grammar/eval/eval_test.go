package eval

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// hosts are the names that tests resolve.
var hosts = map[string]string{"v1": "192.0.2.1", "v2": "192.0.2.2", "n1": "10.0.0.1", "n2": "10.0.0.2", "n6": "2001:db8::6"}

func resolve(host string) (netip.Addr, error) {
	if a, found := hosts[host]; found {
		return netip.ParseAddr(a)
	}
	return netip.Addr{}, errors.New("no such host")
}

// run evaluates a text, whose words must be right.
func run(t testing.TB, base config.View, mode Mode, text string) *Outcome {
	t.Helper()
	return runWith(t, base, text, Options{Mode: mode})
}

func runWith(t testing.TB, base config.View, text string, options Options) *Outcome {
	t.Helper()
	options.Resolve = resolve
	parse, file := grammar.ParseCommand, ""
	if options.Mode != ModeCommand {
		parse, file = grammar.ParseAt, "bigip.conf"
	}
	statements, faults := parse(&pb.Position{File: file, Line: 1, Column: 1}, []byte(text))
	if slices.ContainsFunc(faults, isFault) {
		t.Fatalf("%s\n%s", text, show(faults))
	}
	out := Evaluate(base, statements, options)
	checkOutcome(t, base, out)
	if out.Exit != 0 && !slices.ContainsFunc(out.Diagnostics, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR }) {
		t.Errorf("exit %d without an error", out.Exit)
	}
	return out
}

// checkOutcome wants what holds for every outcome.
func checkOutcome(t testing.TB, base config.View, out *Outcome) {
	t.Helper()
	failed := slices.ContainsFunc(out.Diagnostics, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR })
	if failed && out.Exit == 0 {
		t.Errorf("exit 0 with diagnostics\n%s", show(out.Diagnostics))
	}
	if out.Exit != 0 && (len(out.Changes)+len(out.Operations)+len(out.ClearSticky) > 0 || out.Reset || out.PortPersistChanged || out.Summary != "") {
		t.Errorf("an outcome with an error does something: %+v", out)
	}
	if d := config.DiffExact(config.TreeOf(base).Apply(out.Changes), out.View); len(d) > 0 {
		t.Errorf("the changes do not lead to the view: %v", d)
	}
}

// load returns the configuration of a file that has no fault; warnings are allowed.
func load(t testing.TB, text string) config.View {
	t.Helper()
	out := run(t, nil, ModeLoad, text)
	if out.Exit != 0 {
		t.Fatalf("%s\n%s", text, show(out.Diagnostics))
	}
	return out.View
}

// command evaluates commands that must succeed without a warning and returns the new configuration.
func command(t testing.TB, base config.View, text string) config.View {
	t.Helper()
	out := run(t, base, ModeCommand, text)
	if len(out.Diagnostics) > 0 {
		t.Fatalf("%s\n%s", text, show(out.Diagnostics))
	}
	return out.View
}

// show prints diagnostics as tests compare them: code, place, length, text.
func show(ds []*pb.Diagnostic) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s %d:%d+%d %s", d.GetCode(), d.GetPosition().GetLine(), d.GetPosition().GetColumn(), d.GetLength(), d.GetMessage())
		if d.GetSuggestion() != "" {
			fmt.Fprintf(&b, " (%s?)", d.GetSuggestion())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// written is a configuration as a file.
func written(v config.View) string {
	var objects []*pb.Object
	v.Range("", func(o *pb.Object) bool { objects = append(objects, o); return true })
	return string(grammar.Format(objects, grammar.FormatOptions{}))
}

// format prints the objects of a view without their comments and in the order of keys.
func format(v config.View, keys ...string) string {
	var objects []*pb.Object
	v.Range("", func(o *pb.Object) bool {
		if len(keys) == 0 || slices.Contains(keys, o.Key()) {
			objects = append(objects, config.StripMeta(o))
		}
		return true
	})
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "%v\n", o)
	}
	return b.String()
}

const site = `pool web { lb_mode round_robin member 10.0.0.1:80 member 10.0.0.2:80 ratio 2 }
pool shop { persist_mode cookie cookie_mode insert member 10.0.0.1:8080 }
pool static { persist_mode simple simple_timeout 60 member 10.0.0.3:80 }
rule site { if (http_uri starts_with "/shop") { use ( shop ) } else { use ( web ) } }
vip 192.0.2.1:80 { use pool web }
vip 192.0.2.2:80 { use rule site }
`

func TestDefineReplacesAndModifyDoesNot(t *testing.T) {
	base := load(t, site)
	v := command(t, base, "pool web modify { min_active_members 1 }")
	p := config.FindPool(v, "web")
	if p.GetMinActiveMembers() != 1 || p.GetLbMode() != pb.LbMode_LB_MODE_ROUND_ROBIN || len(p.GetMembers()) != 2 {
		t.Errorf("modify: %v", p)
	}
	v = command(t, v, "pool web { member 10.0.0.9:80 }")
	p = config.FindPool(v, "web")
	if p.MinActiveMembers != nil || p.LbMode != nil || len(p.GetMembers()) != 1 {
		t.Errorf("define: %v", p)
	}
	if got, want := p.GetMeta().GetOrder(), config.FindPool(base, "web").GetMeta().GetOrder(); got != want {
		t.Errorf("order %d, want %d", got, want)
	}
	v = command(t, v, "pool new { member 10.0.0.9:80 }")
	if got := config.FindPool(v, "new").GetMeta().GetOrder(); got != 4 {
		t.Errorf("order of a new pool: %d", got)
	}
}

func TestMembers(t *testing.T) {
	base := load(t, site)
	addresses := func(v config.View) (list []string) {
		for _, m := range config.FindPool(v, "web").GetMembers() {
			list = append(list, fmt.Sprintf("%s %d", m.GetAddress(), m.GetRatio()))
		}
		return list
	}
	for _, tt := range []struct {
		text, want string
		members    []string
		exit       int
	}{
		{"pool web add { member 10.0.0.3:80 ratio 3 }", "", []string{"10.0.0.1:80 0", "10.0.0.2:80 2", "10.0.0.3:80 3"}, 0},
		{"pool web add { member 10.0.0.1:80 }", "existing 1:23+11 pool web: existing member 10.0.0.1:80\n", nil, 1},
		{"pool web delete { member 10.0.0.1:80 member 10.0.0.2:80 }", "", nil, 0},
		{"pool web delete { member 10.0.0.9:80 }", "not_found 1:26+11 pool web: member 10.0.0.9:80 not found\n", nil, 1},
		{"pool web modify { member 10.0.0.1:80 ratio 5 }", "", []string{"10.0.0.1:80 5", "10.0.0.2:80 2"}, 0},
		{"pool web modify { member 10.0.0.9:80 ratio 5 }", "not_found 1:26+11 pool web: member 10.0.0.9:80 not found\n", nil, 1},
		{"pool wbe add { member 10.0.0.3:80 }", "not_found 1:6+3 pool wbe not found (web?)\n", nil, 1},
	} {
		out := run(t, base, ModeCommand, tt.text)
		if got := show(out.Diagnostics); got != tt.want || out.Exit != tt.exit {
			t.Errorf("%s: exit %d\n%s", tt.text, out.Exit, got)
		}
		if tt.exit == 0 && !slices.Equal(addresses(out.View), tt.members) {
			t.Errorf("%s: %v", tt.text, addresses(out.View))
		}
	}
}

func TestRefused(t *testing.T) {
	base := load(t, site)
	for _, tt := range []struct {
		text, want string
		exit       int
	}{
		{"pool nosuch show", "not_found 1:6+6 pool nosuch not found\n", 1},
		{"pool nosuch persist dump", "not_found 1:6+6 pool nosuch not found\n", 1},
		{"pool nosuch modify { lb_mode ratio }", "not_found 1:6+6 pool nosuch not found\n", 1},
		{"pool nosuch delete", "not_found 1:6+6 pool nosuch not found\n", 1},
		{"vip 192.0.2.9:80 disable", "not_found 1:5+12 virtual server 192.0.2.9:80 not found\n", 1},
		{"vip 192.0.2.9:80 show", "not_found 1:5+12 virtual server 192.0.2.9:80 not found\n", 1},
		{"vip 192.0.2.9 disable", "not_found 1:5+9 virtual address 192.0.2.9 not found\n", 1},
		{"vip 192.0.2.9:80 use pool wbe", `undefined 1:27+3 virtual server 192.0.2.9:80: pool "wbe" not found (web?)` + "\n", 2},
		{"vip 192.0.2.9:80 { netmask 255.255.255.0 }", "missing 1:5+12 virtual server 192.0.2.9:80: names no pool and no rule to use\n", 2},
		{"pool web delete", "in_use 1:6+3 pool web is in use by rule site, virtual server 192.0.2.1:80\n", 1},
		{"rule site delete", "in_use 1:6+4 rule site is in use by virtual server 192.0.2.2:80\n", 1},
		{"node 10.0.0.9 disable", "not_found 1:6+8 node 10.0.0.9 not found\n", 1},
		{"node 10.0.0.9:80 show", "not_found 1:6+11 node 10.0.0.9:80 not found\n", 1},
		{"ratio 10.0.0.9 3", "not_found 1:7+8 node 10.0.0.9 not found\n", 1},
		{"pool web { member 10.0.0.1:80 member 10.0.0.1:80 }", "", 2},
		{"monitor nosuch delete", "not_found 1:9+6 monitor nosuch not found\n", 1},
		{"vip nohost:80 use pool web", "unknown_host 1:5+9 host \"nohost\" not found\n", 2},
		{"pool a { member nohost:80 }", "unknown_host 1:17+9 host \"nohost\" not found\n", 2},
	} {
		statements, faults := grammar.ParseCommand(&pb.Position{Line: 1, Column: 1}, []byte(tt.text))
		out := Evaluate(base, statements, Options{Resolve: resolve})
		if tt.want == "" && len(faults) > 0 {
			continue // the parser knows
		}
		checkOutcome(t, base, out)
		if got := show(out.Diagnostics); len(faults) > 0 || out.Exit != tt.exit || tt.want != "" && got != tt.want {
			t.Errorf("%s: exit %d\n%s%s", tt.text, out.Exit, got, show(faults))
		}
	}
}

func TestAllOrNothing(t *testing.T) {
	base := load(t, site)
	out := run(t, base, ModeCommand, "pool a { member 10.0.0.5:80 }\npool web show\npool nosuch show\nvip 192.0.2.9:80 use pool b\n")
	want := "not_found 3:6+6 pool nosuch not found\n" + `undefined 4:27+1 virtual server 192.0.2.9:80: pool "b" not found (a?)` + "\n"
	if got := show(out.Diagnostics); got != want || out.Exit != 2 {
		t.Errorf("exit %d\n%s", out.Exit, got)
	}
	if got := out.Diagnostics[1].GetSource(); got != "vip 192.0.2.9:80 use pool b" {
		t.Errorf("source %q", got)
	}
	if out.View.Get("pool/a") != nil {
		t.Error("something was done")
	}
}

func TestHosts(t *testing.T) {
	base := load(t, "pool http_pool { member n1:http member n2:http member n6:80 }\n")
	v := command(t, base, "vip v1:http use pool http_pool")
	if config.FindVirtual(v, "192.0.2.1:80") == nil {
		t.Errorf("%s", format(v))
	}
	if got := config.FindPool(v, "http_pool").GetMembers()[2].GetAddress(); got != "[2001:db8::6]:80" {
		t.Errorf("IPv6 member: %s", got)
	}
	v = command(t, v, "node n1 disable")
	if n := v.Get("node/10.0.0.1").GetNode(); n == nil || n.GetEnabled() {
		t.Errorf("node: %v", n)
	}
	v = command(t, v, "vip v1:80 delete")
	if config.FindVirtual(v, "192.0.2.1:80") != nil {
		t.Error("delete by host name")
	}
	out := run(t, nil, ModeLoad, "pool a { member 10.0.0.1:80 }\nvip v1:80 { use pool a }\nvip 192.0.2.1:80 { use pool a }\n")
	if out.Exit != 2 || !strings.Contains(show(out.Diagnostics), "existing") {
		t.Errorf("one address by two names: %s", show(out.Diagnostics))
	}
}

func TestNodes(t *testing.T) {
	base := load(t, site)
	v := command(t, base, "node 10.0.0.1 disable\nnode 10.0.0.1:80 down\nnode 10.0.0.3 limit 5\nratio { 10.0.0.1 10.0.0.2 } 4\n")
	if s := config.MemberState(v, "10.0.0.1:80"); s.Enabled || s.Up || s.Word != pb.MemberState_MEMBER_STATE_FORCED_DOWN {
		t.Errorf("state %+v", s)
	}
	if s := config.MemberState(v, "10.0.0.1:8080"); s.Enabled || !s.Up || s.Word != pb.MemberState_MEMBER_STATE_ADDRESS_DISABLED {
		t.Errorf("state %+v", s)
	}
	if config.NodeRatio(v, "10.0.0.2:80") != 4 || config.NodeRatio(v, "10.0.0.3") != 1 {
		t.Error("ratio")
	}
	// A node exists because it is a member.
	v = command(t, v, "pool static { member 10.0.0.4:80 }")
	if v.Get("node/10.0.0.3") != nil {
		t.Error("the node of a removed member is left")
	}
	v = command(t, v, "pool web delete { member 10.0.0.1:80 }")
	if v.Get("node/10.0.0.1:80") != nil || v.Get("node/10.0.0.1") == nil {
		t.Error("10.0.0.1:80 is no member any more, 10.0.0.1 still is")
	}
	out := run(t, nil, ModeLoad, "ratio { 10.0.0.1 10.9.9.9 } 1\npool a { member 10.0.0.1:80 }\n")
	if got := show(out.Diagnostics); got != "not_found 1:18+8 node 10.9.9.9 is not a member of any pool\n" || out.Exit != 0 {
		t.Errorf("exit %d %s", out.Exit, got)
	}
}

func TestVirtualAddress(t *testing.T) {
	v := command(t, load(t, site), "vip 192.0.2.1 disable")
	if on, why := config.VirtualEnabled(v, config.FindVirtual(v, "192.0.2.1:80")); on || why != "virtual address 192.0.2.1 is disabled" {
		t.Errorf("%v %s", on, why)
	}
	v = command(t, v, "vip 192.0.2.1:80 delete")
	if v.Get("virtual_address/192.0.2.1") != nil {
		t.Error("the address of a deleted virtual server is left")
	}
}

func TestLoadAndMerge(t *testing.T) {
	base := load(t, site)
	base = command(t, base, "sysctl -w bigip.persist_on_any_vip=1\nsysctl -w bigip.vipnoarp=1\nlb ratio\n")
	t.Run("load_replaces_and_keeps_the_scope", func(t *testing.T) {
		out := run(t, base, ModeLoad, "pool a { member 10.0.0.1:80 }\n")
		g := config.Globals(out.View)
		if !g.GetPersistAcrossVirtuals() || len(g.GetSysctls()) != 1 || g.Lb != nil || out.View.Len("pool") != 1 || out.View.Len("virtual") != 0 {
			t.Errorf("%s", format(out.View))
		}
		if out.Summary != "load bigip.conf" || out.Reset {
			t.Errorf("%+v", out)
		}
	})
	t.Run("load_that_names_the_scope", func(t *testing.T) {
		out := run(t, base, ModeLoad, "global persist_across_virtuals disable\n")
		if g := config.Globals(out.View); g.PersistAcrossVirtuals == nil || g.GetPersistAcrossVirtuals() {
			t.Errorf("%v", g)
		}
	})
	t.Run("reset_clears_it", func(t *testing.T) {
		out := run(t, base, ModeCommand, "reset")
		if out.View.Len("") != 0 || !out.Reset || out.Summary != "reset" || len(out.Changes) != base.Len("") {
			t.Errorf("%+v", out)
		}
	})
	t.Run("merge_adds", func(t *testing.T) {
		out := run(t, base, ModeMerge, "pool a { member 10.0.0.1:80 }\npool web { member 10.0.0.7:80 }\n")
		if out.View.Len("pool") != 4 || len(config.FindPool(out.View, "web").GetMembers()) != 1 || out.Summary != "merge bigip.conf" || len(out.Changes) != 2 {
			t.Errorf("%s", format(out.View))
		}
	})
	t.Run("a_load_with_a_fault_changes_nothing", func(t *testing.T) {
		out := run(t, base, ModeLoad, "pool a { member 10.0.0.1:80 }\nvip 192.0.2.1:80 { use pool b }\nvip 192.0.2.2:80 {\n   use rule c\n}\n")
		want := `undefined 2:29+1 virtual server 192.0.2.1:80: pool "b" not found (a?)` + "\n" +
			`undefined 4:13+1 virtual server 192.0.2.2:80: rule "c" not found` + "\n"
		if got := show(out.Diagnostics); got != want || out.Exit != 2 || out.View.Len("pool") != 3 {
			t.Errorf("exit %d\n%s", out.Exit, got)
		}
	})
	t.Run("pool_may_follow_its_use", func(t *testing.T) {
		load(t, "vip 192.0.2.1:80 { use pool a }\npool a { member 10.0.0.1:80 }\nnode 10.0.0.1 disable\n")
	})
	t.Run("one_virtual_server_used_twice", func(t *testing.T) {
		out := run(t, nil, ModeLoad, "pool a { member 10.0.0.1:80 }\nvip 192.0.2.1:80 use pool a\nvip 192.0.2.1:80 limit 5\nvip 192.0.2.1:80 use pool a\n")
		if got := show(out.Diagnostics); got != "duplicate 4:5+12 existing virtual \"192.0.2.1:80\": defined on line 2 and again on line 4\n" || out.Exit != 2 {
			t.Errorf("exit %d\n%s", out.Exit, got)
		}
	})
	t.Run("commands_do_not_stand_in_a_file", func(t *testing.T) {
		out := run(t, nil, ModeLoad, "pool a { member 10.0.0.1:80 }\npool a show\n")
		if got := show(out.Diagnostics); got != "not_in_file 2:1+4 \"pool a show\" is a command: it cannot stand in a file\n" || out.Exit != 2 {
			t.Errorf("exit %d\n%s", out.Exit, got)
		}
	})
}

func TestOperations(t *testing.T) {
	base := load(t, site)
	out := run(t, base, ModeCommand, "pool web show\npool web persist dump client 10.0.0.0/8\npersist clear node n1:80\nconn dump\nvip 192.0.2.1:80 show\nnode 10.0.0.1 show\nsysctl -a\nlist pool\n")
	var got []string
	for _, o := range out.Operations {
		got = append(got, fmt.Sprint(o.Action, " ", o.Kind, " ", o.Key))
	}
	want := []string{
		fmt.Sprint(grammar.ActionShow, " pool pool/web"), fmt.Sprint(grammar.ActionPersistDump, " pool pool/web"),
		fmt.Sprint(grammar.ActionPersistClear, "  "), fmt.Sprint(grammar.ActionConnDump, "  "),
		fmt.Sprint(grammar.ActionShow, " virtual virtual/192.0.2.1:80"), fmt.Sprint(grammar.ActionShow, " node node/10.0.0.1"),
		fmt.Sprint(grammar.ActionSysctlShow, " global global"), fmt.Sprint(grammar.ActionList, " pool "),
	}
	if d := cmp.Diff(want, got); d != "" || out.Exit != 0 || len(out.Changes) != 0 || out.Summary != "" {
		t.Error(d, show(out.Diagnostics))
	}
	if got := out.Operations[2].Filter.GetNode(); got != "10.0.0.1:80" {
		t.Errorf("host in a filter: %s", got)
	}
}

func TestSummary(t *testing.T) {
	base := load(t, site)
	for text, want := range map[string]string{
		"pool web modify { lb_mode ratio }":                       "pool web modify",
		"node 10.0.0.1 10.0.0.2 disable":                          "node 10.0.0.1 10.0.0.2 disable",
		"vip 192.0.2.9:80 use pool web\nlb ratio\nport 80 enable": "vip 192.0.2.9:80 use pool web and 2 more",
		"pool web modify { lb_mode round_robin }":                 "",
	} {
		if got := run(t, base, ModeCommand, text).Summary; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPositions: what an object remembers is of files, which can be looked up; a command's words are gone when it is done.
func TestPositions(t *testing.T) {
	base := load(t, "# front\npool web {\n   lb_mode round_robin\n   min_active_members 1\n   member 10.0.0.1:80\n}\n")
	v := command(t, base, "pool web modify { lb_mode ratio }\npool web add { member 10.0.0.2:80 }\npool b { member 10.0.0.1:80 }\n")
	p := config.FindPool(v, "web")
	if got := p.GetMeta().GetPosition().GetLine(); got != 2 {
		t.Errorf("line %d", got)
	}
	if got := p.GetMeta().GetAttributes(); len(got) != 1 || got[0].GetAttribute() != "min_active_members" {
		t.Errorf("attributes %v", got)
	}
	if p.GetMembers()[0].GetMeta().GetPosition().GetLine() != 5 || p.GetMembers()[1].GetMeta() != nil {
		t.Errorf("members %v", p.GetMembers())
	}
	if !slices.Equal(p.GetMeta().GetComments(), config.FindPool(base, "web").GetMeta().GetComments()) {
		t.Errorf("comments %q", p.GetMeta().GetComments())
	}
	if b := config.FindPool(v, "b"); b.GetMeta().GetPosition() != nil || b.GetMembers()[0].GetMeta() != nil {
		t.Errorf("%v", b)
	}
}

// TestOperationsSeeTheChange: what stands in one text is one change; its queries are answered when it is made.
func TestOperationsSeeTheChange(t *testing.T) {
	base := load(t, site)
	if out := run(t, base, ModeCommand, "pool a show\npool a { member 10.0.0.1:80 }"); out.Exit != 0 || len(out.Operations) != 1 {
		t.Errorf("exit %d\n%s", out.Exit, show(out.Diagnostics))
	}
	if out := run(t, base, ModeCommand, "pool static show\npool static delete"); show(out.Diagnostics) != "not_found 1:6+6 pool static not found\n" {
		t.Errorf("exit %d\n%s", out.Exit, show(out.Diagnostics))
	}
	if out := run(t, base, ModeCommand, "reset\npool a { member 10.0.0.1:80 }\npool a show"); out.Exit != 0 || !out.Reset || out.View.Len("") != 1 {
		t.Errorf("exit %d\n%s", out.Exit, show(out.Diagnostics))
	}
}

// TestFaultyStatements: what the parser could not read is no reason to miss other faults, or to see faults that are none.
func TestFaultyStatements(t *testing.T) {
	text := "pool web {\n   persist_mdoe simple\n   member 10.0.0.1:80\n}\nvip 192.0.2.1:80 { ues pool web }\nvip 192.0.2.2:80 { use pool web }\nvip 192.0.2.3:80 { use pool wbe }\nnode 10.0.0.1 disable\n"
	statements, faults := grammar.Parse("bigip.conf", []byte(text))
	out := Evaluate(nil, statements, Options{Mode: ModeLoad})
	if len(faults) == 0 || out.Exit != 2 || len(out.Changes) != 0 {
		t.Fatalf("exit %d, faults %v", out.Exit, faults)
	}
	want := `undefined 7:29+3 virtual server 192.0.2.3:80: pool "wbe" not found (web?)` + "\n"
	if got := show(out.Diagnostics); got != want {
		t.Errorf("got %s", got)
	}
}

// TestManyFaults wants a bounded answer to a file that is all wrong.
func TestManyFaults(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "vip 10.%d.%d.1:80 { use pool p%d }\n", i/250, i%250, i)
	}
	out := run(t, nil, ModeLoad, b.String())
	if n := len(out.Diagnostics); n != maxShown+1 || out.Diagnostics[n-1].GetMessage() != "2950 more faults are not shown" || out.Exit != 2 {
		t.Errorf("%d diagnostics, the last %v", n, out.Diagnostics[n-1])
	}
}

func TestEpochs(t *testing.T) {
	v := command(t, nil, "pool a { member 10.0.0.1:80 epoch new member 10.0.0.2:80 }")
	v = command(t, v, "pool a modify { member 10.0.0.1:80 epoch new }")
	p := config.FindPool(v, "a")
	if p.GetMembers()[0].GetEpoch() != 2 || p.GetMembers()[1].Epoch != nil {
		t.Errorf("%v", p)
	}
}

// TestRandomStatements: whatever words come, nothing panics and an outcome is whole.
func TestRandomStatements(t *testing.T) {
	words := strings.Fields(`pool vip rule node global sysctl persist web shop nosuch site { } member 10.0.0.1:80 192.0.2.1:80 192.0.2.2:80 10.0.0.1 use
		modify add delete show sticky enable disable clear persist_mode simple cookie simple_timeout 60 mask none 255.255.255.0 special
		ssl -w bigip.persist_on_any_vip=1 ratio 3 lb_mode limit 80 reset v1:80 nohost:80 mirror ( ) weight`)
	base := load(t, site)
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 14).Draw(rt, "words"), " ")
		for _, mode := range []Mode{ModeCommand, ModeLoad, ModeMerge} {
			statements, _ := grammar.ParseCommand(&pb.Position{Line: 1, Column: 1}, []byte(text))
			checkOutcome(t, base, Evaluate(base, statements, Options{Mode: mode, Resolve: resolve}))
		}
	})
}

// Hosts are looked for side by side: 30 that a dead resolver does not find take as long as three.
func TestHostsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		for i := range 30 {
			fmt.Fprintf(&text, "pool p%d { member host%d:80\nmember host%d:81 }\n", i, i, i)
		}
		statements, _ := grammar.Parse("f", []byte(text.String()))
		var asked atomic.Int32
		began := time.Now()
		out := Evaluate(config.NewTree(), statements, Options{Mode: ModeLoad, File: "f", Resolve: func(string) (netip.Addr, error) {
			asked.Add(1)
			time.Sleep(5 * time.Second)
			return netip.Addr{}, errors.New("no answer")
		}})
		if took := time.Since(began); took != 15*time.Second || asked.Load() != 30 || out.Exit != 2 {
			t.Errorf("%d asked in %v, exit %d", asked.Load(), took, out.Exit)
		}
	})
}
