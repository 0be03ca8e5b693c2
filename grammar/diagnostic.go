package grammar

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

const (
	// maxFaults is how many faults of one text are reported.
	maxFaults = 50
	// mostFaults is how many are gathered, of which the first in the text are reported; further ones are only counted.
	mostFaults = 1000
)

// Codes of the diagnostics of this package; they are stable.
const (
	CodeSyntax           = "syntax"
	CodeEncoding         = "encoding"
	CodeLimit            = "limit"
	CodeUnknownStatement = "unknown_statement"
	CodeUnknownAttribute = "unknown_attribute"
	CodeUnknownWord      = "unknown_word"
	CodeValue            = "value"
	CodeName             = "name"
	CodeDuplicate        = "duplicate"
	CodeUnavailable      = "unavailable"
	// CodeKept is a warning: a statement has words that are not known and is kept whole.
	CodeKept = "kept"
	// CodeMore is a note that counts what is not shown.
	CodeMore = "more"
)

// place is where something stands; length counts characters.
type place struct {
	line, col, length uint32
}

func placeOf(t lexer.Token) place {
	return place{line: uint32(t.Pos.Line), col: uint32(t.Pos.Column), length: max(1, uint32(utf8.RuneCountInString(t.Value)))}
}

// faults gathers the diagnostics of one text.
type faults struct {
	source *source
	list   []*pb.Diagnostic
	seen   map[place]bool
	// more counts faults that are not in the list, hidden those that follow from one that is.
	more, hidden int
	// suggestions are made only for faults that are shown.
	suggestions map[*pb.Diagnostic]func() string
	// warnings holds at most maxFaults; moreWarnings counts the others.
	warnings     []*pb.Diagnostic
	moreWarnings int
}

// warn notes a warning.
func (f *faults) warn(at place, code, format string, args ...any) {
	if len(f.warnings) >= maxFaults {
		f.moreWarnings++
		return
	}
	f.warnings = append(f.warnings, &pb.Diagnostic{
		Severity: pb.Severity_SEVERITY_WARNING,
		Position: &pb.Position{File: f.source.file, Line: at.line, Column: at.col},
		Length:   max(1, at.length),
		Message:  pb.Message(format, args...),
		Code:     code,
	})
}

// later has a suggestion made when the fault is shown. A nil fault is none.
func (f *faults) later(d *pb.Diagnostic, suggest func() string) {
	if d == nil {
		return
	}
	if f.suggestions == nil {
		f.suggestions = make(map[*pb.Diagnostic]func() string)
	}
	f.suggestions[d] = suggest
}

// suggest makes a suggestion that was put off.
func (f *faults) suggest(d *pb.Diagnostic) {
	if suggest := f.suggestions[d]; suggest != nil {
		d.Suggestion = suggest()
	}
}

// faultMark remembers what was found so far.
type faultMark struct{ list, more, hidden int }

func (f *faults) mark() faultMark { return faultMark{len(f.list), f.more, f.hidden} }

// rewind takes back what was found since a mark and returns the first of it; false where nothing was. The first is nil where it was
// only counted.
func (f *faults) rewind(m faultMark) (first *pb.Diagnostic, found bool) {
	if f.mark() == m {
		return nil, false
	}
	for i, d := range f.list[m.list:] {
		if i == 0 {
			first = d
			if len(f.warnings) < maxFaults {
				f.suggest(d)
			}
		}
		delete(f.suggestions, d)
		delete(f.seen, place{line: d.GetPosition().GetLine(), col: d.GetPosition().GetColumn()})
	}
	f.list, f.more, f.hidden = f.list[:m.list], m.more, m.hidden
	return first, true
}

// count is how many faults were found so far.
func (f *faults) count() int { return len(f.list) + f.more + f.hidden }

// full tells whether more faults are only counted.
func (f *faults) full() bool { return len(f.list) >= mostFaults }

// nearest is the word that was probably meant, for a fault that is about to be noted.
func (f *faults) nearest(word string, words []string) string {
	if f.full() {
		return ""
	}
	return nearest(word, words)
}

// add notes a fault; one place has one fault, the first.
func (f *faults) add(at place, code, suggestion, format string, args ...any) *pb.Diagnostic {
	key := place{line: at.line, col: at.col}
	if f.seen[key] {
		f.hidden++
		return nil
	}
	if f.seen == nil {
		f.seen = make(map[place]bool)
	}
	if f.full() {
		f.more++
		return nil
	}
	f.seen[key] = true
	d := &pb.Diagnostic{
		Severity:   pb.Severity_SEVERITY_ERROR,
		Position:   &pb.Position{File: f.source.file, Line: at.line, Column: at.col},
		Length:     max(1, at.length),
		Message:    pb.Message(format, args...),
		Suggestion: suggestion,
		Code:       code,
	}
	f.list = append(f.list, d)
	return d
}

