package shell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bigpipe/grammar"
)

// testLanguage knows two pools, a virtual server and a node.
func testLanguage() *Language {
	names := map[grammar.Kind][]string{
		grammar.KindPool: {"shop", "web"}, grammar.KindVirtual: {"10.0.0.1:80"}, grammar.KindNode: {"10.1.1.1", "10.1.1.1:80"},
	}
	return &Language{
		Names: func(kind grammar.Kind, _ string) []string { return names[kind] },
		Commands: []Command{
			{
				Candidate: Candidate{"watch", "repeat"},
				Rest: func(words []string) int {
					if len(words) > 0 && words[0] == "2" {
						return 1
					}
					return 0
				},
			},
			{Candidate: Candidate{"exit", "leave"}},
		},
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"po web sh":                     "pool web show",
		"pool sh":                       "pool show",
		"po x { member 10.1.1.1:80 }":   "pool x { member 10.1.1.1:80 }",
		"po web pe du cl 10.9.8.7":      "pool web persist dump client 10.9.8.7",
		"virt 10.0.0.1:80 us po web":    "virtual 10.0.0.1:80 use pool web",
		"node 10.1.1.1:80 dis":          "node 10.1.1.1:80 disable",
		"glo persist_across_v en":       "global persist_across_virtuals enable",
		"con du":                        "conn dump",
		"roll 3":                        "rollback 3",
		"loa --dry-run x.conf":          "load --dry-run x.conf",
		"wa 2 po web sh":                "watch 2 pool web show",
		"wat virt sh":                   "watch virtual show",
		"node sh":                       "node show",
		"virtual 10.0.0.1:http":         "virtual 10.0.0.1:http",
		"exi":                           "exit",
		"pool sh { member 10.1.1.1:80}": "pool sh { member 10.1.1.1:80}", // a pool of that name
		"poll web show":                 "poll web show",                 // the beginning of nothing
		"poo web { lb_mdoe x }":         "pool web { lb_mdoe x }",        // a fault that stays one
		"power x":                       "power x",
		"":                              "",
		"# sh":                          "# sh",
	} {
		if got, err := testLanguage().Expand(text); got != want || err != nil {
			t.Errorf("Expand(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestExpand_ambiguous(t *testing.T) {
	for text, want := range map[string]string{
		"p show":                `"p" may be persist, pool, port, proxy`,
		"po web { lb_mdoe x }":  `"po" may be pool, port`,
		"con":                   `"con" may be config, configsync, confirm, conn`,
		"watch ver":             `"ver" may be verbose, version`,
		"pool web per show x y": "",
	} {
		_, err := testLanguage().Expand(text)
		var ambiguous *AmbiguousError
		switch {
		case want == "" && err != nil:
			t.Errorf("Expand(%q): %v", text, err)
		case want != "" && (!errors.As(err, &ambiguous) || err.Error() != want):
			t.Errorf("Expand(%q): %v, want %s", text, err, want)
		}
	}
}

func TestLanguageComplete(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"site.conf", "with blank.conf", ".hidden", "sub/x.conf"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, test := range map[string]struct{ want, not string }{
		"":                               {want: "exit pool virtual watch"},
		"po":                             {want: "pool port"},
		"pool ":                          {want: "shop web show", not: "10.1.1.1"},
		"poo w":                          {want: "web", not: "shop"},
		"po web sh":                      {want: "show"},
		"pool web {\n  persist_mode s":   {want: "simple sticky ssl", not: "cookie"},
		"pool web { mem":                 {want: "member"},
		"wa":                             {want: "watch"},
		"watch ":                         {want: "pool", not: "web"},
		"watch 2 pool ":                  {want: "web show"},
		"watch 2 po":                     {want: "pool port"},
		"exit ":                          {not: "pool"},
		"load ":                          {want: `site.conf sub/ "with --dry-run`, not: ".hidden x.conf"},
		"load s":                         {want: "site.conf sub/", not: "--dry-run"},
		"load sub/":                      {want: "sub/x.conf"},
		"load .h":                        {want: ".hidden"},
		`load "wi`:                       {want: `"with`},
		"load site.conf ":                {not: "site.conf"},
		"load --dry-run s":               {want: "site.conf"},
		"load --confirm-within ":         {want: "5m", not: "site.conf"},
		"load --confirm-within 5m s":     {want: "site.conf"},
		"verify load s":                  {want: "site.conf"},
		"verify ":                        {want: "load", not: "site.conf"},
		"merge s":                        {want: "site.conf"},
		"save --dialect ":                {want: "3 4"},
		"# pool ":                        {not: "web"},
		`pool web { fallback "http`:      {not: "web"},
		"pool web show # po":             {not: "pool"},
		"virt 10.0.0.1:80 use pool ":     {want: "web shop"},
		"pool web { member 10.1.1.1:80 ": {want: "ratio"},
		"po web del { member ":           {want: "10.1.1.1:80", not: "10.1.1.1 ratio"},
	} {
		candidates, start := testLanguage().Complete(text)
		found := " "
		for _, c := range candidates {
			found += c.Text + " "
			if !strings.HasPrefix(c.Text, text[start:]) {
				t.Errorf("%q: %q does not go on with %q", text, c.Text, text[start:])
			}
		}
		for _, w := range strings.Fields(test.want) {
			if !strings.Contains(found, " "+w+" ") {
				t.Errorf("%q: no %q in%s", text, w, found)
			}
		}
		for _, w := range strings.Fields(test.not) {
			if strings.Contains(found, " "+w+" ") {
				t.Errorf("%q: %q in%s", text, w, found)
			}
		}
	}
}

func TestContinuations(t *testing.T) {
	for text, want := range map[string][]string{
		"pool ":                          {"web: pool", "POOL:", "show: states and counters"},
		"pool web { simple_timeout ":     {"SECONDS: seconds that"},
		"pool web { persist_mode ":       {"simple: "},
		"pool web { simple_mask ":        {"MASK: ", "none: "},
		"poo web { member ":              {"ADDRESS:SERVICE: "},
		"pool web { member 10.1.1.1:80 ": {"ratio: weight"},
		"pool web { member 1:80 ratio ":  {"NUMBER: weight"},
		"pool web show":                  {"ENTER: run"},
		"po web sh":                      {"ENTER: run", "show: "},
		"load ":                          {"FILE: reset", "--dry-run: "},
		"load --confirm-within ":         {"DURATION: ", "5m: "},
		"persist dump client ":           {"ADDRESS: the records"},
		"node 10.1.1.1 limit ":           {"NUMBER: connections"},
		"watch 2 poo web persist ":       {"dump: the records"},
		"rollback ":                      {"REVISION: go back", "ENTER: "},
		"rule r { use ( ":                {"web: pool"},
	} {
		list := testLanguage().Continuations(text)
		for _, w := range want {
			word, help, _ := strings.Cut(w, ": ")
			word = strings.TrimSuffix(word, ":")
			if !slices.ContainsFunc(list, func(c Candidate) bool { return c.Text == word && strings.HasPrefix(c.Help, help) }) {
				t.Errorf("%q: no %q in %v", text, w, list)
			}
		}
	}
	for _, text := range []string{"pool web { ", "pool web { lb_mode ", "persist 80 "} {
		if slices.ContainsFunc(testLanguage().Continuations(text), func(c Candidate) bool { return c.Text == "ENTER" }) {
			t.Errorf("%q may not end here", text)
		}
	}
}

func TestIncomplete(t *testing.T) {
	for text, want := range map[string]bool{
		"pool web {": true, "pool web { member 10.1.1.1:80 }": false, "pool web show": false, "pool web \\": true,
		"rule r {\n if ( http_uri equals \"}\" ) {": true, "": false,
	} {
		if got := testLanguage().Incomplete(text); got != want {
			t.Errorf("Incomplete(%q) = %v", text, got)
		}
	}
}

func TestColumns(t *testing.T) {
	var many []Candidate
	for i := range 10000 {
		many = append(many, Candidate{Text: fmt.Sprintf("pool%05d", i)})
	}
	got := columns(many, func() (int, int) { return 80, 24 })
	rows := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(rows) != 21 || !strings.HasSuffix(got, "and 9860 more; type more letters\n") {
		t.Errorf("%d rows:\n%s", len(rows), got)
	}
	for _, row := range rows {
		if len(row) > 80 {
			t.Errorf("row of %d characters: %s", len(row), row)
		}
	}
	narrow := columns(many[:3], func() (int, int) { return 5, 24 })
	if want := "pool00000\npool00001\npool00002\n"; narrow != want {
		t.Errorf("on a narrow screen %q, want %q", narrow, want)
	}
	if got, want := lines([]Candidate{{"ratio", "weight"}, {"limit", "connections at most"}}, func() (int, int) { return 20, 24 }),
		"  ratio  weight\n  limit  connect...\n"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func FuzzLanguage(f *testing.F) {
	for _, seed := range []string{"po web sh", "pool web {\n member ", `load "x`, "watch 2 po", "rule r { if ( http_uri", "a # b\nc", "vip 1 us po"} {
		f.Add(seed)
	}
	language, plain := testLanguage(), &Language{}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.Count(text, " ") > 20 {
			t.Skip("only what somebody types")
		}
		candidates, start := language.Complete(text)
		if start < 0 || start > len(text) {
			t.Fatalf("a place outside of the text: %d", start)
		}
		for _, c := range candidates {
			if !strings.HasPrefix(c.Text, text[start:]) {
				t.Errorf("%q does not go on with %q", c.Text, text[start:])
			}
		}
		language.Continuations(text)
		if expanded, err := language.Expand(text); err != nil && expanded != text {
			t.Errorf("%q is ambiguous and became %q", text, expanded)
		}
		if expanded, err := plain.Expand(text); !faulty(text) && (err != nil || expanded != text) {
			t.Errorf("%q is no fault and became %q, %v", text, expanded, err)
		}
	})
}

// BenchmarkComplete is a Tab with 10,000 pools.
func BenchmarkComplete(b *testing.B) {
	var pools []string
	for i := range 10000 {
		pools = append(pools, fmt.Sprintf("pool%05d", i))
	}
	language := &Language{Names: func(grammar.Kind, string) []string { return pools }}
	for _, text := range []string{"pool ", "pool pool1", "po pool00001 sh", "virtual 10.0.0.1:80 use pool "} {
		b.Run(strings.ReplaceAll(text, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				language.Complete(text)
			}
		})
	}
}
