package dataplane

import (
	"net/netip"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Statistics returns what was counted. A request that names objects gets these alone: a pool its members, a node its sums
// and the members at it. One that names nothing gets everything. The error says that the node is none.
func (e *Engine) Statistics(req *pb.StatisticsRequest) (*pb.StatisticsReply, error) {
	node, byNode, err := nodeOf(req)
	if err != nil {
		return nil, err
	}
	r := e.running.Load()
	reply := &pb.StatisticsReply{}
	all := req.GetPool() == "" && req.GetVirtual() == "" && !byNode
	for _, name := range sortedKeys(r.virtuals) {
		if all || req.GetVirtual() == name {
			reply.Virtuals = append(reply.Virtuals, r.virtualStatistics(r.virtuals[name]))
		}
	}
	for _, name := range sortedKeys(r.pools) {
		switch {
		case all || req.GetPool() == name:
			reply.Pools = append(reply.Pools, poolStatistics(r.pools[name], netip.AddrPort{}))
		case byNode:
			if p := poolStatistics(r.pools[name], node); len(p.Members) > 0 {
				reply.Pools = append(reply.Pools, p)
			}
		}
	}
	switch {
	case all:
		reply.Nodes = e.nodeStatistics(r, netip.AddrPort{})
		reply.Monitors = e.health.statistics(netip.AddrPort{})
		reply.Unit = e.unitStatistics(r)
	case byNode:
		reply.Nodes = e.nodeStatistics(r, node)
		reply.Monitors = e.health.statistics(node)
	}
	return reply, nil
}

// nodeOf reads the node that a request names, if it names one.
func nodeOf(req interface{ GetNode() string }) (node netip.AddrPort, named bool, err error) {
	if req.GetNode() == "" {
		return node, false, nil
	}
	node, err = parseNode(req.GetNode())
	return node, true, err
}

func connectionCounters(n pool.Counts, limit uint32) *pb.ConnectionCounters {
	return &pb.ConnectionCounters{Current: n.Current, Max: n.Max, Total: n.Total, Limit: uint64(limit)}
}

func byteCounters(n pool.Counts) *pb.ByteCounters { return &pb.ByteCounters{In: n.In, Out: n.Out} }

func (r *runtime) virtualStatistics(v *virtual) *pb.VirtualStatistics {
	vs := config.FindVirtual(r.view, v.address)
	n := v.counters.Counts()
	s := &pb.VirtualStatistics{
		Address: v.address, Protocol: "tcp", Connections: connectionCounters(n, vs.GetLimit()), Bytes: byteCounters(n),
		Requests: n.Requests, Reason: v.reason(),
	}
	s.InEffect = s.Reason == ""
	if http, _ := config.IsHTTP(r.view, vs); http {
		s.Protocol = "http"
	}
	if tcp, udp := config.Listening(r.view, vs); udp && !tcp {
		s.Protocol = "udp"
	}
	return s
}

// atNode reports whether a member is at a node; an invalid node is any, port 0 any port.
func atNode(m *pool.Member, node netip.AddrPort) bool {
	return !node.IsValid() || m.Addr.Addr() == node.Addr() && (node.Port() == 0 || node.Port() == m.Addr.Port())
}

func poolStatistics(p *pool.Pool, node netip.AddrPort) *pb.PoolStatistics {
	s := &pb.PoolStatistics{Name: p.Name, Persistence: p.Outcomes(), Records: uint64(p.Records()), PersistMode: p.PersistMode()}
	s.LargestKey, s.LargestKeyShare = p.LargestKey()
	for _, m := range p.Members() {
		if !atNode(m, node) {
			continue
		}
		n := m.Counters().Counts()
		s.Members = append(s.Members, &pb.MemberStatistics{
			Address: m.Addr.String(), State: m.State().Message(), Connections: connectionCounters(n, m.Limit),
			Bytes: byteCounters(n), Requests: n.Requests,
		})
	}
	return s
}

// nodeStatistics sums members by their nodes: of a node with a port that service alone, of a node its address, of an
// invalid one all addresses.
func (e *Engine) nodeStatistics(r *runtime, node netip.AddrPort) []*pb.NodeStatistics {
	sums := map[string]pool.Counts{}
	for _, p := range r.pools {
		for _, m := range p.Members() {
			if !atNode(m, node) {
				continue
			}
			name := m.Addr.Addr().String()
			if node.Port() != 0 {
				name = m.Addr.String()
			}
			sums[name] = sums[name].Plus(m.Counters().Counts())
		}
	}
	var list []*pb.NodeStatistics
	for _, name := range sortedKeys(sums) {
		limit := r.view.Get("node/" + name).GetNode().GetLimit()
		list = append(list, &pb.NodeStatistics{
			Address: name, State: e.health.node(r.view, name).Message(),
			Connections: connectionCounters(sums[name], limit), Bytes: byteCounters(sums[name]),
		})
	}
	return list
}

func (e *Engine) unitStatistics(r *runtime) *pb.UnitStatistics {
	sum := e.gone.get()
	for _, v := range r.virtuals {
		sum = sum.Plus(v.counters.Counts())
	}
	sum.Current = uint64(e.connections.Len())
	sum.Max = max(uint64(e.connections.Most()), sum.Current)
	records := e.records.Stats()
	var unserved uint64
	for _, p := range r.pools {
		unserved += p.Unserved()
	}
	u := &pb.UnitStatistics{
		UptimeSeconds: wholeSeconds(time.Since(e.started)),
		Connections:   connectionCounters(sum, 0),
		Bytes:         byteCounters(sum),
		Requests:      sum.Requests,
		Records:       uint64(records.Records),
		Counters: map[string]uint64{
			"no_nodes":        unserved,
			"table_full":      records.Full,
			"records_bound":   records.Bound,
			"records_moved":   records.Moved,
			"records_expired": records.Expired,
			"records_evicted": records.Evicted,
			"records_cleared": records.Cleared,
			"long_targets":    e.connections.LongTargets(),
			"flows_evicted":   e.connections.EvictedFlows(),
		},
	}
	checked := e.health.monitors.Counts()
	u.Counters["monitor_probes"], u.Counters["monitor_failures"] = checked.Probes, checked.Failed
	u.Counters["nodes_up"], u.Counters["nodes_down"] = checked.Ups, checked.Downs
	e.countMirror(u.Counters)
	if d := e.Unkept(); d > 0 {
		u.Counters[UnkeptSeconds] = wholeSeconds(d)
	}
	return u
}

// UnkeptSeconds is among the unit's counters while writing to the state directory fails: for how long it has failed.
const UnkeptSeconds = "unkept_seconds"

// ResetStatistics counts from zero again: for the objects that are named, for all of a kind where the name is empty, or for all where
// none is asked for. The error says that the node is none; then nothing is reset.
func (e *Engine) ResetStatistics(req *pb.ResetStatisticsRequest) error {
	node, _, err := nodeOf(req)
	if err != nil {
		return err
	}
	r := e.running.Load()
	byNode := req.Node != nil
	all := req.Pool == nil && req.Virtual == nil && !byNode
	chosen := func(asked *string, name string) bool { return all || asked != nil && (*asked == "" || *asked == name) }
	for name, v := range r.virtuals {
		if chosen(req.Virtual, name) {
			v.counters.Reset()
		}
	}
	for name, p := range r.pools {
		if whole := chosen(req.Pool, name); whole || byNode {
			resetPool(p, node, whole)
		}
	}
	if all {
		e.gone.reset()
		e.connections.ResetCounts()
	}
	return nil
}

func resetPool(p *pool.Pool, node netip.AddrPort, whole bool) {
	for _, m := range p.Members() {
		if whole || atNode(m, node) {
			m.Counters().Reset()
		}
	}
	if whole {
		p.ResetOutcomes()
	}
}