// at notes a fault of a token. A token whose bytes were not UTF-8 has its fault already.
func (f *faults) at(t lexer.Token, code, suggestion, format string, args ...any) *pb.Diagnostic {
	if f.source.repaired && strings.ContainsRune(t.Value, utf8.RuneError) {
		f.hidden++
		return nil
	}
	return f.add(placeOf(t), code, suggestion, format, args...)
}

// result returns the diagnostics in the order of the text: at most maxFaults, then a note that counts the others.
func (f *faults) result() []*pb.Diagnostic {
	sortByPlace(f.list)
	list := f.list
	more := f.more
	if len(list) > maxFaults {
		more += len(list) - maxFaults
		list = list[:maxFaults]
	}
	if len(f.warnings) > 0 {
		list = append(slices.Clone(list), f.warnings...)
		sortByPlace(list)
	}
	for _, d := range list {
		f.suggest(d)
		d.Source = f.source.line(d.GetPosition().GetLine())
	}
	if more > 0 {
		list = append(list, More(more, Faults))
	}
	if f.moreWarnings > 0 {
		list = append(list, More(f.moreWarnings, "warnings"))
	}
	return list
}

func sortByPlace(list []*pb.Diagnostic) {
	slices.SortStableFunc(list, func(a, b *pb.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.GetPosition().GetLine(), b.GetPosition().GetLine()),
			cmp.Compare(a.GetPosition().GetColumn(), b.GetPosition().GetColumn()))
	})
}

// Faults is what More and NotShown call errors.
const Faults = "faults"

// moreForm is the text of a note that stands for diagnostics that are not shown.
const moreForm = "%d more %s are not shown"

// More is the note that stands for n diagnostics that are not shown; what says which: Faults, "warnings W-4".
func More(n int, what string) *pb.Diagnostic {
	return &pb.Diagnostic{Severity: pb.Severity_SEVERITY_NOTE, Code: CodeMore, Message: fmt.Sprintf(moreForm, n, what)}
}

// NotShown returns what a note of More stands for; 0 where a diagnostic is no such note.
func NotShown(d *pb.Diagnostic) (n int, what string) {
	number, rest, ok := strings.Cut(d.GetMessage(), " more ")
	n, err := strconv.Atoi(number)
	if d.GetCode() != CodeMore || !ok || err != nil {
		return 0, ""
	}
	return n, strings.TrimSuffix(rest, " are not shown")
}

// LongestLine is how much of a line a diagnostic shows, in bytes.
const LongestLine = 4096

// Indented is the part of a line that begins at a column, behind as many blanks as stand before it: the line that a diagnostic shows.
// It is "" where those are more than is shown.
func Indented(column uint32, part string) string {
	switch {
	case column <= 1:
		return part
	case column > LongestLine:
		return ""
	}
	return strings.Repeat(" ", int(column-1)) + part
}

// line returns a line of the text without its end. Lines are those of the origin.
func (s *source) line(number uint32) string {
	rest := s.text
	for n := s.firstLine; n < number; n++ {
		_, after, found := strings.Cut(rest, "\n")
		if !found {
			return ""
		}
		rest = after
	}
	text, _, _ := strings.Cut(rest, "\n")
	if number == s.firstLine {
		text = Indented(s.firstColumn, text)
	}
	if len(text) > LongestLine {
		text = strings.ToValidUTF8(text[:LongestLine], "")
	}
	return strings.TrimSuffix(text, "\r")
}

// position returns a token's place as the model keeps it.
func (s *source) position(t lexer.Token) *pb.Position {
	return &pb.Position{File: s.file, Line: uint32(t.Pos.Line), Column: uint32(t.Pos.Column)}
}

// Render writes diagnostics as a person reads them: place and message, the line of the text, carets under the words, and what was
// probably meant. With color, terminal colours are added.
func Render(w io.Writer, ds []*pb.Diagnostic, color bool) {
	for _, d := range ds {
		renderOne(w, d, color)
	}
}

