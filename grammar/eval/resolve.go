package eval

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// resolveAll returns the statements with addresses in place of host names. Statements without host names are shared with the
// caller and must not be modified.
func (e *evaluator) resolveAll(statements []*grammar.Statement) []*grammar.Statement {
	resolved := slices.Clone(statements)
	var naming []int // the statements that hold host names
	var hosts []string
	for i, s := range statements {
		before := len(hosts)
		if hosts = hostsOf(s, hosts); len(hosts) > before {
			naming = append(naming, i)
		}
	}
	e.ask(hosts)
	for _, i := range naming {
		resolved[i] = e.resolve(statements[i])
	}
	return resolved
}

// askedAtOnce is how many hosts are asked for at a time: a slow resolver that answers one after the other still has time for each.
const askedAtOnce = 10

// ask asks for the addresses of hosts, for several at a time: that one is not there may take seconds to turn out. As soon as the
// faults of further ones would not be shown, they are not asked for.
func (e *evaluator) ask(hosts []string) {
	if e.options.Resolve == nil {
		return
	}
	for len(hosts) > 0 && e.missing < maxShown {
		var some []string
		for len(hosts) > 0 && len(some) < min(maxShown-e.missing, askedAtOnce) {
			if _, asked := e.hosts[hosts[0]]; !asked {
				e.hosts[hosts[0]] = ""
				some = append(some, hosts[0])
			}
			hosts = hosts[1:]
		}
		found := make([]string, len(some))
		var asking sync.WaitGroup
		for i, host := range some {
			asking.Go(func() {
				if a, err := e.options.Resolve(host); err == nil && a.IsValid() {
					found[i] = a.Unmap().WithZone("").String()
				}
			})
		}
		asking.Wait()
		for i, host := range some {
			if e.hosts[host] = found[i]; found[i] == "" {
				e.missing++
			}
		}
	}
}

// resolve returns a statement with addresses in place of host names.
func (e *evaluator) resolve(s *grammar.Statement) *grammar.Statement {
	c := *s
	c.Object, c.NodeList = config.Clone(s.Object), proto.CloneOf(s.NodeList)
	c.Filter, c.Explain, c.Connections = proto.CloneOf(s.Filter), proto.CloneOf(s.Explain), proto.CloneOf(s.Connections)
	c.Words = append([]string(nil), s.Words...)
	c.NewEpoch = append([]string(nil), s.NewEpoch...)
	eachAddress(&c, func(text *string, where at) { *text = e.address(*text, where) })
	if kind, name := pb.SplitKey(s.Key); hasAddress(kind, name) {
		c.Key = kind + "/" + e.address(name, keyAt(s))
	}
	return &c
}

// hostsOf appends the host names that a statement holds.
func hostsOf(s *grammar.Statement, hosts []string) []string {
	look := func(text *string, _ at) {
		if isHost(*text) {
			host, _, _ := config.SplitAddress(*text)
			hosts = append(hosts, host)
		}
	}
	eachAddress(s, look)
	if kind, name := pb.SplitKey(s.Key); hasAddress(kind, name) {
		look(&name, at{})
	}
	return hosts
}

// hasAddress reports whether the name of an object begins with an address. That of a virtual server without a port is the name
// of a VLAN.
func hasAddress(kind, name string) bool {
	_, _, hasPort := config.SplitAddress(name)
	return kind == "virtual" && hasPort || kind == "virtual_address" || kind == "node" || kind == "monitor_use" || kind == "active"
}

// eachAddress visits every address of a statement that a person may write as a host name.
func eachAddress(s *grammar.Statement, fn func(text *string, where at)) {
	optional := func(text *string, where at) {
		if text != nil {
			fn(text, where)
		}
	}
	members := func(p *pb.Pool) {
		for _, m := range p.GetMembers() {
			fn(&m.Address, memberAt(s, m))
		}
	}
	key := keyAt(s)
	switch k := s.Object.GetKind().(type) {
	case *pb.Object_Pool:
		members(k.Pool)
	case *pb.Object_Virtual:
		if hasAddress("virtual", k.Virtual.GetAddress()) {
			fn(&k.Virtual.Address, key)
		}
		optional(k.Virtual.Broadcast, key)
	case *pb.Object_VirtualAddress:
		fn(&k.VirtualAddress.Address, key)
		optional(k.VirtualAddress.Broadcast, key)
	case *pb.Object_Node:
		fn(&k.Node.Address, key)
	case *pb.Object_MonitorUse:
		fn(&k.MonitorUse.Target, key)
	case *pb.Object_Active:
		fn(&k.Active.Target, key)
	case *pb.Object_Monitor:
		urlAddress(k.Monitor, key, fn)
	}
	members(s.NodeList)
	if s.Filter != nil {
		optional(s.Filter.Node, key)
		scopeAddress(s.Filter, key, fn)
	}
	if s.Explain != nil {
		fn(&s.Explain.Client, key)
		optional(s.Explain.Destination, key)
		optional(s.Explain.Virtual, key)
	}
	if s.Connections != nil {
		optional(s.Connections.Client, key)
		optional(s.Connections.Node, key)
		optional(s.Connections.Virtual, key)
	}
	if s.Action == grammar.ActionPersistForecast && len(s.Words) > 0 {
		fn(&s.Words[0], key)
	}
	for i := range s.NewEpoch {
		fn(&s.NewEpoch[i], key)
	}
}

// scopeAddress visits the address of ADDRESS:*, ADDRESS:PORT or ADDRESS in a filter; "" is none.
func scopeAddress(f *pb.RecordFilter, where at, fn func(text *string, where at)) {
	text, shared := strings.CutSuffix(f.GetVirtual(), ":*")
	if text == "" || strings.HasPrefix(text, "[") {
		return
	}
	resolved := text
	if fn(&resolved, where); resolved == text {
		return
	}
	if shared && strings.Contains(resolved, ":") {
		resolved = "[" + resolved + "]"
	}
	if shared {
		resolved += ":*"
	}
	f.Virtual = &resolved
}

// urlAddress visits the host that a monitor's url names: its address becomes the dest, unless there is one.
func urlAddress(m *pb.Monitor, where at, fn func(text *string, where at)) {
	to := config.URLDestination(m.GetUrl())
	if m.Dest != nil || to == "" {
		return
	}
	resolved := to
	if fn(&resolved, where); resolved != to {
		m.Dest = &resolved
	}
}

// isHost reports whether the address part of a text is a name.
func isHost(text string) bool {
	host, _, _ := config.SplitAddress(text)
	if host == "" || host == "*" {
		return false
	}
	if _, err := netip.ParsePrefix(host); err == nil {
		return false
	}
	_, err := netip.ParseAddr(host)
	return err != nil
}

// address returns a text with the address of its host; as it is, and a fault noted, when the host is not known.
func (e *evaluator) address(text string, where at) string {
	if !isHost(text) {
		return text
	}
	host, port, hasPort := config.SplitAddress(text)
	known := e.hosts[host]
	switch {
	case known == "":
		e.unknownHost(host, where)
		return text
	case hasPort:
		return config.JoinAddress(known, port)
	}
	return known
}

// unknownHost notes a host without an address, once for each place.
func (e *evaluator) unknownHost(host string, where at) {
	place := fmt.Sprintf("%d:%d %s", where.position.GetLine(), where.position.GetColumn(), host)
	if e.unknown[place] {
		return
	}
	e.unknown[place] = true
	e.fault(where, CodeUnknownHost, "host %q not found", host)
}
