package mgmtd

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestGetConfig_keys_only(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	stream, err := a.client.GetConfig(context.Background(), &pb.GetConfigRequest{Prefixes: []string{"pool/"}, KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"pool/web"}; !cmp.Equal(reply.GetKeys(), want) || len(reply.GetObjects()) > 0 {
		t.Errorf("got %v, want the keys %v and no objects", reply, want)
	}
}

func TestListRevisions_pending(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad(smallSite)
	pending := func() *pb.PendingChange {
		t.Helper()
		reply, err := a.client.ListRevisions(context.Background(), &pb.ListRevisionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetPending()
	}
	if p := pending(); p != nil {
		t.Errorf("nothing waits, got %v", p)
	}
	h := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, ConfirmWithinSeconds: proto.Uint32(3600)}
	if r := a.execute(h, "pool only { member 127.0.1.3:9001 }"); r.exit != 0 {
		t.Fatalf("load: %d\n%s", r.exit, r.errors())
	}
	p := pending()
	remaining := time.Duration(p.GetRemainingMilliseconds()) * time.Millisecond
	if p.GetRevision() != 2 || p.GetBackTo() != 1 || remaining <= 0 || remaining > time.Hour {
		t.Errorf("got %v", p)
	}
	a.must("confirm")
	if p := pending(); p != nil {
		t.Errorf("after confirm, got %v", p)
	}
}
