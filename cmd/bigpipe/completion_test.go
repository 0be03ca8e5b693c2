package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/shell"
	"bigpipe/grammar"
)

func TestSplitLine(t *testing.T) {
	for line, want := range map[string]struct {
		words []string
		last  lineWord
	}{
		"":                             {nil, lineWord{}},
		"bigpipe po":                   {[]string{"bigpipe"}, lineWord{text: "po"}},
		"bigpipe pool ":                {[]string{"bigpipe", "pool"}, lineWord{}},
		"b 'pool web { lb":             {[]string{"b"}, lineWord{text: "pool web { lb", quote: '\''}},
		`b "pool \"web" sh`:            {[]string{"b", `pool "web`}, lineWord{text: "sh"}},
		`b load my\ site.co`:           {[]string{"b", "load"}, lineWord{text: "my site.co"}},
		`b 'a'"b"\c d`:                 {[]string{"b", "abc"}, lineWord{text: "d"}},
		`b '' x`:                       {[]string{"b", ""}, lineWord{text: "x"}},
		`b pool web { member 10.1.1.1`: {[]string{"b", "pool", "web", "{", "member"}, lineWord{text: "10.1.1.1"}},
	} {
		words, last := splitLine(line)
		if !cmp.Equal(words, want.words) || last != want.last {
			t.Errorf("splitLine(%q) = %q, %+v", line, words, last)
		}
	}
}

