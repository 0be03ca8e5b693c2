package grammar

import (
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// refused parses a command that has faults and returns the first of them.
func refused(t *testing.T, text string) *pb.Diagnostic {
	t.Helper()
	_, faults := ParseCommand(&pb.Position{}, []byte(text))
	if len(faults) == 0 {
		t.Fatalf("%s: no fault", text)
	}
	return faults[0]
}

// TestQueries: what is asked of the old unit's kinds and of the unit itself, in the words of both releases.
func TestQueries(t *testing.T) {
	for text, want := range map[string]struct {
		action Action
		key    string
		words  string
	}{
		"interface show":              {ActionShow, "interface/", ""},
		"interface exp0 show":         {ActionShow, "interface/exp0", ""},
		"interface":                   {ActionShow, "interface/", ""},
		"vlan internal":               {ActionShow, "vlan/internal", ""},
		"self 10.0.0.1 delete":        {ActionDelete, "self/10.0.0.1", ""},
		"proxy 10.0.0.9:https show":   {ActionShow, "proxy/10.0.0.9:443", ""},
		"nat 10.1.1.1 delete":         {ActionDelete, "nat/10.1.1.1", ""},
		"snat show":                   {ActionShow, "snat/", ""},
		"snat 10.0.0.9 delete":        {ActionDelete, "snat/10.0.0.9", ""},
		"snat limit show":             {ActionGlobalShow, "global", "snat_limit"},
		"class images":                {ActionShow, "class/images", ""},
		"monitor show all":            {ActionShow, "monitor/", "all"},
		"monitor dump":                {ActionMonitorDump, "monitor/", ""},
		"monitor dump all":            {ActionMonitorDump, "monitor/", "all"},
		"monitor m dump":              {ActionMonitorDump, "monitor/m", ""},
		"monitor m show":              {ActionShow, "monitor/m", ""},
		"node monitor show":           {ActionNodeMonitorShow, "monitor_use/", ""},
		"node *:80 monitor show":      {ActionShow, "monitor_use/*:80", ""},
		"node 10.1.1.1 monitor show":  {ActionShow, "monitor_use/10.1.1.1", ""},
		"node *:443 monitor delete":   {ActionDelete, "monitor_use/*:443", ""},
		"port show":                   {ActionShow, "service/", ""},
		"port":                        {ActionShow, "service/", ""},
		"treaper 80 show":             {ActionShow, "service/80", ""},
		"tping_svc show":              {ActionShow, "service/", ""},
		"ratio show":                  {ActionShow, "node/", ""},
		"ratio 10.1.1.1 show":         {ActionShow, "node/10.1.1.1", ""},
		"vip 10.0.0.1 show":           {ActionShow, "virtual_address/10.0.0.1", ""},
		"unit":                        {ActionGlobalShow, "global", "unit"},
		"unit show":                   {ActionGlobalShow, "global", "unit"},
		"gateway show":                {ActionGlobalShow, "global", "gateway failsafe"},
		"gateway failsafe show":       {ActionGlobalShow, "global", "gateway failsafe"},
		"default_gateway show":        {ActionGlobalShow, "global", "default_gateway use pool"},
		"verbose show":                {ActionGlobalShow, "global", "verbose_log_level"},
		"global persist_timer show":   {ActionGlobalShow, "global", "persist timer"},
		"global show":                 {ActionGlobalShow, "global", ""},
		"maint":                       {ActionToggle, "global", "maint"},
		"power show":                  {ActionShow, "kept/", "power"},
		"failover":                    {ActionFailover, "", "show"},
		"failover standby":            {ActionFailover, "", "standby"},
		"config":                      {ActionConfigSync, "", ""},
		"config sync all":             {ActionConfigSync, "", ""},
		"configsync":                  {ActionConfigSync, "", ""},
		"config save /tmp/x":          {ActionSave, "", "/tmp/x"},
		"makecookie 10.1.1.1:http":    {ActionMakeCookie, "", "10.1.1.1:80"},
		"makecookie [2001:db8::1]:80": {ActionMakeCookie, "", "[2001:db8::1]:80"},
		"list vlan internal":          {ActionList, "vlan/internal", ""},
		"list proxy 10.0.0.9:https":   {ActionList, "proxy/10.0.0.9:443", ""},
		"dt":                          {ActionConnDump, "", ""},
	} {
		st := command(t, text)[0]
		key := st.Key
		if key == "" && st.Kind != "" {
			key = string(st.Kind) + "/"
		}
		if st.Action != want.action || key != want.key || strings.Join(st.Words, " ") != want.words {
			t.Errorf("%s: action %d, want %d; %q %q", text, st.Action, want.action, key, st.Words)
		}
	}
	st := command(t, "conn dump client 10.9.8.7 virtual 10.0.0.1:http node 10.1.1.1:80")[0].Connections
	if st.GetClient() != "10.9.8.7" || st.GetVirtual() != "10.0.0.1:80" || st.GetNode() != "10.1.1.1:80" {
		t.Errorf("conn dump: %v", st)
	}
	if st := command(t, "default_gateway delete")[0]; strings.Join(st.Cleared, " ") != "default_gateway_pool" {
		t.Errorf("default_gateway delete: %v", st.Cleared)
	}
	if got := refused(t, "global lb_mdoe show").GetMessage(); got != `unknown global variable "lb_mdoe"` {
		t.Error(got)
	}
	if st := command(t, "node 10.1.1.1 10.1.1.2 show"); len(st) != 2 || st[1].Key != "node/10.1.1.2" {
		t.Errorf("two nodes: %v", st)
	}
}

// TestLenient: nothing that a file says about the old unit's kinds makes a load fail, unless brackets or bytes are wrong; a pool, a
// member, a virtual server, a rule, a node, a service and the unit are checked word by word.
func TestLenient(t *testing.T) {
	for word, w := range statementWords {
		if !w.legacy {
			continue
		}
		for _, rest := range []string{"x y z", "x { y z }", "10.1.1.1 y { z }", "x y \"z\" ( a )", "{ y }", "10.1.1.1:80 timeout", "x netmask 1", "1 2 3 4 enabel"} {
			statements, ds := Parse("f", []byte(word+" "+rest+"\n"))
			if failed(ds) || len(statements) == 0 || statements[0].Faulty || statements[0].Action == ActionKeep && len(ds) != 1 {
				t.Errorf("%s %s: %v", word, rest, ds)
			}
		}
	}
	for _, text := range []string{
		"pool p { colour red }", "pool p { member 10.1.1.1:80 colour red }", "vip 10.0.0.1:80 { colour red }", "rule r { colour red }",
		"node 10.1.1.1 colour red", "service 80 colour red", "global colour red", "vlan v {", "vlan v { x ) }", "class c { \"x }",
	} {
		if _, ds := Parse("f", []byte(text)); !failed(ds) {
			t.Errorf("%s: no fault", text)
		}
	}
}

// TestKeptComments: the comments inside a kept statement stay there, the others stand before it.
func TestKeptComments(t *testing.T) {
	st, ds := Parse("f", []byte("# before\nvlan v { tag 5 # inside\n  colour red\n  # inside too\n} # behind\nlb rr\n"))
	kept := st[0].Object.GetKept()
	if got := strings.Join(kept.GetMeta().GetComments(), ","); got != " before, behind" {
		t.Errorf("comments %q", got)
	}
	if want := "vlan v { tag 5 # inside\n  colour red\n  # inside too\n}"; kept.GetText() != want || len(ds) != 1 {
		t.Errorf("%q, %v", kept.GetText(), ds)
	}
	if st[1].Object.GetGlobal().GetMeta().GetComments() != nil {
		t.Error("the next statement has comments of another")
	}
}

// TestWarnings: at most 50 are shown, and the first faults of a text are shown beside them.
func TestWarnings(t *testing.T) {
	_, ds := Parse("f", []byte(strings.Repeat("vlan v { colour red }\n", 60)+"poool x\n"))
	var severities [4]int
	for _, d := range ds {
		severities[d.GetSeverity()]++
		if d.GetSeverity() == pb.Severity_SEVERITY_WARNING && (d.GetCode() != CodeKept || d.GetSource() == "" || d.GetLength() != 6) {
			t.Errorf("%v", d)
		}
	}
	if severities[pb.Severity_SEVERITY_WARNING] != 50 || severities[pb.Severity_SEVERITY_ERROR] != 1 || ds[len(ds)-1].GetMessage() != "10 more warnings are not shown" {
		t.Errorf("%v, %v", severities, ds[len(ds)-1])
	}
}

func TestMonitorTemplates(t *testing.T) {
	var objects []*pb.Object
	for _, m := range pb.MonitorTemplates() {
		interval, timeout := uint32(5), uint32(16)
		if m.GetName() == "health_checker" { // rule J-16
			interval, timeout = 30, 10
		}
		if m.GetInterval() != interval || m.GetTimeout() != timeout || m.GetDest() == "" {
			t.Errorf("%v", m)
		}
		objects = append(objects, &pb.Object{Kind: &pb.Object_Monitor{Monitor: m}})
	}
	stable(t, objects)
	if len(objects) != 22 {
		t.Errorf("%d templates", len(objects))
	}
}
