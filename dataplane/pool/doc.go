// Package pool is the run-time side of pools: their members, what is counted about them, and the choice of a member for
// a connection or a request.
//
// A [Pool] is immutable and belongs to one snapshot of the configuration. What must outlive the snapshot (counters, the
// position of the rotation, whether a warning was given) is shared with the pool of the same name in the next one; the
// persistence records are in one table for all.
//
// A choice is a [Decision], a value that its owner keeps and uses again:
//
//	err := p.Choose(&d, &in)                  // persistence first, else balance
//	for err == nil && connect(d.Member.Dial) fails {
//		err = d.Refused()                     // the next member; the record moves with it
//	}
//	d.Accepted()                              // only now is the record refreshed
//	edited, buffer = d.EditResponse(&response.Head, d.SetCookie(), buffer[:0])
//	d.Count(in, out, requests)
//	d.Release()                               // always, also after an error
package pool
