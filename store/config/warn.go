package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// dynamicModes are the load-balancing modes that make sticky records clump on one member (rule W-1).
var dynamicModes = []pb.LbMode{
	pb.LbMode_LB_MODE_LEAST_CONN, pb.LbMode_LB_MODE_LEAST_CONN_MEMBER, pb.LbMode_LB_MODE_FASTEST, pb.LbMode_LB_MODE_FASTEST_APP_RESP,
	pb.LbMode_LB_MODE_OBSERVED, pb.LbMode_LB_MODE_OBSERVED_MEMBER, pb.LbMode_LB_MODE_PREDICTIVE, pb.LbMode_LB_MODE_PREDICTIVE_MEMBER,
	pb.LbMode_LB_MODE_DYNAMIC_RATIO, pb.LbMode_LB_MODE_RESPONSE, pb.LbMode_LB_MODE_BANDWIDTH,
}

// warnPool gives the warnings about one pool's own attributes: W-4, W-5, W-9, W-10.
func (c *checker) warnPool(key string, p *pb.Pool) {
	meta, title := p.GetMeta(), Title(key)
	_, fallback := FallbackTimeout(p)
	if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_SIMPLE && !fallback {
		if p.SimpleMask != nil {
			c.warn(key, attribute(meta, "simple_mask"), "W-4", "%s: simple_mask works only with persist_mode simple", title)
		} else if p.SimpleMask6 != nil {
			c.warn(key, attribute(meta, "simple_mask6"), "W-4", "%s: simple_mask6 works only with persist_mode simple", title)
		}
	}
	if mode := p.GetCookieMode(); p.CookieExpiration != nil &&
		(mode == pb.CookieMode_COOKIE_MODE_PASSIVE || mode == pb.CookieMode_COOKIE_MODE_HASH) {
		c.warn(key, attribute(meta, "cookie_expiration"), "W-5", "%s: cookie_expiration is not used with cookie_mode %s", title, pb.EnumWord(mode))
	}
	if p.GetMirrorPersist() {
		c.warn(key, attribute(meta, "mirror persist", "mirror"), "W-9", "%s: mirror persist enable is kept, not in effect", title)
	}
	if p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_SIMPLE && p.GetSimpleTimeout() == 0 {
		how := "0"
		if p.SimpleTimeout == nil {
			how = "not given"
		}
		c.warn(key, attribute(meta, "simple_timeout", "persist_mode"), "W-10", "%s: simple_timeout is %s: persistence is off", title, how)
	}
}

// warnReached gives the warnings about a pool and the virtual servers that reach it: W-6, W-7.
func (c *checker) warnReached(key string, p *pb.Pool) {
	switch p.GetPersistMode() {
	case pb.PersistMode_PERSIST_MODE_COOKIE:
		if p.GetCookieMode() != pb.CookieMode_COOKIE_MODE_REWRITE {
			return
		}
		var rules []string
		c.view.Referrers(key, func(from string) bool {
			if kind, name := pb.SplitKey(from); kind == "rule" {
				rules = append(rules, name)
			}
			return true
		})
		if len(rules) > 0 {
			c.warn(key, attribute(p.GetMeta(), "cookie_mode", "persist_mode"), "W-6",
				"%s: cookie_mode rewrite in a pool of %s: blank cookies of 75 zeros stay as they are, let the server send 120",
				Title(key), count("rule", rules))
		}
	case pb.PersistMode_PERSIST_MODE_STICKY:
		direct, byRule := VirtualsOf(c.view, p.GetName())
		var narrow set
		var related []*pb.RelatedPosition
		for _, vs := range append(direct, byRule...) {
			if !IsWildcard(vs) && narrow.add(vs.GetAddress()) && len(related) < 3 {
				related = append(related, useSpot(vs).related("virtual server %s", vs.GetAddress())...)
			}
		}
		if len(narrow.list) > 0 {
			what := "which is not a wildcard"
			if len(narrow.list) > 1 {
				what = "which are not wildcards"
			}
			d := c.warn(key, attribute(p.GetMeta(), "persist_mode"), "W-7",
				"%s: persist_mode sticky on %s, %s: all clients reach one member", Title(key), count("virtual server", narrow.list), what)
			d.Related = related
		}
	}
}

