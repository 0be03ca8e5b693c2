package persist

const (
	tickBits   = 30 // a tick is 2^30 ns, a little over a second
	wheelSlots = 1024
)

// wheel finds the records of a shard that have run out. A record lies in the bucket of its deadline, or in the farthest
// one, and stays there when its deadline moves away: it is looked at when the bucket comes up, and put back if it lives.
type wheel struct {
	buckets *[wheelSlots]ref
	tick    uint64 // the next to be swept; buckets hold tick to tick+wheelSlots-1
}

func tickOf(instant uint64) uint64 { return instant >> tickBits }

// add enters a slot that comes up at the deadline, at the earliest with tick first.
func (w *wheel) add(b *slab, r ref, deadline, first uint64) {
	if w.buckets == nil {
		w.buckets = new([wheelSlots]ref)
	}
	tick := min(max(tickOf(deadline), first), w.tick+wheelSlots-1)
	n := tick % wheelSlots
	s := b.at(r)
	s.bucket = uint16(n)
	s.flags |= flagWheel
	if first := w.buckets[n]; first != 0 {
		b.rest(first).prev = r
	}
	l := b.rest(r)
	l.prev, l.next = 0, w.buckets[n]
	w.buckets[n] = r
}

// remove takes a slot out, if it is in.
func (w *wheel) remove(b *slab, r ref) {
	s := b.at(r)
	if s.flags&flagWheel == 0 {
		return
	}
	s.flags &^= flagWheel
	l := b.rest(r)
	if l.prev != 0 {
		b.rest(l.prev).next = l.next
	} else {
		w.buckets[s.bucket] = l.next
	}
	if l.next != 0 {
		b.rest(l.next).prev = l.prev
	}
}

// catchUp skips ticks so that no more than one round is left to sweep. Every bucket still comes up once.
func (w *wheel) catchUp(now uint64) {
	if last := tickOf(now); last > w.tick+wheelSlots-1 {
		w.tick = last - (wheelSlots - 1)
	}
}
