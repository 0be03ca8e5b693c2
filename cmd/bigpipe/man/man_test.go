package man

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"bigpipe/grammar"
)

// TestPages compares the pages with what the tables say now; UPDATE=1 writes them.
func TestPages(t *testing.T) {
	pages, err := Pages()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		if os.Getenv("UPDATE") == "1" {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what the tables say; go generate ./cmd/bigpipe/man writes it", name)
		}
	}
}

// TestPages_name_everything looks for each attribute and each command.
func TestPages_name_everything(t *testing.T) {
	conf, commands := page(t, "bigip.conf.5"), page(t, "bigpipe.1")
	for _, table := range grammar.Tables() {
		for _, a := range table.Rows {
			if !strings.Contains(conf, bold(a.Name())) {
				t.Errorf("bigip.conf(5) has no %s %s", table.Title, a.Name())
			}
		}
	}
	for _, c := range grammar.Commands {
		if !strings.Contains(commands, usage(c.Usage())) {
			t.Errorf("bigpipe(1) has no %s", c.Usage())
		}
	}
}

// TestPages_say_what_is_ours looks for the decisions that no other manual tells.
func TestPages_say_what_is_ours(t *testing.T) {
	conf, commands, mgmtd, dataplane := page(t, "bigip.conf.5"), page(t, "bigpipe.1"), page(t, "bigpipe-mgmtd.8"), page(t, "bigpipe-dataplane.8")
	for _, c := range []struct{ page, text string }{
		{conf, "persist timer limit"},
		{conf, "persist timer timeout"},
		{conf, "persist_on_any_vip"},
		{conf, "persist_on_any_port_same_vip"},
		{conf, "SSL records"},
		{conf, "forced down"},
		{conf, "kept, not in effect"},
		{conf, "1677787402.36895.0000"},
		{commands, ".SH EXIT STATUS"},
		{commands, "PAGER"},
		{commands, "NO_COLOR"},
		{commands, "completion bash"},
		{commands, "watch"},
		{mgmtd, "100 revisions"},
		{dataplane, "without mgmtd"},
	} {
		if !strings.Contains(strings.ReplaceAll(c.page, `\-`, "-"), c.text) {
			t.Errorf("a page does not say %q", c.text)
		}
	}
}

// TestPages_are_roff finds what a formatter would stumble over.
func TestPages_are_roff(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH|SH|SS|TP|PP|B|I|BR|IR|RB|RI|RS|RE|nf|fi|IP|br|EX|EE|\\")( |$)`)
	escapes := regexp.MustCompile(`\\(f[BIR]|e|-|\(aq|\(ha|\(ti|\(dq|&|` + "`" + `|")`)
	for _, name := range []string{"bigpipe.1", "bigip.conf.5", "bigpipe-mgmtd.8", "bigpipe-dataplane.8"} {
		lines := strings.Split(page(t, name), "\n")
		if !strings.HasPrefix(lines[0], ".TH ") || !strings.HasPrefix(lines[1], ".SH NAME") {
			t.Errorf("%s begins with %q, %q", name, lines[0], lines[1])
		}
		for i, line := range lines {
			if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s:%d: %s", name, i+1, line)
			}
			if strings.Contains(escapes.ReplaceAllString(line, ""), `\`) {
				t.Errorf("%s:%d: a stray backslash: %s", name, i+1, line)
			}
		}
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
