package dataplane

import (
	"context"
	"errors"
	"io"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bigpipe/dataplane/monitor"
	pb "bigpipe/proto/bigpipe/v1"
)

// replySlice is how many records or connections one message of a stream holds.
const replySlice = 500

// service makes an engine available to mgmtd.
type service struct {
	pb.UnimplementedDataplaneServer
	engine *Engine
}

// NewService returns the Dataplane service of an engine.
func NewService(e *Engine) pb.DataplaneServer { return &service{engine: e} }

// largeUpdate is from how many objects on what compiling them needed is given back to the system at once: a third of all memory
// after 20,000, for 0.1 s of one core.
const largeUpdate = 2000

// Apply implements the service. The pieces of an update are put together first.
func (s *service) Apply(stream grpc.ClientStreamingServer[pb.ApplyRequest, pb.ApplyReply]) error {
	var u Update
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if piece.GetHeader() != nil {
			if u.Header != nil {
				return status.Error(codes.InvalidArgument, "malformed: two headers")
			}
			u.Header = piece.GetHeader()
		}
		if u.Header == nil {
			return status.Error(codes.InvalidArgument, "malformed: changes before the header")
		}
		u.Changed = append(u.Changed, piece.GetChanged()...)
		u.Deleted = append(u.Deleted, piece.GetDeleted()...)
	}
	missing, err := s.engine.Apply(&u)
	if err != nil {
		return status.Error(applyCode(err), err.Error())
	}
	if changes := len(u.Changed) + len(u.Deleted); changes >= largeUpdate {
		u.Changed, u.Deleted = nil, nil
		debug.FreeOSMemory()
	}
	return stream.SendAndClose(&pb.ApplyReply{
		Revision: u.Header.GetRevision(), Sequence: u.Header.GetSequence(), NotInEffect: missing,
	})
}

func applyCode(err error) codes.Code {
	switch {
	case errors.Is(err, ErrProtocol), errors.Is(err, ErrForeignStore):
		return codes.FailedPrecondition
	case errors.Is(err, ErrBase):
		return codes.Aborted
	case errors.Is(err, ErrMalformed):
		return codes.InvalidArgument
	case errors.Is(err, ErrHandedOver):
		return codes.Unavailable // the next attempt meets the other process
	}
	return codes.Internal
}

// Status implements the service.
func (s *service) Status(context.Context, *pb.StatusRequest) (*pb.StatusReply, error) {
	return s.engine.Status(), nil
}

// ListRecords implements the service.
func (s *service) ListRecords(req *pb.ListRecordsRequest, stream grpc.ServerStreamingServer[pb.ListRecordsReply]) error {
	records, err := s.engine.Records(req.GetFilter())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	reply := &pb.ListRecordsReply{}
	for r := range records {
		if reply.Records = append(reply.Records, r); len(reply.Records) == replySlice {
			if err := stream.Send(reply); err != nil {
				return err
			}
			reply = &pb.ListRecordsReply{}
		}
	}
	if len(reply.Records) == 0 {
		return nil
	}
	return stream.Send(reply)
}

// ClearRecords implements the service.
func (s *service) ClearRecords(_ context.Context, req *pb.ClearRecordsRequest) (*pb.ClearRecordsReply, error) {
	n, err := s.engine.ClearRecords(req.GetFilter())
	if errors.Is(err, ErrHandedOver) {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &pb.ClearRecordsReply{Cleared: n}, nil
}

// Explain implements the service.
func (s *service) Explain(_ context.Context, req *pb.ExplainRequest) (*pb.ExplainReply, error) {
	reply, err := s.engine.Explain(req)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, status.Error(codes.NotFound, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// Forecast implements the service.
func (s *service) Forecast(_ context.Context, req *pb.ForecastRequest) (*pb.ForecastReply, error) {
	reply, err := s.engine.Forecast(req.GetNode())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// ListConnections implements the service.
func (s *service) ListConnections(req *pb.ListConnectionsRequest, stream grpc.ServerStreamingServer[pb.ListConnectionsReply]) error {
	connections, err := s.engine.Connections(req)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	reply := &pb.ListConnectionsReply{}
	for c := range connections {
		if reply.Connections = append(reply.Connections, c); len(reply.Connections) == replySlice {
			if err := stream.Send(reply); err != nil {
				return err
			}
			reply = &pb.ListConnectionsReply{}
		}
	}
	if len(reply.Connections) == 0 {
		return nil
	}
	return stream.Send(reply)
}

// Statistics implements the service.
func (s *service) Statistics(_ context.Context, req *pb.StatisticsRequest) (*pb.StatisticsReply, error) {
	reply, err := s.engine.Statistics(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// ResetStatistics implements the service.
func (s *service) ResetStatistics(_ context.Context, req *pb.ResetStatisticsRequest) (*pb.ResetStatisticsReply, error) {
	if err := s.engine.ResetStatistics(req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &pb.ResetStatisticsReply{}, nil
}

// WatchStates implements the service.
func (s *service) WatchStates(_ *pb.WatchStatesRequest, stream grpc.ServerStreamingServer[pb.NodeState]) error {
	monitors := s.engine.health.monitors
	all, number := monitors.States()
	for {
		for i := range all {
			if err := stream.Send(stateMessage(&all[i], true)); err != nil {
				return err
			}
		}
		list, missed, more := monitors.After(number)
		if missed {
			all, number = monitors.States()
			continue
		}
		all = nil
		for i := range list {
			if err := stream.Send(stateMessage(&list[i], false)); err != nil {
				return err
			}
			number = list[i].Number
		}
		select {
		case <-more:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.engine.stop:
			return nil
		}
	}
}

// stateMessage is a transition as the API says it; where the watching begins there is no state before.
func stateMessage(t *monitor.Transition, begins bool) *pb.NodeState {
	m := &pb.NodeState{
		Node: t.Name(), State: t.To.Message(), Monitor: t.Monitor, Reason: t.Reason, ChangedAtMs: t.Time.UnixMilli(),
	}
	if !begins {
		m.Was = t.From.Message()
	}
	return m
}
