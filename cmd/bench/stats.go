package main

import (
	"fmt"
	"slices"
	"strings"
)

// spread is the middle and the ends of some figures.
type spread struct {
	median, least, most float64
	count               int // 0: no figures
}

// spreadOf keeps the order of values.
func spreadOf(values []float64) spread {
	n := len(values)
	if n == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return spread{median: median, least: sorted[0], most: sorted[n-1], count: n}
}

// text prints s by print, "-" if there are no figures.
func (s spread) text(print func(float64) string) string {
	switch s.count {
	case 0:
		return "-"
	case 1:
		return print(s.median)
	default:
		return fmt.Sprintf("%s (%s to %s)", print(s.median), print(s.least), print(s.most))
	}
}

// figures are a side's values of a metric, a round each; rounds without one are left out.
func (o outcome) figures(side string, m metric) spread {
	var values []float64
	for _, s := range o.samples[side] {
		if v, ok := s[m.name]; ok {
			values = append(values, v)
		}
	}
	return spreadOf(values)
}

// ratios compare two sides round by round, so that what slows the machine for a while counts for both. Rounds that lack
// either, or in which the peer's value is not positive, are left out.
func (o outcome) ratios(subject, peer string, m metric) spread {
	ours, theirs := o.samples[subject], o.samples[peer]
	var values []float64
	for i := range min(len(ours), len(theirs)) {
		a, okA := ours[i][m.name]
		b, okB := theirs[i][m.name]
		if okA && okB && b > 0 {
			values = append(values, a/b)
		}
	}
	return spreadOf(values)
}

// line prints a sample for a person who watches.
func (s sample) line(metrics []metric) string {
	var words []string
	for _, m := range metrics {
		if v, ok := s[m.name]; ok {
			words = append(words, m.print(v)+" "+m.name)
		}
	}
	return strings.Join(words, ", ")
}

// printRate prints thousands from 10,000 on: 73.7 k.
func printRate(v float64) string {
	if v >= 9999.5 {
		return fmt.Sprintf("%.1f k", v/1000)
	}
	return printWhole(v)
}

func printWhole(v float64) string  { return fmt.Sprintf("%.0f", v) }
func printTenths(v float64) string { return fmt.Sprintf("%.1f", v) }
func printRatio(v float64) string  { return fmt.Sprintf("%.2f", v) }
