package dataplane

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// What is known of the health of members goes over too: who is down is not tried before its first check in the next process, be it by
// a monitor, by a health checker or by traffic, and who is up stays so.
func TestHandOverHealth(t *testing.T) {
	dir := t.TempDir()
	down, up, sick, dead := newPage(t, "down"), newPage(t, "up"), newPage(t, "sick"), newMember(t, "dead", false)
	alive := newMember(t, "alive", false)
	dead.close()
	httpPage := object(&pb.Monitor{Name: "page", Use: "http", Send: proto.String("GET /health"), Interval: proto.Uint32(1), Timeout: proto.Uint32(600)})
	sun := object(&pb.Monitor{Name: "sun", Use: "health_checker", Url: proto.String("/health"), Interval: proto.Uint32(1)})
	passive := plainPool("q", dead.addr(), alive.addr())
	passive.GetPool().PassiveHealth = proto.Bool(true)
	down.status.Store(500)
	sick.status.Store(501)
	first := startProcess(t, dir)
	want(t, reasons(first.apply(httpPage, sun, monitorUse(down.addr(), "page"), monitorUse(up.addr(), "page"), monitorUse(sick.addr(), "sun"),
		plainPool("p", down.addr(), up.addr(), sick.addr()), virtualServer(web, "p"), passive, virtualServer(other, "q"))), "")
	first.awaitState("p", down.addr(), "down")
	first.awaitState("p", up.addr(), "up")
	first.engine.health.known.Mark(netip.MustParseAddrPort(sick.addr()))
	first.awaitState("p", sick.addr(), "down")
	eventually(t, "traffic marks one down", func() bool {
		want(t, first.who(other), "alive")
		return first.state("q", dead.addr()) == "down"
	})
	for _, p := range []*page{down, up, sick} {
		p.silent.Store(true) // no check ends any more
	}
	second := first.succeed(dir)
	for range 2 {
		want(t, second.state("p", down.addr()), "down")
		want(t, second.state("p", up.addr()), "up")
		want(t, second.state("p", sick.addr()), "down")
		want(t, second.state("q", dead.addr()), "down")
	}
	for _, p := range []*page{down, sick} {
		p.status.Store(200)
		p.silent.Store(false)
		second.awaitState("p", p.addr(), "up")
	}
	first.cancel()
}
