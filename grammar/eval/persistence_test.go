package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// text prints a configuration in 3.x words, without comments.
func text(v config.View, keys ...string) string {
	var objects []*pb.Object
	v.Range("", func(o *pb.Object) bool {
		if len(keys) == 0 || slices.Contains(keys, o.Key()) {
			objects = append(objects, o)
		}
		return true
	})
	return string(grammar.Format(objects, grammar.FormatOptions{Dialect: 3}))
}

const nodeList = "vip 168.1.1.1:80 { define 10.1.1.1:80 10.2.2.2:80\nspecial cookie rewrite 10d }\n"

const nodeListText = `pool appgen_168.1.1.1.80 {
   lb_mode round_robin
   persist_mode cookie
   cookie_mode rewrite
   cookie_expiration 10d
   member 10.1.1.1:80
   member 10.2.2.2:80
}
vip 168.1.1.1:80 { use pool appgen_168.1.1.1.80 }
`

func TestNodeList(t *testing.T) {
	base := load(t, nodeList)
	t.Run("B-T13_cookie_rewrite", func(t *testing.T) {
		if got := strings.TrimSpace(text(base)); !equalLines(got, nodeListText) {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("B-T13_the_layout_of_the_figure", func(t *testing.T) {
		figure := " pool  appgen_168.1.1.1.80  {    \n       lb_mode round_robin    \n       persist_mode cookie    \n       cookie_mode rewrite    \n" +
			"       cookie_expiration 10d    \n       member 10.1.1.1:80    \n       member 10.2.2.2:80    \n   }    \n   vip 168.1.1.1:80 { use pool appgen_168.1.1.1.80 }    \n"
		if d := config.Diff(base, load(t, figure)); len(d) > 0 {
			t.Errorf("%v", d)
		}
	})
	t.Run("B-18_redefinition_replaces_the_pool", func(t *testing.T) {
		v := command(t, base, "vip 168.1.1.1:80 { define 10.1.1.1:http 10.3.3.3:80 }")
		want := "pool appgen_168.1.1.1.80 {\n   lb_mode round_robin\n   member 10.1.1.1:80\n   member 10.3.3.3:80\n}\n"
		if got := text(v, "pool/appgen_168.1.1.1.80"); !equalLines(got, want) {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("B-18_short_form", func(t *testing.T) {
		v := command(t, nil, "vip v1:http define n1:http n2:http")
		if got := config.FindVirtual(v, "192.0.2.1:80").GetPools()[0].GetPool(); got != "appgen_192.0.2.1.80" {
			t.Errorf("uses %s", got)
		}
		v = command(t, v, "vip [2001:db8::1]:443 define n6:443 special ssl 600 60")
		p := config.FindPool(v, "appgen_2001:db8::1.443")
		if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_SSL || p.GetSslTimeout() != 600 || p.GetSimpleTimeout() != 60 {
			t.Errorf("%v", p)
		}
	})
	t.Run("B-18_the_pool_goes_with_its_virtual_server", func(t *testing.T) {
		if v := command(t, base, "vip 168.1.1.1:80 delete"); v.Len("") != 0 {
			t.Errorf("left:\n%s", text(v))
		}
		v := command(t, base, "vip 168.1.1.1:8080 use pool appgen_168.1.1.1.80")
		if v = command(t, v, "vip 168.1.1.1:80 delete"); v.Len("pool") != 1 {
			t.Errorf("the pool is in use and must stay:\n%s", text(v))
		}
	})
	t.Run("B-18_a_pool_of_that_name_in_the_same_file", func(t *testing.T) {
		for _, text := range []string{
			"pool appgen_168.1.1.1.80 { member 10.1.1.1:80 }\n" + nodeList,
			nodeList + "pool appgen_168.1.1.1.80 { member 10.1.1.1:80 }\n",
		} {
			if out := run(t, nil, ModeLoad, text); out.Exit != 2 || !strings.Contains(show(out.Diagnostics), `duplicate `) {
				t.Errorf("exit %d\n%s", out.Exit, show(out.Diagnostics))
			}
		}
	})
}

// equalLines compares texts without blank lines, which belong to the layout of a file.
func equalLines(a, b string) bool {
	lines := func(s string) []string {
		return slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#") })
	}
	return slices.Equal(lines(a), lines(b))
}

func TestPortPersist(t *testing.T) {
	base := load(t, `pool none { member 10.0.0.1:80 }
pool zero { persist_mode simple simple_timeout 0 member 10.0.0.1:80 }
pool sixty { persist_mode simple simple_timeout 60 member 10.0.0.1:80 }
pool cookies { persist_mode cookie member 10.0.0.1:80 }
pool byrule { member 10.0.0.1:80 }
pool elsewhere { member 10.0.0.1:80 }
rule r { use ( byrule ) }
vip 192.0.2.1:80 { use pool none }
vip 192.0.2.2:80 { use pool zero }
vip 192.0.2.3:80 { use pool sixty }
vip 192.0.2.4:80 { use pool cookies }
vip 192.0.2.5:80 { use rule r }
vip 192.0.2.6:8080 { use pool elsewhere }
`)
	out := run(t, base, ModeCommand, "persist 80 300")
	if !out.PortPersistChanged || !maps.Equal(out.PortPersist, map[uint32]uint32{80: 300}) || len(out.Changes) != 0 || out.Summary != "" {
		t.Fatalf("%+v", out)
	}
	effective := func(v config.View) (list []string) {
		v = config.ApplyPortPersist(v, out.PortPersist)
		for _, name := range []string{"none", "zero", "sixty", "cookies", "byrule", "elsewhere"} {
			p := config.FindPool(v, name)
			list = append(list, fmt.Sprintf("%s %s %d", name, pb.EnumWord(p.GetPersistMode()), p.GetSimpleTimeout()))
		}
		return list
	}
	t.Run("B-T14_pools_on_the_port", func(t *testing.T) {
		want := []string{"none simple 300", "zero simple 300", "sixty simple 60", "cookies cookie 0", "byrule  0", "elsewhere  0"}
		if got := effective(out.View); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if text(out.View) != text(base) {
			t.Error("the saved file has changed")
		}
	})
	t.Run("B-19_pools_referenced_later", func(t *testing.T) {
		later := runWith(t, base, "vip 192.0.2.9:80 use pool elsewhere", Options{PortPersist: out.PortPersist})
		if got := effective(later.View)[5]; got != "elsewhere simple 300" || later.PortPersistChanged {
			t.Errorf("got %q", got)
		}
		changes := config.EffectiveChanges(base, later.View, later.PortPersist, later.Changes)
		if len(changes) != 2 || changes[0].Key != "pool/elsewhere" || changes[0].New.GetPool().GetSimpleTimeout() != 300 {
			t.Errorf("%v", changes)
		}
	})
	t.Run("B-19_tree_of_the_effective_view", func(t *testing.T) {
		v := config.ApplyPortPersist(base, out.PortPersist)
		if d := config.Diff(base, v); len(d) != 2 || d[0].Key != "pool/none" || d[1].Key != "pool/zero" {
			t.Errorf("%v", d)
		}
		if d := config.DiffExact(v, config.TreeOf(v)); len(d) != 0 {
			t.Errorf("%v", d)
		}
	})
	t.Run("B-19_ends_with_a_load_and_a_reset", func(t *testing.T) {
		for mode, text := range map[Mode]string{ModeLoad: "pool a { member 10.0.0.1:80 }\n", ModeCommand: "reset"} {
			if o := runWith(t, base, text, Options{Mode: mode, PortPersist: out.PortPersist}); !o.PortPersistChanged || len(o.PortPersist) != 0 {
				t.Errorf("mode %d: %v", mode, o.PortPersist)
			}
		}
		if !maps.Equal(out.PortPersist, map[uint32]uint32{80: 300}) {
			t.Error("the caller's map was changed")
		}
		o := runWith(t, base, "persist 80 0", Options{PortPersist: out.PortPersist})
		if !o.PortPersistChanged || len(o.PortPersist) != 0 {
			t.Errorf("0 ends it: %v", o.PortPersist)
		}
	})
}

const queries = `vip v1:80 persist show
vip v1:80 persist dump
vip v1:80 persist mask show
vip v1:80 sticky show
vip v1:80 sticky dump
vip v1:80 sticky mask show
vip v1:80 mirror persist show
persist 80 show`

func TestQueries(t *testing.T) {
	base := load(t, site)
	for _, q := range strings.Split(queries, "\n") {
		name := strings.ReplaceAll(q, " ", "_")
		t.Run("B-T15_"+name, func(t *testing.T) {
			out := run(t, base, ModeCommand, q)
			want := `virtual server 192.0.2.1:80: persistence belongs to its pool: use "pool web persist show"`
			switch {
			case strings.HasPrefix(q, "persist"):
				want = "persistence of a port is not shown: the timeout of a port belongs to the pools that its virtual servers use"
			case strings.Contains(q, "dump"):
				want = strings.Replace(want, "show", "dump", 1)
			}
			if len(out.Diagnostics) != 1 || out.Diagnostics[0].GetMessage() != want || out.Exit != 2 {
				t.Errorf("exit %d\n%s", out.Exit, show(out.Diagnostics))
			}
		})
		t.Run("B-T17_"+name, func(t *testing.T) {
			out := run(t, base, ModeCommand, "pool web modify { lb_mode ratio }\n"+q)
			if out.Exit == 0 || len(config.DiffExact(base, out.View)) != 0 {
				t.Errorf("something has changed: %v", out.Changes)
			}
		})
	}
	t.Run("B-20_a_rule", func(t *testing.T) {
		for _, tt := range []struct {
			text, want string
			exit       int
		}{
			{"vip v2:80 sticky dump", `virtual server 192.0.2.2:80 uses rule site: use "pool shop persist dump", "pool web persist dump"`, 2},
			{"vip v2:80 persist 300", "virtual server 192.0.2.2:80 uses rule site: use pool shop modify, pool web modify", 1},
			{"vip v2:80 sticky clear", "virtual server 192.0.2.2:80 uses rule site: use pool shop modify, pool web modify", 1},
			{"vip 192.0.2.9:80 persist show", "virtual server 192.0.2.9:80 not found", 1},
		} {
			out := run(t, base, ModeCommand, tt.text)
			if len(out.Diagnostics) != 1 || out.Diagnostics[0].GetMessage() != tt.want || out.Exit != tt.exit {
				t.Errorf("%s: exit %d\n%s", tt.text, out.Exit, show(out.Diagnostics))
			}
		}
	})
}

// seedCommands are the commands of seed 002 with their placeholders filled.
var seedCommands = []string{
	"pool web { lb_mode round_robin persist_mode\ncookie cookie_mode insert cookie_expiration 1d 12:30:00 member 10.0.0.1:80 }",
	"pool web { lb_mode round_robin persist_mode\ncookie cookie_mode rewrite cookie_expiration 10d member 10.0.0.1:80 }",
	"pool web { lb_mode round_robin persist_mode\ncookie cookie_mode passive member 10.0.0.1:80 }",
	"pool web { lb_mode round_robin persist_mode\ncookie cookie_mode hash cookie_hash_name Apache\ncookie_hash_offset 4 cookie_hash_length\n16 member 10.0.0.1:80 }",
	"pool caches modify { persist_mode sticky enable sticky_mask 255.255.255.0 }",
	"pool caches sticky clear",
	"pool caches persist show",
	"pool caches modify { persist_mode sticky disable\nsticky_mask 255.255.255.0 }",
	"pool classc_pool modify { lb_mode round_robin persist_mode\nsimple simple_timeout 300 simple_mask 255.255.255.0 }",
	"pool classc_pool modify { persist_mode simple simple_timeout 1200 simple_mask 255.255.255.0 }",
	"pool classc_pool modify { simple_mask none }",
	"pool classc_pool persist show",
	"vip v1:http use pool http_pool",
	"vip v1:ssl use pool ssl_pool",
	"vip v2:ssl use pool ssl_pool",
	"sysctl -w bigip.persist_on_any_port_same_vip=1",
	"sysctl -w bigip.persist_on_any_port_same_vip=0",
	"vip v1:http use pool http1_pool",
	"vip v1:ssl use pool ssl1_pool",
	"vip v2:http use pool http2_pool",
	"vip v2:ssl use pool ssl2_pool",
	"sysctl -w bigip.persist_on_any_vip=1",
	"sysctl -w bigip.persist_on_any_vip=0",
	strings.TrimSpace(nodeList),
	"vip v1:80 persist 300",
	"vip v1:80 persist mask 255.255.255.0",
	"vip v1:80 sticky enable",
	"vip v1:80 sticky mask 255.255.0.0",
	"vip v1:80 sticky clear",
	"vip v1:80 sticky disable",
	"vip v1:80 mirror persist enable",
	"vip v1:80 mirror persist disable",
}

func TestSeed002(t *testing.T) {
	v := load(t, `pool caches { member 10.0.0.1:3128 }
pool classc_pool { member 10.0.0.1:80 }
pool http_pool { persist_mode simple simple_timeout 60 member n1:http member n2:http }
pool ssl_pool { persist_mode simple simple_timeout 60 member n1:ssl member n2:ssl }
pool http1_pool { member n1:http member n2:http }
pool http2_pool { member n1:http member n2:http }
pool ssl1_pool { member n1:ssl member n2:ssl }
pool ssl2_pool { member n1:ssl member n2:ssl }
`)
	for i, c := range seedCommands {
		t.Run(fmt.Sprintf("B-T16_%02d", i), func(t *testing.T) {
			out := run(t, v, ModeCommand, c)
			if out.Exit != 0 {
				t.Fatalf("%s\n%s", c, show(out.Diagnostics))
			}
			if len(out.Changes)+len(out.Operations) == 0 {
				t.Errorf("%s did nothing", c)
			}
			v = out.View
		})
	}
	p := config.FindPool(v, "classc_pool")
	if p.GetSimpleTimeout() != 1200 || p.SimpleMask != nil || p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_SIMPLE {
		t.Errorf("%v", p)
	}
}

func TestVirtualPersistence(t *testing.T) {
	base := load(t, site)
	web := func(v config.View) string {
		p := config.FindPool(v, "web")
		return fmt.Sprintf("%s %d %s %s %v", pb.EnumWord(p.GetPersistMode()), p.GetSimpleTimeout(), p.GetSimpleMask(), p.GetStickyMask(), p.GetMirrorPersist())
	}
	v := command(t, base, "vip v1:80 persist 300\nvip v1:80 persist mask 255.255.255.0")
	if got := web(v); got != "simple 300 255.255.255.0  false" {
		t.Error("B-20 persist:", got)
	}
	if got := web(command(t, v, "vip v1:80 persist mask none\nvip v1:80 persist 0")); got != "none 300   false" {
		t.Error("B-20 persist 0:", got)
	}
	out := run(t, v, ModeCommand, "vip v1:80 sticky enable\nvip v1:80 sticky mask 255.255.0.0\nvip v1:80 mirror persist enable")
	want := "W-4 1:5+5 pool web: simple_mask works only with persist_mode simple\n" +
		"W-7 1:5+5 pool web: persist_mode sticky on virtual servers 192.0.2.1:80, 192.0.2.2:80, which are not wildcards: all clients reach one member\n" +
		"W-9 3:5+5 pool web: mirror persist enable is kept, not in effect\n"
	if got := web(out.View); got != "sticky 300 255.255.255.0 255.255.0.0 true" || show(out.Diagnostics) != want {
		t.Errorf("B-20 sticky: %s\n%s", got, show(out.Diagnostics))
	}
	v = out.View
	out = run(t, v, ModeCommand, "vip v1:80 persist 60")
	if got := show(out.Diagnostics); out.Exit != 1 || got != "refused 1:5+5 pool web: persist_mode is sticky, not simple\n" {
		t.Errorf("B-20 persist on another mode: exit %d %s", out.Exit, got)
	}
	out = run(t, v, ModeCommand, "vip v1:80 sticky clear")
	if len(out.Operations) != 1 || out.Operations[0].Action != grammar.ActionStickyClear || out.Operations[0].Key != "pool/web" {
		t.Errorf("B-20 sticky clear: %+v", out.Operations)
	}
	out = run(t, v, ModeCommand, "vip v1:80 sticky disable")
	if got := web(out.View); got != "none 300 255.255.255.0 255.255.0.0 true" || !slices.Equal(out.ClearSticky, []string{"web"}) {
		t.Errorf("B-22 sticky disable: %s %v", got, out.ClearSticky)
	}
}

func TestStickyDisable(t *testing.T) {
	base := load(t, "pool s { persist_mode sticky enable sticky_mask 255.255.255.0 member 10.0.0.1:80 }\npool c { persist_mode cookie member 10.0.0.1:80 }\npool n { member 10.0.0.1:80 }\n")
	t.Run("B-22_ends_and_keeps_the_mask", func(t *testing.T) {
		out := run(t, base, ModeCommand, "pool s modify { persist_mode sticky disable }")
		p := config.FindPool(out.View, "s")
		if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_NONE || p.GetStickyMask() != "255.255.255.0" || !slices.Equal(out.ClearSticky, []string{"s"}) {
			t.Errorf("%v %v", p, out.ClearSticky)
		}
	})
	t.Run("B-22_refused_on_another_mode", func(t *testing.T) {
		out := run(t, base, ModeCommand, "pool c modify { persist_mode sticky disable sticky_mask 255.0.0.0 }")
		if got := show(out.Diagnostics); out.Exit != 1 || got != "refused 1:6+1 pool c: persist_mode is cookie, not sticky\n" {
			t.Errorf("exit %d %s", out.Exit, got)
		}
	})
	t.Run("B-22_nothing_to_end", func(t *testing.T) {
		out := run(t, base, ModeCommand, "pool n modify { persist_mode sticky disable sticky_mask 255.0.0.0 }")
		if p := config.FindPool(out.View, "n"); out.Exit != 0 || p.GetStickyMask() != "255.0.0.0" || len(out.ClearSticky) != 0 {
			t.Errorf("exit %d %v", out.Exit, p)
		}
	})
}

func TestSysctls(t *testing.T) {
	for name, get := range map[string]func(*pb.Global) bool{
		"persist_on_any_vip":           (*pb.Global).GetPersistAcrossVirtuals,
		"persist_on_any_port_same_vip": (*pb.Global).GetPersistAcrossServices,
	} {
		t.Run("B-21_"+name, func(t *testing.T) {
			v := command(t, nil, "sysctl -w bigip."+name+"=1")
			if !get(config.Globals(v)) {
				t.Error("1 does not turn it on")
			}
			if v = command(t, v, "sysctl -w bigip."+name+"=0"); get(config.Globals(v)) {
				t.Error("0 does not turn it off")
			}
		})
	}
	v := command(t, nil, "lb ratio\nsysctl -w bigip.vipnoarp=1 bigip.bonfire_mode=0\nsysctl -w bigip.vipnoarp=0\nglobal map_proxy 195.93.0.0/16 to 152.163.0.0\nglobal map_proxy 195.93.0.0/16 to 152.164.0.0\n")
	g := config.Globals(v)
	if g.GetLb() != pb.LbMode_LB_MODE_RATIO || len(g.GetSysctls()) != 2 || g.GetSysctls()[0].GetValue() || len(g.GetMapProxies()) != 1 ||
		g.GetMapProxies()[0].GetAddress() != "152.164.0.0" {
		t.Errorf("%v", g)
	}
}

// TestWarnings reads the warnings as an operator gets them: at a load, and at the command that brings them about.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ name, file, command, want string }{
		{
			"W-1", "pool p {\n   lb_mode least_conn\n   persist_mode sticky\n   member 10.0.0.1:80\n}\n", "",
			"W-1 2:4+7 pool p: persist_mode sticky with lb_mode least_conn: use a static load balancing mode such as round_robin\n",
		},
		{
			"W-1_command", "pool p {\n   persist_mode sticky\n   member 10.0.0.1:80\n}\n", "pool p modify { lb_mode fastest }",
			"W-1 1:17+7 pool p: persist_mode sticky with lb_mode fastest: use a static load balancing mode such as round_robin\n",
		},
		{
			"W-2", "pool a { persist_mode simple simple_timeout 9 member 10.0.0.1:80 }\npool b { persist_mode simple simple_timeout 9 member 10.0.0.2:443 }\n" +
				"vip 192.0.2.1:80 { use pool a }\nvip 192.0.2.1:443 { use pool b }\nsysctl -w bigip.persist_on_any_port_same_vip=1\n", "",
			"W-2 3:20+8 persist_on_any_port_same_vip is on: virtual servers 192.0.2.1:443 and 192.0.2.1:80 should include the same node addresses: " +
				"192.0.2.1:443 lacks 10.0.0.1, 192.0.2.1:80 lacks 10.0.0.2\n",
		},
		{
			"W-2_when_it_is_set", "pool a { persist_mode simple simple_timeout 9 member 10.0.0.1:80 member 10.0.0.2:80 }\npool b { persist_mode simple simple_timeout 9 member 10.0.0.2:443 }\n" +
				"vip 192.0.2.1:80 { use pool a }\nvip 192.0.2.1:443 { use pool b }\n", "sysctl -w bigip.persist_on_any_port_same_vip=1",
			"W-2 3:20+8 persist_on_any_port_same_vip is on: virtual servers 192.0.2.1:443 and 192.0.2.1:80 should include the same node addresses: " +
				"192.0.2.1:443 lacks 10.0.0.1\n",
		},
		{
			"W-3_at_a_later_change", "pool a { persist_mode simple simple_timeout 9 member 10.0.0.1:80 }\npool b { persist_mode simple simple_timeout 9 member 10.0.0.1:443 }\n" +
				"vip 192.0.2.1:80 { use pool a }\nvip 192.0.2.2:443 { use pool b }\nsysctl -w bigip.persist_on_any_vip=1\n", "pool b add { member 10.0.0.2:443 }",
			"W-3 4:21+8 persist_on_any_vip is on: virtual servers 192.0.2.1:80 and 192.0.2.2:443 should include the same node addresses: " +
				"192.0.2.1:80 lacks 10.0.0.2\n",
		},
		{
			"W-4", "pool p { member 10.0.0.1:80 }\n", "pool p modify { simple_mask 255.255.255.0 }",
			"W-4 1:17+11 pool p: simple_mask works only with persist_mode simple\n",
		},
		{
			"W-5", "pool p {\n   persist_mode cookie\n   cookie_mode passive\n   cookie_expiration 1d\n   member 10.0.0.1:80\n}\n", "",
			"W-5 4:4+17 pool p: cookie_expiration is not used with cookie_mode passive\n",
		},
		{
			"W-6", "pool p { persist_mode cookie cookie_mode rewrite member 10.0.0.1:80 }\nrule r { use ( p ) }\n", "",
			"W-6 1:30+11 pool p: cookie_mode rewrite in a pool of rule r: blank cookies of 75 zeros stay as they are, let the server send 120\n",
		},
		{
			"W-7", "pool p {\n   persist_mode sticky\n   member 10.0.0.1:80\n}\nvip 0.0.0.0:80 { use pool p }\n", "vip 192.0.2.1:80 use pool p",
			"W-7 2:4+12 pool p: persist_mode sticky on virtual server 192.0.2.1:80, which is not a wildcard: all clients reach one member\n",
		},
		{
			"W-8", "pool a { persist_mode cookie member 10.0.0.1:80 }\npool b { member 10.0.0.2:80 }\nvip 192.0.2.1:80 { use pool a weight 70 pool b weight 30 }\n", "",
			"W-8 3:20+8 virtual server 192.0.2.1:80: a split in which only some pools persist: a; not b\n",
		},
		{
			"W-9", "pool p {\n   mirror persist enable\n   member 10.0.0.1:80\n}\n", "",
			"W-9 2:4+14 pool p: mirror persist enable is kept, not in effect\n",
		},
		{
			"W-10", "pool p {\n   persist_mode simple\n   simple_timeout 0\n   member 10.0.0.1:80\n}\n", "",
			"W-10 3:4+14 pool p: simple_timeout is 0: persistence is off\n",
		},
		{
			"W-10_command", "pool p { member 10.0.0.1:80 }\n", "pool p modify { persist_mode simple }",
			"W-10 1:17+12 pool p: simple_timeout is not given: persistence is off\n",
		},
		{
			"W-11", "pool p {\n   persist_mode simple simple_timeout 9\n   member 10.0.0.1:8443\n   member 10.0.0.1:9443\n}\nglobal persist_across_virtuals enable\n", "",
			"W-11 4:11+13 pool p: node 10.0.0.1 is a member twice, 10.0.0.1:8443 and 10.0.0.1:9443: records of other pools name only its address\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := run(t, nil, ModeLoad, tt.file)
			if tt.command != "" {
				if len(out.Diagnostics) > 0 {
					t.Fatalf("load: %s", show(out.Diagnostics))
				}
				out = run(t, out.View, ModeCommand, tt.command)
			}
			if got := show(out.Diagnostics); got != tt.want || out.Exit != 0 {
				t.Errorf("exit %d\ngot  %swant %s", out.Exit, got, tt.want)
			}
			for _, d := range out.Diagnostics {
				if d.GetSeverity() != pb.Severity_SEVERITY_WARNING {
					t.Errorf("not a warning: %v", d)
				}
			}
		})
	}
}
