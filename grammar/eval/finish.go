package eval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// finish checks the whole and makes the outcome.
func (e *evaluator) finish() *Outcome {
	if e.options.Mode == ModeLoad {
		e.keepScopes()
	}
	e.dropOrphans()
	e.warnStrayNodes()
	e.checkOperations()
	e.check()
	failed := len(e.faulty) > 0 || slices.ContainsFunc(e.diagnostics, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR })
	if failed && e.options.Mode == ModeCommand {
		e.diagnostics = slices.DeleteFunc(e.diagnostics, func(d *pb.Diagnostic) bool { return d.GetSeverity() != pb.Severity_SEVERITY_ERROR })
	}
	e.arrange()
	out := &Outcome{Diagnostics: e.diagnostics, Exit: exitOf(e.options.Mode, e.diagnostics), View: e.base, PortPersist: e.options.PortPersist}
	if len(e.faulty) > 0 {
		out.Exit = 2
	}
	if failed {
		return out
	}
	if e.options.Mode == ModeCommand {
		e.forgetCommandText()
	}
	out.View = e.view.Tree()
	if e.wasReset {
		out.Changes = config.DiffExact(e.base, e.view)
		out.Reset = e.options.Mode == ModeCommand
	} else {
		out.Changes = e.view.Changes()
	}
	out.Operations = e.operations
	out.PortPersist = e.ports
	out.PortPersistChanged = !maps.Equal(e.ports, e.options.PortPersist)
	out.ClearSticky = slices.Sorted(maps.Keys(e.sticky))
	out.Kept, out.Ignored = e.kept, e.ignored
	if len(out.Changes) > 0 || e.wasReset {
		out.Summary = e.summarizeAll()
	}
	return out
}

// keepScopes keeps the variables that lived outside the file, persist_across_* and kept system variables, where a load does
// not name them.
func (e *evaluator) keepScopes() {
	old := config.Globals(e.base)
	o := config.Clone(e.view.Get("global"))
	if o == nil {
		o = &pb.Object{Kind: &pb.Object_Global{Global: &pb.Global{}}}
	}
	g := o.GetGlobal()
	changed := false
	for _, f := range []struct{ new, old **bool }{
		{&g.PersistAcrossServices, &old.PersistAcrossServices},
		{&g.PersistAcrossVirtuals, &old.PersistAcrossVirtuals},
		{&g.PersistAcrossPools, &old.PersistAcrossPools},
	} {
		if *f.new == nil && *f.old != nil {
			*f.new, changed = proto.Bool(**f.old), true
		}
	}
	for _, s := range old.GetSysctls() {
		if !slices.ContainsFunc(g.GetSysctls(), func(t *pb.Sysctl) bool { return t.GetName() == s.GetName() }) {
			g.Sysctls, changed = append(g.Sysctls, proto.CloneOf(s)), true
		}
	}
	if changed {
		if order := metaOf(o); order.Order == 0 {
			order.Order = 1
		}
		e.view.Put(o)
	}
}

// dropOrphans deletes nodes and virtual addresses that have lost the last member or virtual server that made them exist.
func (e *evaluator) dropOrphans() {
	for _, key := range slices.Sorted(maps.Keys(e.nodes)) {
		if e.view.Get(key) != nil && !e.exists(key) {
			e.view.Delete(key)
			e.touch(nil, key)
		}
	}
}

// warnStrayNodes warns of statements of a file about nodes and addresses that exist nowhere: files of old units hold such
// lines, and they harm nothing.
func (e *evaluator) warnStrayNodes() {
	if e.options.Mode == ModeCommand {
		return
	}
	type stray struct {
		key string
		at  at
	}
	var strays []stray
	for key, t := range e.touched {
		kind, _ := pb.SplitKey(key)
		if (kind == "node" || kind == "virtual_address" || kind == "monitor_use") && t.last != nil && e.view.Get(key) != nil && !e.exists(key) {
			strays = append(strays, stray{key, keyAt(t.last)})
		}
	}
	slices.SortFunc(strays, func(a, b stray) int {
		p, q := a.at.position, b.at.position
		return cmp.Or(cmp.Compare(p.GetLine(), q.GetLine()), cmp.Compare(p.GetColumn(), q.GetColumn()), cmp.Compare(a.key, b.key))
	})
	for _, s := range strays[:min(len(strays), maxShown)] {
		kind, name := pb.SplitKey(s.key)
		what := "node " + name + " is not a member of any pool"
		if kind == "virtual_address" {
			what = "virtual address " + name + " has no virtual server"
		}
		e.diagnostics = append(e.diagnostics, &pb.Diagnostic{
			Severity: pb.Severity_SEVERITY_WARNING, Code: CodeNotFound, Message: what,
			Position: config.Position(s.at.position), Length: s.at.length,
		})
	}
	e.strays = max(0, len(strays)-maxShown)
}

