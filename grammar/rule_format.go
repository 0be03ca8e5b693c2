package grammar

import (
	"strconv"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// indent is one level of a written file.
const indent = "   "

// ruleLines writes a rule's statement, a line an element.
func ruleLines(s *pb.RuleStatement, depth int) []string {
	pad := strings.Repeat(indent, depth)
	switch k := s.GetKind().(type) {
	case *pb.RuleStatement_If:
		return ifLines(k.If, depth)
	case *pb.RuleStatement_Use:
		return []string{pad + useText(k.Use)}
	case *pb.RuleStatement_Discard:
		return []string{pad + "discard"}
	case *pb.RuleStatement_Redirect:
		return []string{pad + "redirect to " + quote(k.Redirect.GetUrl())}
	case *pb.RuleStatement_Cache:
		return cacheLines(k.Cache, depth)
	case *pb.RuleStatement_Hash:
		return []string{pad + "hash ( " + variableText(k.Hash.GetVariable()) + " )"}
	case *pb.RuleStatement_Block:
		lines := []string{pad + "{"}
		lines = append(lines, statementLines(s, depth+1)...)
		return append(lines, pad+"}")
	}
	return nil
}

// statementLines writes a statement that stands in braces already: a block without braces of its own. An else that would be taken
// for the one before it keeps a block's braces.
func statementLines(s *pb.RuleStatement, depth int) []string {
	block := s.GetBlock()
	if block == nil {
		return ruleLines(s, depth)
	}
	var lines []string
	for _, inner := range block.GetStatements() {
		lines = append(lines, ruleLines(inner, depth)...)
	}
	return lines
}

func ifLines(k *pb.RuleIf, depth int) []string {
	pad := strings.Repeat(indent, depth)
	var lines []string
	head := pad + "if "
	for {
		lines = append(lines, head+"( "+expressionText(k.GetCondition(), 0)+" ) {")
		lines = append(lines, statementLines(k.GetThen(), depth+1)...)
		if k.Else == nil {
			return append(lines, pad+"}")
		}
		next := k.GetElse().GetIf()
		if next == nil {
			lines = append(lines, pad+"} else {")
			lines = append(lines, statementLines(k.GetElse(), depth+1)...)
			return append(lines, pad+"}")
		}
		k, head = next, pad+"} else if "
	}
}

func useText(u *pb.RuleUse) string {
	var text string
	switch pools := u.GetPools(); {
	case len(pools) == 1 && pools[0].Weight == nil && u.Selector == nil:
		text = "use ( " + pools[0].GetPool() + " )"
	case u.Selector != nil && len(pools) > 0:
		text = "use ( " + plain(u.GetSelector()) + " " + pools[0].GetPool() + " )"
	default:
		text = "use pool " + weightedPools(pools)
	}
	if u.GetPersistNone() {
		text += " persist none"
	}
	return text
}

func cacheLines(k *pb.RuleCache, depth int) []string {
	pad := strings.Repeat(indent, depth)
	lines := []string{pad + "cache ( " + expressionText(k.GetCondition(), 0) + " ) {"}
	text := func(name string, value *string) {
		if value != nil {
			lines = append(lines, pad+indent+name+" "+*value)
		}
	}
	number := func(name string, value *uint32) {
		if value != nil {
			lines = append(lines, pad+indent+name+" "+strconv.FormatUint(uint64(*value), 10))
		}
	}
	text("origin_pool", k.OriginPool)
	text("cache_pool", k.CachePool)
	text("hot_pool", k.HotPool)
	number("hot_threshold", k.HotThreshold)
	number("cool_threshold", k.CoolThreshold)
	number("hit_period", k.HitPeriod)
	number("content_hash_size", k.ContentHashSize)
	return append(lines, pad+"}")
}

// The precedence of operators, the weakest first.
const (
	precedenceOr = iota + 1
	precedenceAnd
	precedenceNot
)

// expressionText writes a condition; parentheses only where the precedence needs them. Operands are grouped from the left.
func expressionText(e *pb.RuleExpression, outer int) string {
	wrap := func(inner int, text string) string {
		if inner < outer {
			return "( " + text + " )"
		}
		return text
	}
	switch k := e.GetKind().(type) {
	case *pb.RuleExpression_Or:
		return wrap(precedenceOr, expressionText(k.Or.GetLeft(), precedenceOr)+" or "+expressionText(k.Or.GetRight(), precedenceOr+1))
	case *pb.RuleExpression_And:
		return wrap(precedenceAnd, expressionText(k.And.GetLeft(), precedenceAnd)+" and "+expressionText(k.And.GetRight(), precedenceAnd+1))
	case *pb.RuleExpression_Not:
		return "not " + expressionText(k.Not, precedenceNot)
	case *pb.RuleExpression_Comparison:
		return comparisonText(k.Comparison)
	case *pb.RuleExpression_Exists:
		return "exists " + variableText(k.Exists)
	}
	return ""
}

func variableText(v *pb.RuleVariable) string {
	name := pb.EnumWord(v.GetName())
	if v.Argument == nil {
		return name
	}
	if v.GetName() == pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_HEADER {
		return name + " " + quote(v.GetArgument())
	}
	return name + " " + plain(v.GetArgument())
}

func comparisonText(c *pb.RuleComparison) string {
	text := variableText(c.GetVariable()) + " "
	if c.GetOperator() == pb.RuleOperator_RULE_OPERATOR_ONE_OF {
		return text + "equals one of " + plain(c.GetClass())
	}
	text += pb.EnumWord(c.GetOperator()) + " "
	switch v := c.GetValue().(type) {
	case *pb.RuleComparison_Text:
		return text + quote(v.Text)
	case *pb.RuleComparison_Address:
		text += v.Address.GetAddress()
		if v.Address.Netmask != nil {
			text += " netmask " + v.Address.GetNetmask()
		}
		return text
	case *pb.RuleComparison_Number:
		return text + strconv.FormatUint(uint64(v.Number), 10)
	case *pb.RuleComparison_Protocol:
		return text + v.Protocol
	}
	return text
}
