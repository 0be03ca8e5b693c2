package mgmtd

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// errSilent is why a question is given up.
var errSilent = errors.New("no answer in time")

// answer is what one dataplane said.
type answer[T any] struct {
	dataplane string
	value     T
	err       error
}

// ask puts one question to all dataplanes at once. The answers come in the order of the dataplanes; failed are those that
// gave none.
func ask[T any](ctx context.Context, s *Server, call func(context.Context, pb.DataplaneClient) (T, error)) (answers []answer[T], failed failures) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.askTimeout, errSilent)
	defer cancel()
	all := make([]answer[T], len(s.pushers))
	var wg sync.WaitGroup
	for i, p := range s.pushers {
		wg.Go(func() {
			value, err := call(ctx, p.client)
			if err != nil && errors.Is(context.Cause(ctx), errSilent) {
				err = errSilent
			}
			all[i] = answer[T]{dataplane: p.name, value: value, err: err}
		})
	}
	wg.Wait()
	failed.asked = len(all)
	for i, a := range all {
		if a.err != nil {
			failed.list = append(failed.list, s.failure(s.pushers[i], a.err))
			continue
		}
		answers = append(answers, a)
	}
	return answers, failed
}

// collect reads a list from each dataplane and hands the pieces on, those of one dataplane after those of the other; no list
// is held. All are asked at once, so that several that are silent take no longer than one. It returns the dataplanes whose
// list is missing or ended early, and the error of fn, which ends it.
func collect[T any](ctx context.Context, s *Server,
	call func(context.Context, pb.DataplaneClient) (grpc.ServerStreamingClient[T], error),
	fn func(dataplane string, piece *T) error,
) (failed failures, err error) {
	failed.asked = len(s.pushers)
	var wg sync.WaitGroup
	defer wg.Wait()
	lists := make([]*listing[T], len(s.pushers))
	for i, p := range s.pushers {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		lists[i] = &listing[T]{limit: s.askTimeout, giveUp: cancel, begun: make(chan struct{})}
		wg.Go(func() { lists[i].begin(ctx, p.client, call) })
	}
	for i, p := range s.pushers {
		for piece, err := lists[i].next(); err != nil || piece != nil; piece, err = lists[i].next() {
			if err != nil {
				failed.list = append(failed.list, s.failure(p, err))
				break
			}
			if err := fn(p.name, piece); err != nil {
				return failed, err
			}
		}
	}
	return failed, nil
}

// listing is a list that a dataplane sends in pieces. How long the receiver takes is not the dataplane's fault: only the
// time in which it is waited for counts.
type listing[T any] struct {
	limit time.Duration
	// giveUp ends the call; late is set when that was because the dataplane was silent.
	giveUp context.CancelFunc
	late   atomic.Bool

	// begun is closed when the first piece, or why there is none, is in the fields below.
	begun  chan struct{}
	stream grpc.ServerStreamingClient[T]
	first  *T
	err    error
}

// begin asks for the list and waits for its first piece. giveUp ends ctx.
func (l *listing[T]) begin(ctx context.Context, c pb.DataplaneClient, call func(context.Context, pb.DataplaneClient) (grpc.ServerStreamingClient[T], error)) {
	defer close(l.begun)
	defer l.watch().Stop()
	if l.stream, l.err = call(ctx, c); l.err == nil {
		l.first, l.err = l.stream.Recv()
	}
}

// watch gives the list up when the timer that it returns is not stopped in time.
func (l *listing[T]) watch() *time.Timer {
	return time.AfterFunc(l.limit, func() {
		l.late.Store(true)
		l.giveUp()
	})
}

// next returns the next piece; nil after the last.
func (l *listing[T]) next() (*T, error) {
	<-l.begun
	piece, err := l.first, l.err
	l.first = nil
	if piece == nil && err == nil {
		timer := l.watch()
		piece, err = l.stream.Recv()
		timer.Stop()
	}
	switch {
	case err == nil:
		return piece, nil
	case errors.Is(err, io.EOF):
		l.err = err
		return nil, nil
	case l.late.Load():
		err = errSilent
	}
	l.err = err
	return nil, err
}

// records reads the records of all dataplanes that a filter chooses.
func (s *Server) records(ctx context.Context, f *pb.RecordFilter, fn func([]*pb.Record) error) (failed failures, err error) {
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
func (s *Server) connections(ctx context.Context, r *pb.ListConnectionsRequest, fn func([]*pb.Connection) error) (failed failures, err error) {
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
func (s *Server) clear(ctx context.Context, f *pb.RecordFilter) (cleared uint64, failed failures) {
	answers, failed := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ClearRecordsReply, error) {
		return c.ClearRecords(ctx, &pb.ClearRecordsRequest{Filter: f})
	})
	for _, a := range answers {
		cleared += a.value.GetCleared()
	}
	return cleared, failed
}

// clearSticky drops the sticky records of pools on all dataplanes.
func (s *Server) clearSticky(ctx context.Context, pools []string) failures {
	mode := pb.PersistMode_PERSIST_MODE_STICKY
	_, failed := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (struct{}, error) {
		for _, pool := range pools {
			if _, err := c.ClearRecords(ctx, &pb.ClearRecordsRequest{Filter: &pb.RecordFilter{Pool: &pool, Mode: &mode}}); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return failed
}

// explain asks all dataplanes which member a connection would get.
func (s *Server) explain(ctx context.Context, r *pb.ExplainRequest) (replies []*pb.ExplainReply, failed failures) {
	answers, failed := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ExplainReply, error) {
		return c.Explain(ctx, r)
	})
	for _, a := range answers {
		a.value.Dataplane = a.dataplane
		replies = append(replies, a.value)
	}
	return replies, failed
}

// forecast asks all dataplanes who is bound to a node.
func (s *Server) forecast(ctx context.Context, r *pb.ForecastRequest) (members []*pb.ForecastMember, failed failures) {
	answers, failed := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ForecastReply, error) {
		return c.Forecast(ctx, r)
	})
	for _, a := range answers {
		for _, m := range a.value.GetMembers() {
			m.Dataplane = a.dataplane
			if m.GetClients() == 0 && m.EmptyInSeconds == nil && countsClients(m) { // nobody is bound: it is empty already
				m.EmptyInSeconds = new(uint64)
			}
			members = append(members, m)
		}
	}
	return members, failed
}

// countsClients reports whether the records at a member tell its clients.
func countsClients(m *pb.ForecastMember) bool {
	switch mode := m.GetPersistMode(); mode {
	case pb.PersistMode_PERSIST_MODE_UNSPECIFIED, pb.PersistMode_PERSIST_MODE_NONE:
		return true
	default:
		return config.KeepsRecords(mode)
	}
}

// resetStatistics sets counters to zero on all dataplanes.
func (s *Server) resetStatistics(ctx context.Context, r *pb.ResetStatisticsRequest) failures {
	_, failed := ask(ctx, s, func(ctx context.Context, c pb.DataplaneClient) (*pb.ResetStatisticsReply, error) {
		return c.ResetStatistics(ctx, r)
	})
	return failed
}
