package persist

import (
	"encoding/binary"
	"errors"
	"iter"
	"math/bits"
	"time"
)

// Records are kept in a file as entries, each about one slot of the table. The last entry of a slot is what is in it:
//
//	'r' · slot (4) · length (1) · a record in its binary form · while Open is not zero, it is in use
//	'u' · slot (4) · time since the last use in nanoseconds (8) · whether it is in use (1): the record there was used
//	'd' · slot (4): there is none
//
// Numbers are big-endian. Times count back from the moment at which the entry was made, which the file knows.
const (
	entryRecord = 'r'
	entryUse    = 'u'
	entryNone   = 'd'
)

// errEntry means that entries are not what AppendAll and AppendChanges write.
var errEntry = errors.New("persistence records: an entry makes no sense")

// trace remembers of a chunk's slots what must be written.
type trace struct {
	changed slotSet // changed since AppendChanges was there
	known   slotSet // AppendAll or AppendChanges has listed a record
}

type slotSet [chunkSlots / 64]uint64

func (s *slotSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *slotSet) remove(i int)   { s[i/64] &^= 1 << (i % 64) }
func (s *slotSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s *slotSet) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(64*n + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// trace notes that a slot was changed.
func (b *slab) trace(r ref) {
	b.mark(r)
	r--
	b.traces[r>>chunkBits].changed.add(int(r & (chunkSlots - 1)))
}

// Cursor is how far a walk through a table has come. The zero Cursor is at the beginning.
type Cursor struct{ shard, chunk int }

// AppendAll appends entries of some hundred records, and moves the cursor behind them. It returns false after the last ones.
// Records that no member has accepted yet are left out. What AppendChanges returns from the first call on belongs behind
// what AppendAll has returned until then.
func (t *Table) AppendAll(b []byte, at *Cursor) (entries []byte, more bool) {
	return t.append(b, at, func(s *shard, chunk int, b []byte) []byte {
		if !s.slab.has(refOf(chunk, 0)) {
			return b
		}
		p := s.slab.pages[chunk]
		for i := range p.slots {
			if p.slots[i].flags&flagAccepted != 0 {
				s.slab.traces[chunk].known.add(i)
				b = s.appendRecord(b, refOf(chunk, i))
			}
		}
		return b
	})
}

// AppendChanges appends entries of some hundred slots that were changed since it listed them last, and moves the cursor
// behind them. It returns false after the last ones.
func (t *Table) AppendChanges(b []byte, at *Cursor) (entries []byte, more bool) {
	return t.append(b, at, func(s *shard, chunk int, b []byte) []byte {
		tr := &s.slab.traces[chunk]
		if tr.changed == (slotSet{}) {
			return b
		}
		for i := range tr.changed.all() {
			b = s.appendChange(b, tr, refOf(chunk, i))
		}
		tr.changed = slotSet{}
		return b
	})
}

func refOf(chunk, i int) ref { return ref(chunk<<chunkBits+i) + 1 }

// append calls visit, under the shard's lock, with one chunk after the other until one has added something, or the shard ends.
func (t *Table) append(b []byte, at *Cursor, visit func(s *shard, chunk int, b []byte) []byte) ([]byte, bool) {
	if at.shard >= shardCount {
		return b, false
	}
	s, before := &t.shards[at.shard], len(b)
	s.mu.Lock()
	for ; at.chunk < len(s.slab.traces) && len(b) == before; at.chunk++ {
		b = visit(s, at.chunk, b)
	}
	ended := at.chunk == len(s.slab.traces)
	s.mu.Unlock()
	if ended {
		*at = Cursor{shard: at.shard + 1}
	}
	return b, at.shard < shardCount
}

func (s *shard) appendChange(b []byte, tr *trace, r ref) []byte {
	i := int(r-1) & (chunkSlots - 1)
	var sl *slot
	if s.slab.has(r) && s.slab.at(r).flags&flagAccepted != 0 {
		sl = s.slab.at(r)
	}
	switch {
	case sl == nil && !tr.known.has(i):
		return b
	case sl == nil:
		tr.known.remove(i)
		return s.appendHead(b, entryNone, r)
	case sl.flags&flagKept == 0:
		tr.known.add(i)
		sl.flags |= flagKept
		return s.appendRecord(b, r)
	}
	b = s.appendHead(b, entryUse, r)
	b = binary.BigEndian.AppendUint64(b, uint64(elapsed(sl.used, s.table.now())))
	return append(b, sl.flags&flagOpen/flagOpen)
}

func (s *shard) appendHead(b []byte, kind byte, r ref) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), uint32(s.number)<<slotBits|uint32(r-1))
}