// check validates what was touched, or everything after a reset.
func (e *evaluator) check() {
	var keys []string
	if !e.wasReset {
		keys = slices.Sorted(maps.Keys(e.touched))
		if len(keys) == 0 {
			return
		}
	}
	for _, f := range config.Check(e.view, keys) {
		if e.faulty[f.Key] {
			continue
		}
		if t := e.touched[f.Key]; t != nil && t.last != nil && (f.Position == nil || f.Length <= 1 && samePlace(f.Position, t.last.Position)) {
			where := keyAt(t.last)
			f.Position, f.Length = config.Position(where.position), where.length
		}
		e.pointAt(f)
		e.diagnostics = append(e.diagnostics, f.Diagnostic)
	}
}

// maxPointed is for how many undefined references the name is looked for; most of more are not shown.
const maxPointed = 1000

// pointAt moves an undefined reference from its attribute's words to the name behind them, if that stands on the same line.
func (e *evaluator) pointAt(f config.Finding) {
	if f.Name == "" || e.pointed >= maxPointed {
		return
	}
	e.pointed++
	line := []rune(e.source(f.Position))
	column := int(f.GetPosition().GetColumn())
	if column < 1 || column > len(line) {
		return
	}
	name := []rune(f.Name)
	for i := column; i+len(name) <= len(line); i++ {
		if slices.Equal(line[i:i+len(name)], name) && (i+len(name) == len(line) || !isNamePart(line[i+len(name)])) && !isNamePart(line[i-1]) {
			f.Position.Column, f.Length = uint32(i+1), uint32(len(name))
			return
		}
	}
}

// wordLength counts the characters of the word that begins at a column.
func wordLength(line string, column uint32) uint32 {
	n := uint32(0)
	for i, r := range []rune(line) {
		switch {
		case i+1 < int(column):
		case unicode.IsSpace(r) || strings.ContainsRune("{}()", r):
			return n
		default:
			n++
		}
	}
	return n
}

