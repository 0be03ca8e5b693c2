package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bigpipe/dataplane/namespace"
)

// examples returns what pages print to be copied, a text each.
func examples(t *testing.T) (list []string) {
	t.Helper()
	pages, err := filepath.Glob("man/*.[158]")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(dq`, `"`, `\e`, `\`, `\&`, "", `\fB`, "", `\fI`, "", `\fR`, "")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "\n.nf\n")[1:] {
			block, _, _ = strings.Cut(block, "\n.fi\n")
			list = append(list, plain.Replace(block)+"\n")
		}
	}
	return list
}

// TestManualExamples: pain 90: what the manual prints works as it is printed: commands are run, on a host of their own, and texts are
// checked.
func TestManualExamples(t *testing.T) {
	ip, nft := peerProgram(t, named("ip"), "iproute2"), peerProgram(t, named("nft"), "nftables")
	if !namespace.Enter(t) {
		return
	}
	commands, texts := 0, 0
	for _, example := range examples(t) {
		shell := exec.Command("sh", "-e")
		switch first, _, _ := strings.Cut(example, " "); {
		case first == "ip", first == "nft":
			shell.Env = append(os.Environ(), "PATH="+filepath.Dir(ip)+":"+filepath.Dir(nft)+":"+os.Getenv("PATH"))
			commands++
		case strings.HasPrefix(first, "#!"): // needs a service of the site's
			shell.Args = append(shell.Args, "-n")
			commands++
		default:
			shell = exec.Command(filepath.Join(programs, "bigpipe"), "-d", "-f", "-")
			texts++
		}
		shell.Stdin = strings.NewReader(example)
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, example, out)
		}
	}
	if commands < 2 || texts < 2 {
		t.Errorf("the manual has %d commands and %d texts", commands, texts)
	}
}

// TestManualPages compares the flags of each program with those of its page.
func TestManualPages(t *testing.T) {
	t.Parallel()
	flag := regexp.MustCompile(`(?:^|[\s,])(--?[a-zA-Z?][a-z-]*)`)
	for program, page := range map[string]string{
		"bigpipe": "bigpipe.1", "mgmtd": "bigpipe-mgmtd.8", "dataplane": "bigpipe-dataplane.8",
	} {
		help, err := exec.Command(filepath.Join(programs, program), "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("man", page))
		if err != nil {
			t.Fatal(err)
		}
		flags, documented := map[string]bool{}, map[string]bool{}
		for _, m := range flag.FindAllStringSubmatch(string(help), -1) {
			flags[m[1]] = true
		}
		section := string(text)
		for _, heading := range []string{".SH OPTIONS", ".SH FLAGS"} {
			if _, after, found := strings.Cut(section, heading); found {
				section = after
			}
		}
		section, _, _ = strings.Cut(section, ".SH ")
		plain := regexp.MustCompile(`\\f[BIR]|^\.B`).ReplaceAllString(strings.ReplaceAll(section, `\-`, "-"), " ")
		for _, m := range flag.FindAllStringSubmatch(plain, -1) {
			documented[m[1]] = true
		}
		for f := range flags {
			if !documented[f] {
				t.Errorf("%s has no %s of %s", page, f, program)
			}
		}
		for f := range documented {
			if !flags[f] && !slices.Contains([]string{"-help"}, f) {
				t.Errorf("%s has %s, %s does not", page, f, program)
			}
		}
	}
}
