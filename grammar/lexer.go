package grammar

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

const (
	// MaxSize is the longest text that is read, in bytes.
	MaxSize = 16 << 20
	// maxNesting is how deep braces and parentheses may nest: the parser recurses once a level.
	maxNesting = 32
)

type tokenKind uint8

const (
	tokenWord tokenKind = iota + 1
	tokenString
	tokenOpenBrace
	tokenCloseBrace
	tokenOpenParen
	tokenCloseParen
	// A single quote that opens or closes a rule body on the command line.
	tokenOpenQuote
	tokenCloseQuote
)

// symbols names the kinds of tokens for participle.
var symbols = map[string]lexer.TokenType{
	"EOF":        lexer.EOF,
	"Word":       lexer.TokenType(tokenWord),
	"String":     lexer.TokenType(tokenString),
	"OpenBrace":  lexer.TokenType(tokenOpenBrace),
	"CloseBrace": lexer.TokenType(tokenCloseBrace),
	"OpenParen":  lexer.TokenType(tokenOpenParen),
	"CloseParen": lexer.TokenType(tokenCloseParen),
	"OpenQuote":  lexer.TokenType(tokenOpenQuote),
	"CloseQuote": lexer.TokenType(tokenCloseQuote),
}

// token is one lexical element. Offsets are bytes of source.text; lines and columns count from 1, columns in characters.
// No token but a string spans blanks, and none spans lines. A row is a line, or several that backslashes join.
type token struct {
	kind       tokenKind
	start, end uint32
	line, col  uint32
	row        uint32
}

// comment is the text after a comment sign; next is the index of the token that follows it.
type comment struct {
	text string
	line uint32
	next int
}

// source is a text, its tokens and what was found wrong with them.
type source struct {
	file     string
	text     string
	tokens   []token
	comments []comment
	// firstLine and firstColumn are the place of the text's first character.
	firstLine, firstColumn uint32
	// repaired is set when bytes were replaced that are not UTF-8.
	repaired bool
	faults   *faults
}

// value returns a token's characters, quotes included.
func (s *source) value(i int) string {
	t := s.tokens[i]
	return s.text[t.start:t.end]
}

// scanner is the state of one pass over a text.
type scanner struct {
	*source
	i         int
	line, col uint32
	joined    uint32 // lines that backslashes joined to the one before
	depth     int
	quote     int // index of the open single quote's token, -1 if none
	monitor   bool
}

// lex cuts text into tokens. Faults are noted in f; the tokens are complete whatever was found.
func lex(file string, line, column uint32, src []byte, f *faults) *source {
	s := &source{file: file, firstLine: line, firstColumn: column, faults: f}
	f.source = s
	if len(src) > MaxSize {
		f.add(place{line: line, col: column, length: 1}, "limit", "", "the text is longer than the %d bytes that are read", MaxSize)
		return s
	}
	s.text = string(src)
	s.repair()
	s.tokens = make([]token, 0, len(src)/8)
	sc := scanner{source: s, line: line, col: column, quote: -1}
	if strings.HasPrefix(s.text, "\uFEFF") {
		sc.i = len("\uFEFF")
	}
	sc.run()
	return s
}

// repair reports bytes that are not UTF-8 and puts the replacement character in their place.
func (s *source) repair() {
	if utf8.ValidString(s.text) {
		return
	}
	s.repaired = true
	var b strings.Builder
	line, col := s.firstLine, s.firstColumn
	for i := 0; i < len(s.text); {
		r, n := utf8.DecodeRuneInString(s.text[i:])
		if r == utf8.RuneError && n == 1 {
			s.faults.add(place{line: line, col: col, length: 1}, "encoding", "", "the byte %#02x is not UTF-8", s.text[i])
			b.WriteRune(utf8.RuneError)
		} else {
			b.WriteString(s.text[i : i+n])
		}
		i, col = i+n, col+1
		if r == '\n' {
			line, col = line+1, 1
		}
	}
	s.text = b.String()
}

