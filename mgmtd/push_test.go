package mgmtd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// last is the header of the newest Apply.
func (d *fakeDataplane) last() *pb.ApplyHeader {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.applies) == 0 {
		return nil
	}
	return d.applies[len(d.applies)-1]
}

func (d *fakeDataplane) object(key string) *pb.Object {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.objects[key]
}

func (d *fakeDataplane) has(key string) bool { return d.object(key) != nil }

func (d *fakeDataplane) keys() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.objects))
}

func (d *fakeDataplane) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.applies)
}

func TestPush_full_then_deltas(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	eventually(t, "a first push", func() bool { return d.count() > 0 })
	if h := d.last(); !h.GetFull() || h.GetStoreId() != a.store.ID() || h.GetProtocol() != 1 {
		t.Errorf("first push: %v", h)
	}
	a.mustLoad(smallSite)
	if h := d.last(); h.GetFull() || h.GetBaseRevision() != 0 || h.GetRevision() != 1 {
		t.Errorf("second push: %v", h)
	}
	if !d.has("pool/web") || !d.has("virtual/127.0.10.1:8080") {
		t.Errorf("it has %v", d.keys())
	}
	a.must("pool other { member 127.0.1.3:9001 }")
	a.must("virtual 127.0.10.1:8080 use pool other")
	a.must("pool web delete")
	if h := d.last(); h.GetFull() || h.GetRevision() != 4 || h.GetBaseRevision() != 3 {
		t.Errorf("last push: %v", h)
	}
	if d.has("pool/web") || !d.has("pool/other") || d.object("virtual/127.0.10.1:8080").GetVirtual().GetPools()[0].GetPool() != "other" {
		t.Errorf("it has %v", d.keys())
	}
	if o := d.object("pool/other"); o.ObjectMeta() != nil {
		t.Errorf("what stands in a text was pushed: %v", o)
	}
}

func TestPush_aborted_is_followed_by_everything(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	d.forget()
	a.must("pool other { member 127.0.1.3:9001 }")
	if h := d.last(); !h.GetFull() {
		t.Errorf("last push: %v", h)
	}
	if !d.has("pool/web") || !d.has("pool/other") {
		t.Errorf("it has %v", d.keys())
	}
}

func TestPush_dataplane_that_forgot_gets_everything_by_itself(t *testing.T) {
	t.Parallel()
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	d.forget()
	eventually(t, "the configuration is back", func() bool { return d.has("pool/web") })
}

func TestPush_dataplane_away(t *testing.T) {
	t.Parallel()
	d := newFake(t)
	a := startAdmin(t, "", d)
	eventually(t, "an attempt", func() bool { s, _ := a.server.pushers[0].current(); return s.err != "" })
	r := a.load(smallSite)
	if r.exit != 3 || len(r.result.GetDataplanes()) != 1 || r.result.GetDataplanes()[0].GetApplied() || r.result.GetDataplanes()[0].GetError() == "" {
		t.Errorf("load: %d %v", r.exit, r.result)
	}
	if r.result.GetRevision() != 1 {
		t.Errorf("it was not stored: %v", r.result)
	}
	d.start(t)
	eventually(t, "it catches up", func() bool { return d.has("pool/web") })
	a.must("pool other { member 127.0.1.3:9001 }")
	d.stop()
	eventually(t, "its end is seen", func() bool { s, _ := a.server.pushers[0].current(); return s.err != "" })
	if r := a.command("pool third { member 127.0.1.4:9001 }"); r.exit != 3 {
		t.Errorf("command: %d %v", r.exit, r.result)
	}
	d.start(t)
	eventually(t, "it catches up again", func() bool { return d.has("pool/third") })
}

func TestPush_two_dataplanes(t *testing.T) {
	t.Parallel()
	up, away := startFake(t), newFake(t)
	a := startAdmin(t, "", up, away)
	eventually(t, "attempts", func() bool { s, _ := a.server.pushers[1].current(); return s.err != "" })
	r := a.load(smallSite)
	effects := r.result.GetDataplanes()
	if r.exit != 3 || len(effects) != 2 || !effects[0].GetApplied() || effects[1].GetApplied() || effects[1].GetDataplane() != "dp1" {
		t.Errorf("load: %d %v", r.exit, effects)
	}
	away.start(t)
	eventually(t, "both have it", func() bool { return up.has("pool/web") && away.has("pool/web") })
	a.must("pool other { member 127.0.1.3:9001 }")
	if !up.has("pool/other") || !away.has("pool/other") {
		t.Error("only one has the change")
	}
}

