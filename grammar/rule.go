package grammar

import (
	"slices"
	"sort"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	pb "bigpipe/proto/bigpipe/v1"
)

// The grammar of a rule's body. Chains of else if, and, or and not are lists, so that only brackets make the parser recurse.

type ruleBody struct {
	Statements []*ruleStatement `parser:"@@*"`
}

type ruleStatement struct {
	If    *ruleIf    `parser:"  @@"`
	Plain *rulePlain `parser:"| @@"`
}

// rulePlain is any statement but an if. What follows a condition is one of these, so that a chain of ifs needs braces.
type rulePlain struct {
	Pos      lexer.Position
	Use      *ruleUse      `parser:"  @@"`
	Discard  bool          `parser:"| @'discard'"`
	Redirect *ruleRedirect `parser:"| @@"`
	Cache    *ruleCache    `parser:"| @@"`
	Hash     *ruleVariable `parser:"| 'hash' '(' @@ ')'"`
	Block    *ruleBlock    `parser:"| @@"`
}

type ruleBlock struct {
	Statements []*ruleStatement `parser:"'{' @@* '}'"`
}

type ruleIf struct {
	Pos       lexer.Position
	Condition *ruleOr      `parser:"'if' @@"`
	Then      *rulePlain   `parser:"@@"`
	Elses     []*ruleElses `parser:"@@*"`
}

// ruleElses is an else, or several in braces of their own, as some manuals print them.
type ruleElses struct {
	Plain  *ruleElse   `parser:"  @@"`
	Braced []*ruleElse `parser:"| '{' @@+ '}'"`
}

type ruleElse struct {
	Pos       lexer.Position
	Else      lexer.Token `parser:"@'else'"`
	Condition *ruleOr     `parser:"( 'if' @@"`
	Then      *rulePlain  `parser:"  @@"`
	Statement *rulePlain  `parser:"| @@ )"`
}

// ruleUse is read by its own Parse: use ( NAME ), use pool NAME weight N pool NAME weight N, use NAME; persist none may follow.
type ruleUse struct {
	Keyword lexer.Token
	Words   []lexer.Token
	Pools   []*rulePool
	Name    lexer.Token
	Persist bool
}

type rulePool struct {
	Name   lexer.Token
	Weight lexer.Token
}

type ruleRedirect struct {
	URL lexer.Token `parser:"'redirect' 'to'? ( '(' @(String | Word) ')' | @(String | Word) )"`
}

type ruleCache struct {
	Keyword   lexer.Token           `parser:"@'cache'"`
	Condition *ruleOr               `parser:"'(' @@ ')'"`
	Settings  []*ruleCacheAttribute `parser:"'{' @@* '}'"`
}

type ruleCacheAttribute struct {
	Name  lexer.Token `parser:"@('origin_pool' | 'cache_pool' | 'hot_pool' | 'hot_threshold' | 'cool_threshold' | 'hit_period' | 'content_hash_size')"`
	Value lexer.Token `parser:"@Word"`
}

// ruleOr is a condition. It is read by its own Parse, as are its parts.
type ruleOr struct {
	Pos   lexer.Position
	Terms []*ruleAnd
}

type ruleAnd struct {
	Pos   lexer.Position
	Terms []*ruleNot
}

// ruleNot is exists VARIABLE, a condition in parentheses, or a comparison.
type ruleNot struct {
	Pos        lexer.Position
	Nots       []lexer.Token
	Exists     *ruleVariable
	Group      *ruleOr
	Comparison *ruleComparison
}

// ruleVariable is http_cookie NAME, http_header NAME, or the word of another variable.
type ruleVariable struct {
	Named    lexer.Token
	Argument lexer.Token
	Plain    lexer.Token
}

// ruleComparison is VARIABLE equals one of CLASS, or VARIABLE OPERATOR VALUE, which netmask MASK may follow.
type ruleComparison struct {
	Variable *ruleVariable
	Class    lexer.Token
	Operator lexer.Token
	Value    lexer.Token
	Netmask  lexer.Token
}

// rules parses rule bodies; it may be used from several goroutines.
var rules = participle.MustBuild[ruleBody](participle.Lexer(definition{}), participle.UseLookahead(3))