func few(names []string) string { return some(names, 3) }

// count joins a few names behind what they are.
func count(noun string, names []string) string {
	if len(names) > 1 {
		noun += "s"
	}
	return noun + " " + few(names)
}

// some joins at most so many names and counts the others.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// warnSplit warns of a split in which only some pools persist (W-8).
func (c *checker) warnSplit(key string, at *spot, pools []*pb.WeightedPool) {
	var with, without []string
	for _, w := range pools {
		p := FindPool(c.view, w.GetPool())
		switch {
		case p == nil:
		case PersistModeOf(p) == pb.PersistMode_PERSIST_MODE_NONE:
			without = append(without, w.GetPool())
		default:
			with = append(with, w.GetPool())
		}
	}
	if len(with) > 0 && len(without) > 0 {
		c.warn(key, at, "W-8", "%s: a split in which only some pools persist: %s; not %s", Title(key), few(with), few(without))
	}
}

// warnClearTokens warns of tokens that are not encrypted on a public address: anybody reads there what members have (W-12).
func (c *checker) warnClearTokens(key string, vs *pb.VirtualServer) {
	address, _, _ := SplitAddress(vs.GetAddress())
	a, err := parseAddress(address)
	if err != nil || !a.IsGlobalUnicast() || a.IsPrivate() || len(Globals(c.view).GetCookieKeys()) > 0 {
		return
	}
	var names []string
	for _, p := range c.reachable(vs) {
		if p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_TOKEN {
			names = append(names, p.GetName())
		}
	}
	if len(names) > 0 {
		c.warn(key, useSpot(vs), "W-12", "%s: the tokens of %s show the addresses of members: there is no cookie_key", Title(key), count("pool", names))
	}
}

// warnScopes gives the warnings that depend on variables of the unit: W-1, W-2, W-3, W-11.
func (c *checker) warnScopes() {
	g := Globals(c.view)
	wide := g.GetPersistAcrossServices() || g.GetPersistAcrossVirtuals()
	c.eachPool(func(key string, p *pb.Pool) {
		c.warnDynamic(key, p)
		if wide {
			c.warnTwice(key, p)
		}
	})
	switch {
	case g.GetPersistAcrossVirtuals():
		c.warnAcrossVirtuals()
	case g.GetPersistAcrossServices():
		c.warnAcrossServices()
	}
}

// eachPool visits the pools that changed; all of them when the variables of the unit did.
func (c *checker) eachPool(fn func(key string, p *pb.Pool)) {
	if c.globalChanged() {
		c.view.Range("pool", func(o *pb.Object) bool { fn(o.Key(), o.GetPool()); return true })
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.own)) {
		if p := c.view.Get(key).GetPool(); p != nil {
			fn(key, p)
		}
	}
}

func (c *checker) warnDynamic(key string, p *pb.Pool) {
	mode := LbModeOf(c.view, p)
	if p.GetPersistMode() == pb.PersistMode_PERSIST_MODE_STICKY && slices.Contains(dynamicModes, mode) {
		c.warn(key, attribute(p.GetMeta(), "lb_mode", "persist_mode"), "W-1",
			"%s: persist_mode sticky with lb_mode %s: use a static load balancing mode such as round_robin", Title(key), pb.EnumWord(mode))
	}
}

// warnTwice warns of a node address twice in a pool under a wide scope (W-11, rules B-6 and B-8).
func (c *checker) warnTwice(key string, p *pb.Pool) {
	if !Scoped(p) {
		return
	}
	first := make(map[string]*pb.Member, len(p.GetMembers()))
	warned := map[string]bool{}
	for _, m := range p.GetMembers() {
		address, _, _ := SplitAddress(m.GetAddress())
		earlier := first[address]
		switch {
		case earlier == nil:
			first[address] = m
		case earlier.GetAddress() != m.GetAddress() && !warned[address]:
			warned[address] = true
			d := c.warn(key, attribute(m.GetMeta()), "W-11",
				"%s: node %s is a member twice, %s and %s: records of other pools name only its address", Title(key), address, earlier.GetAddress(), m.GetAddress())
			d.Related = attribute(earlier.GetMeta()).related("the first one")
		}
	}
}

