package grammar

import (
	"errors"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// shape is a statement before its words are looked at: words, strings and groups.
type shape struct {
	Items []item
}

// item is a word, a string or a group.
type item struct {
	Token lexer.Token
	Group *group
}

// group is what stands in braces, parentheses or single quotes.
type group struct {
	Open  lexer.Token
	Items []item
	Close lexer.Token
}

// shapes parses any statement; it may be used from several goroutines.
var shapes = participle.MustBuild[shape](participle.Lexer(definition{}))

// Parse reads a statement's items. participle calls it: a large file is mostly words, and setting a field of a node by
// reflection for each of them would take most of the time of a load. The splitter made sure that brackets match and do not nest
// deeper than maxNesting.
func (s *shape) Parse(lex *lexer.PeekingLexer) error {
	for !lex.Peek().EOF() {
		it, err := parseItem(lex)
		if err != nil {
			return err
		}
		s.Items = append(s.Items, it)
	}
	return nil
}

func parseItem(lex *lexer.PeekingLexer) (item, error) {
	t := *lex.Next()
	switch kind := tokenKind(t.Type); kind {
	case tokenWord, tokenString:
		return item{Token: t}, nil
	case tokenOpenBrace, tokenOpenParen, tokenOpenQuote:
		g := &group{Open: t, Items: make([]item, 0, 16)}
		for lex.Peek().Type != lexer.TokenType(kind+1) {
			it, err := parseItem(lex)
			if err != nil {
				return item{}, err
			}
			g.Items = append(g.Items, it)
		}
		g.Close = *lex.Next()
		return item{Group: g}, nil
	}
	return item{}, &participle.UnexpectedTokenError{Unexpected: t}
}

// shapeOf parses a span whose brackets match.
func (s *source) shapeOf(sp span) (*shape, error) {
	lex, err := lexer.Upgrade(&tokens{source: s, i: sp.first, end: sp.end})
	if err != nil {
		return nil, err
	}
	return shapes.ParseFromLexer(lex)
}

// parserFault notes an error of participle with its place.
func (f *faults) parserFault(err error, what string, words []string) {
	var unexpected *participle.UnexpectedTokenError
	if errors.As(err, &unexpected) {
		t := unexpected.Unexpected
		if t.EOF() {
			f.at(t, CodeSyntax, "", "%s ends too early", what)
			return
		}
		f.at(t, CodeSyntax, nearest(t.Value, words), "%q cannot stand here in %s", t.Value, what)
		return
	}
	var at participle.Error
	if errors.As(err, &at) {
		f.at(lexer.Token{Pos: at.Position()}, CodeSyntax, "", "%s: %s", what, at.Message())
		return
	}
	f.add(place{line: f.source.firstLine, col: f.source.firstColumn}, CodeSyntax, "", "%s: %v", what, err)
}

// cursor reads the items of one list in turn.
type cursor struct {
	items []item
	i     int
	// end is the token that ends the list, for faults about what is missing there.
	end lexer.Token
}

func (c *cursor) done() bool { return c.i >= len(c.items) }

// peek returns the next word or string; false at the end and before a group.
func (c *cursor) peek() (lexer.Token, bool) { return c.peekAt(0) }

func (c *cursor) peekAt(n int) (lexer.Token, bool) {
	if c.i+n >= len(c.items) || c.items[c.i+n].Group != nil {
		return lexer.Token{}, false
	}
	return c.items[c.i+n].Token, true
}

// word returns the next token if it is this word and goes past it.
func (c *cursor) word(word string) (lexer.Token, bool) {
	t, ok := c.peek()
	if !ok || t.Value != word {
		return lexer.Token{}, false
	}
	c.i++
	return t, true
}

// group returns the next item if it is a group in these brackets and goes past it.
func (c *cursor) group(kind tokenKind) (*group, bool) {
	if c.done() || c.items[c.i].Group == nil || c.items[c.i].Group.Open.Type != lexer.TokenType(kind) {
		return nil, false
	}
	c.i++
	return c.items[c.i-1].Group, true
}

// here is the token that a fault about the next item points to.
func (c *cursor) here() lexer.Token {
	if c.done() {
		return c.end
	}
	return c.items[c.i].token()
}

// token is an item's first token.
func (it *item) token() lexer.Token {
	if it.Group != nil {
		return it.Group.Open
	}
	return it.Token
}

// inside is a cursor over a group's items.
func (g *group) inside() *cursor { return &cursor{items: g.Items, end: g.Close} }
