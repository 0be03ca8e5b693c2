package persist

import "unsafe"

// ref numbers a slot of a shard; 0 is none.
type ref uint32

// slot is what a look-up reads of a record, and rest what else there is: no pointers, so the garbage collector never looks
// inside. They lie apart so that the slots of as many records as possible share the processor's caches. There is nothing else to
// win: of the 350 ns that a look-up among 100,000 records took, 250 were spent waiting for memory, at 110 ns a time; from the
// third-level cache a line comes within 20.
type slot struct {
	key    [narrowKey]byte // first bytes; what a wide key has more is in the chunk's tails
	used   uint64          // instant of the last accepted use
	space  uint32          // Table.spaces
	class  uint32          // Table.classes
	node   uint32          // Table.nodes
	bucket uint16          // of the wheel
	length uint8
	flags  uint8
}

// rest is what only connections and lists need of a record.
type rest struct {
	created      uint64 // instant
	open         uint32 // connections that hold the record
	gen          uint32 // changes with every binding; 0 is a free slot
	older, newer ref    // recency list of the pool, idle records only; older links free slots too
	prev, next   ref    // bucket of the wheel
}

const (
	flagAccepted = 1 << iota // the member has accepted a connection since the record was bound
	flagListed               // in the recency list
	flagWheel                // in the wheel
	flagKept                 // the binding was listed by AppendChanges; uses alone have changed since
	flagOpen                 // connections hold it
)

const (
	chunkBits  = 8
	slotBits   = 24
	chunkSlots = 1 << chunkBits
	slotSize   = int(unsafe.Sizeof(slot{}) + unsafe.Sizeof(rest{})) // 40 and 32
	maxRef     = 1<<slotBits - 2                                    // what an index entry can name
)

// page is the memory of a chunk's slots, without waste in the allocator's size classes.
type page struct {
	slots [chunkSlots]slot
	rests [chunkSlots]rest
}

// chunk is a slab of slots, all narrow or all wide.
type chunk struct {
	tails      *[chunkSlots][wideKey - narrowKey]byte // nil in a narrow chunk
	free       ref                                    // first free slot
	live       uint16
	prev, next uint32 // chunks with free slots, as number + 1
}

// slab hands out the slots of one shard and gives empty chunks back.
type slab struct {
	pages  []*page // by number of chunk; nil: given back
	chunks []chunk
	spare  []uint32  // numbers of chunks that were given back
	free   [2]uint32 // first chunk with a free slot, as number + 1: narrow, wide
	traces []trace   // by number of chunk; they outlive the chunks
	// tellings are traces for a mirror, where the table has one.
	tellings []telling
	mirrored bool
	bytes    int
}

func (b *slab) at(r ref) *slot {
	r--
	return &b.pages[r>>chunkBits].slots[r&(chunkSlots-1)]
}

func (b *slab) tail(r ref) *[wideKey - narrowKey]byte {
	r--
	return &b.chunks[r>>chunkBits].tails[r&(chunkSlots-1)]
}

func (b *slab) rest(r ref) *rest {
	r--
	return &b.pages[r>>chunkBits].rests[r&(chunkSlots-1)]
}

// take returns a zeroed slot, or 0 when the shard has no number left.
func (b *slab) take(wide bool) ref {
	w := width(wide)
	if b.free[w] == 0 && !b.grow(wide) {
		return 0
	}
	c := &b.chunks[b.free[w]-1]
	r := c.free
	s := b.rest(r)
	c.free = s.older
	*b.at(r), *s = slot{}, rest{}
	c.live++
	if c.free == 0 {
		b.unlink(w, b.free[w])
	}
	return r
}

// give takes a slot back. A chunk that becomes empty is released unless it is the last with room.
func (b *slab) give(r ref) {
	n := uint32(r-1)>>chunkBits + 1
	c := &b.chunks[n-1]
	w := width(c.tails != nil)
	if c.free == 0 {
		b.link(w, n)
	}
	*b.at(r), *b.rest(r) = slot{}, rest{older: c.free}
	b.trace(r)
	c.free = r
	c.live--
	if c.live == 0 && (c.prev != 0 || c.next != 0) {
		b.unlink(w, n)
		b.release(n)
	}
}

func (b *slab) grow(wide bool) bool {
	var n uint32
	if k := len(b.spare); k > 0 {
		n = b.spare[k-1]
		b.spare = b.spare[:k-1]
	} else {
		if (len(b.chunks)+1)<<chunkBits > maxRef {
			return false
		}
		n = uint32(len(b.chunks))
		b.chunks = append(b.chunks, chunk{})
		b.pages = append(b.pages, nil)
		if len(b.traces) < len(b.chunks) {
			b.traces = append(b.traces, trace{})
		}
		if b.mirrored && len(b.tellings) < len(b.chunks) {
			b.tellings = append(b.tellings, telling{})
		}
	}
	c := &b.chunks[n]
	p := new(page)
	b.pages[n] = p
	if wide {
		c.tails = new([chunkSlots][wideKey - narrowKey]byte)
	}
	b.bytes += c.size()
	first := ref(n<<chunkBits) + 1
	for i := range p.rests[:chunkSlots-1] {
		p.rests[i].older = first + ref(i) + 1
	}
	c.free = first
	b.link(width(wide), n+1)
	return true
}

func (b *slab) release(n uint32) {
	b.bytes -= b.chunks[n-1].size()
	b.chunks[n-1] = chunk{}
	b.pages[n-1] = nil
	b.spare = append(b.spare, n-1)
}

func (c *chunk) size() int {
	size := chunkSlots * slotSize
	if c.tails != nil {
		size += chunkSlots * (wideKey - narrowKey)
	}
	return size
}

func (b *slab) link(w int, n uint32) {
	c := &b.chunks[n-1]
	c.prev, c.next = 0, b.free[w]
	if c.next != 0 {
		b.chunks[c.next-1].prev = n
	}
	b.free[w] = n
}

func (b *slab) unlink(w int, n uint32) {
	c := &b.chunks[n-1]
	if c.prev != 0 {
		b.chunks[c.prev-1].next = c.next
	} else {
		b.free[w] = c.next
	}
	if c.next != 0 {
		b.chunks[c.next-1].prev = c.prev
	}
	c.prev, c.next = 0, 0
}

func width(wide bool) int {
	if wide {
		return 1
	}
	return 0
}

// has says whether the slot's chunk exists.
func (b *slab) has(r ref) bool {
	n := int(r-1) >> chunkBits
	return n < len(b.pages) && b.pages[n] != nil
}