func (s *shard) appendRecord(b []byte, r ref) []byte {
	b = append(s.appendHead(b, entryRecord, r), 0)
	length := len(b)
	var rec Record
	s.record(&rec, r, s.table.now())
	b, _ = rec.AppendBinary(b)
	b[length-1] = byte(len(b) - length)
	return b
}

// Replay fills a table that nobody uses yet with the records that entries tell of, in the order in which they were made. No
// limit may be set.
type Replay struct {
	table  *Table
	now    uint64
	places map[uint32]*[chunkSlots]place // by the first number of a chunk
}

// place is where a record of the other table is in this one.
type place struct {
	slot  ref // 0: nowhere
	gen   uint32
	shard uint8
	open  bool
}

// NewReplay begins. Times count back from now.
func NewReplay(t *Table) *Replay {
	return &Replay{table: t, now: t.now(), places: map[uint32]*[chunkSlots]place{}}
}

// Apply follows entries that were made so long ago. After an error the table holds nothing of use.
func (p *Replay) Apply(entries []byte, ago time.Duration) error {
	then := before(p.now, ago)
	in := binaryReader{rest: entries}
	for len(in.rest) > 0 && !in.short {
		kind, number := in.byte(), uint32(in.number(4))
		at, err := p.place(number)
		if err != nil {
			return err
		}
		switch kind {
		case entryRecord:
			var rec Record
			if err := rec.UnmarshalBinary(in.take(int(in.byte()))); err != nil {
				return err
			}
			p.drop(at)
			p.put(at, &rec, then)
		case entryUse:
			idle, open := time.Duration(in.number(8)), in.byte()
			if idle < 0 || open > 1 {
				return errEntry
			}
			if s := p.held(at); s != nil {
				sl := s.slab.at(at.slot)
				sl.used, at.open = max(sl.used, before(then, idle)), open == 1
			}
		case entryNone:
			p.drop(at)
		default:
			return errEntry
		}
	}
	if in.short {
		return errEntry
	}
	return nil
}

func (p *Replay) place(number uint32) (*place, error) {
	if number>>slotBits >= shardCount || number&(1<<slotBits-1) >= maxRef {
		return nil, errEntry
	}
	first, i := number&^(chunkSlots-1), number&(chunkSlots-1)
	if p.places[first] == nil {
		p.places[first] = new([chunkSlots]place)
	}
	return &p.places[first][i], nil
}

// held returns the shard of the place's record; nil if there is none or the key has another one now.
func (p *Replay) held(at *place) *shard {
	if at.slot == 0 {
		return nil
	}
	s := &p.table.shards[at.shard]
	if !s.slab.has(at.slot) || s.slab.rest(at.slot).gen != at.gen {
		return nil
	}
	return s
}

func (p *Replay) drop(at *place) {
	if s := p.held(at); s != nil {
		s.drop(at.slot, func(*poolState) {})
	}
	*at = place{}
}

// put takes a record in; one of the same key goes.
func (p *Replay) put(at *place, rec *Record, then uint64) {
	hash := rec.Key.hash(p.table.seed)
	s := p.table.shardOf(hash)
	if r := s.find(&rec.Key, hash); r != 0 {
		s.drop(r, func(*poolState) {})
	}
	r := s.admit(rec, hash, rec.class(), p.now, before(then, max(rec.Age, rec.Idle)), before(then, rec.Idle))
	if r == 0 {
		return
	}
	s.recency.insertLast(&s.slab, s.classOf(s.slab.at(r)).pool, r)
	*at = place{slot: r, gen: s.slab.rest(r).gen, shard: uint8(s.number), open: rec.Open > 0}
}

// End tells for how long the process that made the entries has not lived any more: until then its records in use were used.
// Records that have run out are removed. It returns how many are there.
func (p *Replay) End(ago time.Duration) int {
	last := before(p.now, ago)
	for _, chunk := range p.places {
		for i := range chunk {
			if s := p.held(&chunk[i]); s != nil && chunk[i].open {
				sl := s.slab.at(chunk[i].slot)
				sl.used = max(sl.used, last)
			}
		}
	}
	p.places = nil
	for i := range p.table.shards {
		p.table.shards[i].settle(p.now)
	}
	return p.table.Len()
}

// settle puts in order what a Replay has entered.
func (s *shard) settle(now uint64) {
	for chunk, p := range s.slab.pages {
		for i := 0; p != nil && i < chunkSlots; i++ {
			switch sl, r := &p.slots[i], refOf(chunk, i); {
			case p.rests[i].gen == 0:
			case s.expired(r, now):
				s.expire(r)
			default:
				s.retime(r, sl.class, now)
			}
		}
	}
	s.recency.sort(&s.slab)
	s.table.marks.set(s.number, 0)
}
