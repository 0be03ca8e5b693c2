package grammar

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

const (
	// maxLiteral is the longest string or regular expression of a rule, in characters.
	maxLiteral = 63
	// maxTerms bounds the decisions and the comparisons of one rule, which become nested messages.
	maxTerms = 1000
	// maxRuleTokens bounds a rule's text before it is parsed.
	maxRuleTokens = 20 * maxTerms
)

// ruleConverter turns a parsed body into the model and notes what is wrong with its values.
type ruleConverter struct {
	p     *parser
	terms int
	full  bool
}

// count bounds the size of a rule.
func (r *ruleConverter) count(at lexer.Position) bool {
	if r.terms++; r.terms > maxTerms && !r.full {
		r.full = true
		r.p.faults.at(lexer.Token{Pos: at}, CodeLimit, "", "a rule has at most %d decisions and comparisons", maxTerms)
	}
	return !r.full
}

func (r *ruleConverter) position(at lexer.Position) *pb.Position {
	return &pb.Position{File: r.p.file, Line: uint32(at.Line), Column: uint32(at.Column)}
}

func (r *ruleConverter) body(b *ruleBody, name lexer.Token) *pb.RuleStatement {
	if len(b.Statements) == 0 {
		r.p.faults.at(name, CodeSyntax, "", "rule %s decides nothing: its body is empty", name.Value)
		return nil
	}
	return r.one(b.Statements, lexer.Position{Line: name.Pos.Line, Column: name.Pos.Column})
}

// one returns a list as one statement: itself, or a block.
func (r *ruleConverter) one(list []*ruleStatement, at lexer.Position) *pb.RuleStatement {
	if len(list) == 1 {
		return r.statement(list[0])
	}
	block := &pb.RuleBlock{}
	for _, s := range list {
		block.Statements = append(block.Statements, r.statement(s))
	}
	return &pb.RuleStatement{Position: r.position(at), Kind: &pb.RuleStatement_Block{Block: block}}
}

func (r *ruleConverter) statement(s *ruleStatement) *pb.RuleStatement {
	if s.If == nil {
		return r.plain(s.Plain)
	}
	out := &pb.RuleStatement{Position: r.position(s.If.Pos)}
	if r.count(s.If.Pos) {
		out.Kind = &pb.RuleStatement_If{If: r.decision(s.If)}
	}
	return out
}

func (r *ruleConverter) plain(s *rulePlain) *pb.RuleStatement {
	out := &pb.RuleStatement{Position: r.position(s.Pos)}
	if !r.count(s.Pos) {
		return out
	}
	switch {
	case s.Use != nil:
		out.Kind = &pb.RuleStatement_Use{Use: r.use(s.Use)}
	case s.Discard:
		out.Kind = &pb.RuleStatement_Discard{Discard: &pb.RuleDiscard{}}
	case s.Redirect != nil:
		url := unquote(s.Redirect.URL)
		if url == "" || utf8.RuneCountInString(url) > maxText {
			r.p.faults.at(s.Redirect.URL, CodeValue, "", "redirect needs a URL of 1 to %d characters", maxText)
		}
		out.Kind = &pb.RuleStatement_Redirect{Redirect: &pb.RuleRedirect{Url: url}}
	case s.Cache != nil:
		out.Kind = &pb.RuleStatement_Cache{Cache: r.cache(s.Cache)}
	case s.Hash != nil:
		out.Kind = &pb.RuleStatement_Hash{Hash: &pb.RuleHash{Variable: r.variable(s.Hash)}}
	case s.Block != nil:
		return r.one(s.Block.Statements, s.Pos)
	}
	return out
}

// decision nests the chain of else if as the model has it.
func (r *ruleConverter) decision(s *ruleIf) *pb.RuleIf {
	first := &pb.RuleIf{Condition: r.or(s.Condition), Then: r.plain(s.Then)}
	last := first
	var elses []*ruleElse
	for _, e := range s.Elses {
		if e.Plain != nil {
			elses = append(elses, e.Plain)
		}
		elses = append(elses, e.Braced...)
	}
	for i, e := range elses {
		switch {
		case e.Condition != nil:
			if !r.count(e.Pos) {
				return first
			}
			next := &pb.RuleIf{Condition: r.or(e.Condition), Then: r.plain(e.Then)}
			last.Else = &pb.RuleStatement{Position: r.position(e.Pos), Kind: &pb.RuleStatement_If{If: next}}
			last = next
		case i < len(elses)-1:
			r.p.faults.at(elses[i+1].Else, CodeSyntax, "", "an else stands here already")
			return first
		default:
			last.Else = r.plain(e.Statement)
		}
	}
	return first
}

