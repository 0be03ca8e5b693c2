package config

import (
	"regexp"
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// useSpot is where a virtual server says what it uses.
func useSpot(vs *pb.VirtualServer) *spot {
	return attribute(vs.GetMeta(), "use", "use pool", "use rule")
}

func (c *checker) checkVirtual(key string, vs *pb.VirtualServer) {
	meta := vs.GetMeta()
	switch {
	case len(vs.GetPools()) > 0 && vs.GetRule() != "":
		c.fault(key, useSpot(vs), CodeConflict, "%s: uses both a pool and a rule", Title(key))
	case len(vs.GetPools()) == 0 && vs.GetRule() == "" && !vs.GetForward():
		c.fault(key, attribute(meta), CodeMissing, "%s: names no pool and no rule to use", Title(key))
	}
	c.checkWeights(key, useSpot(vs), vs.GetPools())
	c.checkMask(key, meta, "netmask", vs.Netmask)
	c.checkMask(key, meta, "oneconnect_source_mask", vs.OneconnectSourceMask)
	c.checkLimit(key, meta, vs.Limit)
	for _, text := range vs.GetTrustedProxies() {
		if _, err := parseNetwork(text); err != nil {
			c.fault(key, attribute(meta, "trusted_proxies"), CodeValue, "%s: trusted_proxies: %q is neither an address nor a network", Title(key), text)
		}
	}
	address, _, _ := SplitAddress(vs.GetAddress())
	if a, err := parseAddress(address); err == nil && a.Is6() {
		for _, x := range []struct {
			name  string
			value *string
		}{{"netmask", vs.Netmask}, {"broadcast", vs.Broadcast}} {
			if x.value != nil {
				c.fault(key, attribute(meta, x.name), CodeConflict, "%s: %s is for IPv4 addresses", Title(key), x.name)
			}
		}
	}
	if vs.Broadcast != nil {
		if a, err := parseAddress(vs.GetBroadcast()); err != nil || !a.Is4() {
			c.fault(key, attribute(meta, "broadcast"), CodeValue, "%s: broadcast %q is not an IPv4 address", Title(key), vs.GetBroadcast())
		}
	}
}

// checkWeights checks a list of pools with weights: each has one when there are several, and not all are 0.
func (c *checker) checkWeights(key string, at *spot, pools []*pb.WeightedPool) {
	var sum uint64
	var seen set
	for _, p := range pools {
		sum += uint64(p.GetWeight())
		if len(pools) > 1 && p.Weight == nil {
			c.fault(key, at, CodeMissing, "%s: pool %s has no weight: each pool of a split has one", Title(key), p.GetPool())
		}
		if !seen.add(p.GetPool()) {
			c.fault(key, at, CodeDuplicate, "%s: pool %s is given twice", Title(key), p.GetPool())
		}
	}
	weighted := slices.ContainsFunc(pools, func(p *pb.WeightedPool) bool { return p.Weight != nil })
	if weighted && sum == 0 {
		c.fault(key, at, CodeValue, "%s: all weights are 0", Title(key))
	}
	if sum > 1<<31 {
		c.fault(key, at, CodeValue, "%s: the weights add up to more than %d", Title(key), 1<<31)
	}
}

func (c *checker) checkRule(key string, r *pb.Rule) {
	walkRule(r.GetStatement(), func(s *pb.RuleStatement) {
		if use := s.GetUse(); use != nil {
			c.checkWeights(key, ruleSpot(s, r), use.GetPools())
		}
	}, func(e *pb.RuleExpression) {
		k := e.GetComparison()
		if k.GetOperator() != pb.RuleOperator_RULE_OPERATOR_MATCHES_REGEX {
			return
		}
		if _, err := regexp.Compile(k.GetText()); err != nil {
			c.fault(key, expressionSpot(e, r), CodeValue, "%s: matches_regex: %v", Title(key), err)
		}
	})
}

// expressionSpot is where a condition of a rule stands.
func expressionSpot(e *pb.RuleExpression, r *pb.Rule) *spot {
	if e.GetPosition() == nil {
		return attribute(r.GetMeta())
	}
	return &spot{e.GetPosition(), 1}
}

// ruleSpot is where a statement of a rule stands.
func ruleSpot(s *pb.RuleStatement, r *pb.Rule) *spot {
	if s.GetPosition() == nil {
		return attribute(r.GetMeta())
	}
	return &spot{s.GetPosition(), 1}
}

// checkRelations checks how an object fits what it refers to and what refers to it. o is nil for a key that was deleted.
func (c *checker) checkRelations(key string, o *pb.Object) {
	switch k := o.GetKind().(type) {
	case *pb.Object_Virtual:
		c.relateVirtual(key, k.Virtual)
	case *pb.Object_Rule:
		r := k.Rule
		walkRule(r.GetStatement(), func(s *pb.RuleStatement) {
			for _, name := range statementPools(s) {
				c.refer(key, ruleSpot(s, r), "pool/"+name)
			}
			if use := s.GetUse(); use != nil {
				c.warnSplit(key, ruleSpot(s, r), use.GetPools())
			}
		}, func(e *pb.RuleExpression) {
			c.refer(key, expressionSpot(e, r), "class/"+e.GetComparison().GetClass())
		})
	case *pb.Object_Pool:
		c.warnReached(key, k.Pool)
	case *pb.Object_MonitorUse:
		for _, m := range k.MonitorUse.GetMonitors() {
			c.referKept(key, attribute(k.MonitorUse.GetMeta(), "monitor use"), "monitor/"+m)
		}
	case *pb.Object_Monitor:
		c.referKept(key, attribute(k.Monitor.GetMeta(), "use"), "monitor/"+k.Monitor.GetUse())
	case *pb.Object_Proxy:
		c.referKept(key, attribute(k.Proxy.GetMeta(), "target virtual"), "virtual/"+k.Proxy.GetTargetVirtual())
	}
}

func (c *checker) relateVirtual(key string, vs *pb.VirtualServer) {
	for _, p := range vs.GetPools() {
		c.refer(key, useSpot(vs), "pool/"+p.GetPool())
	}
	c.refer(key, useSpot(vs), "rule/"+vs.GetRule())
	c.refer(key, attribute(vs.GetMeta(), "lasthop pool", "lasthop_pool"), "pool/"+vs.GetLasthopPool())
	c.refer(key, attribute(vs.GetMeta(), "clone pool", "clone_pool"), "pool/"+vs.GetClonePool())
	if vs.GetHttp() == pb.HttpProcessing_HTTP_PROCESSING_DISABLE {
		if needed, reason := needsHTTP(c.view, vs); needed {
			c.fault(key, attribute(vs.GetMeta(), "http"), CodeConflict, "%s: http disable, but HTTP is needed: %s", Title(key), reason)
		}
	}
	c.checkTokenNames(key, vs)
	c.warnClearTokens(key, vs)
	c.warnSplit(key, useSpot(vs), vs.GetPools())
}

// checkTokenNames refuses equal token names in pools that one virtual server can reach (rule G-20).
func (c *checker) checkTokenNames(key string, vs *pb.VirtualServer) {
	first := map[string]string{}
	for _, p := range c.reachable(vs) {
		if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_TOKEN {
			continue
		}
		name, kind := TokenNameOf(p), "cookie"
		if p.GetTokenType() == pb.TokenType_TOKEN_TYPE_HEADER {
			name, kind = strings.ToLower(name), "header"
		}
		if earlier, dup := first[kind+" "+name]; dup {
			c.fault(key, useSpot(vs), CodeConflict, "%s: pools %s and %s use the same token_name %q", Title(key), earlier, p.GetName(), TokenNameOf(p))
			continue
		}
		first[kind+" "+name] = p.GetName()
	}
}
