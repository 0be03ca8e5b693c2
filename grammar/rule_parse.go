package grammar

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// What follows is read without participle, which calls it: most words of a rule stand in conditions and in use, and an object for
// each of them by reflection would take most of the time of a load.

// ruleTokens reads the tokens of a rule.
type ruleTokens struct{ *lexer.PeekingLexer }

// is tells whether the next token is this word.
func (l ruleTokens) is(word string) bool { return l.Peek().Value == word }

// take goes past the next token if it is this word.
func (l ruleTokens) take(word string) (lexer.Token, bool) {
	if !l.is(word) {
		return lexer.Token{}, false
	}
	return *l.Next(), true
}

// takeBoth goes past the next two tokens if they are these words.
func (l ruleTokens) takeBoth(first, second string) bool {
	mark := l.MakeCheckpoint()
	if _, ok := l.take(first); ok {
		if _, ok := l.take(second); ok {
			return true
		}
	}
	l.LoadCheckpoint(mark)
	return false
}

// text reads a word or a string.
func (l ruleTokens) text() (lexer.Token, error) {
	if k := tokenKind(l.Peek().Type); k != tokenWord && k != tokenString {
		return lexer.Token{}, l.unexpected()
	}
	return *l.Next(), nil
}

func (l ruleTokens) word() (lexer.Token, error) {
	if tokenKind(l.Peek().Type) != tokenWord {
		return lexer.Token{}, l.unexpected()
	}
	return *l.Next(), nil
}

func (l ruleTokens) unexpected() error {
	return &participle.UnexpectedTokenError{Unexpected: *l.Peek()}
}

// Parse implements participle.Parseable.
func (u *ruleUse) Parse(lex *lexer.PeekingLexer) error {
	l := ruleTokens{lex}
	var ok bool
	if u.Keyword, ok = l.take("use"); !ok {
		return participle.NextMatch
	}
	var err error
	if _, ok := l.take("("); ok {
		for !l.is(")") {
			t, err := l.text()
			if err != nil {
				return err
			}
			u.Words = append(u.Words, t)
		}
		l.Next()
	} else if u.Pools, err = l.pools(); err != nil {
		return err
	} else if u.Pools == nil {
		if u.Name, err = l.word(); err != nil {
			return err
		}
	}
	u.Persist = l.takeBoth("persist", "none")
	return nil
}

// pools reads pool NAME weight N, once or more often; none where no name follows, because pool is a name then.
func (l ruleTokens) pools() ([]*rulePool, error) {
	var pools []*rulePool
	for {
		mark := l.MakeCheckpoint()
		if _, ok := l.take("pool"); !ok {
			return pools, nil
		}
		name, err := l.word()
		if err != nil {
			l.LoadCheckpoint(mark)
			return pools, nil //nolint:nilerr // a pool without a name is for the next alternative
		}
		p := &rulePool{Name: name}
		if _, ok := l.take("weight"); ok {
			if p.Weight, err = l.word(); err != nil {
				return nil, err
			}
		}
		pools = append(pools, p)
	}
}

// Parse implements participle.Parseable.
func (o *ruleOr) Parse(lex *lexer.PeekingLexer) error { return ruleTokens{lex}.or(o) }

func (l ruleTokens) or(o *ruleOr) error {
	o.Pos = l.Peek().Pos
	for more := true; more; _, more = l.take("or") {
		and := &ruleAnd{Pos: l.Peek().Pos}
		for more := true; more; _, more = l.take("and") {
			not := &ruleNot{}
			if err := l.not(not); err != nil {
				return err
			}
			and.Terms = append(and.Terms, not)
		}
		o.Terms = append(o.Terms, and)
	}
	return nil
}

// not reads what stands between and and or. Parentheses make it recurse; the splitter bounds how deep they nest.
func (l ruleTokens) not(n *ruleNot) error {
	n.Pos = l.Peek().Pos
	for t, ok := l.take("not"); ok; t, ok = l.take("not") {
		n.Nots = append(n.Nots, t)
	}
	if _, ok := l.take("exists"); ok {
		n.Exists = &ruleVariable{}
		return l.variable(n.Exists)
	}
	if _, ok := l.take("("); ok {
		n.Group = &ruleOr{}
		if err := l.or(n.Group); err != nil {
			return err
		}
		if _, ok := l.take(")"); !ok {
			return l.unexpected()
		}
		return nil
	}
	n.Comparison = &ruleComparison{}
	return l.comparison(n.Comparison)
}

// Parse implements participle.Parseable.
func (v *ruleVariable) Parse(lex *lexer.PeekingLexer) error { return ruleTokens{lex}.variable(v) }

func (l ruleTokens) variable(v *ruleVariable) error {
	t := *l.Peek()
	if _, known := variableNames[t.Value]; !known || tokenKind(t.Type) != tokenWord {
		return l.unexpected()
	}
	l.Next()
	if t.Value != "http_cookie" && t.Value != "http_header" {
		v.Plain = t
		return nil
	}
	var err error
	v.Named = t
	v.Argument, err = l.text()
	return err
}

// operators are the words that compare.
var operators = map[string]bool{"equals": true, "contains": true, "starts_with": true, "ends_with": true, "matches_regex": true}

func (l ruleTokens) comparison(c *ruleComparison) error {
	c.Variable = &ruleVariable{}
	if err := l.variable(c.Variable); err != nil {
		return err
	}
	if !operators[l.Peek().Value] {
		return l.unexpected()
	}
	operator := *l.Next()
	if operator.Value == "equals" && l.takeBoth("one", "of") {
		var err error
		c.Class, err = l.text()
		return err
	}
	c.Operator = operator
	var err error
	if c.Value, err = l.text(); err != nil {
		return err
	}
	if _, ok := l.take("netmask"); ok {
		c.Netmask, err = l.word()
	}
	return err
}
