package eval

import (
	"fmt"
	"strings"
	"testing"

	"bigpipe/grammar"
)

// BenchmarkMegabyte checks a megabyte of text with a fault, or a warning, in every line; each should take well under a second.
func BenchmarkMegabyte(b *testing.B) {
	for name, line := range map[string]func(i int) string{
		"undefined_pools": func(i int) string {
			return fmt.Sprintf("vip 10.%d.%d.%d:80 use pool missing%d\n", i>>16, i>>8&255, i&255, i)
		},
		"the_same_again": func(int) string { return "pool p { member 10.1.1.1:80 }\n" },
		"unknown_hosts":  func(i int) string { return fmt.Sprintf("pool p%d { member host%d:80 }\n", i, i) },
		"stray_nodes":    func(i int) string { return fmt.Sprintf("node 10.%d.%d.%d disable\n", i>>16, i>>8&255, i&255) },
		"stray_monitors": func(i int) string { return fmt.Sprintf("node 10.%d.%d.%d monitor use x\n", i>>16, i>>8&255, i&255) },
		"commands":       func(int) string { return "pool p show\n" },
		"warnings":       func(i int) string { return fmt.Sprintf("pool p%d { persist_mode simple }\n", i) },
		"kept":           func(i int) string { return fmt.Sprintf("vlan v%d { colour red }\n", i) },
		"deleted":        func(i int) string { return fmt.Sprintf("pool p%d delete\n", i) },
		"one_pool_adding": func(i int) string {
			return fmt.Sprintf("pool p add { member 10.%d.%d.%d:80 }\n", i>>16, i>>8&255, i&255)
		},
		"one_snat": func(i int) string {
			return fmt.Sprintf("snat map { 10.%d.%d.%d to 10.0.0.9 }\n", i>>16, i>>8&255, i&255)
		},
		"monitors": func(i int) string { return fmt.Sprintf("monitor m%d { use nothing%d }\n", i, i) },
		"classes": func(i int) string {
			return fmt.Sprintf("rule r%d { if ( http_uri equals one of c ) { discard } }\n", i)
		},
	} {
		var text strings.Builder
		for i := 0; text.Len() < 1<<20; i++ {
			text.WriteString(line(i))
		}
		for mode, word := range map[Mode]string{ModeLoad: "load", ModeMerge: "merge", ModeCommand: "commands"} {
			b.Run(word+"/"+name, func(b *testing.B) {
				statements, faults := grammar.Parse("f", []byte(text.String()))
				for b.Loop() {
					Join(faults, Evaluate(nil, statements, Options{Mode: mode, Resolve: resolve}).Diagnostics)
				}
			})
		}
	}
}
