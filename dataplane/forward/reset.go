package forward

import "bigpipe/dataplane/pool"

// Reset ends the connections to the members that of is true for, at both sides and at once: a member that is down answers
// nobody, and who waits for it learns so at once. Flows of UDP end too, so that the next datagram finds another member, and spare
// connections. It returns how many connections and flows it ends. One that is being made meanwhile is not among them: when it is made,
// who made it finds the member [pool.Member.Over], and it is taken as refused.
func (t *Table) Reset(of func(*pool.Member) bool) int {
	n := 0
	var killed []*flow
	for i := range t.shards {
		killed = killed[:0]
		t.each(i, func(f *flow) {
			if m := f.member.Load(); m != nil && of(m) {
				f.killed.Store(true)
				killed = append(killed, f)
			}
		})
		n += len(killed)
		now := t.clock.now()
		for i, f := range killed {
			f.finish(now)
			killed[i] = nil
			if i%finishBatch == finishBatch-1 {
				t.polls.giveWay()
			}
		}
	}
	t.spares.sift(func(_ *spareKey, sp *spare) bool { return !of(sp.target) })
	return n + t.udp.reset(of)
}

func (f *udpFlows) reset(of func(*pool.Member) bool) int {
	n := 0
	f.each(func(w *udpWorker) {
		for l := range w.all {
			for x := l.flows.newest; x != nil; {
				older := x.older
				if m := x.decision.Member; m != nil && of(m) {
					x.end()
					n++
				}
				x = older
			}
		}
	})
	return n
}
