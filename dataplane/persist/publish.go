package persist

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// publishInterval is how often changes are handed on.
	publishInterval = 200 * time.Millisecond
	// remindInterval is how often records in use are looked at: the other side counts from when it heard of them last.
	remindInterval = time.Second
	// publishPause bounds the wait after a mirror did not take a batch.
	publishPause = time.Second
)

// Publisher hands the records of a table to a Mirror: first all, then what changes. However long the mirror takes, what is kept
// for it is a bit for each place: changes of one record are merged.
type Publisher struct {
	table  *Table
	mirror Mirror
	wanted func(PoolID) bool

	epoch  uint64
	first  bool
	whole  bool // all were told
	at     Cursor
	remind uint32

	published, failed atomic.Uint64
}

// NewPublisher returns a publisher of the records that were bound through the pools that are wanted; nil is all. wanted is called
// under a lock. A table has one publisher at most, from before it is used.
func NewPublisher(t *Table, m Mirror, wanted func(PoolID) bool) *Publisher {
	if wanted == nil {
		wanted = func(PoolID) bool { return true }
	}
	return &Publisher{table: t, mirror: m, wanted: wanted}
}

// Run publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	ticker, remind := time.NewTicker(publishInterval), time.NewTicker(remindInterval)
	defer ticker.Stop()
	defer remind.Stop()
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if err := p.Flush(ctx); err != nil {
			pause = min(max(2*pause, publishInterval), publishPause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-remind.C:
			p.Remind(remindInterval)
		}
	}
}

// Flush hands on what has changed until now. After an error the same is handed on again.
func (p *Publisher) Flush(ctx context.Context) error {
	if p.epoch == 0 {
		p.begin()
	}
	for b := p.collect(); b != nil; b = p.collect() {
		err := p.mirror.Publish(ctx, b)
		switch {
		case errors.Is(err, ErrBehind):
			p.failed.Add(1)
			p.begin()
			return err
		case err != nil: // what it says is of a moment: it is said anew
			p.failed.Add(1)
			p.table.untell(b.Entries)
			p.at = Cursor{}
			return err
		}
		p.published.Add(uint64(len(b.Entries)))
		p.first, p.whole = false, p.whole || b.Whole
	}
	return nil
}

// begin tells all records anew.
func (p *Publisher) begin() {
	p.epoch, p.first, p.whole, p.at = rand.Uint64()|1, true, false, Cursor{}
	p.table.retell()
}

// collect makes the next batch; nil: the walk is at its end and there is nothing to say.
func (p *Publisher) collect() *Batch {
	b := &Batch{Epoch: p.epoch, First: p.first}
	more := true
	for more && len(b.Entries) <= mirrorMost-chunkSlots {
		b.Entries, more = p.table.told(b.Entries, &p.at, p.wanted)
	}
	if !more {
		p.at = Cursor{}
	}
	b.Whole = !more && !p.whole
	if len(b.Entries) == 0 && !b.Whole {
		return nil
	}
	return b
}

// Remind lets records in use be told again where the other side's timer has come half-way; it is to be called every so often.
func (p *Publisher) Remind(every time.Duration) {
	p.remind++
	p.table.remind(p.remind, every)
}

// Published counts the entries that were taken, Failed how often a batch was not.
func (p *Publisher) Published() uint64 { return p.published.Load() }

// Failed counts how often a batch was not taken.
func (p *Publisher) Failed() uint64 { return p.failed.Load() }

// Behind is how many places are to be told of.
func (p *Publisher) Behind() int { return p.table.untold() }

// telling remembers of a chunk's slots what a mirror must hear.
type telling struct {
	fresh slotSet // changed since it was told
	known slotSet // the mirror has a record
}

// mark notes that a slot was changed, for the mirror.
func (b *slab) mark(r ref) {
	r--
	if chunk := int(r >> chunkBits); chunk < len(b.tellings) {
		b.tellings[chunk].fresh.add(int(r & (chunkSlots - 1)))
	}
}

// retell lets all records be told, as if the mirror had none.
func (t *Table) retell() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.slab.mirrored, s.slab.tellings = true, make([]telling, len(s.slab.traces))
		for chunk, p := range s.slab.pages {
			for j := 0; p != nil && j < chunkSlots; j++ {
				if p.rests[j].gen != 0 {
					s.slab.tellings[chunk].fresh.add(j)
				}
			}
		}
		s.mu.Unlock()
	}
}

// told appends what is to be said of the changed places of some chunks, and moves the cursor behind them. It returns false after
// the last ones.
func (t *Table) told(entries []Entry, at *Cursor, wanted func(PoolID) bool) ([]Entry, bool) {
	if at.shard >= shardCount {
		return entries, false
	}
	s := &t.shards[at.shard]
	s.mu.Lock()
	for before := len(entries); at.chunk < len(s.slab.tellings) && len(entries) == before; at.chunk++ {
		if tell := &s.slab.tellings[at.chunk]; tell.fresh != (slotSet{}) {
			entries = s.tell(entries, tell, at.chunk, wanted)
		}
	}
	if at.chunk >= len(s.slab.tellings) {
		*at = Cursor{shard: at.shard + 1}
	}
	s.mu.Unlock()
	return entries, at.shard < shardCount
}

func (s *shard) tell(entries []Entry, tell *telling, chunk int, wanted func(PoolID) bool) []Entry {
	now := s.table.now()
	for i := range tell.fresh.all() {
		r := refOf(chunk, i)
		e := Entry{Place: uint32(s.number)<<slotBits | uint32(r-1)}
		if s.slab.has(r) && s.slab.at(r).flags&flagAccepted != 0 && !s.expired(r, now) && wanted(s.table.pool(s.classOf(s.slab.at(r)).pool).id) {
			s.record(&e.Record, r, now)
			tell.known.add(i)
		} else if !tell.known.has(i) {
			continue
		} else {
			tell.known.remove(i)
		}
		entries = append(entries, e)
	}
	tell.fresh = slotSet{}
	return entries
}

// untell takes back that entries were told: the mirror may know them or not.
func (t *Table) untell(entries []Entry) {
	for _, e := range entries {
		s := &t.shards[e.Place>>slotBits]
		r := ref(e.Place&(1<<slotBits-1)) + 1
		s.mu.Lock()
		tell := &s.slab.tellings[(r-1)>>chunkBits]
		tell.fresh.add(int((r - 1) & (chunkSlots - 1)))
		tell.known.add(int((r - 1) & (chunkSlots - 1)))
		s.mu.Unlock()
	}
}

// remind marks records in use, each twice in its timeout.
func (t *Table) remind(n uint32, every time.Duration) {
	t.walk(func(s *shard, refs []ref) {
		for _, r := range refs {
			sl := s.slab.at(r)
			c := s.classOf(sl)
			if sl.flags&flagOpen == 0 || c.timeout == 0 || c.timer == Fixed {
				continue
			}
			if period := uint32(min(max(1, c.timeout/2/every), 1<<31)); (n+uint32(r))%period == 0 {
				s.slab.mark(r)
			}
		}
	}, func() bool { return true })
}

// untold counts the places that are to be told of.
func (t *Table) untold() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for chunk := range s.slab.tellings {
			for _, word := range s.slab.tellings[chunk].fresh {
				n += bits.OnesCount64(word)
			}
		}
		s.mu.Unlock()
	}
	return n
}
