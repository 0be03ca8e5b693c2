package mgmtd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestGetConfig_keys_only(t *testing.T) {
	a := startAdmin(t, "")
	a.mustLoad("pool web { member 127.0.1.1:80 member 127.0.1.2:80 }\npool other { member [::1]:80 member 127.0.1.1:81 }\nnode 127.0.1.3 disable\n")
	for name, test := range map[string]struct {
		prefixes []string
		want     string
	}{
		"all":      {nil, "node/127.0.1.1 node/127.0.1.1:80 node/127.0.1.1:81 node/127.0.1.2 node/127.0.1.2:80 node/127.0.1.3 node/::1 node/[::1]:80 pool/other pool/web"},
		"pools":    {[]string{"pool/"}, "pool/other pool/web"},
		"one pool": {[]string{"pool/w"}, "pool/web"},
		"nodes":    {[]string{"node/127.0.1.2", "node/127.0.1.3"}, "node/127.0.1.2 node/127.0.1.2:80 node/127.0.1.3"},
		"none":     {[]string{"rule/"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(a.keys(test.prefixes...), " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestGetConfig_many_keys(t *testing.T) {
	a := startAdmin(t, "")
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&text, "pool p%d { member 127.0.1.1:80 }\n", i)
	}
	a.mustLoad(text.String())
	if got := a.keys("pool/"); len(got) != 10000 || !slices.IsSorted(got) {
		t.Errorf("%d keys", len(got))
	}
}

// keys reads keys, and checks that no objects come with them.
func (a *admin) keys(prefixes ...string) []string {
	a.t.Helper()
	stream, err := a.client.GetConfig(context.Background(), &pb.GetConfigRequest{Prefixes: prefixes, KeysOnly: true})
	if err != nil {
		a.t.Fatal(err)
	}
	var keys []string
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return keys
		}
		if err != nil {
			a.t.Fatal(err)
		}
		if len(reply.GetObjects()) > 0 {
			a.t.Errorf("objects come with the keys: %v", reply)
		}
		keys = append(keys, reply.GetKeys()...)
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
