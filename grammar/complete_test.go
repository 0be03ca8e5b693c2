package grammar

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func names(kind Kind) []string {
	return map[Kind][]string{
		KindPool: {"web", "shop"}, KindVirtual: {"10.0.0.1:80"}, KindRule: {"by_uri"}, KindNode: {"10.1.1.1", "10.1.1.1:80"},
		KindMonitor: {"my_check"}, KindVlan: {"internal"},
	}[kind]
}

func TestComplete(t *testing.T) {
	for line, c := range map[string]struct{ want, not []string }{
		"":                                   {want: []string{"pool", "virtual", "persist", "save"}},
		"po":                                 {want: []string{"pool", "port"}, not: []string{"virtual"}},
		"pool ":                              {want: []string{"web", "shop", "show", "persist"}},
		"pool w":                             {want: []string{"web"}, not: []string{"shop"}},
		"pool web ":                          {want: []string{"modify", "persist", "sticky", "{", "delete"}, not: []string{"web"}},
		"pool web persist ":                  {want: []string{"show", "dump", "clear", "explain"}},
		"pool web persist dump ":             {want: []string{"client", "node", "mode", "older"}},
		"pool web persist dump mode ":        {want: []string{"simple", "cookie"}},
		"pool web persist dump node 10.1.1.": {want: []string{"10.1.1.1", "10.1.1.1:80"}},
		"pool web sticky ":                   {want: []string{"clear"}},
		"pool web { ":                        {want: []string{"lb_mode", "persist_mode", "member", "cookie_mode"}, not: []string{"ratio"}},
		"pool web { lb_mode ":                {want: []string{"round_robin", "ratio"}, not: []string{"member"}},
		"pool web modify { persist_":         {want: []string{"persist_mode", "persist_limit"}, not: []string{"lb_mode"}},
		"pool web { mirror ":                 {want: []string{"persist"}},
		"pool web { mirror persist ":         {want: []string{"enable", "disable"}},
		"pool web { member 10.1.1.1:80 ":     {want: []string{"ratio", "priority", "member", "lb_mode"}},
		"pool web { member 10.1.1.1:80 rat":  {want: []string{"ratio"}},
		"vip 10.0.0.1:80 ":                   {want: []string{"use", "persist", "sticky", "netmask", "{"}},
		"vip 10.0.0.1:80 use ":               {want: []string{"pool", "rule"}},
		"vip 10.0.0.1:80 use pool ":          {want: []string{"web", "shop"}},
		"vip 10.0.0.1:80 { use rule ":        {want: []string{"by_uri"}},
		"vip 10.0.0.1 ":                      {want: []string{"enable", "disable", "limit"}, not: []string{"netmask_"}},
		"node 10.1.1.1 ":                     {want: []string{"enable", "disable", "up", "down", "ratio", "show"}},
		"global ":                            {want: []string{"persist_across_virtuals", "lb", "show"}},
		"global lb ":                         {want: []string{"round_robin"}},
		"sysctl -w ":                         {want: []string{"bigip.persist_on_any_vip="}},
		"rule r { use ( ":                    {want: []string{"web", "shop"}},
		"rule r { if ( http_":                {want: []string{"http_uri", "http_host"}},
		"persist forecast ":                  {want: []string{"node"}},
		"save --":                            {want: []string{"--dialect"}},
		"load ":                              {want: []string{"--dry-run", "--confirm-within"}},
		"pool web { } ":                      {want: []string{"pool", "virtual"}},
		"global persist l":                   {not: []string{"lb", "limit"}},
		"interface exp0 ":                    {want: []string{"dest", "failsafe", "{"}, not: []string{"tag"}},
		"interface exp0 failsafe ":           {want: []string{"arm", "disarm"}},
		"interface exp0 adminport ":          {want: []string{"open", "lockdown"}},
		"vlan v { ":                          {want: []string{"tag", "interfaces"}, not: []string{"dest"}},
		"vlan v { interfaces add ":           {want: []string{"tagged"}},
		"monitor m { ":                       {want: []string{"use", "interval", "database"}},
		"monitor m { use ":                   {want: []string{"http", "icmp", "my_check"}},
		"monitor m { transparent ":           {want: []string{"use", "reverse"}},
		"monitor ":                           {want: []string{"show", "dump", "instance", "my_check", "http"}},
		"monitor my_check ":                  {want: []string{"{", "modify", "delete", "enable", "show"}},
		"node 10.1.1.1:80 monitor use ":      {want: []string{"http", "my_check"}},
		"node 10.1.1.1:80 monitor ":          {want: []string{"use", "delete", "show"}},
		"node ":                              {want: []string{"monitor", "show", "10.1.1.1"}},
		"self 10.0.0.1 { vlan ":              {want: []string{"internal"}},
		"proxy 10.0.0.1:443 { target ":       {want: []string{"virtual", "vip", "server"}},
		"proxy 10.0.0.1:443 { target vip ":   {want: []string{"10.0.0.1:80"}},
		"snat ":                              {want: []string{"map", "limit", "timeout", "show"}},
		"snat timeout ":                      {want: []string{"tcp", "udp"}},
		"default_gateway use pool ":          {want: []string{"web", "shop"}},
		"failover ":                          {want: []string{"active", "standby", "show"}},
		"list ":                              {want: []string{"pool", "vip", "monitor"}, not: []string{"load", "help", "show"}},
		"list pool ":                         {want: []string{"web", "shop"}, not: []string{"by_uri"}},
		"config ":                            {want: []string{"save", "sync"}},
		"class c { ":                         {want: []string{"host", "network"}, not: []string{`"TEXT"`}},
	} {
		got, start := Complete(line, len(line), names)
		var texts []string
		for _, cand := range got {
			texts = append(texts, cand.Text)
		}
		for _, w := range c.want {
			if !slices.Contains(texts, w) {
				t.Errorf("%q: no %q in %q", line, w, texts)
			}
		}
		for _, w := range c.not {
			if slices.Contains(texts, w) {
				t.Errorf("%q: %q in %q", line, w, texts)
			}
		}
		if want := strings.LastIndexByte(line, ' ') + 1; start != want {
			t.Errorf("%q: start %d, want %d", line, start, want)
		}
	}
}

