package forward

import (
	"fmt"
	"testing"

	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

func sipMessage(call string) string {
	return fmt.Sprintf("OPTIONS sip:s SIP/2.0\r\nVia: SIP/2.0/UDP c\r\nCall-ID: %s\r\n\r\n", call)
}

// Calls persist, not clients: those of one client are spread, and all messages of a call reach one member, whoever sends them.
func TestUDPCalls(t *testing.T) {
	p := udpPool(threeUDP(t)...)
	p.PersistMode = pb.PersistMode_PERSIST_MODE_SIP.Enum()
	compiled := compilePool(t, p, nil)
	b := newUDPLab(t, "127.0.0.1:0", Settings{Pools: []*pool.Pool{compiled}})
	c, other := b.dial("127.0.0.21:0"), b.dial("127.0.0.22:0")
	at := map[string]string{}
	for i, want := range []string{"s1", "s2", "s3", "s1", "s2", "s3"} {
		call := fmt.Sprintf("call-%d@127.0.0.21", i)
		if at[call] = c.ask(sipMessage(call)); at[call] != want {
			t.Errorf("%s is at %s, want %s", call, at[call], want)
		}
	}
	for call, member := range at {
		for _, from := range []*udpClient{other, c} {
			if got := from.ask(sipMessage(call)); got != member {
				t.Errorf("%s went on at %s, was at %s", call, got, member)
			}
		}
	}
	// What names no call is balanced, and makes no record.
	before := compiled.Outcomes().GetBound()
	keep := c.ask("\r\n\r\n")
	for range 3 {
		if got := c.ask("\r\n\r\n"); got != keep {
			t.Errorf("datagrams without a call went to %s and %s", keep, got)
		}
	}
	if n := compiled.Outcomes().GetBound(); before != 6 || n != before {
		t.Errorf("%d records made, then %d", before, n)
	}
}
