package mgmtd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "bigpipe/proto/bigpipe/v1"
)

// askTimeout is how long a dataplane may take to answer a question; for a list, to send its next piece.
const askTimeout = 10 * time.Second

// answer is what one dataplane said.
type answer[T any] struct {
	dataplane string
	value     T
	err       error
}

// ask puts one question to all dataplanes at once. The answers come in the order of the dataplanes.
func ask[T any](ctx context.Context, pushers []*pusher, call func(context.Context, pb.DataplaneClient) (T, error)) []answer[T] {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]answer[T], len(pushers))
	var wg sync.WaitGroup
	for i, p := range pushers {
		wg.Go(func() {
			value, err := call(ctx, p.client)
			answers[i] = answer[T]{dataplane: p.name, value: value, err: err}
		})
	}
	wg.Wait()
	return answers
}

// silence collects why dataplanes did not answer; nil when all did.
func silence[T any](answers []answer[T]) []error {
	var errs []error
	for _, a := range answers {
		if a.err != nil {
			errs = append(errs, unanswered(a.dataplane, a.err))
		}
	}
	return errs
}

// unanswered says that a dataplane did not answer.
func unanswered(dataplane string, err error) error {
	return fmt.Errorf("dataplane %s: %s", dataplane, reason(err))
}

// collect reads a list from one dataplane after the other and hands each piece on; nothing is held. It returns the
// dataplanes that did not answer, and the error of fn, which ends it.
func collect[T any](ctx context.Context, pushers []*pusher,
	call func(context.Context, pb.DataplaneClient) (grpc.ServerStreamingClient[T], error),
	fn func(dataplane string, piece *T) error,
) (silent []error, err error) {
	for _, p := range pushers {
		err := collectOne(ctx, p, call, fn)
		var local *localError
		if errors.As(err, &local) {
			return silent, local.err
		}
		if err != nil {
			silent = append(silent, unanswered(p.name, err))
		}
	}
	return silent, nil
}

// localError is an error of the receiver, not of the dataplane.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }

func collectOne[T any](ctx context.Context, p *pusher,
	call func(context.Context, pb.DataplaneClient) (grpc.ServerStreamingClient[T], error),
	fn func(dataplane string, piece *T) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(askTimeout, cancel)
	defer idle.Stop()
	stream, err := call(ctx, p.client)
	if err != nil {
		return err
	}
	for {
		piece, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		idle.Stop() // how long the receiver takes is not the dataplane's fault
		if err := fn(p.name, piece); err != nil {
			return &localError{err}
		}
		idle.Reset(askTimeout)
	}
}

// records reads the records of all dataplanes that a filter chooses.
func (s *Server) records(ctx context.Context, f *pb.RecordFilter, fn func([]*pb.Record) error) (silent []error, err error) {
	return collect(ctx, s.pushers,
		func(ctx context.Context, c pb.DataplaneClient) (grpc.ServerStreamingClient[pb.ListRecordsReply], error) {
			return c.ListRecords(ctx, &pb.ListRecordsRequest{Filter: f})
		},
		func(dataplane string, piece *pb.ListRecordsReply) error {
			for _, r := range piece.GetRecords() {
				r.Dataplane = dataplane
			}
			return fn(piece.GetRecords())
		})
}

// connections reads the connections of all dataplanes that a request chooses.
func (s *Server) connections(ctx context.Context, r *pb.ListConnectionsRequest, fn func([]*pb.Connection) error) (silent []error, err error) {
	if r == nil {
		r = &pb.ListConnectionsRequest{}
	}
	return collect(ctx, s.pushers,
		func(ctx context.Context, c pb.DataplaneClient) (grpc.ServerStreamingClient[pb.ListConnectionsReply], error) {
			return c.ListConnections(ctx, r)
		},
		func(dataplane string, piece *pb.ListConnectionsReply) error {
			for _, c := range piece.GetConnections() {
				c.Dataplane = dataplane
			}
			return fn(piece.GetConnections())
		})
}

// clear deletes records on all dataplanes and counts them.
func (s *Server) clear(ctx context.Context, f *pb.RecordFilter) (cleared uint64, silent []error) {
	answers := ask(ctx, s.pushers, func(ctx context.Context, c pb.DataplaneClient) (*pb.ClearRecordsReply, error) {
		return c.ClearRecords(ctx, &pb.ClearRecordsRequest{Filter: f})
	})
	for _, a := range answers {
		cleared += a.value.GetCleared()
	}
	return cleared, silence(answers)
}

// explain asks all dataplanes which member a connection would get.
func (s *Server) explain(ctx context.Context, r *pb.ExplainRequest) (replies []*pb.ExplainReply, silent []error) {
	answers := ask(ctx, s.pushers, func(ctx context.Context, c pb.DataplaneClient) (*pb.ExplainReply, error) {
		return c.Explain(ctx, r)
	})
	for _, a := range answers {
		if a.err == nil {
			a.value.Dataplane = a.dataplane
			replies = append(replies, a.value)
		}
	}
	return replies, silence(answers)
}

// forecast asks all dataplanes who is bound to a node.
func (s *Server) forecast(ctx context.Context, r *pb.ForecastRequest) (members []*pb.ForecastMember, silent []error) {
	answers := ask(ctx, s.pushers, func(ctx context.Context, c pb.DataplaneClient) (*pb.ForecastReply, error) {
		return c.Forecast(ctx, r)
	})
	for _, a := range answers {
		for _, m := range a.value.GetMembers() {
			m.Dataplane = a.dataplane
			members = append(members, m)
		}
	}
	return members, silence(answers)
}

// resetStatistics sets counters to zero on all dataplanes.
func (s *Server) resetStatistics(ctx context.Context, r *pb.ResetStatisticsRequest) (silent []error) {
	return silence(ask(ctx, s.pushers, func(ctx context.Context, c pb.DataplaneClient) (*pb.ResetStatisticsReply, error) {
		return c.ResetStatistics(ctx, r)
	}))
}

// statistics asks all dataplanes and puts the answers side by side, each with its dataplane's name; only the unit's
// counters are summed.
func (s *Server) statistics(ctx context.Context, r *pb.StatisticsRequest) (*pb.StatisticsReply, []error) {
	answers := ask(ctx, s.pushers, func(ctx context.Context, c pb.DataplaneClient) (*pb.StatisticsReply, error) {
		return c.Statistics(ctx, r)
	})
	all := &pb.StatisticsReply{}
	for _, a := range answers {
		if a.err == nil {
			mergeStatistics(all, a.value, a.dataplane)
		}
	}
	return all, silence(answers)
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
	if b == nil {
		return a
	}
	return &pb.PersistOutcomes{
		None: a.None + b.None, Malformed: a.Malformed + b.Malformed, UnknownMember: a.UnknownMember + b.UnknownMember,
		Down: a.Down + b.Down, DisabledHonoured: a.DisabledHonoured + b.DisabledHonoured, Expired: a.Expired + b.Expired,
		OtherPool: a.OtherPool + b.OtherPool, TableFull: a.TableFull + b.TableFull, Valid: a.Valid + b.Valid,
		Bound: a.Bound + b.Bound, Moved: a.Moved + b.Moved, Evicted: a.Evicted + b.Evicted,
	}
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