// TestCommandTable checks that every example of the table parses and that no form is without help.
func TestCommandTable(t *testing.T) {
	for _, c := range Commands {
		if c.Help == "" || c.Release == 0 {
			t.Errorf("%s: no help or release", c.Form)
		}
		if c.Example != "" {
			command(t, c.Example)
		}
		first, _, _ := strings.Cut(c.Form, " ")
		if statementWords[first] == nil {
			t.Errorf("%s: the splitter does not know it", c.Form)
		}
	}
	for word, s := range statementWords {
		if !s.kept && s.missing == "" && len(commandsOf(word)) == 0 {
			t.Errorf("%s: no row in the command table", word)
		}
		if s.missing == "" && s.help == "" {
			t.Errorf("%s: no help", word)
		}
	}
}

func TestAttributeTables(t *testing.T) {
	for _, table := range Tables() {
		set := map[string]bool{"meta": true, "name": true, "address": true, "port": true, "members": true, "vlans_enabled": true, "target": true, "to": true, "node": true, "contents": true}
		for _, field := range table.Head {
			set[field] = true
		}
		for _, a := range table.Rows {
			if a.Help == "" || a.Release == 0 {
				t.Errorf("%s %s: no help or release", table.Title, a.Name())
			}
			if set[a.Field] {
				t.Errorf("%s %s: the field %s has two rows", table.Title, a.Name(), a.Field)
			}
			set[a.Field] = true
		}
		if len(table.Rows) == 0 { // the head is all
			continue
		}
		fields := table.Rows[0].field.ContainingMessage().Fields()
		for i := range fields.Len() {
			if name := string(fields.Get(i).Name()); !set[name] {
				t.Errorf("%s: no row sets the field %s", table.Title, name)
			}
		}
	}
}

func TestHelp(t *testing.T) {
	for words, want := range map[string][]string{
		"":                       {"pool", "virtual", "persist"},
		"pool":                   {"pool POOL modify { ATTRIBUTES }", "lb_mode", "example: pool web modify", "after member"},
		"vip":                    {"vip VIRTUAL persist SECONDS", "use pool"},
		"pool cookie_expiration": {"DAYSd [HH:MM:SS]"},
		"pool lb_mode":           {"also read: lb_method", "least_conn_member"},
		"pool web lb_mode":       {"lb_mode round_robin|", "pool POOL lb_mode show"},
		"pool add":               {"add members"},
		"vip persist":            {"vip VIRTUAL persist SECONDS", "mirror persist"},
		"pool ratio":             {"weight in mode ratio_member"},
		"interface":              {"interface INTERFACE ATTRIBUTES", "failsafe arm|disarm", "kept, not in effect"},
		"interface adminport":    {"adminport open|lockdown"},
		"monitor":                {"monitor MONITOR { ATTRIBUTES }", "monitor instance", "transparent [enable|disable]"},
		"class":                  {`"TEXT"`, "network ADDRESS mask MASK"},
		"power":                  {"kept whole"},
		"self snat automap":      {"snat automap [enable|disable]"},
		"poool":                  {`did you mean "pool"?`},
	} {
		got, _ := Help(strings.Fields(words))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("help %s: no %q in\n%s", words, w, got)
			}
		}
		if lines := strings.Count(got, "\n"); strings.Contains(words, " ") && lines > 24 {
			t.Errorf("help %s: %d lines", words, lines)
		}
	}
}

// BenchmarkComplete completes where the names of 10,000 pools, as many virtual servers and 80,000 nodes can stand, and where one of
// their attributes can.
func BenchmarkComplete(b *testing.B) {
	known := make(map[Kind][]string)
	for i := range 10000 {
		known[KindPool] = append(known[KindPool], fmt.Sprintf("pool_%d", i))
		known[KindVirtual] = append(known[KindVirtual], fmt.Sprintf("172.16.%d.%d:80", i>>8, i&255))
		for m := range 4 {
			address := fmt.Sprintf("10.%d.%d.%d", i>>8, i&255, m+1)
			known[KindNode] = append(known[KindNode], address, address+":8080")
		}
	}
	for _, names := range known {
		slices.Sort(names)
	}
	for _, line := range []string{"", "pool ", "pool pool_77", "vip ", "vip 172.16.0.1:80 use pool ", "node ", "pool pool_1 { persist_", "node 10.1.1.1:80 monitor use "} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				if found, _ := Complete(line, len(line), func(k Kind) []string { return known[k] }); len(found) == 0 {
					b.Fatal("nothing found")
				}
			}
		})
	}
}
