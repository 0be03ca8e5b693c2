package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	plotLabels  = 150 // width of the scenarios' names
	plotChart   = 290 // width of a chart
	plotGap     = 30  // between charts
	plotHead    = 118
	plotFoot    = 66
	plotBar     = 13
	plotBetween = 14 // between scenarios
	plotMost    = 2  // the largest ratio that fits; longer bars are cut
)

// Colours: a goal reached, missed, or none.
const (
	colourReached = "#2f8f5b"
	colourMissed  = "#c8452f"
	colourNone    = "#7f8da3"
	colourText    = "#1d2530"
	colourGrid    = "#d5dae2"
)

// chart is a column of the plot: what it shows of a scenario.
type chart struct {
	title, hint string
	metric      func(scenario) (metric, bool)
}

var charts = []chart{
	{"rate", "more is better", func(s scenario) (metric, bool) { return s.metrics[0], !s.metrics[0].lower }},
	{"CPU for each", "less is better", func(s scenario) (metric, bool) {
		if len(s.metrics) < 2 {
			return metric{}, false
		}
		return s.metrics[1], true
	}},
	{"p99 latency", "less is better", func(s scenario) (metric, bool) {
		return latency99, slices.ContainsFunc(s.metrics, func(m metric) bool { return m.name == latency99.name })
	}},
}

// plotRow is a scenario with its outcomes, one for each number of threads.
type plotRow struct {
	s        scenario
	outcomes []outcome
	y        int
}

// plotter draws; its text is the SVG.
type plotter struct {
	strings.Builder
	r *report
}

func (p *plotter) text(x, y float64, style, text string) {
	fmt.Fprintf(p, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, html.EscapeString(text))
}

func (p *plotter) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(p, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style)
}

