package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured and what was not.
type report struct {
	subject  string
	peers    []string
	rounds   int
	duration time.Duration
	date     time.Time
	machine  machine
	programs []string // NAME: what it says about itself
	panels   []*panel
	outcomes []outcome
	missing  []miss
	remarks  []string
}

// judge is the peer that goals are relative to, and judged the side that has goals.
const (
	judge  = "haproxy"
	judged = "bigpipe"
)

// miss is why something could not be measured, and all that it kept from being measured.
type miss struct {
	why  string
	what []string
}

// miss notes what could not be measured and why.
func (r *report) miss(what string, why error) {
	text := strings.ReplaceAll(why.Error(), "\n", "; ")
	for i := range r.missing {
		if r.missing[i].why == text {
			r.missing[i].what = append(r.missing[i].what, what)
			return
		}
	}
	r.missing = append(r.missing, miss{text, []string{what}})
}

// missUnlessInterrupted is miss, except that an interrupt is noted once, at the end.
func (r *report) missUnlessInterrupted(ctx context.Context, what string, why error) {
	if ctx.Err() == nil {
		r.miss(what, why)
	}
}

// remark notes once what a reader of the figures must know; "" is nothing.
func (r *report) remark(text string) {
	if text != "" && !slices.Contains(r.remarks, text) {
		r.remarks = append(r.remarks, text)
	}
}

// quietLoad is the load average above which a machine was not quiet before the start.
const quietLoad = 0.5

// render writes the report as text: ratios, figures, what is missing.
func (r *report) render(w io.Writer) error {
	text := &strings.Builder{}
	r.renderHead(text)
	r.renderOutcomes(text)
	for _, p := range r.panels {
		p.render(text)
	}
	r.renderScenarios(text)
	remarks := slices.Clone(r.remarks)
	if r.machine.loadBefore > quietLoad {
		remarks = append(remarks, fmt.Sprintf("the machine was not quiet: load average %.2f before the start", r.machine.loadBefore))
	}
	renderList(text, "REMARKS", remarks)
	var missing []string
	for _, m := range r.missing {
		missing = append(missing, m.why+": "+strings.Join(m.what, ", "))
	}
	renderList(text, "NOT MEASURED", missing)
	_, err := io.WriteString(w, text.String())
	return err
}

// renderOutcomes prints the comparisons, ratios first; nothing where none was asked for.
func (r *report) renderOutcomes(w *strings.Builder) {
	if len(r.outcomes) == 0 {
		return
	}
	fmt.Fprintf(w, "\nRATIOS of %s to each peer, round by round: median (least to most)\n", r.subject)
	r.eachPlace(func(p placement, outcomes []outcome) { r.renderRatios(w, p, outcomes) })
	fmt.Fprint(w, "\nFIGURES: median (least to most)\n")
	r.eachPlace(func(p placement, outcomes []outcome) { r.renderFigures(w, p, outcomes) })
}

func (r *report) renderHead(w *strings.Builder) {
	m := r.machine
	fmt.Fprintf(w, "%s beside %s\n", r.subject, strings.Join(r.peers, ", "))
	fmt.Fprintf(w, "%s, in turns, rounds of %v: %d\n", r.date.UTC().Format("2006-01-02 15:04 UTC"), r.duration, r.rounds)
	fmt.Fprintf(w, "\n%s, %d cores, %d MiB; %s, Linux %s; Go %s; %d descriptors\n", m.cpu, m.cores, m.memoryMiB, m.system, m.kernel, m.goVersion, m.descriptors)
	fmt.Fprintf(w, "load average %.2f before, %.2f after\n", m.loadBefore, m.loadAfter)
	for _, line := range r.programs {
		fmt.Fprintln(w, line)
	}
}

// eachPlace calls fn for each number of threads with its outcomes.
func (r *report) eachPlace(fn func(placement, []outcome)) {
	for rest := r.outcomes; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].place.threads == rest[0].place.threads {
			n++
		}
		fn(rest[0].place, rest[:n])
		rest = rest[n:]
	}
}

func (r *report) renderRatios(w *strings.Builder, p placement, outcomes []outcome) {
	fmt.Fprintf(w, "\n%v\n", p)
	rows := [][]string{append([]string{"", ""}, r.peers...)}
	if r.subject == judged {
		rows[0] = append(rows[0], "goal")
	}
	for _, o := range outcomes {
		for i, m := range o.scenario.metrics {
			row := []string{"", m.name}
			if i == 0 {
				row[0] = o.scenario.name
			}
			for _, peer := range r.peers {
				row = append(row, o.ratios(r.subject, peer, m).text(printRatio))
			}
			if r.subject == judged {
				row = append(row, r.verdict(o, m))
			}
			rows = append(rows, row)
		}
	}
	renderTable(w, rows)
}

// verdict says which goal a figure has and whether its median reaches it; "" without a goal.
func (r *report) verdict(o outcome, m metric) string {
	i := slices.IndexFunc(o.scenario.goals, func(g goal) bool { return g.threads == o.place.threads && g.metric.name == m.name })
	if i < 0 {
		return ""
	}
	g := o.scenario.goals[i]
	got, print, what := o.ratios(r.subject, judge, m), printRatio, ""
	if g.absolute {
		got, print, what = o.figures(r.subject, m), m.print, "the figure "
	}
	sign, reached := ">=", got.median >= g.limit
	if m.lower {
		sign, reached = "<=", got.median <= g.limit
	}
	word := "reached"
	switch {
	case got.count == 0:
		word = "not measured"
	case !reached:
		word = fmt.Sprintf("MISSED by %.0f %%", 100*max(got.median/g.limit-1, 1-got.median/g.limit))
	}
	return fmt.Sprintf("%s%s %s %s", what, sign, print(g.limit), word)
}

func (r *report) renderFigures(w *strings.Builder, p placement, outcomes []outcome) {
	fmt.Fprintf(w, "\n%v\n", p)
	sides := append([]string{r.subject}, r.peers...)
	rows := [][]string{append(append([]string{"", ""}, sides...), "no proxy")}
	for _, o := range outcomes {
		for i, m := range o.scenario.metrics {
			row := []string{"", m.name}
			if i == 0 {
				row[0] = o.scenario.name
			}
			for _, side := range sides {
				row = append(row, o.figures(side, m).text(m.print))
			}
			if v, ok := o.limit[m.name]; ok {
				row = append(row, m.print(v))
			}
			rows = append(rows, row)
		}
	}
	renderTable(w, rows)
}

// renderScenarios says once what each scenario is.
func (r *report) renderScenarios(w *strings.Builder) {
	var rows [][]string
	seen := map[string]bool{}
	for _, o := range r.outcomes {
		if s := o.scenario; !seen[s.name] {
			seen[s.name] = true
			rows = append(rows, []string{s.name, s.about})
		}
	}
	if len(rows) > 0 {
		fmt.Fprint(w, "\nSCENARIOS\n\n")
		renderTable(w, rows)
	}
}

// renderTable aligns the columns, also where rows are shorter than others; lines end without blanks.
func renderTable(w *strings.Builder, rows [][]string) {
	columns := 0
	for _, row := range rows {
		columns = max(columns, len(row))
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		padding := make([]string, columns-len(row)+1)
		_, _ = fmt.Fprintln(table, strings.Join(append(slices.Clone(row), padding...), "\t"))
	}
	_ = table.Flush() // a Builder takes everything
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

func renderList(w *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", title)
	for _, line := range lines {
		fmt.Fprintf(w, "- %s\n", line)
	}
}
