package mgmtd

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// TestWatchStates: the states of all dataplanes are passed on; one that stops telling them is asked again.
func TestWatchStates(t *testing.T) {
	a, b := startFake(t), startFake(t)
	a.set(func() {
		a.states = []*pb.NodeState{{Node: "10.1.1.1:80", State: pb.MemberState_MEMBER_STATE_DOWN, Reason: "x"}}
	})
	b.set(func() { b.states = []*pb.NodeState{{Node: "10.1.1.1:80", State: pb.MemberState_MEMBER_STATE_UP}} })
	s := startAdmin(t, "", a, b)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stream, err := s.client.WatchStates(ctx, &pb.WatchStatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for got["dp0 down x"] < 2 || got["dp1 up "] < 2 {
		state, err := stream.Recv()
		if err != nil {
			t.Fatalf("%v, after %v", err, got)
		}
		got[state.GetDataplane()+" "+pb.EnumWord(state.GetState())+" "+state.GetReason()]++
	}
	if len(got) != 2 {
		t.Errorf("got %v", got)
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("it ends with %v", err)
	}
}
