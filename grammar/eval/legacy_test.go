package eval

import (
	"fmt"
	"strings"
	"testing"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// keptLines is the load report: what is kept, not in effect, by first word.
func keptLines(out *Outcome) string {
	var b strings.Builder
	for _, k := range out.Kept {
		fmt.Fprintf(&b, "%d:%d %s %d\n", k.Position.GetLine(), k.Position.GetColumn(), k.Keyword, k.Count)
	}
	return b.String()
}

// TestKept: statements of which nothing is in effect are counted by their first word, whether they are typed or kept as text.
func TestKept(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"typed":                 {"interface exp0 dest enable\nsnat limit 0\ninterface exp0 source disable\n", "1:1 interface 2\n2:1 snat 1\n"},
		"kept_as_text":          {"vlan a { tag 5 }\nvlan b { colour red }\npower x\n", "1:1 vlan 2\n3:1 power 1\n"},
		"switched_off":          {"mirror disable\ngateway failsafe disarm\nglobal open_ssh_ports enable\nmirror enable\n", "3:1 global 1\n4:1 mirror 1\n"},
		"an_interface_at_rest":  {"interface exp0 failsafe disarm\n", "1:1 interface 1\n"},
		"in_effect":             {"lb dynamic_ratio\npool p { lb_mode fastest member 10.1.1.1:80 }\nclass c { \".gif\" }\nservice 80 timeout tcp 5\n", ""},
		"one_statement_is_one":  {"interface exp0 exp1 dest enable\nport 80 443 enable limit 5\n", "1:1 interface 1\n"},
		"monitors_of_a_node":    {"pool p { member 10.1.1.1:80 }\nnode 10.1.1.1 10.1.1.1:80 monitor use http\nnode 10.1.1.1 disable\n", ""},
		"brace_after_the_word":  {"monitor{ a }\n", "1:1 monitor 1\n"},
		"timers_of_the_old_one": {"tping_node 5 timeout_node 16\ntping_svc 80 5\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keptLines(run(t, nil, ModeLoad, c.text)); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	if out := run(t, load(t, "vlan a { tag 5 }\n"), ModeCommand, "vlan show\nvlan a delete\n"); out.Exit != 0 || len(out.Kept) != 0 {
		t.Errorf("exit %d, %s", out.Exit, keptLines(out))
	}
}

func TestLegacyCommands(t *testing.T) {
	base := load(t, "monitor m { use http interval 5 }\nvlan internal { tag 7 interfaces add 1.1 1.2 }\nvlan odd { colour red }\nclass images { \".gif\" }\n"+
		"pool p { member 10.0.0.1:80 }\nnode 10.0.0.1:80 monitor use m\nnode *:80 monitor use tcp\nsnat map { 10.0.0.7 to 10.0.0.9 }\n")
	for _, c := range []struct {
		name, text string
		exit       int
		want       string
	}{
		{"a_monitor_exists", "monitor m { use tcp }", 1, "existing monitor m: delete it first, or change it with modify"},
		{"a_monitor_is_changed", "monitor m modify { interval 9 }", 0, "monitor m {\n   use http\n   interval 9\n}\n"},
		{"a_monitor_is_new", "monitor n { use m }", 0, "monitor n { use m }\n"},
		{"a_monitor_needs_a_template", "monitor n disable", 1, "monitor n not found (m?)"},
		{"a_template_can_be_switched", "monitor http disable", 0, "monitor http { disable }\n"},
		{"a_monitor_is_in_use", "monitor m delete", 1, "monitor m is in use by monitor of node 10.0.0.1:80"},
		{"monitors_of_a_node_replace", "node 10.0.0.1:80 monitor use http and tcp", 0, "node 10.0.0.1:80 monitor use http and tcp\n"},
		{"monitors_of_no_node", "node 10.0.0.2:80 monitor use http", 1, "not found"},
		{"one_instance", "monitor instance 10.0.0.1:80 disable", 0, "monitor instance 10.0.0.1:80 disable\n"},
		{"braces_replace", "vlan internal { interfaces add 1.3 }", 0, "vlan internal { interfaces add 1.3 }\n"},
		{"words_change", "vlan internal interfaces add 1.2 1.3", 0, "vlan internal {\n   tag 7\n   interfaces add 1.1 1.2 1.3\n}\n"},
		{"elements_go", "vlan internal interfaces delete 1.1", 0, "vlan internal {\n   tag 7\n   interfaces add 1.2\n}\n"},
		{"elements_that_are_not_there", "vlan internal interfaces delete 1.9", 1, "vlan internal: 1.9 not found"},
		{"text_gives_way", "vlan odd { tag 9 }", 0, "vlan odd { tag 9 }\n"},
		{"text_takes_the_place", "vlan internal { colour blue }", 0, "vlan internal { colour blue }\n"},
		{"text_is_deleted", "vlan odd delete", 0, ""},
		{"origins_come_together", "snat map { 10.0.0.8 to 10.0.0.9 unit 2 }", 0, "snat map { 10.0.0.7 10.0.0.8 to 10.0.0.9 unit 2 }\n"},
		{"a_template_is_shown", "monitor http show", 0, ""},
		{"maintenance_is_switched_over", "maint", 0, "global maint enable\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := run(t, base, ModeCommand, c.text)
			got := show(out.Diagnostics)
			if out.Exit == 0 {
				var objects []*pb.Object
				for _, change := range out.Changes {
					if change.New != nil {
						objects = append(objects, change.New)
					}
				}
				got = string(grammar.Format(objects, grammar.FormatOptions{}))
			}
			if out.Exit != c.exit || !strings.HasSuffix(strings.TrimSuffix(got, "\n"), strings.TrimSuffix(c.want, "\n")) || (c.want == "") != (got == "") {
				t.Errorf("exit %d\n%s", out.Exit, got)
			}
		})
	}
	if v := command(t, base, "vlan odd { tag 9 }"); v.Len("kept") != 0 || v.Len("vlan") != 2 {
		t.Errorf("%s", format(v))
	}
	if v := command(t, base, "vlan internal { colour blue }"); v.Len("kept") != 2 || v.Len("vlan") != 0 {
		t.Errorf("%s", format(v))
	}
	if v := command(t, base, "maint\nmaint"); config.Globals(v).GetMaint() {
		t.Error("maintenance is on")
	}
	if v := command(t, base, "pool p delete"); v.Len("monitor_use") != 1 {
		t.Errorf("monitors of a node that is gone: %s", format(v))
	}
	// The old unit's file may be split: a statement with braces adds to those without.
	v := load(t, "vlan v tag 5\nvlan v { interfaces add 1.1 }\n")
	if got := written(v); got != "vlan v {\n   tag 5\n   interfaces add 1.1\n}\n" {
		t.Error(got)
	}
}