func (s *scanner) run() {
	for s.i < len(s.text) {
		c := s.text[s.i]
		switch {
		case c == '\n':
			s.newline(1)
		case isBlank(c):
			s.i++
			s.col++
		case c == '\\' && s.continued(s.i) > 0:
			s.newline(s.continued(s.i))
			s.joined++
		case c == '#':
			s.comment(1)
		case c == '/' && s.monitor && strings.HasPrefix(s.text[s.i:], "//"):
			s.comment(2)
		case c == '"':
			s.string()
		case c == '\'' && s.quote >= 0:
			s.quote = -1
			s.punctuation(tokenCloseQuote)
		case c == '\'':
			s.quote = len(s.tokens)
			s.punctuation(tokenOpenQuote)
		case c == '{':
			s.openBrace()
		case c == '}':
			if s.depth--; s.depth <= 0 {
				s.depth, s.monitor = 0, false
			}
			s.punctuation(tokenCloseBrace)
		case c == '(':
			s.punctuation(tokenOpenParen)
		case c == ')':
			s.punctuation(tokenCloseParen)
		default:
			s.word()
		}
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' }

// continued returns the length of a backslash and a line's end at i, 0 if there is none. The end of the text is one.
func (s *scanner) continued(i int) int {
	switch rest := s.text[i:]; {
	case rest == "\\":
		return 1
	case strings.HasPrefix(rest, "\\\n"):
		return 2
	case strings.HasPrefix(rest, "\\\r\n"):
		return 3
	}
	return 0
}

func (s *scanner) newline(bytes int) {
	s.i += bytes
	s.line++
	s.col = 1
}

func (s *scanner) punctuation(kind tokenKind) {
	s.tokens = append(s.tokens, token{kind: kind, start: uint32(s.i), end: uint32(s.i + 1), line: s.line, col: s.col, row: s.line - s.joined})
	s.i++
	s.col++
}

// openBrace also finds out whether a monitor's body begins, in which // is a comment.
func (s *scanner) openBrace() {
	if s.depth == 0 {
		for back := 2; back <= 3 && back <= len(s.tokens); back++ {
			s.monitor = s.monitor || s.value(len(s.tokens)-back) == "monitor"
		}
	}
	s.depth++
	s.punctuation(tokenOpenBrace)
}

func (s *scanner) comment(sign int) {
	end := strings.IndexByte(s.text[s.i:], '\n')
	if end < 0 {
		end = len(s.text)
	} else {
		end += s.i
	}
	text := strings.TrimRight(s.text[s.i+sign:end], " \t\r\v\f")
	s.comments = append(s.comments, comment{text: text, line: s.line, next: len(s.tokens)})
	s.col += uint32(utf8.RuneCountInString(s.text[s.i:end]))
	s.i = end
}

// string reads a quoted string, which ends on its line.
func (s *scanner) string() {
	t := token{kind: tokenString, start: uint32(s.i), line: s.line, col: s.col, row: s.line - s.joined}
	s.i++
	s.col++
	closed := false
	for s.i < len(s.text) && s.text[s.i] != '\n' && !closed {
		switch c := s.text[s.i]; {
		case c == '"':
			closed = true
			s.advance()
		case c == '\\' && s.i+1 < len(s.text) && (s.text[s.i+1] == '"' || s.text[s.i+1] == '\\'):
			s.i += 2
			s.col += 2
		default:
			s.advance()
		}
	}
	if !closed {
		s.faults.add(place{line: t.line, col: t.col, length: 1}, "syntax", "", "the string that begins here is not closed on this line")
	}
	t.end = uint32(s.i)
	s.tokens = append(s.tokens, t)
}

// advance goes one character on and reports a control character.
func (s *scanner) advance() {
	c := s.text[s.i]
	if c < utf8.RuneSelf {
		if c < ' ' && !isBlank(c) || c == 0x7f {
			s.faults.add(place{line: s.line, col: s.col, length: 1}, "encoding", "", "the control character %#02x cannot stand here", c)
		}
		s.i++
	} else {
		_, n := utf8.DecodeRuneInString(s.text[s.i:])
		s.i += n
	}
	s.col++
}

func (s *scanner) word() {
	t := token{kind: tokenWord, start: uint32(s.i), line: s.line, col: s.col, row: s.line - s.joined}
	for s.i < len(s.text) && !s.endsWord() {
		s.advance()
	}
	t.end = uint32(s.i)
	s.tokens = append(s.tokens, t)
}

func (s *scanner) endsWord() bool {
	switch c := s.text[s.i]; c {
	case '\n', '{', '}', '(', ')', '"', '#':
		return true
	case '\'':
		return s.quote >= 0
	case '\\':
		return s.continued(s.i) > 0
	default:
		return isBlank(c)
	}
}

// unquote returns what a token says: a string without its quotes and with \" and \\ resolved, a word as it is.
func unquote(t lexer.Token) string {
	if t.Type != lexer.TokenType(tokenString) {
		return t.Value
	}
	s := strings.TrimPrefix(t.Value, `"`)
	if len(t.Value) > 1 {
		s = strings.TrimSuffix(s, `"`)
	}
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\') {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// quote returns text as a string of the language: unquote of it is the text again. A backslash is doubled only where it would
// otherwise be read as part of an escape.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '"' || c == '\\' && (i+1 == len(text) || text[i+1] == '"' || text[i+1] == '\\') {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('"')
	return b.String()
}

// plain returns text as a word where it can be one, else as a string.
func plain(text string) string {
	if text == "" || strings.HasPrefix(text, "//") || strings.ContainsAny(text, " \t\r\n\v\f{}()\"'#\\") {
		return quote(text)
	}
	return text
}

// definition lets participle know our tokens; texts always come through lexOf.
type definition struct{}

func (definition) Symbols() map[string]lexer.TokenType { return symbols }

func (definition) Lex(file string, _ io.Reader) (lexer.Lexer, error) {
	return nil, fmt.Errorf("%s: statements are parsed from tokens", file)
}

// tokens hands a range of a source's tokens to participle. Positions are lines and columns in characters, offsets in bytes.
type tokens struct {
	source *source
	i, end int
}

func (t *tokens) Next() (lexer.Token, error) {
	if t.i >= t.end {
		return lexer.EOFToken(t.source.positionAfter(t.end)), nil
	}
	t.i++
	return t.source.lexerToken(t.i - 1), nil
}

// lexerToken is token i as participle knows tokens.
func (s *source) lexerToken(i int) lexer.Token {
	k := s.tokens[i]
	return lexer.Token{
		Type:  lexer.TokenType(k.kind),
		Value: s.text[k.start:k.end],
		Pos:   lexer.Position{Offset: int(k.start), Line: int(k.line), Column: int(k.col)},
	}
}

// positionAfter returns the place just after token i-1.
func (s *source) positionAfter(i int) lexer.Position {
	if i == 0 || i > len(s.tokens) {
		return lexer.Position{Line: int(s.firstLine), Column: int(s.firstColumn)}
	}
	t := s.tokens[i-1]
	return lexer.Position{
		Offset: int(t.end), Line: int(t.line),
		Column: int(t.col) + utf8.RuneCountInString(s.text[t.start:t.end]),
	}
}