// use reads use ( P ), use ( X P ), use P and use pool P weight N ....
func (r *ruleConverter) use(s *ruleUse) *pb.RuleUse {
	out := &pb.RuleUse{}
	if s.Persist {
		out.PersistNone = proto.Bool(true)
	}
	pools := s.Pools
	switch words := s.Words; {
	case s.Name.Value != "":
		pools = []*rulePool{{Name: s.Name}}
	case pools != nil:
	case len(words) == 1:
		pools = []*rulePool{{Name: words[0]}}
	case len(words) >= 2 && words[0].Value == "pool":
		pools = weightedWords(words)
	case len(words) == 2:
		out.Selector = proto.String(unquote(words[0]))
		pools = []*rulePool{{Name: words[1]}}
	}
	if len(pools) == 0 {
		r.p.faults.at(s.Keyword, CodeSyntax, "", "use needs the name of a pool: use ( NAME )")
		return out
	}
	for _, pool := range pools {
		wp := &pb.WeightedPool{Pool: r.poolName(pool.Name)}
		if pool.Weight.Value != "" {
			wp.Weight = r.number(pool.Weight, "weight", maxWeight)
		}
		out.Pools = append(out.Pools, wp)
	}
	return out
}

// weightedWords reads pool NAME [weight N] ... from words in parentheses; nil where they do not fit.
func weightedWords(words []lexer.Token) []*rulePool {
	var pools []*rulePool
	for i := 0; i < len(words); {
		if words[i].Value != "pool" || i+1 == len(words) {
			return nil
		}
		pool := &rulePool{Name: words[i+1]}
		i += 2
		if i+1 < len(words) && words[i].Value == "weight" {
			pool.Weight = words[i+1]
			i += 2
		}
		pools = append(pools, pool)
	}
	return pools
}

func (r *ruleConverter) poolName(t lexer.Token) string {
	if fault := nameFault("pool", unquote(t)); fault != "" {
		r.p.faults.at(t, CodeName, "", "%s", fault)
	}
	return unquote(t)
}

func (r *ruleConverter) number(t lexer.Token, what string, limit uint64) *uint32 {
	n, err := strconv.ParseUint(t.Value, 10, 32)
	if err != nil || n > limit {
		r.p.faults.at(t, CodeValue, "", "%s: %q is not a number from 0 to %d", what, t.Value, limit)
	}
	return proto.Uint32(uint32(n))
}

func (r *ruleConverter) cache(s *ruleCache) *pb.RuleCache {
	out := &pb.RuleCache{Condition: r.or(s.Condition)}
	const largest = 1<<32 - 1
	for _, a := range s.Settings {
		switch name := a.Name.Value; name {
		case "origin_pool":
			out.OriginPool = proto.String(r.poolName(a.Value))
		case "cache_pool":
			out.CachePool = proto.String(r.poolName(a.Value))
		case "hot_pool":
			out.HotPool = proto.String(r.poolName(a.Value))
		case "hot_threshold":
			out.HotThreshold = r.number(a.Value, name, largest)
		case "cool_threshold":
			out.CoolThreshold = r.number(a.Value, name, largest)
		case "hit_period":
			out.HitPeriod = r.number(a.Value, name, largest)
		case "content_hash_size":
			out.ContentHashSize = r.number(a.Value, name, largest)
		}
	}
	if out.OriginPool == nil || out.CachePool == nil {
		r.p.faults.at(s.Keyword, CodeSyntax, "", "cache needs origin_pool and cache_pool")
	}
	return out
}

func (r *ruleConverter) or(e *ruleOr) *pb.RuleExpression {
	left := r.and(e.Terms[0])
	for _, term := range e.Terms[1:] {
		if !r.count(term.Pos) {
			break
		}
		left = &pb.RuleExpression{
			Position: r.position(e.Pos),
			Kind:     &pb.RuleExpression_Or{Or: &pb.RuleBinary{Left: left, Right: r.and(term)}},
		}
	}
	return left
}

func (r *ruleConverter) and(e *ruleAnd) *pb.RuleExpression {
	left := r.not(e.Terms[0])
	for _, term := range e.Terms[1:] {
		if !r.count(term.Pos) {
			break
		}
		left = &pb.RuleExpression{
			Position: r.position(e.Pos),
			Kind:     &pb.RuleExpression_And{And: &pb.RuleBinary{Left: left, Right: r.not(term)}},
		}
	}
	return left
}

func (r *ruleConverter) not(e *ruleNot) *pb.RuleExpression {
	var out *pb.RuleExpression
	switch {
	case e.Group != nil:
		out = r.or(e.Group)
	case e.Exists != nil:
		out = &pb.RuleExpression{Position: r.position(e.Pos), Kind: &pb.RuleExpression_Exists{Exists: r.variable(e.Exists)}}
	default:
		out = &pb.RuleExpression{Position: r.position(e.Pos), Kind: &pb.RuleExpression_Comparison{Comparison: r.comparison(e.Comparison)}}
	}
	for i := len(e.Nots) - 1; i >= 0 && r.count(e.Nots[i].Pos); i-- {
		out = &pb.RuleExpression{Position: r.position(e.Nots[i].Pos), Kind: &pb.RuleExpression_Not{Not: out}}
	}
	return out
}

