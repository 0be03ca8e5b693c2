package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// FindPool returns the pool with a name, or nil.
func FindPool(v View, name string) *pb.Pool { return v.Get("pool/" + name).GetPool() }

// FindRule returns the rule with a name, or nil.
func FindRule(v View, name string) *pb.Rule { return v.Get("rule/" + name).GetRule() }

// FindVirtual returns the virtual server with an address such as "10.0.0.1:80", or nil.
func FindVirtual(v View, address string) *pb.VirtualServer {
	return v.Get("virtual/" + address).GetVirtual()
}

// Globals returns the variables of the unit; never nil.
func Globals(v View) *pb.Global {
	if g := v.Get("global").GetGlobal(); g != nil {
		return g
	}
	return &pb.Global{}
}

// PoolsOf names the pools that a virtual server can reach: those that it uses itself, and those that its rule can choose,
// each once and in the order of the text. Names of pools that do not exist are among them.
func PoolsOf(v View, vs *pb.VirtualServer) (direct, byRule []string) {
	var used set
	for _, p := range vs.GetPools() {
		used.add(p.GetPool())
	}
	if vs.GetRule() != "" {
		byRule = RulePools(FindRule(v, vs.GetRule()))
	}
	return used.list, byRule
}

// reachable returns the existing pools that a virtual server can reach.
func reachable(v View, vs *pb.VirtualServer) []*pb.Pool {
	direct, byRule := PoolsOf(v, vs)
	var pools []*pb.Pool
	for _, name := range append(direct, byRule...) {
		if p := FindPool(v, name); p != nil {
			pools = append(pools, p)
		}
	}
	return pools
}

// VirtualsOf returns the virtual servers that can reach a pool: directly, and by a rule. In the order of keys.
func VirtualsOf(v View, pool string) (direct, byRule []*pb.VirtualServer) {
	v.Referrers("pool/"+pool, func(from string) bool {
		switch kind, name := pb.SplitKey(from); kind {
		case "virtual":
			if vs := FindVirtual(v, name); usesDirectly(vs, pool) {
				direct = append(direct, vs)
			}
		case "rule":
			v.Referrers(from, func(user string) bool {
				if vs := v.Get(user).GetVirtual(); vs != nil {
					byRule = append(byRule, vs)
				}
				return true
			})
		}
		return true
	})
	slices.SortFunc(byRule, func(a, b *pb.VirtualServer) int { return strings.Compare(a.GetAddress(), b.GetAddress()) })
	return direct, slices.Compact(byRule)
}

func usesDirectly(vs *pb.VirtualServer, pool string) bool {
	return slices.ContainsFunc(vs.GetPools(), func(p *pb.WeightedPool) bool { return p.GetPool() == pool })
}

// IsHTTP reports whether a virtual server reads its bytes as HTTP, and why, in a few words. The reason is "" when it is not
// HTTP because nothing asks for it.
func IsHTTP(v View, vs *pb.VirtualServer) (http bool, reason string) {
	switch vs.GetHttp() {
	case pb.HttpProcessing_HTTP_PROCESSING_ENABLE:
		return true, "http enable"
	case pb.HttpProcessing_HTTP_PROCESSING_DISABLE:
		return false, "http disable"
	}
	return needsHTTP(v, vs)
}

// needsHTTP is IsHTTP without the virtual server's own http attribute.
func needsHTTP(v View, vs *pb.VirtualServer) (bool, string) {
	switch {
	case vs.GetOneconnect():
		return true, "oneconnect"
	case vs.GetXForwardedFor():
		return true, "x_forwarded_for"
	case len(vs.GetTrustedProxies()) > 0:
		return true, "trusted_proxies"
	}
	if vs.GetRule() != "" {
		if reason := ruleNeedsHTTP(FindRule(v, vs.GetRule())); reason != "" {
			return true, reason
		}
	}
	for _, p := range reachable(v, vs) {
		if reason := poolNeedsHTTP(p); reason != "" {
			return true, reason
		}
	}
	return false, ""
}

