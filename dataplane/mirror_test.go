package dataplane

import (
	"fmt"
	"log/slog"
	"testing"

	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
)

// mirrorSite starts an engine that mirrors its records.
func mirrorSite(t *testing.T, m persist.Mirror) *site {
	t.Helper()
	addresses := &AddressMap{}
	if err := addresses.Add(mapped); err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(EngineOptions{Addresses: addresses, Mirror: m, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, engine: e, objects: map[string]*pb.Object{}}
	t.Cleanup(s.close)
	return s
}

// Two engines in one process: clients of the first find their members at the second, and nobody else's records go there.
func TestMirror(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	standby := newSite(t, "", mapped)
	follower := standby.engine.Follower()
	active := mirrorSite(t, persist.Local{Follower: follower})
	mirrored, alone := simplePool("p", 60, a.addr(), b.addr()), simplePool("q", 60, a.addr(), b.addr())
	mirrored.GetPool().MirrorPersist = new(true)
	elsewhere := simplePool("r", 60, a.addr())
	elsewhere.GetPool().MirrorPersist = new(true)
	objects := []*pb.Object{mirrored, alone, virtualServer(web, "p"), virtualServer(shop, "q")}
	standby.apply(objects...)
	active.apply(append(objects, elsewhere, virtualServer(other, "r"))...)

	who := map[string]string{}
	for n := range 4 {
		client := fmt.Sprintf("127.0.7.%d", n+1)
		who[client] = active.whoFrom(client)
	}
	for _, address := range []string{shop, other} {
		_, c := active.visit(address)
		c.Close()
	}
	count := func(s *site) int {
		records, err := s.engine.Records(nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range records {
			n++
		}
		return n
	}
	eventually(t, "the records are there", func() bool { return count(standby) == 4 })
	if n := count(active); n != 6 {
		t.Errorf("%d records at the first", n)
	}
	eventually(t, "all is told", func() bool {
		c := active.statistics("").GetUnit().GetCounters()
		return c[MirrorBehind] == 0 && c["mirror_published"] >= 5 && c["mirror_failed"] == 0
	})
	if _, passed := follower.Counts(); passed == 0 {
		t.Error("a record of an unknown pool was not passed over")
	}
	for n := 4; n > 0; n-- { // in another order than the rotation's
		client := fmt.Sprintf("127.0.7.%d", n)
		if got := standby.whoFrom(client); got != who[client] {
			t.Errorf("%s gets %s at the second, %s at the first", client, got, who[client])
		}
	}
	active.whoFrom("127.0.7.9")
	eventually(t, "one more is there", func() bool { return count(standby) == 5 })
	if n, err := active.engine.ClearRecords(&pb.RecordFilter{Client: new("127.0.7.9")}); n != 1 || err != nil {
		t.Errorf("%d cleared, %v", n, err)
	}
	eventually(t, "it is gone", func() bool { return count(standby) == 4 })
}
