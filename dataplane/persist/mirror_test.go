package persist

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// link is a Mirror that can be broken.
type link struct {
	Local
	broken atomic.Bool
	sent   int // entries
	clock  func(bytes int)
}

var errBroken = errors.New("the link is broken")

func (l *link) Publish(ctx context.Context, b *Batch) error {
	if l.broken.Load() {
		return errBroken
	}
	l.sent += len(b.Entries)
	if l.clock != nil {
		text, _ := b.AppendBinary(nil)
		l.clock(len(text))
	}
	return l.Local.Publish(ctx, b)
}

// mirrored is a table whose records another one follows.
type mirrored struct {
	t             failer
	clock         *fakeClock
	active, stand *Table
	link          *link
	publisher     *Publisher
	timeout       time.Duration
	timer         Timer
	held          map[int]*Handle
}

func newMirrored(t testing.TB) *mirrored {
	active, clock := newTable(t, 0)
	stand := New(Options{Clock: clock.now})
	t.Cleanup(func() { check(t, stand) })
	return join(t, active, stand, clock)
}

func join(t failer, active, stand *Table, clock *fakeClock) *mirrored {
	m := &mirrored{t: t, clock: clock, active: active, stand: stand, timeout: time.Minute, held: map[int]*Handle{}}
	m.link = &link{Local: Local{NewFollower(stand, func(r *Record, id PoolID) (Policy, bool) {
		return Policy{Pool: id, Timeout: m.timeout, Timer: m.timer}, r.Key.Kind() == Simple && id == m.policy().Pool
	})}}
	m.publisher = NewPublisher(active, m.link, nil)
	return m
}

func (m *mirrored) policy() Policy {
	return Policy{Pool: PoolIDOf("p"), Timeout: m.timeout, Timer: m.timer}
}

func clientKey(n int) Key {
	addr := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	return AddrKey(Simple, Scope{Addr: netip.IPv6Loopback(), Port: 80, Pool: PoolIDOf("p")}, Mask{}, addr)
}

// use makes a connection of a client and ends it.
func (m *mirrored) use(n, node int) {
	b := m.active.Bind(clientKey(n), m.policy(), func() (netip.AddrPort, bool) {
		return netip.AddrPortFrom(netip.IPv6Loopback(), uint16(node)), true
	})
	m.active.Accepted(&b.Handle)
	m.active.Release(&b.Handle)
}

// flush carries over what can be.
func (m *mirrored) flush() {
	m.t.Helper()
	for range 5 {
		err := m.publisher.Flush(context.Background())
		if err == nil || errors.Is(err, errBroken) {
			return
		}
		if !errors.Is(err, ErrBehind) {
			m.t.Fatalf("%v", err)
		}
	}
	m.t.Fatalf("there is no end of it")
}

