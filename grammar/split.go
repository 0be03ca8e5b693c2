package grammar

import (
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// Bound is where a statement stands in a text.
type Bound struct {
	Position *pb.Position
	// End is one past the last character.
	End *pb.Position
	// Text is the statement as it was written.
	Text string
	// Open is set when the text ended inside the statement: in a brace, a parenthesis or a quoted body, or after a backslash.
	Open bool
}

// Split finds the statements of a text. What they say is not looked at; the faults are those that make bounds uncertain.
// A statement that is still open is the last, with Open set, and is no fault.
func Split(file string, src []byte) ([]Bound, []*pb.Diagnostic) {
	var f faults
	s := lex(file, 1, 1, src, &f)
	spans := s.split(false)
	bounds := make([]Bound, 0, len(spans))
	for _, sp := range spans {
		bounds = append(bounds, Bound{
			Position: s.startOf(sp.first),
			End:      s.endOf(sp.end),
			Text:     s.textOf(sp),
			Open:     sp.open,
		})
	}
	if n := len(bounds); n > 0 && continuedAtEnd(s.text) {
		bounds[n-1].Open = true
	}
	return bounds, f.result()
}

// continuedAtEnd tells whether the last line ends with a backslash.
func continuedAtEnd(text string) bool {
	text = strings.TrimSuffix(text, "\n")
	return strings.HasSuffix(strings.TrimSuffix(text, "\r"), `\`)
}

// span is a statement as a range of tokens, end excluded.
type span struct {
	first, end int
	// open: the text ended inside; faulty: its brackets do not match, a fault is noted.
	open, faulty bool
}

func (s *source) textOf(sp span) string {
	return s.text[s.tokens[sp.first].start:s.tokens[sp.end-1].end]
}

func (s *source) startOf(i int) *pb.Position {
	return &pb.Position{File: s.file, Line: s.tokens[i].line, Column: s.tokens[i].col}
}

func (s *source) endOf(i int) *pb.Position {
	p := s.positionAfter(i)
	return &pb.Position{File: s.file, Line: uint32(p.Line), Column: uint32(p.Column)}
}

func (s *source) place(i int) place {
	p := s.positionAfter(i + 1)
	return place{line: s.tokens[i].line, col: s.tokens[i].col, length: max(1, uint32(p.Column)-s.tokens[i].col)}
}

// split returns the statements in their order. With report, a bracket that is still open at the end is a fault.
func (s *source) split(report bool) []span {
	var spans []span
	for i := 0; i < len(s.tokens); {
		switch s.tokens[i].kind {
		case tokenCloseBrace, tokenCloseParen, tokenCloseQuote:
			s.faults.add(s.place(i), CodeSyntax, "", "%q closes nothing", s.value(i))
			i++
			continue
		}
		sp := s.statement(i, report)
		spans = append(spans, sp)
		i = sp.end
	}
	return spans
}

// statement finds the end of the statement that begins with token i.
func (s *source) statement(i int, report bool) span {
	sp := span{first: i, end: i + 1}
	word := statementWords[s.value(i)]
	if s.isOpening(i) {
		s.group(&sp, i, report)
		return sp
	}
	if word == nil {
		word = &statementWord{take: 0}
	}
	blocks := 0
	for n := 0; sp.end < len(s.tokens) && !sp.open && !sp.faulty; n++ {
		i := sp.end
		switch s.tokens[i].kind {
		case tokenOpenBrace, tokenOpenParen, tokenOpenQuote:
			if s.tokens[i].kind == tokenOpenQuote && s.tokens[i].row != s.tokens[i-1].row && blocks > 0 {
				return sp
			}
			s.group(&sp, i, report)
			if s.tokens[i].kind == tokenOpenParen {
				continue
			}
			if blocks++; !word.lists {
				return sp
			}
		case tokenCloseBrace, tokenCloseParen, tokenCloseQuote:
			return sp
		default:
			if !s.continues(sp, word, n, blocks) {
				return sp
			}
			sp.end++
		}
	}
	return sp
}

// continues tells whether the word after the statement so far belongs to it; n words or groups came after the first word.
func (s *source) continues(sp span, word *statementWord, n, blocks int) bool {
	i := sp.end
	value, before := s.value(i), s.value(i-1)
	sameLine := s.tokens[i].row == s.tokens[i-1].row
	starts := statementWords[value] != nil
	table := tableOfWord(s.value(sp.first))
	switch {
	case n > 0 && starts && table != nil && table.goesOn(before, value) && (sameLine || before == "use"):
		return true
	case word.kind == KindVirtual && value == "pool" && sameLine && n > 3 && s.value(i-2) == "weight" && !s.opensBlock(i+2):
		return true
	case !sameLine && starts:
		return false
	case !sameLine:
		return n < word.need || blocks > 0 && n == blocks || word.kind == KindVirtual && s.continuesVirtual(i)
	case word.take < 0 || n < word.take:
		return true
	case !starts || slices.Contains(word.follow, value):
		return true
	case s.value(sp.first) == "pool" && slices.Contains([]string{"node", "virtual", "vip"}, value):
		return slices.ContainsFunc(s.tokens[sp.first:i], func(t token) bool { return s.text[t.start:t.end] == "persist" })
	}
	if word.kind == KindNode && (before == "use" || before == "and") {
		return true // the name of a monitor: udp, gateway
	}
	return word.kind == KindVirtual && virtualValue[before]
}

func (s *source) opensBlock(i int) bool {
	return i < len(s.tokens) && s.tokens[i].kind == tokenOpenBrace
}

// virtualValue lists attribute words of virtual servers after which any word is a value.
var virtualValue = map[string]bool{"pool": true, "rule": true, "interface": true}

// continuesVirtual tells whether token i, the first of its line, goes on with a virtual server that is written without braces.
func (s *source) continuesVirtual(i int) bool {
	value, before := s.value(i), s.value(i-1)
	switch {
	case value == "use" || value == "define" || value == "special":
		return true
	case before == "use" || before == "define" || before == "pool" || before == "rule" || before == "special":
		return true
	case strings.Contains(value, ":"):
		return true
	}
	return Virtuals.knows(value) || Virtuals.expectsValue(before)
}

func (s *source) isOpening(i int) bool {
	k := s.tokens[i].kind
	return k == tokenOpenBrace || k == tokenOpenParen || k == tokenOpenQuote
}

// group extends the span over the bracket that token i opens.
func (s *source) group(sp *span, i int, report bool) {
	stack := make([]int, 0, 8)
	for ; i < len(s.tokens); i++ {
		switch t := s.tokens[i]; t.kind {
		case tokenOpenBrace, tokenOpenParen, tokenOpenQuote:
			stack = append(stack, i)
			if len(stack) == maxNesting+1 {
				s.faults.add(s.place(i), CodeLimit, "", "braces and parentheses nest more than %d deep", maxNesting)
				sp.faulty = true
			}
		case tokenCloseBrace, tokenCloseParen, tokenCloseQuote:
			stack = s.closeBracket(sp, stack, i)
			if len(stack) == 0 {
				sp.end = i + 1
				return
			}
		case tokenWord:
			if t.line != s.tokens[i-1].line && s.beginsBlock(i) {
				s.unclosed(stack, i)
				sp.end, sp.faulty = i, true
				return
			}
		}
	}
	sp.end, sp.open = len(s.tokens), true
	if report {
		s.unclosed(stack, len(s.tokens))
	}
}

// closeBracket takes the bracket that token i closes from the stack. What is open inside it is reported.
func (s *source) closeBracket(sp *span, stack []int, i int) []int {
	want := s.tokens[i].kind - 1
	for n := len(stack) - 1; n >= 0; n-- {
		if s.tokens[stack[n]].kind != want {
			continue
		}
		if inner := stack[n+1:]; len(inner) > 0 {
			s.unclosed(inner, i)
			sp.faulty = true
		}
		return stack[:n]
	}
	s.faults.add(s.place(i), CodeSyntax, "", "%q closes nothing", s.value(i))
	sp.faulty = true
	return stack
}

// unclosed reports the innermost open bracket, with the place where it was missed.
func (s *source) unclosed(stack []int, missed int) {
	i := stack[len(stack)-1]
	d := s.faults.add(s.place(i), CodeSyntax, "", "the %q that opens here is not closed", s.value(i))
	if d != nil && missed < len(s.tokens) {
		d.Related = []*pb.RelatedPosition{{Position: s.startOf(missed), Message: "before this"}}
	}
}

// blockWords begin statements that no body holds, when a name and a brace follow.
var blockWords = map[string]bool{"pool": true, "vip": true, "virtual": true, "rule": true, "monitor": true, "proxy": true, "class": true}

// beginsBlock tells whether token i, the first of its line, surely begins a statement, so that a brace before it was forgotten.
func (s *source) beginsBlock(i int) bool {
	if !blockWords[s.value(i)] || i+2 >= len(s.tokens) || s.tokens[i+1].kind != tokenWord {
		return false
	}
	next := i + 2
	if s.value(next) == "unit" {
		next += 2
	}
	return s.opensBlock(next)
}
