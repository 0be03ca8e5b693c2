package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPanel(t *testing.T) {
	p := &panel{title: "SCALE", gauges: []*gauge{
		{name: "check", unit: "s", print: printRatio, limit: 2},
		{name: "load", unit: "s", print: printRatio, limit: 5},
		{name: "memory", unit: "MB", print: printWhole, limit: 500},
		{name: "command", unit: "ms", print: printTenths, limit: noGoal},
		{name: "lost", unit: "of 10", print: printWhole, limit: 0},
		{name: "left", unit: "of 10", print: printWhole, limit: 0},
	}}
	for _, v := range []float64{2.5, 1, 1.5} {
		p.add("check", v)
	}
	p.add("load", 6)
	p.add("command", 20)
	p.add("lost", 0)
	p.add("left", 3)
	var text strings.Builder
	p.render(&text)
	want := `
SCALE

check    1.50 (1.00 to 2.50) s  <= 2.00 s   ok
load     6.00 s                 <= 5.00 s   missed by 20 %
memory   -                      <= 500 MB   not measured
command  20.0 ms
lost     0 of 10                <= 0 of 10  ok
left     3 of 10                <= 0 of 10  missed
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
