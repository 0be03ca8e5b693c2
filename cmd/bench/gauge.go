package main

import (
	"fmt"
	"math"
	"strings"
)

// gauge is a figure of ours that has a goal of its own, without a peer. All gauges are better the lower they are.
type gauge struct {
	name   string
	unit   string
	print  func(float64) string
	limit  float64 // the goal, or noGoal
	values []float64
}

// noGoal is the limit of a gauge that is shown and not judged.
var noGoal = math.Inf(1)

// panel is a table of gauges.
type panel struct {
	title  string
	gauges []*gauge
}

// add appends a value to the gauge of that name, which there must be.
func (p *panel) add(name string, value float64) {
	for _, g := range p.gauges {
		if g.name == name {
			g.values = append(g.values, value)
			return
		}
	}
	panic("no gauge " + name)
}

// verdict says what the goal is and whether the median reaches it; "" without a goal.
func (g *gauge) verdict() (goal, word string) {
	if g.limit == noGoal {
		return "", ""
	}
	goal = fmt.Sprintf("<= %s %s", g.print(g.limit), g.unit)
	switch s := spreadOf(g.values); {
	case s.count == 0:
		return goal, "not measured"
	case s.median <= g.limit:
		return goal, "ok"
	case g.limit == 0:
		return goal, "missed"
	default:
		return goal, fmt.Sprintf("missed by %.0f %%", 100*(s.median/g.limit-1))
	}
}

// render prints the table: the figure, its goal, whether it is reached.
func (p *panel) render(w *strings.Builder) {
	fmt.Fprintf(w, "\n%s\n\n", p.title)
	var rows [][]string
	for _, g := range p.gauges {
		goal, word := g.verdict()
		s := spreadOf(g.values)
		figure := s.text(g.print)
		if s.count > 0 {
			figure += " " + g.unit
		}
		rows = append(rows, []string{g.name, figure, goal, word})
	}
	renderTable(w, rows)
}
