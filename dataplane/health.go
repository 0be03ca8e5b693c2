package dataplane

import (
	"cmp"
	"encoding/json"
	"io"
	"net/netip"
	"slices"
	"strings"

	"bigpipe/dataplane/monitor"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// health is what an engine knows of the state of members, and how.
type health struct {
	known    *pool.Healths
	monitors *monitor.Set
}

func newHealth(o *EngineOptions, through func(node netip.Addr) (mark uint32)) (*health, error) {
	prober := o.prober
	if prober == nil {
		var err error
		if prober, err = monitor.NewProber(through); err != nil {
			return nil, err
		}
	}
	h := &health{known: &pool.Healths{}}
	var known []monitor.Known
	if o.Taken != nil {
		known = o.Taken.health.Checks
	}
	h.monitors = monitor.New(monitor.Options{Health: h.known, Prober: prober, Known: known, Log: o.Log})
	h.known.Marked = h.monitors.Marked
	return h, nil
}

// knownHealth is what one dataplane has found of members, for the one that takes its place: nobody who is down gets clients for want
// of a first check. Nothing is kept over a restart, where the first check decides (pain 37).
type knownHealth struct {
	Checks []monitor.Known
	Marks  []netip.AddrPort // members that traffic has marked down
}

// write tells what is known.
func (h *health) write(w io.Writer) error {
	return json.NewEncoder(w).Encode(knownHealth{h.monitors.Known(), h.known.Marks()})
}

// recall marks the members that traffic had marked down.
func (k *knownHealth) recall(h *pool.Healths) {
	for _, member := range k.Marks {
		h.Mark(member)
	}
}

// monitored returns the nodes, ADDRESS and ADDRESS:PORT, that changes may have others check, or otherwise.
func (r *runtime) monitored(changes []config.Change) map[string]struct{} {
	nodes := map[string]struct{}{}
	add := func(p *pb.Pool) {
		for _, m := range p.GetMembers() {
			address, _, _ := config.SplitAddress(m.GetAddress())
			nodes[address], nodes[m.GetAddress()] = struct{}{}, struct{}{}
		}
	}
	all := false
	for _, c := range changes {
		kind, name := pb.SplitKey(c.Key)
		switch kind {
		case "pool":
			add(c.Old.GetPool())
			add(c.New.GetPool())
		case "monitor_use", "active":
			nodes[name] = struct{}{}
			all = all || strings.HasPrefix(name, "*:")
		case "monitor":
			all = true
		case "global":
			was, is := c.Old.GetGlobal(), c.New.GetGlobal()
			all = all || was.GetTpingNode() != is.GetTpingNode() || was.GetTimeoutNode() != is.GetTimeoutNode()
		case "service":
			was, is := c.Old.GetService(), c.New.GetService()
			all = all || was.GetTping() != is.GetTping() || was.GetTpingTimeout() != is.GetTpingTimeout()
		}
	}
	if all {
		r.view.Range("pool", func(o *pb.Object) bool {
			add(o.GetPool())
			return true
		})
	}
	return nodes
}

// exists reports whether a node is a member of a pool, or the address of one.
func (r *runtime) exists(node string) bool {
	found := false
	r.view.Referrers("node/"+node, func(from string) bool {
		kind, _ := pb.SplitKey(from)
		found = kind == "pool"
		return !found
	})
	return found
}

// check has the nodes checked that changes touch, as the runtime's configuration says.
func (h *health) check(r *runtime, changes []config.Change, addresses *AddressMap) {
	var nodes []monitor.Node
	for _, name := range sortedKeys(r.monitored(changes)) {
		n := monitor.Compile(r.view, name, addresses)
		if !n.Addr.IsValid() {
			continue
		}
		if !r.exists(name) {
			n.Instances = nil
		}
		nodes = append(nodes, n)
	}
	if len(nodes) > 0 {
		h.monitors.Apply(nodes)
	}
}

// faults lists the monitors that cannot be carried out, with the nodes that stay unchecked by them.
func (h *health) faults() []*pb.NotInEffect {
	type fault struct{ key, reason string }
	nodes := map[fault][]string{}
	h.monitors.Range(func(node netip.AddrPort, in *monitor.Instance, _ pool.State) {
		if in.Fault != "" && in.Enabled {
			f := fault{config.MonitorObject(in.Monitor), in.Fault}
			nodes[f] = append(nodes[f], monitor.NameOf(node))
		}
	})
	reasons := map[string][]string{}
	for f, names := range nodes {
		slices.Sort(names)
		reasons[f.key] = append(reasons[f.key], f.reason+" (unchecked by it: "+few(names)+")")
	}
	var list []*pb.NotInEffect
	for key, texts := range reasons {
		slices.Sort(texts)
		list = append(list, &pb.NotInEffect{Key: key, Reason: strings.Join(texts, "; ")})
	}
	return list
}

// few names up to three, and says how many more there are.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", ..."
}

// statistics lists what each monitor says of each node: of a node that is named, its address included, or of all.
func (h *health) statistics(node netip.AddrPort) []*pb.MonitorStatistics {
	var list []*pb.MonitorStatistics
	h.monitors.Range(func(at netip.AddrPort, in *monitor.Instance, state pool.State) {
		if !node.IsValid() || at == node || at.Addr() == node.Addr() && (node.Port() == 0 || at.Port() == 0) {
			list = append(list, &pb.MonitorStatistics{Node: monitor.NameOf(at), Monitor: in.Monitor, State: state.Message()})
		}
	})
	slices.SortStableFunc(list, func(a, b *pb.MonitorStatistics) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Monitor, b.Monitor))
	})
	return list
}

// node is the state of a node, ADDRESS or ADDRESS:PORT.
func (h *health) node(view config.View, name string) pool.State {
	found := pool.Unchecked
	if addr, err := parseNode(name); err == nil {
		if addr.Port() == 0 {
			found = h.known.Address(addr.Addr())
		} else {
			found = h.known.Of(addr).State()
		}
	}
	return pool.Over(pool.OperatorState(view, name), found)
}

// followHealth resets the open connections of members that monitors find down, where their pool says so (on_down reset).
func (e *Engine) followHealth() {
	number := uint64(0)
	for {
		list, missed, more := e.health.monitors.After(number)
		down := missed
		for i := range list {
			t := &list[i]
			number = t.Number
			down = down || t.To == pool.Down && t.Monitor != ""
		}
		if down && e.running.Load().resets() {
			n := e.connections.Reset((*pool.Member).Over)
			if n > 0 {
				e.log.Info("connections to members that are down are reset", "connections", n)
			}
		}
		select {
		case <-e.stop:
			return
		case <-more:
		}
	}
}

// resets reports whether a pool has its open connections reset.
func (r *runtime) resets() bool {
	for _, p := range r.pools {
		if p.Config.GetOnDown() == pb.OnDown_ON_DOWN_RESET {
			return true
		}
	}
	return false
}
