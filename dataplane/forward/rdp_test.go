package forward

import (
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// connectionRequest is how a client of terminal services begins, with a cookie.
func connectionRequest(cookie string) string {
	tail := "Cookie: " + cookie + "\r\n\x01\x00\x08\x00\x03\x00\x00\x00"
	return string([]byte{3, 0, 0, byte(11 + len(tail)), byte(6 + len(tail)), 0xe0, 0, 0, 0, 0, 0}) + tail
}

// Users of terminal services come back to their member, and go where a session directory sends them; every byte is passed on.
func TestTerminalServices(t *testing.T) {
	origins := three(t, func(o *origin, p *peer) {
		head := make([]byte, 4)
		if _, err := p.r.Read(head[:1]); err != nil {
			return
		}
		p.send(o.name + "\n")
		p.rest()
	})
	c := webPool(origins...)
	c.PersistMode, c.CookieMode = pb.PersistMode_PERSIST_MODE_MSRDP.Enum(), nil
	compiled := compilePool(t, c, nil)
	b := newLab(t, Settings{Pools: []*pool.Pool{compiled}})
	visit := func(pieces ...string) string {
		t.Helper()
		p := b.dial()
		defer p.Close()
		for i, piece := range pieces {
			if i > 0 {
				time.Sleep(2 * time.Millisecond)
			}
			p.send(piece)
		}
		return strings.TrimSpace(p.bytes(3))
	}
	alice, bob := connectionRequest("mstshash=alice"), connectionRequest("mstshash=bob")
	first, second := visit(alice), visit(bob)
	if first == second {
		t.Errorf("two users are both at %s", first)
	}
	for range 3 {
		if got := visit(alice); got != first {
			t.Errorf("alice is at %s, was at %s", got, first)
		}
		if got := visit(bob[:3], bob[3:20], bob[20:]); got != second {
			t.Errorf("bob is at %s, was at %s", got, second)
		}
	}
	for range 2 {
		if got := visit(connectionRequest("msts=" + value(origins[2]))); got != "s3" {
			t.Errorf("who was sent to s3 is at %s", got)
		}
	}
	if got := visit("no request at all"); got == "" {
		t.Error("other protocols are not served")
	}
	if n := compiled.Outcomes().GetBound(); n != 2 {
		t.Errorf("%d records made", n)
	}
}
