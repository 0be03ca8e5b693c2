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

// shapeOf returns the items of a span whose brackets match. They are put together here and not by participle, which reads rules: a
// large file is mostly words, and an object for each of them by reflection would take most of the time of a load.
func (s *source) shapeOf(sp span) *shape {
	items, _ := s.itemsOf(sp.first, sp.end)
	return &shape{Items: items}
}

// itemsOf returns the items from token i up to the bracket that closes their list, or to end, and the index of what ended it. The
// splitter made sure that brackets do not nest deeper than maxNesting.
func (s *source) itemsOf(i, end int) ([]item, int) {
	items := make([]item, 0, s.count(i, end))
	for i < end {
		switch s.tokens[i].kind {
		case tokenWord, tokenString:
			items = append(items, item{Token: s.lexerToken(i)})
		case tokenOpenBrace, tokenOpenParen, tokenOpenQuote:
			g := &group{Open: s.lexerToken(i)}
			g.Items, i = s.itemsOf(i+1, end)
			g.Close = s.lexerToken(i)
			items = append(items, item{Group: g})
		default:
			return items, i
		}
		i++
	}
	return items, i
}

// count counts the items of a list that begins with token i.
func (s *source) count(i, end int) int {
	n, depth := 0, 0
	for ; i < end && depth >= 0; i++ {
		switch s.tokens[i].kind {
		case tokenOpenBrace, tokenOpenParen, tokenOpenQuote:
			depth++
		case tokenCloseBrace, tokenCloseParen, tokenCloseQuote:
			if depth--; depth == 0 {
				n++
			}
		default:
			if depth == 0 {
				n++
			}
		}
	}
	return n
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
