package dataplane

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigpipe/dataplane/persist"
)

// clocks are those of a machine whose wall clock can be stepped.
type clocks struct {
	boot, step atomic.Int64
}

func (c *clocks) moment() moment {
	return moment{wall: 1e18 + c.boot.Load() + c.step.Load(), boot: c.boot.Load()}
}
func (c *clocks) pass(d time.Duration) { c.boot.Add(int64(d)) }

// keptTable is a table whose records are kept in dir, with n records of 60 seconds; nothing is written unless flush is called.
func keptTable(t testing.TB, dir string, n int) (*persist.Table, *recordFile, *clocks) {
	c := &clocks{}
	table := persist.New(persist.Options{Clock: c.boot.Load})
	f := newRecordFile(dir, table, slog.New(slog.DiscardHandler))
	f.clock = c.moment
	t.Cleanup(func() {
		f.end()
		f.sync.Wait()
	})
	for i := range n {
		visitRecord(table, i, time.Minute)
	}
	return table, f, c
}

func recordKey(i int) persist.Key {
	addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	return persist.AddrKey(persist.Simple, persist.Scope{}, persist.Mask{}, addr)
}

func visitRecord(table *persist.Table, i int, timeout time.Duration) {
	b := openRecord(table, i, timeout)
	table.Release(&b.Handle)
}

func openRecord(table *persist.Table, i int, timeout time.Duration) persist.Binding {
	b := table.Bind(recordKey(i), persist.Policy{Pool: 1, Timeout: timeout}, func() (netip.AddrPort, bool) {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(1+i%1000)), true
	})
	table.Accepted(&b.Handle)
	return b
}

// read returns what another process finds, and which error.
func (c *clocks) read(t testing.TB, path string, boot string) (*persist.Table, error) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := persist.New(persist.Options{Clock: c.boot.Load})
	return table, replayRecords(bytes.NewReader(content), table, c.moment(), boot)
}

func remaining(table *persist.Table, i int) time.Duration {
	r, _ := table.Lookup(recordKey(i))
	return r.Remaining
}

// Whatever somebody does to the wall clock, the time that is left to a record is what it was less the time that passed.
func TestRecordsAndWallClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name string
		step time.Duration // of the wall clock, meanwhile
		boot string        // of the machine that reads
		want time.Duration // left of 60 seconds after 20
	}{
		{"pain-52_time_goes_on_while_it_is_down", 0, bootID(), 40 * time.Second},
		{"pain-61_a_year_forward", year, bootID(), 40 * time.Second},
		{"pain-61_a_year_back", -year, bootID(), 40 * time.Second},
		{"pain-52_another_boot", 0, "another", 40 * time.Second},
		{"pain-62_another_boot_with_a_clock_put_back", -year, "another", time.Minute},
		{"another_boot_a_year_later", year, "another", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, f, c := keptTable(t, dir, 3)
			f.begin()
			c.pass(20 * time.Second)
			c.step.Add(int64(tt.step))
			table, err := c.read(t, f.path, tt.boot)
			if err != nil {
				t.Fatal(err)
			}
			if got := remaining(table, 1); got != tt.want {
				t.Errorf("%v left, want %v", got, tt.want)
			}
		})
	}
}

// A record in use counts as used until the process was seen alive for the last time.
func TestRecordsInUse(t *testing.T) {
	table, f, c := keptTable(t, t.TempDir(), 0)
	b := openRecord(table, 1, time.Minute)
	defer table.Release(&b.Handle)
	f.begin()
	c.pass(time.Hour)
	f.mu.Lock()
	f.written = time.Time{} // long ago
	f.mu.Unlock()
	f.flush(0)
	c.pass(20 * time.Second)
	again, err := c.read(t, f.path, bootID())
	if got := remaining(again, 1); err != nil || got != 40*time.Second {
		t.Errorf("%v left, %v", got, err)
	}
}

// Wherever the last writing was cut off, everything before it is there and nothing else.
func TestRecordsTorn(t *testing.T) {
	dir := t.TempDir()
	table, f, c := keptTable(t, dir, 20)
	f.begin()
	whole := f.size
	table.Clear(persist.Filter{Client: recordKey(3).Prefix()}, nil)
	visitRecord(table, 100, time.Minute)
	f.flush(0)
	content, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(content)) != f.size || f.size == whole {
		t.Fatalf("the file has %d bytes, it is said to have %d, and had %d", len(content), f.size, whole)
	}
	cut := filepath.Join(dir, "cut")
	try := func(content []byte, torn bool, old bool) {
		t.Helper()
		if err := os.WriteFile(cut, content, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := c.read(t, cut, bootID())
		if torn != (err != nil && strings.Contains(err.Error(), errTorn.Error())) || !torn && err != nil {
			t.Fatalf("%d bytes: %v", len(content), err)
		}
		_, cleared := again.Lookup(recordKey(3))
		_, made := again.Lookup(recordKey(100))
		if again.Len() != 20 || cleared != old || made == old {
			t.Fatalf("%d bytes: %d records, the cleared one: %v, the new one: %v", len(content), again.Len(), cleared, made)
		}
	}
	try(content, false, false)
	try(content[:whole], false, true)
	for n := whole + 1; n < f.size; n++ {
		try(content[:n], true, true)
		if len(bytes.Trim(content[n:], "\x00")) > 0 {
			try(append(bytes.Clone(content[:n]), make([]byte, 5000)...), true, true) // a machine that stopped
		}
	}
	try(append(bytes.Clone(content), make([]byte, 5000)...), true, false)
}

