package grammar

import (
	"bytes"
	"flag"
	"strings"
	"syscall"
	"testing"
	"time"
)

// megabytes are texts that once took, or could take, more time than their size explains; they are repeated up to 1 MB.
var megabytes = map[string]string{
	"blanks":             " ",
	"newlines":           "\n",
	"one_word":           "x",
	"words":              "x ",
	"unknown_statements": "poool x\n",
	"empty_pools":        "pool p { }\n",
	"open_braces":        "{",
	"open_parentheses":   "pool p (",
	"close_braces":       "}",
	"quotes":             "'",
	"double_quotes":      "\"",
	"backslashes":        "\\\n",
	"comments":           "#\n",
	"NUL":                "\x00",
	"not_UTF-8":          "\xff",
	"not_UTF-8_lines":    "\xff\n",
	"unknown_attributes": "pool p { lb_mdoe x persist_mdoe y }\n",
	"long_pool":          "member 10.1.1.1:80 ",
	"kept":               "vlan v { colour red }\n",
	"kept_values":        "interface exp0 dest enabel\n",
	"half_rules":         "rule r { if ( http_uri starts_with \"/\" ) { use ( p ) } else { discard } }\n",
	"rule_words":         "rule r ( if not ",
	"virtuals":           "vip 10.0.0.1:80 use pool p\n",
	"nodes_one_line":     "node 10.1.1.1 ",
	"persist_one_line":   "persist node ",
	"ports":              "port 80 ",
	"services":           "port htp enable\n",
	"globals":            "global persist tmier x\n",
	"sysctls":            "sysctl -w bigip.x=1\n",
	"monitor_comments":   "monitor m { // x\n}\n",
	"snats":              "snat map { 10.1.1.1 to 10.0.0.9 }\n",
}

func megabyte(pattern string) string { return strings.Repeat(pattern, 1<<20/len(pattern)) }

// in wraps patterns that mean something inside braces only.
func in(name, text string) string {
	if name == "long_pool" {
		return "pool p { " + text + "}"
	}
	return text
}

// BenchmarkMegabyte reads a megabyte of each; all should take well under a second.
func BenchmarkMegabyte(b *testing.B) {
	for name, pattern := range megabytes {
		text := []byte(in(name, megabyte(pattern)))
		b.Run("parse/"+name, func(b *testing.B) {
			for b.Loop() {
				_, faults := Parse("f", text)
				Render(&bytes.Buffer{}, faults, false)
			}
		})
		b.Run("complete/"+name, func(b *testing.B) {
			for b.Loop() {
				Complete(string(text), len(text), names)
			}
		})
	}
}

// FuzzMegabyte repeats a text up to a megabyte: it is parsed, completed and its faults are rendered within a second of one core.
// The time is looked at only while fuzzing.
func FuzzMegabyte(f *testing.F) {
	for _, name := range []string{"quotes", "kept", "unknown_attributes", "half_rules", "not_UTF-8_lines"} {
		f.Add(megabytes[name])
	}
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	f.Fuzz(func(t *testing.T, pattern string) {
		if pattern == "" || len(pattern) > 4096 {
			return
		}
		text := megabyte(pattern)
		began := processTime()
		statements, faults := Parse("f", []byte(text))
		Render(&bytes.Buffer{}, faults, false)
		parsed := processTime()
		Complete(text, len(text), names)
		if took := max(parsed-began, processTime()-parsed); fuzzing && took > 2*time.Second {
			t.Errorf("%s of processor time, of all cores, for %d statements", took, len(statements))
		}
	})
}

// processTime is the processor time that the process has used, garbage collection included.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