func isNamePart(r rune) bool {
	return r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// The most diagnostics of one code and severity that are returned, and the most faults.
const maxShown = 50

// warningsOf is what a note calls the warnings of one code.
func warningsOf(code string) string { return "warnings " + code }

// arrange puts the diagnostics into the order of the text, shows at most so many and fills in the lines that they are about.
func (e *evaluator) arrange() {
	slices.SortStableFunc(e.diagnostics, func(a, b *pb.Diagnostic) int {
		p, q := a.GetPosition(), b.GetPosition()
		none := func(p *pb.Position) int {
			if p == nil {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(none(p), none(q)), cmp.Compare(p.GetFile(), q.GetFile()),
			cmp.Compare(p.GetLine(), q.GetLine()), cmp.Compare(p.GetColumn(), q.GetColumn()))
	})
	count := map[string]int{}
	var shown []*pb.Diagnostic
	for _, d := range e.diagnostics {
		class := grammar.Faults
		if d.GetSeverity() != pb.Severity_SEVERITY_ERROR {
			class = warningsOf(d.GetCode())
		}
		if count[class]++; count[class] <= maxShown {
			shown = append(shown, d)
			if d.Source == "" {
				d.Source = e.source(d.GetPosition())
			}
			d.Length = max(d.Length, wordLength(d.GetSource(), d.GetPosition().GetColumn()))
		}
	}
	if e.strays > 0 && count[warningsOf(CodeNotFound)] > 0 {
		count[warningsOf(CodeNotFound)] += e.strays
	}
	for _, class := range slices.Sorted(maps.Keys(count)) {
		if more := count[class] - maxShown; more > 0 {
			shown = append(shown, grammar.More(more, class))
		}
	}
	e.diagnostics = shown
}

// source returns the line of the text at a position as far as the statement there holds it; "" when it is in none of them.
func (e *evaluator) source(p *pb.Position) string {
	if p == nil {
		return ""
	}
	// The statements stand in the order of the text: the one that holds the position is the last that begins before it, or one of
	// those that begin with it.
	i := sort.Search(len(e.statements), func(i int) bool { return before(p, e.statements[i].Position) })
	for i--; i >= 0; i-- {
		s := e.statements[i]
		if line, ok := lineOf(s, p); ok {
			return line
		}
		if !samePlace(s.Position, e.statements[max(0, i-1)].Position) {
			break
		}
	}
	return ""
}

// before tells whether p stands before q.
func before(p, q *pb.Position) bool {
	return p.GetLine() < q.GetLine() || p.GetLine() == q.GetLine() && p.GetColumn() < q.GetColumn()
}

// lineOf returns the line of a statement's text at a position; false when the position is not in the statement.
func lineOf(s *grammar.Statement, p *pb.Position) (string, bool) {
	from, to := s.Position, s.End
	if from.GetFile() != p.GetFile() || p.GetLine() < from.GetLine() || to != nil && p.GetLine() > to.GetLine() {
		return "", false
	}
	rest := s.Text
	for n := from.GetLine(); n < p.GetLine(); n++ {
		_, after, found := strings.Cut(rest, "\n")
		if !found {
			return "", false
		}
		rest = after
	}
	line, _, _ := strings.Cut(rest, "\n")
	line = strings.TrimSuffix(line, "\r")
	long := len(line) > grammar.LongestLine
	if long {
		line = strings.ToValidUTF8(line[:grammar.LongestLine], "")
	}
	if p.GetLine() > from.GetLine() {
		return line, true
	}
	if p.GetColumn() < from.GetColumn() || !long && int(p.GetColumn()) > int(from.GetColumn())+len([]rune(line)) {
		return "", false
	}
	return grammar.Indented(from.GetColumn(), line), true
}

// forgetCommandText takes out of the changed objects what they remember of the commands' text: nobody can look it up later.
// What they remember of a file stays as far as it was not changed.
func (e *evaluator) forgetCommandText() {
	for key, t := range e.touched {
		o := e.view.Get(key)
		if o == nil {
			continue
		}
		c := config.Clone(o)
		meta := metaOf(c)
		order, comments := meta.GetOrder(), meta.GetComments()
		old := e.base.Get(key)
		if !e.wasReset && config.Equal(o, old) {
			e.view.Put(old)
			continue
		}
		if t.replaced || e.wasReset || old == nil {
			c, old = config.StripMeta(c), nil
		}
		next := metaOf(c)
		if old != nil {
			before := old.ObjectMeta()
			next.Position = config.Position(before.GetPosition())
			next.Attributes = slices.DeleteFunc(slices.Clone(before.GetAttributes()), func(a *pb.AttributePosition) bool {
				return t.attributes[a.GetAttribute()]
			})
			restoreMembers(c.GetPool(), old.GetPool())
		}
		next.Order, next.Comments = order, comments
		e.view.Put(c)
	}
}

// restoreMembers gives a pool's members the Meta that they had before the commands.
func restoreMembers(p, old *pb.Pool) {
	for _, m := range p.GetMembers() {
		m.Meta = nil
		if i := indexMember(old, m.GetAddress()); i >= 0 {
			m.Meta = old.Members[i].GetMeta()
		}
	}
}

// summarize notes what a statement did, for the revision.
func (e *evaluator) summarize(s *grammar.Statement) {
	if samePlace(e.summarized, s.Position) {
		return
	}
	e.summarized = s.Position
	e.summary = append(e.summary, brief(s.Text))
}

// brief is the beginning of a statement: what stands before its braces, on one line, at most 60 characters.
func brief(text string) string {
	text, _, _ = strings.Cut(text, "{")
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 60 {
		text = string(r[:59]) + "…"
	}
	return text
}

func (e *evaluator) summarizeAll() string {
	verb := map[Mode]string{ModeLoad: "load", ModeMerge: "merge"}[e.options.Mode]
	if verb != "" {
		file := e.options.File
		if file == "" && len(e.statements) > 0 {
			file = e.statements[0].Position.GetFile()
		}
		return strings.TrimSpace(verb + " " + file)
	}
	switch n := len(e.summary); n {
	case 0:
		return ""
	case 1:
		return e.summary[0]
	default:
		return fmt.Sprintf("%s and %d more", e.summary[0], n-1)
	}
}