// same compares the tables by key, member and what is left of their time.
func (m *mirrored) same() {
	m.t.Helper()
	list := func(t *Table) []string {
		var texts []string
		for r := range t.List(Filter{}) {
			if r.Accepted {
				texts = append(texts, fmt.Sprint(r.Key, " ", r.Node, " ", r.Remaining.Round(time.Second), " ", r.Age.Round(time.Second)))
			}
		}
		slices.Sort(texts)
		return texts
	}
	if want, got := list(m.active), list(m.stand); !slices.Equal(want, got) {
		m.t.Fatalf("active\n%s\nstandby\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestMirror(t *testing.T) {
	t.Run("pain-62_time_is_capped", func(t *testing.T) {
		m := newMirrored(t)
		rec := Record{
			Key: clientKey(1), Node: netip.AddrPortFrom(netip.IPv6Loopback(), 1), Pool: m.policy().Pool, Refresher: m.policy().Pool,
			Timeout: 10 * 365 * 24 * time.Hour, Remaining: 10 * 365 * 24 * time.Hour, Accepted: true,
		}
		forever := rec
		forever.Key, forever.Timeout, forever.Remaining = clientKey(2), 0, Forever
		b := &Batch{Epoch: 1, First: true, Whole: true, Entries: []Entry{{Place: 1, Record: rec}, {Place: 2, Record: forever}}}
		if err := m.link.Follower.Apply(b); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 2; n++ {
			if got, ok := m.stand.Lookup(clientKey(n)); !ok || got.Remaining != time.Minute {
				t.Errorf("record %d has %v left", n, got.Remaining)
			}
		}
	})
	t.Run("pain-62_use_extends_the_copy", func(t *testing.T) {
		m := newMirrored(t)
		m.use(1, 1)
		m.flush()
		m.clock.add(50 * time.Second)
		m.use(1, 2)
		m.flush()
		m.clock.add(50 * time.Second)
		if rec, ok := m.stand.Lookup(clientKey(1)); !ok || rec.Node.Port() != 1 || rec.Remaining != 10*time.Second {
			t.Errorf("%v, %t", rec, ok)
		}
		m.clock.add(11 * time.Second)
		if rec, ok := m.stand.Lookup(clientKey(1)); ok {
			t.Errorf("still there: %v", rec)
		}
	})
	t.Run("pain-62_a_connection_extends_the_copy", func(t *testing.T) {
		m := newMirrored(t)
		b := m.active.Bind(clientKey(1), m.policy(), func() (netip.AddrPort, bool) { return netip.AddrPortFrom(netip.IPv6Loopback(), 1), true })
		m.active.Accepted(&b.Handle)
		m.flush()
		for range 200 {
			m.clock.add(time.Second)
			m.publisher.Remind(time.Second)
			m.flush()
		}
		if m.link.sent > 10 {
			t.Errorf("%d entries about one record in use", m.link.sent)
		}
		m.link.broken.Store(true) // and it dies
		if rec, ok := m.stand.Lookup(clientKey(1)); !ok || rec.Remaining < 29*time.Second || rec.Open != 0 {
			t.Errorf("%v, %t", rec, ok)
		}
		m.active.Release(&b.Handle)
	})
	t.Run("pain-76_after_a_break", func(t *testing.T) {
		m := newMirrored(t)
		var most int64
		for round := range 100 {
			for n := range 100 {
				m.use(100*round+n, 1)
				m.use(100*round+n-100, 1)
			}
			m.flush()
			m.link.broken.Store(true)
			m.clock.add(100 * time.Millisecond)
			for n := range 100 {
				m.use(100*round+n, 1)
				m.use(1_000_000+n, round+1)
			}
			m.active.Clear(Filter{}, func(r *Record) bool { // of the round before
				b := r.Key.Prefix().Addr().As4()
				n := int(b[1])<<16 | int(b[2])<<8 | int(b[3])
				return n < 100*round-100 || n >= 100*round
			})
			m.active.Clear(Filter{Client: netip.MustParsePrefix("10.15.0.0/16"), Older: time.Millisecond}, nil)
			m.flush()
			m.link.broken.Store(false)
			m.flush()
			m.same()
			bytes := m.stand.Stats().Bytes
			if round == 20 {
				most = bytes
			} else if round > 20 && bytes > most*3/2 {
				t.Fatalf("the standby has %d bytes in round %d, %d in round 20", bytes, round, most)
			}
			if n := len(m.link.Follower.places); n > 2*shardCount {
				t.Fatalf("%d chunks of places are held for %d records", n, m.stand.Len())
			}
		}
	})
	t.Run("pain-76_a_standby_that_lost_all", func(t *testing.T) {
		m := newMirrored(t)
		for n := range 3000 {
			m.use(n, n)
		}
		m.flush()
		m.same()
		m.link.Follower = NewFollower(m.stand, m.link.Follower.policy) // places are forgotten, records stay
		m.use(4000, 1)
		m.active.Clear(Filter{Client: clientKey(7).Prefix()}, nil)
		m.flush()
		m.stand.Clear(Filter{Client: clientKey(7).Prefix()}, nil) // nobody knows where it came from: it would run out
		m.same()
	})
	t.Run("pain-76_an_active_that_began_anew", func(t *testing.T) {
		m := newMirrored(t)
		for n := range 3000 {
			m.use(n, 1)
		}
		m.flush()
		next := New(Options{Clock: m.clock.now})
		m.active, m.publisher = next, NewPublisher(next, m.link, nil)
		m.clock.add(time.Second)
		for n := range 1500 {
			m.use(n, 2)
		}
		m.flush()
		m.same()
		if n := m.stand.Len(); n != 1500 {
			t.Errorf("%d records", n)
		}
	})
	t.Run("pain-77_a_slow_link", func(t *testing.T) {
		m := newMirrored(t)
		const records = 4000
		for n := range records {
			m.use(n, 1)
		}
		// 100 kB a second, and 5,000 uses a second of 1,000 records, for 10 s.
		sent := 0
		m.link.clock = func(bytes int) {
			sent++
			took := time.Duration(bytes) * time.Second / 100_000
			m.clock.add(took)
			for n := range int(took.Seconds() * 5000) {
				m.use(n%1000, 1)
			}
			if behind := m.publisher.Behind(); behind > records {
				t.Fatalf("%d places of %d are behind", behind, records)
			}
			if m.clock.now() > int64(10*time.Second) {
				m.link.clock = nil // the lag would show: uses go on for ever
			}
		}
		m.timeout = time.Hour
		m.flush()
		m.link.clock = nil
		m.flush()
		if m.publisher.Behind() != 0 || m.publisher.Failed() != 0 || m.stand.Len() != records {
			t.Errorf("behind %d, failed %d, %d records", m.publisher.Behind(), m.publisher.Failed(), m.stand.Len())
		}
		before := m.publisher.Published()
		for range 50 {
			m.use(1, 1)
		}
		m.flush()
		if n := m.publisher.Published() - before; n != 1 {
			t.Errorf("50 uses of a record are %d entries", n)
		}
	})
	t.Run("pain-78_no_record_of_strangers", func(t *testing.T) {
		m := newMirrored(t)
		rec := Record{
			Key: clientKey(1), Node: netip.AddrPortFrom(netip.IPv6Loopback(), 1), Pool: m.policy().Pool, Refresher: m.policy().Pool,
			Timeout: time.Minute, Remaining: time.Minute, Accepted: true,
		}
		other := rec
		other.Pool, other.Refresher = PoolIDOf("q"), PoolIDOf("q")
		sticky := rec
		sticky.Key = AddrKey(Sticky, Scope{}, Mask{}, netip.MustParseAddr("10.0.0.1"))
		b := &Batch{Epoch: 1, First: true, Entries: []Entry{{Place: 1, Record: other}, {Place: 2, Record: sticky}}}
		if err := m.link.Follower.Apply(b); err != nil || m.stand.Len() != 0 {
			t.Errorf("%v, %d records", err, m.stand.Len())
		}
		if taken, passed := m.link.Follower.Counts(); taken != 0 || passed != 2 {
			t.Errorf("taken %d, passed %d", taken, passed)
		}
		good, _ := (&Batch{Epoch: 1, First: true, Entries: []Entry{{Place: 1, Record: rec}}}).AppendBinary(nil)
		edit := func(at int, to ...byte) []byte {
			b := slices.Clone(good)
			copy(b[at:], to)
			return b
		}
		bad := map[string][]byte{
			"nothing": nil, "version": edit(0, 2), "flags": edit(1, 255), "more entries than there are": edit(10, 0, 2),
			"too many entries": edit(10, 255, 255), "place": edit(12, 255, 255, 255, 255), "key length": edit(19, 31), "kind": edit(17, 99),
			"cut off": good[:len(good)-1], "too long": append(slices.Clone(good), 0), "oversize": make([]byte, mirrorMostSize+1),
			"record cut off": edit(16, good[16]-1),
		}
		for what, text := range bad {
			if err := m.link.Follower.Receive(text); err == nil || errors.Is(err, ErrBehind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := m.link.Follower.Receive(binary.BigEndian.AppendUint64([]byte{1, 0}, 7)); err == nil {
			t.Error("a batch without a number of entries is taken")
		}
		if m.stand.Len() != 0 {
			t.Errorf("%d records", m.stand.Len())
		}
		if err := m.link.Follower.Receive(good); err != nil || m.stand.Len() != 1 {
			t.Errorf("%v, %d records", err, m.stand.Len())
		}
	})
	t.Run("own_records_stay", func(t *testing.T) {
		m := newMirrored(t)
		m.use(1, 1)
		m.use(2, 1)
		m.clock.add(time.Second)
		own := m.stand.Bind(clientKey(1), m.policy(), func() (netip.AddrPort, bool) { return netip.AddrPortFrom(netip.IPv6Loopback(), 9), true })
		m.stand.Accepted(&own.Handle)
		m.flush()
		m.active.Clear(Filter{}, nil)
		m.flush()
		if rec, ok := m.stand.Lookup(clientKey(1)); !ok || rec.Node.Port() != 9 || m.stand.Len() != 1 {
			t.Errorf("%v, %t, %d records", rec, ok, m.stand.Len())
		}
		m.stand.Release(&own.Handle)
	})
	t.Run("what_was_used_here_stays", func(t *testing.T) {
		m := newMirrored(t)
		m.use(1, 1)
		m.use(2, 1)
		m.flush()
		m.clock.add(30 * time.Second)
		b := m.stand.Acquire(clientKey(1), m.policy())
		m.stand.Accepted(&b.Handle)
		m.stand.Release(&b.Handle)
		m.clock.add(31 * time.Second)
		m.active.Sweep(1000) // they have run out there
		m.flush()
		if rec, ok := m.stand.Lookup(clientKey(1)); !ok || rec.Remaining != 29*time.Second || m.link.sent != 4 {
			t.Errorf("%v, %t, %d entries", rec, ok, m.link.sent)
		}
	})
	t.Run("both_ways_without_an_echo", func(t *testing.T) {
		m := newMirrored(t)
		back := join(t, m.stand, m.active, m.clock)
		for n := range 10 {
			m.use(n, 1)
			back.use(100+n, 2)
		}
		for range 4 {
			m.flush()
			back.flush()
			m.clock.add(10 * time.Millisecond)
		}
		m.same()
		if m.active.Len() != 20 || m.link.sent > 20 || back.link.sent > 20 {
			t.Errorf("%d records, %d and %d entries", m.active.Len(), m.link.sent, back.link.sent)
		}
	})
}

// TestMirrorFollows does at random what can be done, breaks the link, loses the standby's places; then both tables are equal.
func TestMirrorFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{}
		m := join(t, New(Options{Clock: clock.now, Limit: 40}), New(Options{Clock: clock.now}), clock)
		client := rapid.IntRange(1, 60)
		t.Repeat(map[string]func(*rapid.T){
			"use": func(t *rapid.T) { m.use(client.Draw(t, "client"), rapid.IntRange(1, 3).Draw(t, "node")) },
			"open": func(t *rapid.T) {
				n := client.Draw(t, "client")
				if m.held[n] == nil && len(m.held) < 20 {
					b := m.active.Bind(clientKey(n), m.policy(), func() (netip.AddrPort, bool) { return netip.AddrPortFrom(netip.IPv6Loopback(), 1), true })
					m.active.Accepted(&b.Handle)
					m.held[n] = &b.Handle
				}
			},
			"close": func(t *rapid.T) {
				n := client.Draw(t, "client")
				if m.held[n] != nil {
					m.active.Release(m.held[n])
					delete(m.held, n)
				}
			},
			"clear": func(t *rapid.T) { m.active.Clear(Filter{Client: clientKey(client.Draw(t, "client")).Prefix()}, nil) },
			"wait": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "seconds") {
					m.clock.add(time.Second)
					m.publisher.Remind(time.Second)
				}
			},
			"sweep":   func(*rapid.T) { m.active.Sweep(1000); m.stand.Sweep(1000) },
			"flush":   func(*rapid.T) { m.flush() },
			"break":   func(*rapid.T) { m.link.broken.Store(true) },
			"restore": func(*rapid.T) { m.link.broken.Store(false) },
			"":        func(t *rapid.T) { check(t, m.active); check(t, m.stand) },
		})
		m.link.broken.Store(false)
		for _, h := range m.held {
			m.active.Release(h)
		}
		m.flush()
		m.same()
	})
}

func TestPublisherRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		active, stand := New(Options{}), New(Options{})
		p := Policy{Pool: PoolIDOf("p"), Timeout: 3 * time.Second}
		f := NewFollower(stand, func(*Record, PoolID) (Policy, bool) { return p, true })
		l := &link{Local: Local{f}}
		l.broken.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		pub := NewPublisher(active, l, func(id PoolID) bool { return id == p.Pool })
		go func() { pub.Run(ctx); close(done) }()
		node := func() (netip.AddrPort, bool) { return netip.AddrPortFrom(netip.IPv6Loopback(), 1), true }
		b, other := active.Bind(clientKey(1), p, node), active.Bind(clientKey(2), Policy{Pool: 7}, node)
		active.Accepted(&b.Handle)
		active.Accepted(&other.Handle)
		time.Sleep(10 * time.Second)
		if stand.Len() != 0 || pub.Failed() == 0 || pub.Failed() > 30 || pub.Behind() > 2 {
			t.Errorf("%d records over a broken link; failed %d, behind %d", stand.Len(), pub.Failed(), pub.Behind())
		}
		l.broken.Store(false)
		time.Sleep(2 * time.Second)
		if _, ok := stand.Lookup(clientKey(1)); !ok || stand.Len() != 1 {
			t.Errorf("%d records within 2 s", stand.Len())
		}
		time.Sleep(20 * time.Second) // the connection goes on
		if _, ok := stand.Lookup(clientKey(1)); !ok {
			t.Error("the record of an open connection ran out on the other side")
		}
		cancel()
		<-done
	})
}

