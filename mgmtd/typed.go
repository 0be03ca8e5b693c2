package mgmtd

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// GetConfig implements the Admin service.
func (s *Server) GetConfig(r *pb.GetConfigRequest, stream grpc.ServerStreamingServer[pb.GetConfigReply]) error {
	newest := s.store.Newest()
	number, tree := newest.Revision, newest.Tree
	if r.GetRevision() != 0 {
		var err error
		number = r.GetRevision()
		if tree, err = s.store.At(number); err != nil {
			return storeStatus(err)
		}
	}
	if r.GetKeysOnly() {
		return sendKeys(stream, number, keys(tree, r.GetPrefixes()))
	}
	reply, size := &pb.GetConfigReply{Revision: number}, 0
	var err error
	eachWith(tree, r.GetPrefixes(), func(o *pb.Object) bool {
		reply.Objects = append(reply.Objects, o)
		if size += proto.Size(o); size >= pieceBytes {
			err = stream.Send(reply)
			reply, size = &pb.GetConfigReply{Revision: number}, 0
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return stream.Send(reply)
}

// keys are the keys with one of the prefixes, all without any, in order. The members of pools are nodes, and so are their
// addresses.
func keys(v config.View, prefixes []string) []string {
	wanted := func(key string) bool {
		return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	}
	var list []string
	eachWith(v, prefixes, func(o *pb.Object) bool {
		list = append(list, o.Key())
		return true
	})
	const node = "node/"
	if len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(p, node) || strings.HasPrefix(node, p) }) {
		v.Range("pool", func(o *pb.Object) bool {
			for _, m := range o.GetPool().GetMembers() {
				names := []string{m.GetAddress()}
				if place, err := netip.ParseAddrPort(m.GetAddress()); err == nil {
					names = append(names, place.Addr().String())
				}
				for _, name := range names {
					if wanted(node + name) {
						list = append(list, node+name)
					}
				}
			}
			return true
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sendKeys sends keys in pieces.
func sendKeys(stream grpc.ServerStreamingServer[pb.GetConfigReply], revision uint64, keys []string) error {
	const piece = 4096 // keys are short
	for len(keys) > piece {
		if err := stream.Send(&pb.GetConfigReply{Revision: revision, Keys: keys[:piece]}); err != nil {
			return err
		}
		keys = keys[piece:]
	}
	return stream.Send(&pb.GetConfigReply{Revision: revision, Keys: keys})
}

// eachWith calls fn for the objects whose key has one of the prefixes; all without any.
func eachWith(v config.View, prefixes []string, fn func(*pb.Object) bool) {
	v.Range("", func(o *pb.Object) bool {
		key := o.Key()
		for _, p := range prefixes {
			if strings.HasPrefix(key, p) {
				return fn(o)
			}
		}
		return len(prefixes) > 0 || fn(o)
	})
}

// storeStatus is a store's error as an RPC error.
func storeStatus(err error) error {
	if errors.Is(err, store.ErrNoRevision) {
		return status.Error(codes.NotFound, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

// ListRevisions implements the Admin service.
func (s *Server) ListRevisions(context.Context, *pb.ListRevisionsRequest) (*pb.ListRevisionsReply, error) {
	list, err := s.store.History()
	if err != nil {
		return nil, storeStatus(err)
	}
	reply := &pb.ListRevisionsReply{Revisions: list}
	if p := s.store.Newest().Pending; p != nil {
		remaining := max(0, p.Deadline.Sub(s.now()))
		reply.Pending = &pb.PendingChange{Revision: p.Revision, BackTo: p.BackTo, RemainingMilliseconds: uint64(remaining.Milliseconds())}
	}
	return reply, nil
}

// WatchRevisions implements the Admin service. A slow client misses revisions between, never the last one.
func (s *Server) WatchRevisions(_ *pb.WatchRevisionsRequest, stream grpc.ServerStreamingServer[pb.Revision]) error {
	sent := false
	var last uint64
	for {
		newest, changed := s.store.Watch()
		if !sent || newest.Revision != last {
			r, err := s.revision(newest.Revision)
			if err != nil {
				return err
			}
			if err := stream.Send(r); err != nil {
				return err
			}
			sent, last = true, newest.Revision
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// revision returns what is known of a revision; its number at least.
func (s *Server) revision(number uint64) (*pb.Revision, error) {
	list, err := s.store.History()
	if err != nil {
		return nil, storeStatus(err)
	}
	for _, r := range list {
		if r.GetNumber() == number {
			return r, nil
		}
	}
	return &pb.Revision{Number: number}, nil
}

// ListDataplanes implements the Admin service.
func (s *Server) ListDataplanes(context.Context, *pb.ListDataplanesRequest) (*pb.ListDataplanesReply, error) {
	reply := &pb.ListDataplanesReply{}
	for _, p := range s.pushers {
		state, _ := p.current()
		reply.Dataplanes = append(reply.Dataplanes, &pb.DataplaneStatus{
			Dataplane: p.name, Connected: state.known && state.err == "", Error: state.err,
			Revision: state.applied.revision, NotInEffect: state.notInEffect,
		})
	}
	return reply, nil
}

// ListRecords implements the Admin service.
func (s *Server) ListRecords(r *pb.ListRecordsRequest, stream grpc.ServerStreamingServer[pb.ListRecordsReply]) error {
	failed, err := s.records(stream.Context(), r.GetFilter(), func(records []*pb.Record) error {
		return stream.Send(&pb.ListRecordsReply{Records: records})
	})
	if err != nil {
		return err
	}
	return failed.status() // its end tells that the list is not whole
}

// ListConnections implements the Admin service.
func (s *Server) ListConnections(r *pb.ListConnectionsRequest, stream grpc.ServerStreamingServer[pb.ListConnectionsReply]) error {
	failed, err := s.connections(stream.Context(), r, func(list []*pb.Connection) error {
		return stream.Send(&pb.ListConnectionsReply{Connections: list})
	})
	if err != nil {
		return err
	}
	return failed.status() // its end tells that the list is not whole
}

// ClearRecords implements the Admin service.
func (s *Server) ClearRecords(ctx context.Context, r *pb.ClearRecordsRequest) (*pb.ClearRecordsReply, error) {
	cleared, failed := s.clear(ctx, r.GetFilter())
	err := failed.status()
	if err != nil && !failed.total() { // an error has no reply beside it
		st := status.Convert(err)
		err = status.Errorf(st.Code(), "%d cleared on the others\n%s", cleared, st.Message())
	}
	return &pb.ClearRecordsReply{Cleared: cleared}, err
}

// Explain implements the Admin service.
func (s *Server) Explain(ctx context.Context, r *pb.ExplainRequest) (*pb.AdminExplainReply, error) {
	replies, failed := s.explain(ctx, r)
	return &pb.AdminExplainReply{Replies: replies, Unanswered: failed.unanswered()}, failed.queryStatus()
}

// Forecast implements the Admin service.
func (s *Server) Forecast(ctx context.Context, r *pb.ForecastRequest) (*pb.ForecastReply, error) {
	members, failed := s.forecast(ctx, r)
	return &pb.ForecastReply{Members: members, Unanswered: failed.unanswered()}, failed.queryStatus()
}

// Statistics implements the Admin service.
func (s *Server) Statistics(ctx context.Context, r *pb.StatisticsRequest) (*pb.StatisticsReply, error) {
	stats, failed := s.statistics(ctx, r)
	stats.Unanswered = failed.unanswered()
	return stats, failed.queryStatus()
}

// ResetStatistics implements the Admin service.
func (s *Server) ResetStatistics(ctx context.Context, r *pb.ResetStatisticsRequest) (*pb.ResetStatisticsReply, error) {
	return &pb.ResetStatisticsReply{}, s.resetStatistics(ctx, r).status()
}