func poolNeedsHTTP(p *pb.Pool) string {
	switch mode := p.GetPersistMode(); mode {
	case pb.PersistMode_PERSIST_MODE_COOKIE, pb.PersistMode_PERSIST_MODE_TOKEN, pb.PersistMode_PERSIST_MODE_JROUTE:
		return fmt.Sprintf("pool %s uses persist_mode %s", p.GetName(), pb.EnumWord(mode))
	}
	switch {
	case p.GetFallback() != "":
		return fmt.Sprintf("pool %s has a fallback", p.GetName())
	case p.GetHeaderInsert() != "":
		return fmt.Sprintf("pool %s inserts a header", p.GetName())
	}
	return ""
}

func ruleNeedsHTTP(r *pb.Rule) (reason string) {
	note := func(text string) {
		if reason == "" {
			reason = "rule " + r.GetName() + " " + text
		}
	}
	variable := func(v *pb.RuleVariable) {
		if word := pb.EnumWord(v.GetName()); strings.HasPrefix(word, "http_") {
			note("reads " + word)
		}
	}
	walkRule(r.GetStatement(), func(s *pb.RuleStatement) {
		switch k := s.GetKind().(type) {
		case *pb.RuleStatement_Redirect:
			note("redirects")
		case *pb.RuleStatement_Cache:
			note("caches")
		case *pb.RuleStatement_Hash:
			variable(k.Hash.GetVariable())
		}
	}, func(e *pb.RuleExpression) {
		variable(e.GetExists())
		variable(e.GetComparison().GetVariable())
	})
	return reason
}

// Listening reports which protocols a virtual server listens for. TCP unless its service is disabled; UDP only when its
// service is enabled for it, has a UDP timeout, or a pool persists by sip.
func Listening(v View, vs *pb.VirtualServer) (tcp, udp bool) {
	s := serviceOf(v, vs)
	tcp = s == nil || s.Tcp == nil || s.GetTcp()
	switch {
	case s != nil && s.Udp != nil:
		udp = s.GetUdp()
	case s != nil && s.TimeoutUdp != nil:
		udp = true
	default:
		udp = slices.ContainsFunc(reachable(v, vs), func(p *pb.Pool) bool {
			return p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_SIP
		})
	}
	return tcp, udp
}

// Destinations returns the addresses and the port, 0 for all, that a virtual server takes traffic for where these are more than one
// address and port of this host. A VLAN's has none.
func Destinations(vs *pb.VirtualServer) (network netip.Prefix, port uint16, ok bool) {
	address, port, _ := SplitAddress(vs.GetAddress())
	a, err := parseAddress(address)
	if err != nil || !IsWildcard(vs) {
		return netip.Prefix{}, 0, false
	}
	bits := 0
	if !a.IsUnspecified() {
		if bits, err = maskBits(vs.GetNetmask()); err != nil {
			return netip.Prefix{}, 0, false
		}
	}
	network, err = a.Prefix(bits)
	return network, port, err == nil
}

// IsWildcard reports whether a virtual server takes traffic for more than one destination address: 0.0.0.0, ::, a VLAN's
// name, or a network (host bits zero under its netmask).
func IsWildcard(vs *pb.VirtualServer) bool {
	address, _, ok := SplitAddress(vs.GetAddress())
	if !ok {
		return true
	}
	a, err := parseAddress(address)
	if err != nil {
		return false
	}
	if a.IsUnspecified() {
		return true
	}
	bits, err := maskBits(vs.GetNetmask())
	if err != nil || bits == 32 || !a.Is4() {
		return false
	}
	prefix, err := a.Prefix(bits)
	return err == nil && prefix.Addr() == a
}

// Scoped reports whether a pool's persistence obeys the scopes persist_across_services and persist_across_virtuals:
// simple with a timeout, ssl, sip, msrdp, and the cookie's hash (rules B-10, B-17). Cookies that carry the member's
// address and sticky, which persists by destination, do not.
func Scoped(p *pb.Pool) bool {
	switch PersistModeOf(p) {
	case pb.PersistMode_PERSIST_MODE_SIMPLE, pb.PersistMode_PERSIST_MODE_SSL, pb.PersistMode_PERSIST_MODE_SIP,
		pb.PersistMode_PERSIST_MODE_MSRDP:
		return true
	case pb.PersistMode_PERSIST_MODE_COOKIE:
		return p.GetCookieMode() == pb.CookieMode_COOKIE_MODE_HASH
	}
	return false
}
