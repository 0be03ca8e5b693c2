package mgmtd

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// watchAgain is the time before a dataplane is asked for its states again that stopped telling them.
const watchAgain = time.Second

// WatchStates implements the Admin service.
func (s *Server) WatchStates(_ *pb.WatchStatesRequest, stream grpc.ServerStreamingServer[pb.NodeState]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	var sending sync.Mutex
	send := func(state *pb.NodeState) {
		sending.Lock()
		defer sending.Unlock()
		if err := stream.Send(state); err != nil {
			cancel(err)
		}
	}
	var watching sync.WaitGroup
	for _, p := range s.pushers {
		watching.Go(func() {
			for ctx.Err() == nil {
				watchStates(ctx, p, send)
				select {
				case <-time.After(watchAgain):
				case <-ctx.Done():
				}
			}
		})
	}
	watching.Wait()
	if err := context.Cause(ctx); stream.Context().Err() == nil {
		return err
	}
	return status.FromContextError(stream.Context().Err()).Err()
}

// watchStates hands on what a dataplane says until it stops.
func watchStates(ctx context.Context, p *pusher, send func(*pb.NodeState)) {
	states, err := p.client.WatchStates(ctx, &pb.WatchStatesRequest{})
	if err != nil {
		return
	}
	for {
		state, err := states.Recv()
		if err != nil {
			return
		}
		state.Dataplane = p.name
		send(state)
	}
}