// warnAcrossServices warns of persistent virtual servers on one address with different nodes (W-2).
func (c *checker) warnAcrossServices() {
	for _, address := range c.addresses() {
		var list []*pb.VirtualServer
		c.view.Referrers("virtual_address/"+address, func(from string) bool {
			if vs := c.view.Get(from).GetVirtual(); vs != nil && c.isPersistent(vs) {
				list = append(list, vs)
			}
			return true
		})
		for _, vs := range list[min(1, len(list)):] {
			c.compareNodes("W-2", "persist_on_any_port_same_vip", list[0], vs)
		}
	}
}

// addresses lists the virtual addresses whose virtual servers are to be compared.
func (c *checker) addresses() []string {
	seen := map[string]bool{}
	c.eachVirtual(func(vs *pb.VirtualServer) {
		address, _, _ := SplitAddress(vs.GetAddress())
		seen[address] = true
	})
	return slices.Sorted(maps.Keys(seen))
}

// eachVirtual visits the virtual servers whose own text or whose pools changed; all when the variables of the unit did.
func (c *checker) eachVirtual(fn func(vs *pb.VirtualServer)) {
	if c.globalChanged() {
		c.view.Range("virtual", func(o *pb.Object) bool { fn(o.GetVirtual()); return true })
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.related)) {
		if vs := c.view.Get(key).GetVirtual(); vs != nil {
			fn(vs)
		}
	}
}

// warnAcrossVirtuals is warnAcrossServices for all persistent virtual servers (W-3): each that is visited is compared with the
// first one.
func (c *checker) warnAcrossVirtuals() {
	var first *pb.VirtualServer
	c.view.Range("virtual", func(o *pb.Object) bool {
		if c.isPersistent(o.GetVirtual()) {
			first = o.GetVirtual()
		}
		return first == nil
	})
	if first == nil {
		return
	}
	everyone := c.globalChanged() || c.related["virtual/"+first.GetAddress()]
	compare := func(vs *pb.VirtualServer) {
		if vs != first && c.isPersistent(vs) {
			c.compareNodes("W-3", "persist_on_any_vip", first, vs)
		}
	}
	if everyone {
		c.view.Range("virtual", func(o *pb.Object) bool { compare(o.GetVirtual()); return true })
		return
	}
	c.eachVirtual(compare)
}

// compareNodes warns, at the second virtual server, when two persistent ones do not include the same nodes.
func (c *checker) compareNodes(code, variable string, a, b *pb.VirtualServer) {
	if useKey(a) == useKey(b) {
		return
	}
	var missing []string
	for _, side := range [][2]*pb.VirtualServer{{a, b}, {b, a}} {
		if lacks := c.lacks(side[0], side[1]); lacks != "" {
			missing = append(missing, fmt.Sprintf("%s lacks %s", side[0].GetAddress(), lacks))
		}
	}
	if len(missing) == 0 {
		return
	}
	d := c.warn("virtual/"+b.GetAddress(), useSpot(b), code,
		"%s is on: virtual servers %s and %s should include the same node addresses: %s",
		variable, a.GetAddress(), b.GetAddress(), strings.Join(missing, ", "))
	d.Related = useSpot(a).related("virtual server %s", a.GetAddress())
}

// lacks names the nodes through which another virtual server shares records and this one does not. Virtual servers that use the
// same are asked for once.
func (c *checker) lacks(vs, other *pb.VirtualServer) string {
	key := useKey(vs) + "\x00" + useKey(other)
	if text, known := c.lacking[key]; known {
		return text
	}
	has := set{list: c.persistentNodes(vs)}
	var lacks []string
	for _, node := range c.persistentNodes(other) {
		if !has.has(node) {
			lacks = append(lacks, node)
		}
	}
	c.lacking[key] = some(lacks, 10)
	return c.lacking[key]
}

// persistentNodes lists the node addresses of the pools through which a virtual server shares records.
func (c *checker) persistentNodes(vs *pb.VirtualServer) []string {
	seen := map[string]bool{}
	for _, p := range c.reachable(vs) {
		if !Scoped(p) {
			continue
		}
		for _, m := range p.GetMembers() {
			address, _, _ := SplitAddress(m.GetAddress())
			seen[address] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
