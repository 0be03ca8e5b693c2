package pool

import (
	"net/netip"

	"bigpipe/dataplane/jroute"
)

// Links says what links of the response get; nil: nothing, since the client brings the route back by itself or the pool needs none.
func (d *Decision) Links() *jroute.Links { return nil }

// Compressed counts a page whose links could not get the route, since it is compressed (rule J-23).
func (d *Decision) Compressed() {
	if d.Member != nil {
		d.pool.shared.outcomes.add(d.shard, OutcomeCompressed)
		d.pool.tell(OutcomeCompressed, 1, netip.Addr{})
	}
}