func TestLineWord_replace(t *testing.T) {
	for _, test := range []struct {
		word       lineWord
		text, want string
	}{
		{lineWord{}, "10.0.0.1:80", "10.0.0.1:80"},
		{lineWord{}, "{", "{"},
		{lineWord{}, `"my site.conf"`, `my\ site.conf`},
		{lineWord{}, "a&b", `a\&b`},
		{lineWord{quote: '\''}, "pool web { lb_mode", "pool web { lb_mode"},
		{lineWord{quote: '"'}, "a $b", `a \$b`},
	} {
		if got := test.word.replace(test.text); got != test.want {
			t.Errorf("replace(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

// TestComplete asks for the completion of command lines with mgmtd and without.
func TestComplete(t *testing.T) {
	t.Parallel()
	site := newSite(t, "10.1.1.1:80 192.168.200.10:80")
	if err := os.WriteFile(filepath.Join(site.Dir, "site.conf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	complete := func(line string) string {
		t.Helper()
		return output(t, site, completeWord, line)
	}
	without := complete("bigpipe pool ")
	if !strings.Contains(without, "show\tstates and counters") || strings.Contains(without, "web") {
		t.Errorf("without mgmtd: %q", without)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, "-c", "pool web { member 10.1.1.1:80 }", "-c", "virtual 192.168.200.10:80 use pool web")
	for line, test := range map[string]struct{ want, not string }{
		"bigpipe ":                               {"completion lab persist pool watch", "exit web"},
		"bigpipe pool ":                          {"web show", ""},
		"b -n -o json pool w":                    {"web", "show"},
		"bigpipe -":                              {"-a --address -f -h", "pool"},
		"bigpipe -f ":                            {"site.conf", "pool"},
		"bigpipe -f -":                           {"-d", "site.conf"},
		"bigpipe -s s":                           {"site.conf", "save"},
		"bigpipe -o ":                            {"json text", "pool"},
		"bigpipe -c poo":                         {"pool", "port"},
		"bigpipe -c 'pool web sh":                {"pool", ""},
		"bigpipe --tls-ca s":                     {"site.conf", "save"},
		"bigpipe load ":                          {"site.conf --dry-run", ""},
		"bigpipe lab ":                           {"site.conf", "pool"},
		"bigpipe lab --":                         {"--state-dir", "--dry-run"},
		"bigpipe completion ":                    {"bash zsh", ""},
		"bigpipe watch 2 pool ":                  {"web", ""},
		"bigpipe virtual 192.168.200.1":          {"192.168.200.10:80", ""},
		"bigpipe -a unix:///nowhere pool ":       {"show", "web"},
		"bigpipe -x pool ":                       {"", "web"},
		"bigpipe sysctl -w bigip.persist_on_any": {"bigip.persist_on_any_vip=", ""},
	} {
		found := " "
		for l := range strings.Lines(complete(line)) {
			word, _, _ := strings.Cut(l, "\t")
			found += word + " "
		}
		for _, w := range strings.Fields(test.want) {
			if !strings.Contains(found, " "+w+" ") {
				t.Errorf("%q: no %q in%s", line, w, found)
			}
		}
		for _, w := range strings.Fields(test.not) {
			if strings.Contains(found, " "+w+" ") {
				t.Errorf("%q: %q in%s", line, w, found)
			}
		}
	}
	if got, want := complete("bigpipe -c 'pool web lb_mode sh"), "pool web lb_mode show\t"; !strings.HasPrefix(got, want) {
		t.Errorf("several words in quotes: %q, want %q", got, want)
	}
}

// TestCompletion_in_shells presses Tab in bash and zsh.
func TestCompletion_in_shells(t *testing.T) {
	t.Parallel()
	site := newSite(t, "10.1.1.1:80 192.168.200.10:80")
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, "-c", "pool web { member 10.1.1.1:80 }", "-c", "virtual 192.168.200.10:80 use pool web")
	if err := os.WriteFile(filepath.Join(site.Dir, "my site.conf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		setup string
	}{
		"bash": {[]string{"--norc", "--noprofile", "-i"}, "source <(bigpipe completion bash)"},
		"zsh":  {[]string{"-f", "-i"}, "unsetopt zle_bracketed_paste prompt_sp; autoload -U compinit; compinit -D; source <(bigpipe completion zsh)"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				skipWithout(t, name)
			}
			cmd := site.Command("bigpipe")
			cmd.Path, cmd.Args = path, append([]string{name}, c.args...)
			cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"), "PS1=ready> ", "PS2=", "INPUTRC=/dev/null")
			x := startScreen(t, cmd, pty.Winsize{Rows: 50, Cols: 200})
			x.expect("ready> ")
			x.send(c.setup + "; echo set''up\r")
			x.expect("setup")
			x.expect("ready> ")
			// What a Tab makes of a line is seen by an echo of it.
			for typed, want := range map[string]string{
				"poo\tw\tlb_m\tsh\t":                      "pool web lb_mode show",
				"virt\t192\tuse po\tw\t":                  "virtual 192.168.200.10:80 use pool web",
				"virtual 192.168.200.10:\tsho\t":          "virtual 192.168.200.10:80 show",
				"load --conf\t5\tmy\t":                    "load --confirm-within 5m my site.conf",
				"sysctl -w bigip.persist_on_any_v\t1":     "sysctl -w bigip.persist_on_any_vip=1",
				"node show -\b\b\b\b\b\b10.1.1.1 disab\t": "node 10.1.1.1 disable",
			} {
				x.send("bigpipe " + typed)
				x.send("\x01echo \x05\r") // to the beginning, echo, to the end
				x.expect("\n")
				_, out, _ := strings.Cut(x.expect("ready> "), "bigpipe ")
				if got := strings.TrimSpace(out); got != want {
					t.Errorf("%q became %q, want %q", typed, got, want)
				}
			}
			x.send("exit\r")
			if status := x.end(); status != 0 {
				t.Errorf("%s ends with %d", name, status)
			}
		})
	}
}

// BenchmarkCompletion is a Tab with 10,000 pools in mgmtd: the first one, which asks for the names, and the next.
func BenchmarkCompletion(b *testing.B) {
	site := newSite(b, "")
	if err := site.StartDaemon("mgmtd"); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&text, "pool pool%05d { member 10.1.1.1:80 member 10.1.1.2:80 member 10.1.1.3:80 member 10.1.1.4:80 }\n", i)
	}
	file := filepath.Join(site.Dir, "large.conf")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	if out, err := site.Command("bigpipe", "-f", file).CombinedOutput(); err != nil && !strings.Contains(string(out), "not in effect") {
		b.Fatalf("%v\n%s", err, out)
	}
	mgmtd, err := client.New(site.Address(), client.TLS{})
	if err != nil {
		b.Fatal(err)
	}
	defer mgmtd.Close()
	complete := func(names *client.Names) {
		language := &shell.Language{Names: func(kind grammar.Kind, _ string) []string { return names.Of(b.Context(), string(kind)) }}
		candidates, _ := language.Complete("pool ")
		if len(candidates) < 10000 {
			b.Fatalf("%d candidates", len(candidates))
		}
	}
	complete(client.NewNames(mgmtd, time.Hour, time.Minute)) // dials
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			complete(client.NewNames(mgmtd, time.Hour, time.Minute))
		}
	})
	b.Run("next", func(b *testing.B) {
		names := client.NewNames(mgmtd, time.Hour, time.Minute)
		for b.Loop() {
			complete(names)
		}
	})
	b.Run("of_a_program", func(b *testing.B) {
		for b.Loop() {
			if out, err := site.Command("bigpipe", completeWord, "bigpipe pool pool0123").Output(); err != nil || strings.Count(string(out), "\n") != 10 {
				b.Fatalf("%v\n%s", err, out)
			}
		}
	})
}
