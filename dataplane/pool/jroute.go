package pool

import "bigpipe/dataplane/jroute"

// Links says what links of the response get; nil: nothing, since the client brings the route back by itself or the pool needs none.
func (d *Decision) Links() *jroute.Links { return nil }
