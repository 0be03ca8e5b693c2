package persist

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// kept is a file of entries in memory: pieces with the times at which they were made.
type kept struct {
	pieces [][]byte
	times  []int64
}

func (k *kept) add(b []byte, now int64) {
	k.pieces, k.times = append(k.pieces, b), append(k.times, now)
}

// changes writes down what has changed, into all files alike.
func changes(table *Table, now int64, files ...*kept) {
	for at, more := (Cursor{}), true; more; {
		var b []byte
		b, more = table.AppendChanges(nil, &at)
		for _, k := range files {
			k.add(b, now)
		}
	}
}

// whole begins a file.
func whole(table *Table, now int64) *kept {
	k := &kept{}
	for at, more := (Cursor{}), true; more; {
		var b []byte
		b, more = table.AppendAll(nil, &at)
		k.add(b, now)
	}
	return k
}

// replayed is what another process makes of a file, down after it was ended.
func replayed(t failer, k *kept, clock *fakeClock, down time.Duration) *Table {
	t.Helper()
	table := New(Options{Clock: clock.now})
	p := NewReplay(table)
	for i, b := range k.pieces {
		if err := p.Apply(b, time.Duration(clock.now()-k.times[i])); err != nil {
			t.Fatalf("piece %d: %v", i, err)
		}
	}
	if n := p.End(down); n != table.Len() {
		t.Fatalf("%d records, the table has %d", n, table.Len())
	}
	check(t, table)
	return table
}

// Uses, moves, clears and the rest of a life are in the file, whenever it was begun; and come back with the time that is left.
func TestKeep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{}
		table := New(Options{Clock: clock.now, Limit: 60})
		policies := []Policy{web, {Pool: sslPool, Timeout: 20 * time.Second, Timer: Fixed}, {Pool: 9}}
		first := &kept{} // from the beginning; second is begun anew now and then, in steps
		var second, begun *kept
		var at Cursor
		held := map[Key][]*Binding{}
		keys := rapid.IntRange(0, 99)
		key := func(t *rapid.T) Key {
			n := keys.Draw(t, "key")
			if n%3 == 0 {
				return IDKey(SSL, Scope{}, slices.Repeat([]byte{byte(n), 1}, 16))
			}
			return client(n)
		}
		note := func() {
			files := []*kept{first}
			for _, k := range []*kept{second, begun} {
				if k != nil {
					files = append(files, k)
				}
			}
			changes(table, clock.now(), files...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"visit": func(t *rapid.T) {
				visit(table, key(t), rapid.SampledFrom(policies).Draw(t, "policy"), n1)
			},
			"open": func(t *rapid.T) {
				k := key(t)
				b := table.Bind(k, rapid.SampledFrom(policies).Draw(t, "policy"), pick(n1))
				if rapid.Bool().Draw(t, "accepted") {
					table.Accepted(&b.Handle)
				}
				held[k] = append(held[k], &b)
			},
			"move": func(t *rapid.T) {
				k := key(t)
				for _, b := range held[k] {
					table.Rebind(k, web, b, pick(n2))
				}
			},
			"close": func(t *rapid.T) {
				k := key(t)
				for _, b := range held[k] {
					table.Release(&b.Handle)
				}
				delete(held, k)
			},
			"clear": func(t *rapid.T) { table.Clear(Filter{Client: key(t).Prefix()}, nil) },
			"empty": func(*rapid.T) {
				table.Clear(Filter{}, nil)
				table.Sweep(1000)
			},
			"retime": func(t *rapid.T) {
				seconds := time.Duration(rapid.IntRange(10, 90).Draw(t, "timeout")) * time.Second
				table.Retime(func(r *Record) (Policy, bool) { return Policy{Timeout: seconds}, r.Refresher == webPool })
			},
			"later": func(t *rapid.T) {
				clock.add(time.Duration(rapid.IntRange(1, 30_000).Draw(t, "ms")) * time.Millisecond)
				table.Sweep(1000)
			},
			"note": func(*rapid.T) { note() },
			"begin": func(t *rapid.T) {
				if begun == nil {
					begun, at = &kept{}, Cursor{}
				}
				for more := true; more && begun != nil; {
					var b []byte
					b, more = table.AppendAll(nil, &at)
					begun.add(b, clock.now())
					if !more {
						second, begun = begun, nil
					} else if rapid.IntRange(0, 40).Draw(t, "pause") == 0 {
						break
					}
				}
			},
			"": func(t *rapid.T) {
				note()
				check(t, table)
				want := after(table, 7*time.Second)
				clock.add(7 * time.Second)
				for _, k := range []*kept{first, second} {
					if k == nil {
						continue
					}
					got := collect(replayed(t, k, clock, 7*time.Second), Filter{})
					if diff := cmp.Diff(want, got, compareRecord); diff != "" {
						t.Fatalf("the records after a restart differ: %s", diff)
					}
				}
				clock.add(-7 * time.Second)
			},
		})
	})
}

