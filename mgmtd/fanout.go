package mgmtd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "bigpipe/proto/bigpipe/v1"
)

// errSilent is why a question is given up.
var errSilent = errors.New("no answer in time")

// answer is what one dataplane said.
type answer[T any] struct {
	dataplane string
	value     T
	err       error
}

// ask puts one question to all dataplanes at once. The answers come in the order of the dataplanes.
func ask[T any](ctx context.Context, s *Server, call func(context.Context, pb.DataplaneClient) (T, error)) []answer[T] {
	ctx, cancel := context.WithTimeoutCause(ctx, s.silence, errSilent)
	defer cancel()
	answers := make([]answer[T], len(s.pushers))
	var wg sync.WaitGroup
	for i, p := range s.pushers {
		wg.Go(func() {
			value, err := call(ctx, p.client)
			answers[i] = answer[T]{dataplane: p.name, value: value, err: s.unanswered(ctx, p, err)}
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
			errs = append(errs, a.err)
		}
	}
	return errs
}

// silentError says that a dataplane did not answer.
type silentError struct{ dataplane, reason string }

func (e *silentError) Error() string { return "dataplane " + e.dataplane + ": " + e.reason }

// unanswered turns the error of a call with a context of ours into a *silentError; nil stays nil.
func (s *Server) unanswered(ctx context.Context, p *pusher, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errSilent):
		return &silentError{p.name, noAnswer(s.silence)}
	}
	return &silentError{p.name, p.reason(err, s.silence)}
}

// collect reads a list from each dataplane and hands the pieces on, those of one dataplane after those of the other; no list
// is held. All are asked at once, so that several that are silent take no longer than one. It returns the dataplanes that
// did not answer, and the error of fn, which ends it.
func collect[T any](ctx context.Context, s *Server,
	call func(context.Context, pb.DataplaneClient) (grpc.ServerStreamingClient[T], error),
	fn func(dataplane string, piece *T) error,
) (silent []error, err error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lists := make([]*listing[T], len(s.pushers))
	for i, p := range s.pushers {
		lists[i] = newListing[T](ctx, s.silence)
		wg.Go(func() { lists[i].begin(p.client, call) })
	}
	for i, p := range s.pushers {
		l := lists[i]
		for piece, err := l.next(); err != nil || piece != nil; piece, err = l.next() {
			if err != nil {
				silent = append(silent, s.unanswered(l.ctx, p, err))
				break
			}
			if err := fn(p.name, piece); err != nil {
				return silent, err
			}
		}
	}
	return silent, nil
}

// listing is a list that a dataplane sends in pieces. How long the receiver takes is not the dataplane's fault: only the
// time in which it is waited for counts.
type listing[T any] struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration

	// begun is closed when the first piece, or why there is none, is in the fields below.
	begun  chan struct{}
	stream grpc.ServerStreamingClient[T]
	first  *T
	err    error
}

func newListing[T any](ctx context.Context, limit time.Duration) *listing[T] {
	l := &listing[T]{limit: limit, begun: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l
}

// begin asks for the list and waits for its first piece.
func (l *listing[T]) begin(c pb.DataplaneClient, call func(context.Context, pb.DataplaneClient) (grpc.ServerStreamingClient[T], error)) {
	defer close(l.begun)
	idle := time.AfterFunc(l.limit, func() { l.cancel(errSilent) })
	defer idle.Stop()
	if l.stream, l.err = call(l.ctx, c); l.err == nil {
		l.first, l.err = l.stream.Recv()
	}
}

// next returns the next piece; nil after the last.
func (l *listing[T]) next() (*T, error) {
	<-l.begun
	piece, err := l.first, l.err
	l.first = nil
	if piece == nil && err == nil {
		idle := time.AfterFunc(l.limit, func() { l.cancel(errSilent) })
		piece, err = l.stream.Recv()
		idle.Stop()
	}
	if err != nil {
		l.err = err
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	return piece, nil
}

// records reads the records of all dataplanes that a filter chooses.
func (s *Server) records(ctx context.Context, f *pb.RecordFilter, fn func([]*pb.Record) error) (silent []error, err error) {
	return collect(ctx, s,
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
	return collect(ctx, s,
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
	answers := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ClearRecordsReply, error) {
		return c.ClearRecords(ctx, &pb.ClearRecordsRequest{Filter: f})
	})
	for _, a := range answers {
		cleared += a.value.GetCleared()
	}
	return cleared, silence(answers)
}

// clearSticky drops the sticky records of pools on all dataplanes.
func (s *Server) clearSticky(ctx context.Context, pools []string) (silent []error) {
	mode := pb.PersistMode_PERSIST_MODE_STICKY
	return silence(ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (struct{}, error) {
		for _, pool := range pools {
			if _, err := c.ClearRecords(ctx, &pb.ClearRecordsRequest{Filter: &pb.RecordFilter{Pool: &pool, Mode: &mode}}); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	}))
}

// explain asks all dataplanes which member a connection would get.
func (s *Server) explain(ctx context.Context, r *pb.ExplainRequest) (replies []*pb.ExplainReply, silent []error) {
	answers := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ExplainReply, error) {
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
	answers := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ForecastReply, error) {
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
	return silence(ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ResetStatisticsReply, error) {
		return c.ResetStatistics(ctx, r)
	}))
}

// statistics asks all dataplanes and puts the answers side by side, each with its dataplane's name; only the unit's
// counters are summed.
func (s *Server) statistics(ctx context.Context, r *pb.StatisticsRequest) (*pb.StatisticsReply, []error) {
	answers := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.StatisticsReply, error) {
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
