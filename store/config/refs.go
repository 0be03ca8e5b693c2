package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// SplitAddress parts "10.0.0.1:80" or "[2001:db8::1]:80" into address and port. Text without a port gives ok false and
// itself as the address (a node address, the name of a VLAN).
func SplitAddress(text string) (address string, port uint16, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") {
		return text, 0, false
	}
	p, err := strconv.ParseUint(text[i+1:], 10, 16)
	if err != nil {
		return text, 0, false
	}
	return strings.TrimSuffix(strings.TrimPrefix(text[:i], "["), "]"), uint16(p), true
}

// JoinAddress is the opposite of SplitAddress.
func JoinAddress(address string, port uint16) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		address = "[" + address + "]"
	}
	return address + ":" + strconv.Itoa(int(port))
}

// references lists the keys that an object refers to, each once.
func references(o *pb.Object) []string {
	var keys set
	add := func(kind, name string) {
		if name != "" {
			keys.add(kind + "/" + name)
		}
	}
	switch k := o.GetKind().(type) {
	case *pb.Object_Virtual:
		v := k.Virtual
		for _, p := range v.GetPools() {
			add("pool", p.GetPool())
		}
		add("rule", v.GetRule())
		add("pool", v.GetLasthopPool())
		add("pool", v.GetClonePool())
		address, port, ok := SplitAddress(v.GetAddress())
		add("virtual_address", address)
		if ok {
			add("service", strconv.Itoa(int(port)))
		}
	case *pb.Object_Rule:
		for _, name := range RulePools(k.Rule) {
			add("pool", name)
		}
		walkRule(k.Rule.GetStatement(), nil, func(e *pb.RuleExpression) { add("class", e.GetComparison().GetClass()) })
	case *pb.Object_Pool:
		return memberNodes(k.Pool)
	case *pb.Object_MonitorUse:
		for _, m := range k.MonitorUse.GetMonitors() {
			add("monitor", m)
		}
		add("node", k.MonitorUse.GetTarget())
	case *pb.Object_Monitor:
		add("monitor", k.Monitor.GetUse())
	case *pb.Object_Kept:
		if key := keptReference(k.Kept); key != "" {
			keys.add(key)
		}
	case *pb.Object_Proxy:
		add("virtual", k.Proxy.GetTargetVirtual())
	}
	return keys.list
}

// memberNodes lists the keys of the nodes that a pool's members make.
func memberNodes(p *pb.Pool) []string {
	keys := set{list: make([]string, 0, 2*len(p.GetMembers()))}
	for _, m := range p.GetMembers() {
		keys.add("node/" + m.GetAddress())
		address, _, _ := SplitAddress(m.GetAddress())
		keys.add("node/" + address)
	}
	return keys.list
}

// set gathers texts, each once and in the order in which they came. The zero value is empty.
type set struct {
	list []string
	seen map[string]struct{}
}

// add adds a text unless it is there; it reports whether it was added. Long lists get a map.
func (s *set) add(text string) bool {
	if s.has(text) {
		return false
	}
	s.list = append(s.list, text)
	if s.seen != nil {
		s.seen[text] = struct{}{}
	}
	return true
}

func (s *set) has(text string) bool {
	const short = 16
	if len(s.list) < short {
		return slices.Contains(s.list, text)
	}
	if s.seen == nil {
		s.seen = make(map[string]struct{}, 2*len(s.list))
		for _, t := range s.list {
			s.seen[t] = struct{}{}
		}
	}
	_, found := s.seen[text]
	return found
}

// walkRule visits every statement and expression of a rule, in the order of the text. Either function may be nil.
func walkRule(s *pb.RuleStatement, statement func(*pb.RuleStatement), expression func(*pb.RuleExpression)) {
	if s == nil {
		return
	}
	if statement != nil {
		statement(s)
	}
	switch k := s.GetKind().(type) {
	case *pb.RuleStatement_If:
		walkExpression(k.If.GetCondition(), expression)
		walkRule(k.If.GetThen(), statement, expression)
		walkRule(k.If.GetElse(), statement, expression)
	case *pb.RuleStatement_Block:
		for _, sub := range k.Block.GetStatements() {
			walkRule(sub, statement, expression)
		}
	case *pb.RuleStatement_Cache:
		walkExpression(k.Cache.GetCondition(), expression)
	}
}

func walkExpression(e *pb.RuleExpression, fn func(*pb.RuleExpression)) {
	if e == nil || fn == nil {
		return
	}
	fn(e)
	switch k := e.GetKind().(type) {
	case *pb.RuleExpression_Or:
		walkExpression(k.Or.GetLeft(), fn)
		walkExpression(k.Or.GetRight(), fn)
	case *pb.RuleExpression_And:
		walkExpression(k.And.GetLeft(), fn)
		walkExpression(k.And.GetRight(), fn)
	case *pb.RuleExpression_Not:
		walkExpression(k.Not, fn)
	}
}

// statementPools lists the pools that one statement of a rule names itself.
func statementPools(s *pb.RuleStatement) []string {
	var names []string
	switch k := s.GetKind().(type) {
	case *pb.RuleStatement_Use:
		for _, p := range k.Use.GetPools() {
			names = append(names, p.GetPool())
		}
	case *pb.RuleStatement_Cache:
		for _, name := range []string{k.Cache.GetOriginPool(), k.Cache.GetCachePool(), k.Cache.GetHotPool()} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// RulePools lists the pools that a rule can choose, each once, in the order of its text.
func RulePools(r *pb.Rule) []string {
	var names set
	walkRule(r.GetStatement(), func(s *pb.RuleStatement) {
		for _, name := range statementPools(s) {
			names.add(name)
		}
	}, nil)
	return names.list
}