// TestElementLimit: statements that each change something long end in a fault before they become slow.
func TestElementLimit(t *testing.T) {
	var long, often strings.Builder
	for i := range 410 {
		long.WriteString("snat map {")
		for j := range 10 {
			fmt.Fprintf(&long, " 10.%d.%d.%d", i>>8, i&255, j)
		}
		long.WriteString(" to 10.0.0.9 }\n")
	}
	long.WriteString("snat map { 10.9.9.9 to 10.0.0.8 }\n")
	often.WriteString("pool p {\n")
	for i := range 2000 {
		fmt.Fprintf(&often, "member 10.1.%d.%d:80\n", i>>8, i&255)
	}
	often.WriteString("}\n" + strings.Repeat("pool p modify { lb_mode ratio }\n", maxCopied/memberCost/2000+1))
	for text, want := range map[string]string{
		long.String():  "10.0.0.9: origins would have more than 4096 elements\n",
		often.String(): "pool p is too long to be changed by so many statements: say more in each of them\n",
	} {
		out := run(t, nil, ModeLoad, text)
		if got := show(out.Diagnostics); out.Exit != 2 || !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("exit %d %s", out.Exit, got)
		}
	}
}

// TestMonitorURL: the url of a monitor fills its dest with the address of the host that it names, unless a dest is given.
func TestMonitorURL(t *testing.T) {
	for text, want := range map[string]string{
		`monitor m { use http url "http://n1/a" }`:                                            "10.0.0.1:80",
		`monitor m { use https url "https://n6/a" }`:                                          "[2001:db8::6]:443",
		`monitor m { use http url "http://n1:81/a" dest *:82 }`:                               "*:82",
		`monitor m { use http url "http://10.9.9.9/a" }`:                                      "",
		`monitor m { use http send "GET /" }`:                                                 "",
		"monitor m { use http url \"http://n1/a\" }\nmonitor m modify { url \"http://n2/\" }": "10.0.0.2:80",
	} {
		v := command(t, config.NewTree(), text)
		m := v.Get("monitor/m").GetMonitor()
		if got := m.GetDest(); got != want || (m.Dest != nil) != (want != "") {
			t.Errorf("%s: dest %q, want %q", text, got, want)
		}
	}
	v := load(t, `monitor m { use http url "http://10.9.9.9/a" }`)
	if got := config.MonitorDestination(v, "m", "10.1.1.1:80"); got != "10.9.9.9:80" {
		t.Errorf("it looks at %s", got)
	}
}