func TestPush_refused(t *testing.T) {
	t.Parallel()
	d := startFake(t)
	d.refuse = status.Error(codes.FailedPrecondition, "belongs to another store")
	a := startAdmin(t, "", d)
	r := a.load(smallSite)
	if r.exit != 3 || r.result.GetDataplanes()[0].GetError() != "belongs to another store" {
		t.Errorf("load: %d %v", r.exit, r.result)
	}
	list, err := a.client.ListDataplanes(t.Context(), &pb.ListDataplanesRequest{})
	if err != nil || list.GetDataplanes()[0].GetConnected() || list.GetDataplanes()[0].GetError() != "belongs to another store" {
		t.Errorf("dataplanes: %v, %v", list, err)
	}
	d.set(func() { d.refuse = nil })
	eventually(t, "it takes it", func() bool { return d.has("pool/web") })
}

func TestPush_newest_wins(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	gate := make(chan struct{})
	d.set(func() { d.gate = gate })
	const changes = 6
	done := make(chan reply, changes)
	for i := range changes {
		go func() { done <- a.command(fmt.Sprintf("pool p%d { member 127.0.1.3:9001 }", i)) }()
	}
	eventually(t, "all are stored", func() bool { return a.store.Newest().Revision == 1+changes })
	before := d.count()
	close(gate)
	for range changes {
		if r := <-done; r.exit != 0 {
			t.Errorf("exit %d %v", r.exit, r.result)
		}
	}
	if got := d.count() - before; got > 2 {
		t.Errorf("%d pushes after the first was let through", got)
	}
	if h := d.last(); h.GetRevision() != 1+changes {
		t.Errorf("last push: %v", h)
	}
}

func TestPush_not_in_effect(t *testing.T) {
	t.Parallel()
	d := startFake(t)
	d.notInEffect["virtual/127.0.10.1:8080"] = "address not available"
	a := startAdmin(t, "", d)
	r := a.load(smallSite)
	if r.exit != 3 || len(r.result.GetDataplanes()[0].GetNotInEffect()) != 1 || !r.result.GetDataplanes()[0].GetApplied() {
		t.Fatalf("load: %d %v", r.exit, r.result)
	}
	if n := r.result.GetDataplanes()[0].GetNotInEffect()[0]; n.GetKey() != "virtual/127.0.10.1:8080" || n.GetReason() != "address not available" {
		t.Errorf("not in effect: %v", n)
	}
	if r := a.command("pool other { member 127.0.1.3:9001 }"); r.exit != 0 {
		t.Errorf("a change of something else: %d %v", r.exit, r.result)
	}
	if r := a.command("virtual 127.0.10.1:8080 use pool other"); r.exit != 3 {
		t.Errorf("a change of it: %d %v", r.exit, r.result)
	}
	d.set(func() { clear(d.notInEffect) })
	eventually(t, "it is in effect", func() bool {
		list, err := a.client.ListDataplanes(t.Context(), &pb.ListDataplanesRequest{})
		return err == nil && len(list.GetDataplanes()[0].GetNotInEffect()) == 0
	})
	if r := a.command("virtual 127.0.10.1:8080 use pool other"); r.exit != 0 {
		t.Errorf("once it is in effect: %d %v", r.exit, r.result)
	}
}

func TestPush_restart_of_mgmtd(t *testing.T) {
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(smallSite)
	a.stop()
	pushes := d.count()
	b := startAdmin(t, a.path, d)
	eventually(t, "a push", func() bool { return d.count() > pushes })
	if h := d.last(); !h.GetFull() || h.GetRevision() != 1 || h.GetStoreId() != b.store.ID() {
		t.Errorf("after a restart: %v", h)
	}
}

func TestPush_in_pieces(t *testing.T) {
	t.Parallel()
	d := startFake(t)
	a := startAdmin(t, "", d)
	var text strings.Builder
	for i := range 2400 {
		fmt.Fprintf(&text, "pool pool%d {\n   fallback \"http://%s/\"\n   member 10.1.%d.%d:80\n}\n", i, strings.Repeat("x", 500), i/250, i%250)
	}
	a.mustLoad(text.String())
	d.set(func() {
		if len(d.objects) != 2400 || d.messages < 3 {
			t.Errorf("%d objects in %d messages", len(d.objects), d.messages)
		}
	})
}