func FuzzMirrorBatch(f *testing.F) {
	rec := Record{
		Key: clientKey(1), Node: netip.AddrPortFrom(netip.IPv6Loopback(), 1), Pool: 1, Refresher: 2, Timeout: time.Minute, Remaining: time.Second, Accepted: true,
	}
	id := rec
	id.Key = IDKey(SSL, Scope{}, []byte("an ID of more than sixteen bytes"))
	for _, b := range []*Batch{
		{},
		{Epoch: 1, First: true, Whole: true},
		{Epoch: 2, First: true, Entries: []Entry{{Place: 3, Record: rec}, {Place: mirrorPlaces - 1, Record: id}, {Place: 4}}},
	} {
		text, _ := b.AppendBinary(nil)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table := New(Options{Limit: 100})
		follower := NewFollower(table, func(*Record, PoolID) (Policy, bool) { return Policy{Timeout: time.Minute}, true })
		var b Batch
		err := b.UnmarshalBinary(text)
		if received := follower.Receive(text); (err != nil) != (received != nil && !errors.Is(received, ErrBehind)) {
			t.Fatalf("decoded %v, received %v", err, received)
		}
		check(t, table)
		if err != nil {
			if table.Len() > 0 {
				t.Fatal("a record of a batch that is refused")
			}
			return
		}
		again, err := b.AppendBinary(nil)
		var c Batch
		if err == nil {
			err = c.UnmarshalBinary(again)
		}
		if err != nil || len(c.Entries) != len(b.Entries) || cmp.Or(c.Epoch, 1) != cmp.Or(b.Epoch, 1) {
			t.Fatalf("%v: %v, %v", err, b, c)
		}
	})
}
