package mgmtd

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"

	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// nodeShow prints nodes, which exist because pools have them as members, with their services and the counters on each
// dataplane.
func (e *execution) nodeShow(ctx context.Context, op eval.Operation) error {
	_, name := pb.SplitKey(op.Key)
	address, port, one := config.SplitAddress(name)
	r := &pb.StatisticsRequest{}
	if address != "" {
		r.Node = &name
	}
	stats, gaps, err := e.statisticsFor(ctx, r)
	if err != nil {
		return err
	}
	w, _ := e.server.publisher.watch()
	nodes := nodePorts(w.view)
	s, err := e.viewWriter("nodes")
	if err != nil {
		return err
	}
	counted := countNodes(stats)
	sources := sourcesOf(stats.GetNodes(), gaps)
	for _, node := range slices.SortedFunc(maps.Keys(nodes), compareAddresses) {
		if address != "" && node != address {
			continue
		}
		ports := nodes[node]
		if one {
			ports = []uint16{port}
		}
		for _, from := range sources {
			view := nodeViewOf(w.view, node, ports, counted, from)
			if one {
				view = portOnly(view, name)
			}
			if err := s.add(view, func() string { return e.nodeText(view, node) }); err != nil {
				return err
			}
		}
	}
	return s.end()
}

// nodePorts lists the services of each node, sorted.
func nodePorts(v config.View) map[string][]uint16 {
	nodes := map[string][]uint16{}
	v.Range("pool", func(o *pb.Object) bool {
		for _, m := range o.GetPool().GetMembers() {
			if address, port, ok := config.SplitAddress(m.GetAddress()); ok && !slices.Contains(nodes[address], port) {
				nodes[address] = append(nodes[address], port)
			}
		}
		return true
	})
	for _, ports := range nodes {
		slices.Sort(ports)
	}
	return nodes
}

func compareAddresses(a, b string) int {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}
	return x.Compare(y)
}

// source is a dataplane that counts something, or would if it answered.
type source struct {
	dataplane string
	silent    bool
}

// sourcesOf lists the dataplanes to show what they count of, nodes or the like; "" alone when none counts any.
func sourcesOf[T interface{ GetDataplane() string }](counted []T, gaps gaps) []source {
	var list []source
	for _, c := range counted {
		if one := (source{dataplane: c.GetDataplane()}); !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	if list == nil && (!gaps.total() || !gaps.shown) {
		list = []source{{}}
	}
	for _, silent := range gaps.unknown() {
		list = append(list, source{silent.dataplane, true})
	}
	return list
}

// counted is an address on a dataplane.
type counted struct{ address, dataplane string }

// nodeCounts are what dataplanes count of nodes and of their services.
type nodeCounts struct {
	nodes map[counted]*pb.NodeStatistics
	ports map[counted]portView
}

// countNodes sums the members of all pools that have one address.
func countNodes(stats *pb.StatisticsReply) nodeCounts {
	c := nodeCounts{nodes: map[counted]*pb.NodeStatistics{}, ports: map[counted]portView{}}
	for _, n := range stats.GetNodes() {
		c.nodes[counted{n.GetAddress(), n.GetDataplane()}] = n
	}
	for _, pool := range stats.GetPools() {
		for _, m := range pool.GetMembers() {
			key := counted{m.GetAddress(), m.GetDataplane()}
			p := c.ports[key]
			p.State = pb.EnumWord(m.GetState())
			p.Connections.add(countersOf(m.GetConnections()))
			p.Bytes.add(trafficOf(m.GetBytes()))
			c.ports[key] = p
		}
	}
	return c
}

// nodeViewOf joins what is configured of a node with what one dataplane counts.
func nodeViewOf(v config.View, node string, ports []uint16, c nodeCounts, from source) nodeView {
	n := c.nodes[counted{node, from.dataplane}]
	view := nodeView{
		Address: node, State: stateWord(v, node, n.GetState()), Enabled: config.MemberState(v, node).Enabled,
		Connections: countersOf(n.GetConnections()), Bytes: trafficOf(n.GetBytes()), Dataplane: from.dataplane,
	}
	view.Connections.Limit = uint64(v.Get("node/" + node).GetNode().GetLimit())
	for _, port := range ports {
		address := config.JoinAddress(node, port)
		p := c.ports[counted{address, from.dataplane}]
		p.Port, p.Enabled = uint32(port), config.MemberState(v, address).Enabled
		if p.State == "" {
			p.State = stateWord(v, address, 0)
		}
		p.Connections.Limit = uint64(v.Get("node/" + address).GetNode().GetLimit())
		view.Ports = append(view.Ports, p)
	}
	if from.silent {
		view.forget()
	}
	return view
}

// forget marks all that only the dataplane knows as not known.
func (n *nodeView) forget() {
	n.Connections.unknown, n.Bytes.unknown = true, true
	n.State = unknownState(n.State, n.Enabled)
	for i := range n.Ports {
		p := &n.Ports[i]
		p.Connections.unknown, p.Bytes.unknown = true, true
		p.State = unknownState(p.State, p.Enabled)
	}
}

// portOnly is the view of one service of a node under its own address.
func portOnly(n nodeView, address string) nodeView {
	p := n.Ports[0]
	return nodeView{
		Address: address, State: p.State, Enabled: p.Enabled, Connections: p.Connections, Bytes: p.Bytes,
		Ports: n.Ports, Dataplane: n.Dataplane,
	}
}

func (e *execution) nodeText(n nodeView, node string) string {
	text := block("NODE "+node+"    "+label(n.State)+e.on(n.Dataplane), "|     "+connectionLine(n.Connections), "|     "+bitLine(n.Bytes))
	for _, p := range n.Ports {
		text += part("PORT "+e.naming().port(p.Port)+"  "+label(p.State), p.Connections, p.Bytes)
	}
	return text
}