// A file that is damaged, or is none, is put aside and named; no record comes of it.
func TestRecordsUnusable(t *testing.T) {
	dir := t.TempDir()
	_, f, c := keptTable(t, dir, 2000)
	f.begin()
	c.pass(time.Second)
	f.table.Clear(persist.Filter{Client: recordKey(3).Prefix()}, nil)
	f.flush(0)
	content, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte {
		b := bytes.Clone(content)
		b[at] ^= 4
		return b
	}
	for name, content := range map[string][]byte{
		"another_version":   []byte(strings.Replace(string(content), "records 1", "records 2", 1)),
		"an_empty_file":     nil,
		"a_journal":         []byte(journalMagic),
		"flipped_bit":       flip(5000),
		"flipped_length":    flip(len(recordsMagic)),
		"flipped_kind":      flip(len(recordsMagic) + 8),
		"something_else":    bytes.Repeat([]byte("hello\n"), 1000),
		"an_entry_is_gone":  append(bytes.Clone(content[:60]), content[100:]...),
		"an_entry_too_long": append(bytes.Clone(content), bytes.Repeat([]byte{0xff}, 100)...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, recordsName)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			log := &logged{}
			if table := restoreRecords(dir, log.logger()); table.Len() != 0 {
				t.Errorf("%d records", table.Len())
			}
			if log.count("level=ERROR", "cannot be used", path) != 1 {
				t.Errorf("it logs %s", log.text.String())
			}
			if aside, err := os.ReadFile(path + ".unusable"); err != nil || !bytes.Equal(aside, content) {
				t.Errorf("it is not put aside: %v", err)
			}
		})
	}
}

// The file does not grow for ever, is complete at every moment while it is written anew, and forgets what was removed.
func TestRecordsFileIsBounded(t *testing.T) {
	const n = 3000
	table, f, c := keptTable(t, t.TempDir(), n)
	f.begin()
	largest, anew := int64(0), 0
	for round := range 160 {
		table.Clear(persist.Filter{Client: recordKey(round).Prefix()}, nil)
		for i := range n / 4 {
			visitRecord(table, n/4*(round%4)+i, time.Minute+time.Duration(round)) // not only a use: the timeout changes
		}
		begun := f.next != nil
		if f.flush(0); begun {
			f.flush(time.Hour)
			f.sync.Wait()
			anew++
		}
		largest = max(largest, f.size)
		if round%20 == 0 || begun || f.next != nil {
			again, err := c.read(t, f.path, bootID())
			if err != nil || again.Len() != table.Len() {
				t.Fatalf("round %d: %d records, want %d, %v", round, again.Len(), table.Len(), err)
			}
		}
		c.pass(10 * time.Millisecond)
	}
	if most := int64(recordsSlack + recordsShare*n + 200<<10); largest > most || anew == 0 {
		t.Errorf("it had up to %d bytes, allowed are %d; it was written anew %d times", largest, most, anew)
	}
	table.Clear(persist.Filter{}, nil)
	f.flush(0)
	if again, err := c.read(t, f.path, bootID()); err != nil || again.Len() != 0 {
		t.Errorf("%d removed records are back, %v", again.Len(), err)
	}
}

// A disk that fails is told once; when it works again, everything is there.
func TestRecordsDiskFails(t *testing.T) {
	dir := t.TempDir()
	table, f, c := keptTable(t, dir, 100)
	log := &logged{}
	f.log = log.logger()
	f.begin()
	info, err := os.Stat(f.path)
	if err != nil {
		t.Fatal(err)
	}
	again := func() {
		f.mu.Lock()
		f.retryAt = time.Time{}
		f.mu.Unlock()
		f.flush(time.Hour)
	}
	_ = limitFileSize(t, uint64(info.Size()+50), func() error {
		for i := range 100 {
			visitRecord(table, 100+i, time.Minute)
		}
		again()
		again()
		return nil
	})
	if n := log.count("level=ERROR", "cannot keep persistence records"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.text.String())
	}
	if old, err := c.read(t, f.path, bootID()); old.Len() != 100 {
		t.Errorf("%d records are left of what was kept, %v", old.Len(), err)
	}
	again()
	if n := log.count("level=INFO", "kept again"); n != 1 {
		t.Errorf("the end of it: %s", log.text.String())
	}
	if now, err := c.read(t, f.path, bootID()); now.Len() != 200 || err != nil {
		t.Errorf("%d records, %v", now.Len(), err)
	}
}

// A disk that is full from the beginning loses no record either: what could not be written comes with the next attempt.
func TestRecordsDiskFailsAtFirst(t *testing.T) {
	_, f, c := keptTable(t, t.TempDir(), 100)
	_ = limitFileSize(t, 150, func() error { // the head of the file fits, the records do not
		f.begin()
		return nil
	})
	if f.current != nil || f.pause == 0 {
		t.Fatal("the disk was not full")
	}
	f.retryAt = time.Time{}
	f.begin()
	if now, err := c.read(t, f.path, bootID()); now.Len() != 100 || err != nil {
		t.Errorf("%d records, %v", now.Len(), err)
	}
}

func FuzzRecords(f *testing.F) {
	dir := f.TempDir()
	table, file, _ := keptTable(f, dir, 3)
	file.begin()
	visitRecord(table, 1, time.Minute)
	file.flush(0)
	content, err := os.ReadFile(file.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(recordsMagic))
	f.Fuzz(func(t *testing.T, content []byte) {
		table := persist.New(persist.Options{})
		err := replayRecords(bytes.NewReader(content), table, readMoment(), bootID())
		if err == nil && !bytes.HasPrefix(content, []byte(recordsMagic)) {
			t.Error("anything is taken")
		}
		for r := range table.List(persist.Filter{}) {
			_ = fmt.Sprint(r)
		}
	})
}
