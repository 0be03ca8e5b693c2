package mgmtd

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// statistics asks all dataplanes and puts the answers side by side, each with its dataplane's name; only the unit's
// counters are summed.
func (s *Server) statistics(ctx context.Context, r *pb.StatisticsRequest) (*pb.StatisticsReply, failures) {
	answers, failed := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.StatisticsReply, error) {
		return c.Statistics(ctx, r)
	})
	all := &pb.StatisticsReply{}
	for _, a := range answers {
		mergeStatistics(all, a.value, a.dataplane)
	}
	return all, failed
}

// mergeStatistics adds what one dataplane said. Members of a pool that several dataplanes have stand in one entry.
func mergeStatistics(all, one *pb.StatisticsReply, dataplane string) {
	for _, v := range one.GetVirtuals() {
		v.Dataplane = dataplane
		all.Virtuals = append(all.Virtuals, v)
	}
	for _, n := range one.GetNodes() {
		n.Dataplane = dataplane
		all.Nodes = append(all.Nodes, n)
	}
	for _, m := range one.GetMonitors() {
		m.Dataplane = dataplane
		all.Monitors = append(all.Monitors, m)
	}
	known := make(map[string]*pb.PoolStatistics, len(all.GetPools()))
	for _, p := range all.GetPools() {
		known[p.GetName()] = p
	}
	for _, p := range one.GetPools() {
		for _, m := range p.GetMembers() {
			m.Dataplane = dataplane
		}
		have := known[p.GetName()]
		if have == nil {
			all.Pools = append(all.Pools, p)
			continue
		}
		have.Members = append(have.Members, p.GetMembers()...)
		have.Records += p.GetRecords()
		if p.GetLargestKeyShare() > have.GetLargestKeyShare() {
			have.LargestKeyShare, have.LargestKey = p.GetLargestKeyShare(), p.GetLargestKey()
		}
		have.Persistence = addOutcomes(have.GetPersistence(), p.GetPersistence())
	}
	if one.GetUnit() != nil {
		all.Unit = addUnit(all.GetUnit(), one.GetUnit())
	}
}

// addOutcomes sums two sets of counters field by field.
func addOutcomes(a, b *pb.PersistOutcomes) *pb.PersistOutcomes {
	if a == nil {
		return b
	}
	x, y := a.ProtoReflect(), b.ProtoReflect()
	sum := &pb.PersistOutcomes{}
	fields := x.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		sum.ProtoReflect().Set(fd, protoreflect.ValueOfUint64(x.Get(fd).Uint()+y.Get(fd).Uint()))
	}
	return sum
}

// addUnit sums the counters of two units; the uptime is that of the one that runs longest.
func addUnit(a, b *pb.UnitStatistics) *pb.UnitStatistics {
	if a == nil {
		b.Dataplane = ""
		return b
	}
	sum := &pb.UnitStatistics{
		UptimeSeconds: max(a.GetUptimeSeconds(), b.GetUptimeSeconds()),
		Connections:   addConnections(a.GetConnections(), b.GetConnections()),
		Bytes:         addBytes(a.GetBytes(), b.GetBytes()),
		Requests:      a.GetRequests() + b.GetRequests(),
		Records:       a.GetRecords() + b.GetRecords(),
		Counters:      map[string]uint64{},
	}
	for _, counters := range []map[string]uint64{a.GetCounters(), b.GetCounters()} {
		for name, n := range counters {
			sum.Counters[name] += n
		}
	}
	return sum
}

func addConnections(a, b *pb.ConnectionCounters) *pb.ConnectionCounters {
	return &pb.ConnectionCounters{
		Current: a.GetCurrent() + b.GetCurrent(), Max: a.GetMax() + b.GetMax(), Total: a.GetTotal() + b.GetTotal(),
		Limit: a.GetLimit() + b.GetLimit(),
	}
}

func addBytes(a, b *pb.ByteCounters) *pb.ByteCounters {
	return &pb.ByteCounters{In: a.GetIn() + b.GetIn(), Out: a.GetOut() + b.GetOut()}
}