// plot writes the ratios as an SVG: a bar for each scenario and number of threads, with the goal and the spread.
func (r *report) plot(w io.Writer) error {
	p := &plotter{r: r}
	rows := r.plotRows()
	height := plotHead + plotFoot
	for i := range rows {
		rows[i].y = height - plotFoot
		height += len(rows[i].outcomes)*plotBar + plotBetween
	}
	width := plotLabels + len(charts)*(plotChart+plotGap)
	fmt.Fprintf(p, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"%s\">\n",
		width, height, width, height, colourText)
	fmt.Fprintf(p, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	p.head(width)
	for _, row := range rows {
		p.text(plotLabels-34, float64(row.y+len(row.outcomes)*plotBar/2+4), `text-anchor="end" font-weight="bold"`, row.s.name)
		for i, o := range row.outcomes {
			p.text(plotLabels-6, float64(row.y+i*plotBar+plotBar-3), `text-anchor="end" font-size="9"`, fmt.Sprintf("%dT", o.place.threads))
		}
	}
	for i, c := range charts {
		p.chart(c, float64(plotLabels+i*(plotChart+plotGap)), float64(height-plotFoot), rows)
	}
	p.foot(float64(height - plotFoot))
	p.WriteString("</svg>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

// plotRows gathers the outcomes of each scenario; scenarios without ratios, such as of memory, are left out.
func (r *report) plotRows() []plotRow {
	var rows []plotRow
	for _, o := range r.outcomes {
		if len(o.scenario.metrics) < 2 {
			continue
		}
		i := slices.IndexFunc(rows, func(row plotRow) bool { return row.s.name == o.scenario.name })
		if i < 0 {
			i = len(rows)
			rows = append(rows, plotRow{s: o.scenario})
		}
		rows[i].outcomes = append(rows[i].outcomes, o)
	}
	return rows
}

// peerOf is the side that a scenario's bars compare with, and the other one.
func (r *report) peerOf(s scenario) (peer, other string) {
	names := slices.DeleteFunc(slices.Clone(r.peers), func(name string) bool { return name == s.without })
	if len(names) == 0 {
		return "", ""
	}
	if len(names) == 1 {
		return names[0], ""
	}
	return names[0], names[1]
}

func (p *plotter) head(width int) {
	m := p.r.machine
	p.text(12, 26, `font-size="17" font-weight="bold"`, fmt.Sprintf("%s beside %s: ratios of the same run", p.r.subject, strings.Join(p.r.peers, " and ")))
	p.text(12, 45, "", fmt.Sprintf("%s; rounds in turns: %d, bar: median, line: least to most; %s, %d cores, Linux %s",
		p.r.date.UTC().Format("2006-01-02 15:04 UTC"), p.r.rounds, m.cpu, m.cores, m.kernel))
	x := 12.0
	for _, item := range []struct{ colour, text string }{
		{colourReached, "goal reached"}, {colourMissed, "goal missed"}, {colourNone, "no goal"},
	} {
		fmt.Fprintf(p, "<rect x=\"%.1f\" y=\"57\" width=\"12\" height=\"10\" fill=\"%s\"/>\n", x, item.colour)
		p.text(x+17, 66, "", item.text)
		x += 34 + 6.3*float64(len(item.text))
	}
	p.line(x+4, 55, x+4, 69, goalStyle)
	p.text(x+12, 66, "", "goal")
	if len(p.r.peers) > 1 {
		fmt.Fprintf(p, "<circle cx=\"%.1f\" cy=\"62\" r=\"3\" %s/>\n", x+60, otherStyle)
		p.text(x+69, 66, "", fmt.Sprintf("%s beside %s", p.r.peers[1], p.r.peers[0]))
	}
	p.text(float64(width)-12, 66, `text-anchor="end"`, "1T: the proxy has a core of its own; 2T: all share two cores")
}

const (
	goalStyle  = `stroke="#111" stroke-width="2.4"`
	otherStyle = `fill="white" stroke="#1d2530" stroke-width="1.3"`
)

func (p *plotter) foot(y float64) {
	p.text(12, y+40, `font-size="10"`, fmt.Sprintf("Bars compare with %s", p.judgeNames()))
	for _, o := range p.r.outcomes {
		if v, ok := p.r.verdict(o, idleMemory); ok {
			p.text(12, y+56, `font-size="10"`, fmt.Sprintf("Memory of an idle connection (%dT): %s bytes, goal %v", o.place.threads, v.got.text(printWhole), v))
		}
	}
}

// judgeNames says which peer the bars compare with.
func (p *plotter) judgeNames() string {
	text := ""
	if len(p.r.peers) > 0 {
		text = p.r.peers[0]
	}
	for _, row := range p.r.plotRows() {
		if peer, _ := p.r.peerOf(row.s); peer != "" && peer != p.r.peers[0] {
			text += fmt.Sprintf("; those of %s with %s", row.s.name, peer)
		}
	}
	return text
}

// chart draws one column: grid, bars, goals.
func (p *plotter) chart(c chart, left, bottom float64, rows []plotRow) {
	p.text(left, plotHead-24, `font-size="13" font-weight="bold"`, c.title)
	p.text(left+plotChart, plotHead-24, `text-anchor="end" font-size="10"`, c.hint)
	for v := 0.0; v <= plotMost; v += 0.25 {
		x, style := left+scaled(v), fmt.Sprintf(`stroke="%s" stroke-width="0.8"`, colourGrid)
		if v == 1 {
			style = fmt.Sprintf(`stroke="%s" stroke-width="1.4"`, colourText)
		}
		p.line(x, plotHead-6, x, bottom, style)
		if v*2 == math.Trunc(v*2) {
			p.text(x, plotHead-10, `text-anchor="middle" font-size="10"`, fmt.Sprintf("%.1f", v))
			p.text(x, bottom+13, `text-anchor="middle" font-size="10"`, fmt.Sprintf("%.1f", v))
		}
	}
	for _, row := range rows {
		m, ok := c.metric(row.s)
		if !ok {
			continue
		}
		for i, o := range row.outcomes {
			p.bar(o, m, left, float64(row.y+i*plotBar))
		}
	}
}

// scaled is a ratio in pixels; what is too large is cut.
func scaled(ratio float64) float64 { return min(ratio, plotMost) / plotMost * plotChart }

// bar draws one ratio with its spread, its goal, and the other peer's ratio.
func (p *plotter) bar(o outcome, m metric, left, y float64) {
	peer, other := p.r.peerOf(o.scenario)
	s := o.ratios(p.r.subject, peer, m)
	middle := y + float64(plotBar)/2
	if s.count == 0 {
		p.text(left+4, y+plotBar-3, `font-size="9" font-style="italic"`, "not measured")
		return
	}
	colour := colourNone
	v, judged := p.r.verdict(o, m)
	if judged {
		colour = colourMissed
		if v.reached() {
			colour = colourReached
		}
	}
	opacity := 1.0
	if o.place.threads > 1 {
		opacity = 0.72
	}
	fmt.Fprintf(p, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" fill-opacity=\"%.2f\"/>\n",
		left, y+1, scaled(s.median), plotBar-2, colour, opacity)
	if s.count > 1 {
		p.line(left+scaled(s.least), middle, left+scaled(s.most), middle, fmt.Sprintf(`stroke="%s" stroke-width="1"`, colourText))
	}
	if length := scaled(s.median); length > 32 {
		p.text(left+5, y+plotBar-3, `font-size="10" fill="white" font-weight="bold"`, printRatio(s.median)+cutMark(s.median))
	} else {
		p.text(left+scaled(max(s.median, s.most))+5, y+plotBar-3, `font-size="10" font-weight="bold"`, printRatio(s.median))
	}
	if judged && !v.absolute {
		p.line(left+scaled(v.limit), y-1, left+scaled(v.limit), y+plotBar+1, goalStyle)
	}
	if rest := o.ratios(other, peer, m); rest.count > 0 {
		fmt.Fprintf(p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" %s/>\n", left+scaled(rest.median), middle, otherStyle)
	}
}

// cutMark marks a bar that is cut.
func cutMark(ratio float64) string {
	if ratio > plotMost {
		return " »"
	}
	return ""
}