func (r *ruleConverter) variable(v *ruleVariable) *pb.RuleVariable {
	if v.Named.Value == "" {
		return &pb.RuleVariable{Name: variableNames[v.Plain.Value]}
	}
	name := unquote(v.Argument)
	if n := utf8.RuneCountInString(name); n == 0 || n > 255 {
		r.p.faults.at(v.Argument, CodeValue, "", "%s needs a name of 1 to 255 characters", v.Named.Value)
	}
	return &pb.RuleVariable{Name: variableNames[v.Named.Value], Argument: &name}
}

var ruleOperators = map[string]pb.RuleOperator{
	"equals": pb.RuleOperator_RULE_OPERATOR_EQUALS, "contains": pb.RuleOperator_RULE_OPERATOR_CONTAINS,
	"starts_with": pb.RuleOperator_RULE_OPERATOR_STARTS_WITH, "ends_with": pb.RuleOperator_RULE_OPERATOR_ENDS_WITH,
	"matches_regex": pb.RuleOperator_RULE_OPERATOR_MATCHES_REGEX,
}

// comparison checks that the operator and the value fit the variable.
func (r *ruleConverter) comparison(s *ruleComparison) *pb.RuleComparison {
	out := &pb.RuleComparison{Variable: r.variable(s.Variable)}
	name := s.Variable.Plain.Value + s.Variable.Named.Value
	if s.Class.Value != "" {
		out.Operator = pb.RuleOperator_RULE_OPERATOR_ONE_OF
		out.Value = &pb.RuleComparison_Class{Class: r.className(s.Class)}
		return out
	}
	out.Operator = ruleOperators[s.Operator.Value]
	variable := out.Variable.GetName()
	if s.Netmask.Value != "" && !isRuleAddress(variable) {
		r.p.faults.at(s.Netmask, CodeValue, "", "%s is no address: it has no netmask", name)
	}
	switch {
	case isText(variable):
		out.Value = &pb.RuleComparison_Text{Text: r.literal(s.Value)}
		return out
	case out.Operator != pb.RuleOperator_RULE_OPERATOR_EQUALS:
		r.p.faults.at(s.Operator, CodeValue, "equals", "%s is no text: it is compared with equals", name)
	}
	switch {
	case isRuleAddress(variable):
		out.Value = &pb.RuleComparison_Address{Address: r.address(s)}
	case variable == pb.RuleVariableName_RULE_VARIABLE_NAME_IP_PROTOCOL:
		protocol := strings.ToUpper(unquote(s.Value))
		if protocol != "TCP" && protocol != "UDP" {
			r.p.faults.at(s.Value, CodeValue, "", "ip_protocol is TCP or UDP, not %q", unquote(s.Value))
		}
		out.Value = &pb.RuleComparison_Protocol{Protocol: protocol}
	case variable == pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_PORT, variable == pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_PORT:
		port, ok := ParseService(unquote(s.Value))
		if !ok {
			r.p.faults.at(s.Value, CodeValue, nearest(s.Value.Value, serviceNames), "%s: %q is neither a service name nor a number from 0 to 65535", name, unquote(s.Value))
		}
		out.Value = &pb.RuleComparison_Number{Number: uint32(port)}
	default:
		out.Value = &pb.RuleComparison_Number{Number: *r.number(s.Value, name, 255)}
	}
	return out
}

func (r *ruleConverter) className(t lexer.Token) string {
	if fault := nameFault("class", unquote(t)); fault != "" {
		r.p.faults.at(t, CodeName, "", "%s", fault)
	}
	return unquote(t)
}

// literal reads a string of 1 to 63 characters, which stands in quotes.
func (r *ruleConverter) literal(t lexer.Token) string {
	text := unquote(t)
	if t.Type != lexer.TokenType(tokenString) {
		if _, ok := variableNames[text]; ok {
			r.p.faults.at(t, CodeValue, "", "%s stands on the right: a variable is compared with a string in quotes", text)
		} else {
			r.p.faults.at(t, CodeValue, quote(text), "%s is not in quotes", text)
		}
		return text
	}
	if n := utf8.RuneCountInString(text); n == 0 || n > maxLiteral {
		r.p.faults.at(t, CodeValue, "", "the string has %d characters; a rule's strings have 1 to %d", n, maxLiteral)
	}
	return text
}

func (r *ruleConverter) address(s *ruleComparison) *pb.RuleAddress {
	address, fault := parseAddress(unquote(s.Value))
	if fault != "" {
		r.p.faults.at(s.Value, CodeValue, "", "%s", fault)
	}
	out := &pb.RuleAddress{Address: address}
	if s.Netmask.Value == "" {
		return out
	}
	mask, none, fault, suggestion := parseMask(s.Netmask.Value)
	if fault != "" {
		r.p.faults.at(s.Netmask, CodeValue, suggestion, "netmask: %s", fault)
	}
	if !none {
		out.Netmask = &mask
	}
	return out
}