// after is what is left of the table's records when it has not lived for so long. Those in use were used until then.
func after(table *Table, down time.Duration) map[Key]Record {
	want := map[Key]Record{}
	for r := range table.List(Filter{}) {
		switch {
		case !r.Accepted:
			continue
		case r.Remaining == Forever:
		case r.Remaining <= down:
			continue
		default:
			r.Remaining -= down
		}
		r.Age, r.Idle, r.Open = r.Age+down, r.Idle+down, 0
		want[r.Key] = r
	}
	return want
}

// A file tells uses in less room than records, and nothing of what has not changed.
func TestKeepIsShort(t *testing.T) {
	table, clock := newTable(t, 0)
	for i := range 1000 {
		visit(table, client(i), web, n1)
	}
	size := func() (n int) {
		k := &kept{}
		changes(table, clock.now(), k)
		for _, b := range k.pieces {
			n += len(b)
		}
		return n
	}
	if n := size(); n < 50*1000 || n > 120*1000 {
		t.Errorf("1000 records take %d bytes", n)
	}
	if n := size(); n != 0 {
		t.Errorf("nothing has changed, %d bytes", n)
	}
	visit(table, client(5), web, n2)
	if n := size(); n != 14 {
		t.Errorf("a use takes %d bytes", n)
	}
	table.Clear(Filter{}, nil)
	table.Sweep(1) // gives all memory back
	if n := size(); n != 5*1000 {
		t.Errorf("1000 removed records take %d bytes", n)
	}
	if n := size(); n != 0 {
		t.Errorf("nothing has changed, %d bytes", n)
	}
}

// The order of eviction is that of before.
func TestKeepOrder(t *testing.T) {
	table, clock := newTable(t, 0)
	const n = 3000
	for i := range n {
		visit(table, client(i*7%n), web, n1)
		clock.add(time.Millisecond)
	}
	again := replayed(t, whole(table, clock.now()), clock, 0)
	again.SetLimit(n / 3)
	for again.Sweep(100) > 0 {
	}
	check(t, again)
	for i := range n {
		if _, ok := again.Lookup(client(i * 7 % n)); ok != (i >= n-n/3) {
			t.Fatalf("record %d of %d is there: %v", i, n, ok)
		}
	}
}

func FuzzReplay(f *testing.F) {
	table, clock := newTable(f, 0)
	first := &kept{}
	for i := range 3 {
		visit(table, client(i), web, n1)
		visit(table, IDKey(SSL, Scope{}, []byte{byte(i)}), web, n1)
		table.Clear(Filter{Client: client(1).Prefix()}, nil)
		changes(table, clock.now(), first)
		clock.add(time.Second)
	}
	f.Add(slices.Concat(first.pieces...), int64(5))
	f.Fuzz(func(t *testing.T, entries []byte, ago int64) {
		table := New(Options{Clock: (&fakeClock{}).now})
		p := NewReplay(table)
		if p.Apply(entries, time.Duration(ago)) == nil {
			p.End(0)
			check(t, table)
		}
	})
}