// ruleWords are the words of the rule language.
var ruleWords = []string{
	"if", "else", "use", "discard", "redirect", "to", "cache", "hash", "pool", "weight", "persist", "none", "not", "and", "or", "exists",
	"equals", "contains", "starts_with", "ends_with", "matches_regex", "one", "of", "netmask",
	"client_addr", "server_addr", "client_port", "server_port", "ip_protocol", "link_qos", "ip_tos",
	"http_method", "http_uri", "http_version", "http_host", "http_cookie", "http_header",
	"origin_pool", "cache_pool", "hot_pool", "hot_threshold", "cool_threshold", "hit_period", "content_hash_size",
}

// rule reads rule NAME { ... }, rule NAME show|delete and rule show.
func (cl *clause) rule() {
	p, c := cl.p, cl.c
	if t, ok := c.peek(); ok && (t.Value == "show" || t.Value == "stats") && len(c.items) <= 3 || c.done() {
		cl.verb(KindRule, "", lexer.Token{})
		return
	}
	name, ok := cl.name("rule")
	if !ok {
		return
	}
	rule := &pb.Rule{Name: name.Value, Meta: cl.meta()}
	object := &pb.Object{Kind: &pb.Object_Rule{Rule: rule}}
	if t, ok := c.peek(); ok {
		if t.Value != "show" && t.Value != "delete" {
			cl.wrongWord(t, "{", "show", "delete")
			return
		}
		cl.verb(KindRule, object.Key(), name)
		return
	}
	body, ok := cl.ruleBraces()
	if !ok {
		return
	}
	cl.end()
	first := sort.Search(len(p.tokens), func(i int) bool { return p.tokens[i].start > uint32(body.Open.Pos.Offset) })
	last := sort.Search(len(p.tokens), func(i int) bool { return p.tokens[i].start >= uint32(body.Close.Pos.Offset) })
	if last-first > maxRuleTokens {
		p.faults.at(name, CodeLimit, "", "rule %s has %d words; at most %d are read", name.Value, last-first, maxRuleTokens)
		cl.emitObject(ActionDefine, object, cl.build(Pools, &pb.Pool{}, nil), name)
		return
	}
	lex, err := lexer.Upgrade(&tokens{source: p.source, i: first, end: last})
	if err == nil {
		var parsed *ruleBody
		if parsed, err = rules.ParseFromLexer(lex); err == nil {
			conv := &ruleConverter{p: p}
			rule.Statement = conv.body(parsed, name)
		}
	}
	if err != nil {
		p.faults.parserFault(err, "a rule", ruleWords)
	}
	st := cl.emitObject(ActionDefine, object, cl.build(Pools, &pb.Pool{}, nil), name)
	st.Faulty = err != nil
}

// ruleBraces returns the body: in braces, or on the command line in quoted braces.
func (cl *clause) ruleBraces() (*group, bool) {
	p, c := cl.p, cl.c
	if g, ok := c.group(tokenOpenBrace); ok {
		return g, true
	}
	g, ok := c.group(tokenOpenQuote)
	if !ok {
		p.faults.at(c.here(), CodeSyntax, "", "rule %s is followed by {, show or delete", c.items[1].token().Value)
		return nil, false
	}
	if !p.command {
		p.faults.at(g.Open, CodeSyntax, "", "a rule's body stands in single quotes on a command line only, not in a file")
		return nil, false
	}
	inner := g.inside()
	body, ok := inner.group(tokenOpenBrace)
	if !ok || !inner.done() {
		p.faults.at(inner.here(), CodeSyntax, "", "the quotes hold a rule's body: '{ ... }'")
		return nil, false
	}
	return body, true
}

// variableNames maps the words of variables to the model.
var variableNames = func() map[string]pb.RuleVariableName {
	d := pb.RuleVariableName(0).Descriptor()
	m := make(map[string]pb.RuleVariableName)
	for _, word := range pb.EnumWords(d) {
		n, _ := pb.ParseEnum(d, word)
		m[word] = pb.RuleVariableName(n)
	}
	return m
}()

// isText tells whether a variable is compared as a string.
func isText(v pb.RuleVariableName) bool {
	return v >= pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_METHOD
}

func isRuleAddress(v pb.RuleVariableName) bool {
	return slices.Contains([]pb.RuleVariableName{
		pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_ADDR, pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_ADDR,
	}, v)
}
