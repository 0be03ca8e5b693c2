package rule

import (
	"bytes"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// condition reports whether an expression holds.
type condition func(in *Input) bool

func (c *compiler) condition(e *pb.RuleExpression) condition {
	defer c.at(e.GetPosition())()
	switch k := e.GetKind().(type) {
	case *pb.RuleExpression_Or:
		left, right := c.condition(k.Or.GetLeft()), c.condition(k.Or.GetRight())
		return func(in *Input) bool { return left(in) || right(in) }
	case *pb.RuleExpression_And:
		left, right := c.condition(k.And.GetLeft()), c.condition(k.And.GetRight())
		return func(in *Input) bool { return left(in) && right(in) }
	case *pb.RuleExpression_Not:
		operand := c.condition(k.Not)
		return func(in *Input) bool { return !operand(in) }
	case *pb.RuleExpression_Comparison:
		return c.comparison(k.Comparison)
	case *pb.RuleExpression_Exists:
		return c.exists(k.Exists)
	}
	c.fault("a condition is missing")
	return nil
}

// comparison compiles VARIABLE OPERATOR VALUE. A variable that is absent from a request satisfies no comparison.
func (c *compiler) comparison(cmp *pb.RuleComparison) condition {
	v := cmp.GetVariable()
	switch v.GetName() {
	case pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_ADDR:
		return c.compareAddress(cmp, func(in *Input) netip.Addr { return in.Client.Addr() })
	case pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_ADDR:
		return c.compareAddress(cmp, func(in *Input) netip.Addr { return in.Server.Addr() })
	case pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_PORT:
		return c.comparePort(cmp, func(in *Input) uint16 { return in.Client.Port() })
	case pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_PORT:
		return c.comparePort(cmp, func(in *Input) uint16 { return in.Server.Port() })
	case pb.RuleVariableName_RULE_VARIABLE_NAME_IP_PROTOCOL:
		return c.compareProtocol(cmp)
	}
	if get := c.text(v); get != nil {
		return c.compareText(cmp, get)
	}
	return nil
}

func (c *compiler) exists(v *pb.RuleVariable) condition {
	switch v.GetName() {
	case pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_ADDR, pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_ADDR,
		pb.RuleVariableName_RULE_VARIABLE_NAME_CLIENT_PORT, pb.RuleVariableName_RULE_VARIABLE_NAME_SERVER_PORT,
		pb.RuleVariableName_RULE_VARIABLE_NAME_IP_PROTOCOL:
		return func(*Input) bool { return true }
	}
	get := c.text(v)
	if get == nil {
		return nil
	}
	return func(in *Input) bool {
		if in.Request == nil {
			return false
		}
		_, ok := get(in.Request)
		return ok
	}
}

// text returns the function that reads a variable of the request; nil, and a fault, when there is no such variable.
func (c *compiler) text(v *pb.RuleVariable) func(Request) ([]byte, bool) {
	name, arg := v.GetName(), v.GetArgument()
	if (name == pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_COOKIE ||
		name == pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_HEADER) && arg == "" {
		c.fault("%s without a name", pb.EnumWord(name))
		return nil
	}
	switch name {
	case pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_METHOD:
		return func(r Request) ([]byte, bool) { return r.Method(), true }
	case pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_URI:
		return func(r Request) ([]byte, bool) { return r.URI(), true }
	case pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_VERSION:
		return func(r Request) ([]byte, bool) { return r.Version(), true }
	case pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_HOST:
		return host
	case pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_COOKIE:
		return func(r Request) ([]byte, bool) { return r.Cookie(arg) }
	case pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_HEADER:
		lower := strings.ToLower(arg)
		if lower == "host" {
			return host
		}
		return func(r Request) ([]byte, bool) { return r.Header(lower) }
	}
	c.fault("variable %q is not supported", pb.EnumWord(name))
	return nil
}

func host(r Request) ([]byte, bool) {
	h := r.Host()
	return h, len(h) > 0
}

// test reports whether a value satisfies a comparison.
type test func(value []byte) bool

func (c *compiler) compareText(cmp *pb.RuleComparison, get func(Request) ([]byte, bool)) condition {
	holds := c.textTest(cmp)
	return func(in *Input) bool {
		if in.Request == nil {
			return false
		}
		value, ok := get(in.Request)
		return ok && holds(value)
	}
}

func (c *compiler) textTest(cmp *pb.RuleComparison) test {
	op := cmp.GetOperator()
	if op == pb.RuleOperator_RULE_OPERATOR_ONE_OF {
		return c.oneOfTexts(cmp)
	}
	text, ok := constant(cmp)
	if !ok {
		c.fault("%s needs a text to compare with", pb.EnumWord(cmp.GetVariable().GetName()))
		return nil
	}
	want := []byte(text)
	switch op {
	case pb.RuleOperator_RULE_OPERATOR_EQUALS:
		return func(v []byte) bool { return string(v) == text }
	case pb.RuleOperator_RULE_OPERATOR_CONTAINS:
		return func(v []byte) bool { return bytes.Contains(v, want) }
	case pb.RuleOperator_RULE_OPERATOR_STARTS_WITH:
		return func(v []byte) bool { return bytes.HasPrefix(v, want) }
	case pb.RuleOperator_RULE_OPERATOR_ENDS_WITH:
		return func(v []byte) bool { return bytes.HasSuffix(v, want) }
	case pb.RuleOperator_RULE_OPERATOR_MATCHES_REGEX:
		re, err := regexp.Compile(text)
		if err != nil {
			c.fault("bad regular expression %q: %v", text, err)
			return nil
		}
		return re.Match
	}
	c.fault("an operator is missing")
	return nil
}

// constant returns what is compared with as text.
func constant(cmp *pb.RuleComparison) (string, bool) {
	switch v := cmp.GetValue().(type) {
	case *pb.RuleComparison_Text:
		return v.Text, true
	case *pb.RuleComparison_Number:
		return strconv.FormatUint(uint64(v.Number), 10), true
	case *pb.RuleComparison_Protocol:
		return v.Protocol, true
	case *pb.RuleComparison_Address:
		return v.Address.GetAddress(), v.Address.GetNetmask() == ""
	}
	return "", false
}

func (c *compiler) comparePort(cmp *pb.RuleComparison, get func(*Input) uint16) condition {
	switch cmp.GetOperator() {
	case pb.RuleOperator_RULE_OPERATOR_EQUALS:
		text, ok := constant(cmp)
		port, err := strconv.ParseUint(text, 10, 16)
		if !ok || err != nil {
			c.fault("%s needs a port from 0 to %d to compare with", pb.EnumWord(cmp.GetVariable().GetName()), math.MaxUint16)
			return nil
		}
		return func(in *Input) bool { return get(in) == uint16(port) }
	case pb.RuleOperator_RULE_OPERATOR_ONE_OF:
		ports := c.ports(cmp)
		return func(in *Input) bool { return ports[get(in)] }
	}
	c.unsuited(cmp)
	return nil
}

func (c *compiler) compareProtocol(cmp *pb.RuleComparison) condition {
	if cmp.GetOperator() != pb.RuleOperator_RULE_OPERATOR_EQUALS {
		c.unsuited(cmp)
		return nil
	}
	text, _ := constant(cmp)
	switch strings.ToUpper(text) {
	case "TCP", "6":
		return func(in *Input) bool { return in.Protocol == TCP }
	case "UDP", "17":
		return func(in *Input) bool { return in.Protocol == UDP }
	}
	c.fault("ip_protocol needs TCP or UDP to compare with")
	return nil
}

func (c *compiler) compareAddress(cmp *pb.RuleComparison, get func(*Input) netip.Addr) condition {
	switch cmp.GetOperator() {
	case pb.RuleOperator_RULE_OPERATOR_EQUALS:
		net, ok := c.network(addressText(cmp))
		if !ok {
			return nil
		}
		return func(in *Input) bool { return net.Contains(get(in).Unmap()) }
	case pb.RuleOperator_RULE_OPERATOR_ONE_OF:
		set := c.addresses(cmp)
		return func(in *Input) bool { return set.contains(get(in)) }
	}
	c.unsuited(cmp)
	return nil
}

// addressText returns the address and netmask that are compared with.
func addressText(cmp *pb.RuleComparison) (address, netmask string) {
	if a := cmp.GetAddress(); a != nil {
		return a.GetAddress(), a.GetNetmask()
	}
	text, _ := constant(cmp)
	return text, ""
}

func (c *compiler) unsuited(cmp *pb.RuleComparison) {
	c.fault("%s cannot be compared by %s", pb.EnumWord(cmp.GetVariable().GetName()), strings.ReplaceAll(
		pb.EnumWord(cmp.GetOperator()), "_", " "))
}
