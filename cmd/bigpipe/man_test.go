package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
