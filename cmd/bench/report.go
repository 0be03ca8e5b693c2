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
	half     time.Duration // of runs that are not judged closely
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

// render writes the report as text: ratios, figures, what is missing.
func (r *report) render(w io.Writer) error {
	text := &strings.Builder{}
	r.renderHead(text)
	r.renderOutcomes(text)
	for _, p := range r.panels {
		p.render(text)
	}
	r.renderScenarios(text)
	r.renderConditions(text)
	renderList(text, "REMARKS", slices.Concat(r.remarks, r.limitRemarks(), r.noiseRemarks()))
	var missing []string
	for _, m := range r.missing {
		missing = append(missing, m.why+": "+strings.Join(m.what, ", "))
	}
	renderList(text, "NOT MEASURED", missing)
	_, err := io.WriteString(w, text.String())
	return err
}

// busyProxy is from how much of its threads' time on a proxy counts as the limit of its rate, in percent.
const busyProxy = 90

// limitRemarks name the comparisons whose rates the load or the member has limited.
func (r *report) limitRemarks() []string {
	var names []string
	for _, o := range r.outcomes {
		if busy := o.figures(r.subject, proxyBusy); o.place.threads == 1 && busy.count > 0 && busy.median < busyProxy {
			names = append(names, fmt.Sprintf("%s (%.0f %%)", label(o.scenario, 1), busy.median))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("load and members, or others on the machine, were the limit where %s used less than %d %% of its core: trust the CPU figure there, the rate is understated: %s",
		r.subject, busyProxy, strings.Join(names, ", "))}
}

const (
	// quietLoad is the load average above which a machine was not quiet before the start.
	quietLoad = 0.5
	// quietBusy is what others may use of the machine's time while it counts as quiet, in percent.
	quietBusy = 10
)

// noiseRemarks say whether others have used the machine.
func (r *report) noiseRemarks() []string {
	var remarks []string
	if r.machine.loadBefore > quietLoad {
		remarks = append(remarks, fmt.Sprintf("the machine was not quiet: load average %.2f before the start", r.machine.loadBefore))
	}
	noisy, all := 0, 0
	for _, o := range r.outcomes {
		for _, c := range o.before {
			all++
			if c.busy > quietBusy {
				noisy++
			}
		}
	}
	if noisy > 0 {
		remarks = append(remarks, fmt.Sprintf("others used more than %d %% of the cores before %d of %d rounds: figures of a busy machine, not to judge by", quietBusy, noisy, all))
	}
	return remarks
}

// renderConditions says how quiet the machine was before each round.
func (r *report) renderConditions(w *strings.Builder) {
	rows := [][]string{{"", "load average", "% of the cores in use by others"}}
	for _, o := range r.outcomes {
		var loads, busy []string
		for _, c := range o.before {
			loads = append(loads, fmt.Sprintf("%.1f", c.load))
			if c.busy < 0 {
				busy = append(busy, "?")
			} else {
				busy = append(busy, fmt.Sprintf("%.0f", c.busy))
			}
		}
		if len(loads) > 0 {
			rows = append(rows, []string{label(o.scenario, o.place.threads), strings.Join(loads, " "), strings.Join(busy, " ")})
		}
	}
	if len(rows) > 1 {
		fmt.Fprint(w, "\nMACHINE before each round\n\n")
		renderTable(w, rows)
	}
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
	fmt.Fprintf(w, "%s; rounds in turns: %d; runs of %v where figures are judged at one thread, of %v elsewhere\n",
		r.date.UTC().Format("2006-01-02 15:04 UTC"), r.rounds, r.duration, r.half)
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
			if v, ok := r.verdict(o, m); ok {
				row = append(row, v.String())
			}
			rows = append(rows, row)
		}
	}
	renderTable(w, rows)
}

// verdict is a goal and what was reached of it.
type verdict struct {
	goal
	got spread // the figure that the goal is about
}

// verdict finds the goal of a figure; false where it has none.
func (r *report) verdict(o outcome, m metric) (verdict, bool) {
	i := slices.IndexFunc(o.scenario.goals, func(g goal) bool { return g.threads == o.place.threads && g.metric.name == m.name })
	if i < 0 || r.subject != judged {
		return verdict{}, false
	}
	v := verdict{goal: o.scenario.goals[i]}
	if v.absolute {
		v.got = o.figures(r.subject, m)
	} else {
		v.got = o.ratios(r.subject, v.against(), m)
	}
	return v, true
}

// against is the peer that a goal compares with.
func (g goal) against() string {
	if g.peer == "" {
		return judge
	}
	return g.peer
}

// reached says whether the median reaches the goal.
func (v verdict) reached() bool {
	switch {
	case v.got.count == 0:
		return false
	case v.metric.lower:
		return v.got.median <= v.limit
	default:
		return v.got.median >= v.limit
	}
}

func (v verdict) String() string {
	print, what, sign := printRatio, "", ">="
	switch {
	case v.absolute:
		print, what = v.metric.print, "the figure "
	case v.peer != "":
		what = "to " + v.peer + " "
	}
	if v.metric.lower {
		sign = "<="
	}
	word := "reached"
	switch {
	case v.got.count == 0:
		word = "not measured"
	case !v.reached():
		word = fmt.Sprintf("missed by %.0f %%", 100*max(v.got.median/v.limit-1, 1-v.got.median/v.limit))
	}
	return fmt.Sprintf("%s%s %s %s", what, sign, print(v.limit), word)
}

func (r *report) renderFigures(w *strings.Builder, p placement, outcomes []outcome) {
	fmt.Fprintf(w, "\n%v\n", p)
	sides := append([]string{r.subject}, r.peers...)
	rows := [][]string{append(append([]string{"", ""}, sides...), "no proxy")}
	for _, o := range outcomes {
		for i, m := range append(slices.Clone(o.scenario.metrics), proxyBusy, failures) {
			row := []string{"", m.name}
			if i == 0 {
				row[0] = o.scenario.name
			}
			worst := 0.0
			for _, side := range sides {
				s := o.figures(side, m)
				worst = max(worst, s.most)
				row = append(row, s.text(m.print))
			}
			if m.shown && worst == 0 {
				continue
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
