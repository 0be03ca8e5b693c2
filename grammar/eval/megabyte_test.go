package eval

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigpipe/grammar"
)

// largeText repeats a line, or a word of a statement, between a head and a tail.
type largeText struct {
	head string
	line func(i int) string
	tail string
}

// of is the text at a size of so many bytes, or a little more.
func (l largeText) of(size int) []byte {
	var b strings.Builder
	b.WriteString(l.head)
	for i := 0; b.Len() < size; i++ {
		b.WriteString(l.line(i))
	}
	b.WriteString(l.tail)
	return []byte(b.String())
}

// address is the i-th of sixteen million.
func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }

func numbered(format string) func(i int) string {
	return func(i int) string {
		return strings.ReplaceAll(strings.ReplaceAll(format, "ADDRESS", address(i)), "N", fmt.Sprint(i))
	}
}

const aPool = "pool p { member 10.1.1.1:80 }\n"

// manyPools is a rule that may choose many pools.
var manyPools = aPool + "rule r { " + strings.Repeat(`if ( http_uri starts_with "/x" ) { use ( p ) } else `, 200) + "discard }\n"

// largeTexts have a fault, a warning or a change in every line, or take much of one thing; each takes well under a second of a quiet
// machine at a megabyte.
var largeTexts = map[string]largeText{
	"undefined_pools":       {"", numbered("vip ADDRESS:80 use pool missingN\n"), ""},
	"undefined_among_many":  {"", numbered("pool presentN { member 10.1.1.1:80 }\nvip ADDRESS:80 use pool missingN\n"), ""},
	"undefined_in_rules":    {"", numbered("rule rN { use ( missingN ) }\n"), ""},
	"undefined_in_one_line": {"vip 10.0.0.1:80 use ", numbered("pool pN weight 1 "), "\n"},
	"classes":               {"", numbered("rule rN { if ( http_uri equals one of c ) { discard } }\n"), ""},
	"the_same_again":        {"", numbered(aPool), ""},
	"unknown_hosts":         {"", numbered("pool pN { member hostN:80 }\n"), ""},
	"stray_nodes":           {"", numbered("node ADDRESS disable\n"), ""},
	"stray_monitors":        {"", numbered("node ADDRESS monitor use x\n"), ""},
	"nodes_of_one_line":     {"node ", numbered("ADDRESS "), "disable\n"},
	"weights_of_one_line":   {"ratio { ", numbered("ADDRESS "), "} 2\n"},
	"commands":              {"", numbered("pool p show\n"), ""},
	"warnings":              {"", numbered("pool pN { persist_mode simple }\n"), ""},
	"kept":                  {"", numbered("vlan vN { colour red }\n"), ""},
	"deleted":               {"", numbered("pool pN delete\n"), ""},
	"adding_to_nothing":     {"", numbered("pool p add { member ADDRESS:80 }\n"), ""},
	"adding":                {aPool, numbered("pool p add { member ADDRESS:80 }\n"), ""},
	"adding_in_turn":        {aPool + "pool q { }\n", numbered("pool p add { member ADDRESS:80 }\npool q add { member ADDRESS:80 }\n"), ""},
	"removing":              {aPool, numbered("pool p delete { member ADDRESS:80 }\n"), ""},
	"changing_a_long_pool":  {longPool, numbered("pool p modify { lb_mode rr }\n"), ""},
	"behind_a_virtual":      {longPool + "vip 10.0.0.1:80 use pool p\n", numbered("vip 10.0.0.1:80 persist 30\n"), ""},
	"members":               {"pool p {\n", numbered("member ADDRESS:80\n"), "}\n"},
	"members_at_fault":      {"pool p {\n", numbered("member ADDRESS:80 limit 70000\n"), "}\n"},
	"members_twice":         {"pool p {\n", func(i int) string { return fmt.Sprintf("member %s:80\n", address(i/2)) }, "}\n"},
	"one_class":             {"class c {\n", numbered("\"wordN\"\n"), "}\n"},
	"one_class_of_hosts":    {"class c {\n", numbered("host ADDRESS\n"), "}\n"},
	"adding_to_a_class":     {"class c { host 1.1.1.1 }\n", numbered("class c add { host ADDRESS }\n"), ""},
	"snats":                 {"", numbered("snat map { ADDRESS to 10.0.0.9 }\n"), ""},
	"one_snat":              {"snat map { ", numbered("ADDRESS "), " to 10.0.0.9 }\n"},
	"interfaces":            {"", numbered("vlan v interfaces add 1.N\n"), ""},
	"monitors":              {"", numbered("monitor mN { use nothingN }\n"), ""},
	"one_rule":              {aPool + "rule r { ", numbered(`if ( http_uri starts_with "/N" ) { use ( p ) } else `), "discard }\n"},
	"rules":                 {aPool, numbered(`rule rN { if ( http_uri starts_with "/N" ) { use ( p ) } else { discard } }` + "\n"), ""},
	"one_rule_of_many":      {manyPools, numbered("vip ADDRESS:80 use rule r\n"), ""},
	"virtuals_at_fault":     {manyPools + "vip 10.0.0.1:80 use rule r\n", numbered("vip 10.0.0.1:80 persist N\n"), ""},
	"across_virtuals": {
		"global persist_across_virtuals enable\nglobal persist_across_services enable\n" + strings.ReplaceAll(longPool, "{", "{ persist_mode simple simple_timeout 9") +
			"pool q { persist_mode simple simple_timeout 9 }\nvip 9.0.0.1:80 use pool q\n",
		numbered("vip ADDRESS:80 use pool p\n"), "",
	},
}

// longPool has 2000 members.
var longPool = func() string {
	var b strings.Builder
	b.WriteString("pool p {\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "member %s:80\n", address(i))
	}
	return b.String() + "}\n"
}()

// check reads a text and says what is wrong with it, as a load does.
func check(text []byte, mode Mode) {
	statements, faults := grammar.Parse("f", text)
	found := Evaluate(nil, statements, Options{
		Mode: mode, Resolve: func(string) (netip.Addr, error) { return netip.Addr{}, errors.New("no such host") },
	})
	grammar.Render(io.Discard, Join(faults, found.Diagnostics), false)
}

// BenchmarkMegabyte checks a megabyte of each.
func BenchmarkMegabyte(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(largeTexts)) {
		for mode, word := range map[Mode]string{ModeLoad: "load", ModeMerge: "merge", ModeCommand: "commands"} {
			b.Run(word+"/"+name, func(b *testing.B) {
				text := largeTexts[name].of(1 << 20)
				for b.Loop() {
					check(text, mode)
				}
			})
		}
	}
}

// TestLargeText: an eighth of a megabyte of each (a quarter of that under the race detector, which takes five times as long) takes at most a second of processor time, which is several times what it needs, so
// that nothing takes time that grows faster than the text. The time is that of the whole process, the best of three.
func TestLargeText(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(largeTexts)) {
		t.Run(name, func(t *testing.T) {
			text := largeTexts[name].of(largeSize)
			for _, mode := range []Mode{ModeLoad, ModeCommand} {
				best := time.Hour
				for range 3 {
					began := processTime()
					check(text, mode)
					if best = min(best, processTime()-began); best < time.Second {
						break
					}
				}
				if best > time.Second {
					t.Errorf("%s of processor time for %d bytes in mode %d", best, len(text), mode)
				}
			}
		})
	}
}

// processTime is the processor time that the process has used, garbage collection included.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