func renderOne(w io.Writer, d *pb.Diagnostic, color bool) {
	paint := func(code, text string) string {
		if !color || text == "" {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	const bold, red, yellow, cyan = "1", "1;31", "1;33", "36"
	where := paint(bold, positionText(d.GetPosition()))
	caret := red
	switch d.GetSeverity() {
	case pb.Severity_SEVERITY_WARNING:
		fmt.Fprintf(w, "%s%s%s\n", paint(yellow, "warning: "), where, d.GetMessage())
		return
	case pb.Severity_SEVERITY_NOTE:
		fmt.Fprintf(w, "%s%s%s\n", paint(cyan, "note: "), where, d.GetMessage())
		return
	}
	fmt.Fprintf(w, "%s%s\n", where, d.GetMessage())
	if d.GetSource() != "" && d.GetPosition().GetLine() > 0 {
		number := fmt.Sprintf("%5d", d.GetPosition().GetLine())
		line := printable(d.GetSource())
		pad, marks := underline(line, d.GetPosition().GetColumn(), d.GetLength())
		fmt.Fprintf(w, "%s | %s\n", number, line)
		fmt.Fprintf(w, "%s | %s%s\n", strings.Repeat(" ", len(number)), pad, paint(caret, marks))
	}
	if d.GetSuggestion() != "" {
		meant := d.GetSuggestion()
		if !strings.HasPrefix(meant, `"`) {
			meant = `"` + meant + `"`
		}
		fmt.Fprintf(w, "  did you mean %s?\n", paint(bold, meant))
	}
}

// printable puts the replacement character in place of control characters, which would act on a terminal; tabs stay.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, line)
}

// positionText is "FILE:L:C: ", without what is not known.
func positionText(p *pb.Position) string {
	switch {
	case p.GetLine() == 0 && p.GetFile() == "":
		return ""
	case p.GetLine() == 0:
		return p.GetFile() + ": "
	case p.GetFile() == "":
		return fmt.Sprintf("%d:%d: ", p.GetLine(), p.GetColumn())
	}
	return fmt.Sprintf("%s:%d:%d: ", p.GetFile(), p.GetLine(), p.GetColumn())
}

// underline returns what stands before the carets and the carets. Tabs before them are kept, so that they end at the same stop;
// a wide character counts two columns, a combining one none.
func underline(line string, column, length uint32) (pad, marks string) {
	var before, under strings.Builder
	at := uint32(1)
	for _, r := range line {
		switch width := runeWidth(r); {
		case at < column && r == '\t':
			before.WriteByte('\t')
		case at < column:
			before.WriteString(strings.Repeat(" ", width))
		case at < column+length:
			under.WriteString(strings.Repeat("~", max(width, 1)))
		}
		at++
	}
	marks = under.String()
	if marks == "" {
		return before.String(), "^"
	}
	return before.String(), "^" + marks[1:]
}

// wideRanges holds the first and last characters that terminals draw two columns wide.
var wideRanges = [][2]rune{
	{0x1100, 0x115F},
	{0x2E80, 0x303E},
	{0x3041, 0x33FF},
	{0x3400, 0x4DBF},
	{0x4E00, 0x9FFF},
	{0xA000, 0xA4CF},
	{0xAC00, 0xD7A3},
	{0xF900, 0xFAFF},
	{0xFE30, 0xFE6F},
	{0xFF00, 0xFF60},
	{0xFFE0, 0xFFE6},
	{0x1F300, 0x1F64F},
	{0x1F680, 0x1F6FF},
	{0x1F900, 0x1F9FF},
	{0x20000, 0x3FFFD},
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r <= 0x36F || r >= 0x200B && r <= 0x200F || r >= 0xFE00 && r <= 0xFE0F:
		return 0
	}
	for _, w := range wideRanges {
		if r >= w[0] && r <= w[1] {
			return 2
		}
	}
	return 1
}

// Duplicates returns a fault for each definition of an object that an earlier statement defines already, at most 1000. Only whole
// definitions count: short forms change what is there.
func Duplicates(statements []*Statement) []*pb.Diagnostic {
	list, _ := duplicates(statements)
	return list
}

// duplicates is Duplicates; more counts those that are not in the list.
func duplicates(statements []*Statement) (list []*pb.Diagnostic, more int) {
	first := make(map[string]*Statement, len(statements))
	for _, s := range statements {
		if s.Action != ActionDefine {
			continue
		}
		earlier, found := first[s.Key]
		switch {
		case !found:
			first[s.Key] = s
		case len(list) >= mostFaults:
			more++
		default:
			list = append(list, duplicate(s, earlier))
		}
	}
	return list, more
}

func duplicate(s, earlier *Statement) *pb.Diagnostic {
	kind, name := pb.SplitKey(s.Key)
	at := s.KeyPosition
	if at == nil {
		at = s.Position
	}
	return &pb.Diagnostic{
		Severity: pb.Severity_SEVERITY_ERROR,
		Position: proto.CloneOf(at),
		Length:   max(1, s.KeyLength),
		Message: fmt.Sprintf("existing %s %q: defined on line %d and again on line %d",
			kind, name, earlier.Position.GetLine(), s.Position.GetLine()),
		Code: CodeDuplicate,
		Related: []*pb.RelatedPosition{{
			Position: proto.CloneOf(earlier.Position), Message: "first defined here",
		}},
	}
}
