// Package records measures the table of persistence records by itself: how long a connection waits for it, how much memory it
// takes, and how it stands an attack.
package records

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/persist"
)

// Result is what was measured. Times are in nanoseconds.
type Result struct {
	Lookup float64 `json:"lookup"` // a record that is there
	Visit  float64 `json:"visit"`  // a connection of a client that has a record: bound, accepted, released
	Bind   float64 `json:"bind"`   // a connection of a new client in a full table: another record goes
	Bytes  float64 `json:"bytes"`  // of memory for each record, as the system counts it
	Pause  float64 `json:"pause"`  // the longest that a connection waited
	Noise  float64 `json:"noise"`  // the longest that the same thread stood still without the table
	Lost   int     `json:"lost"`   // records of open connections that an attack has removed
	Over   int     `json:"over"`   // records above the limit
}

// Write writes it as one line.
func (r Result) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

const (
	batch   = 512 // operations that are timed at once
	batches = 401
	timeout = time.Hour
)

var policy = persist.Policy{Pool: 1, Timeout: timeout}

// key is that of client number i, an IPv6 address.
func key(i uint64) persist.Key {
	var addr [16]byte
	addr[0], addr[1] = 0x20, 0x01
	binary.BigEndian.PutUint64(addr[8:], i*0x9E3779B97F4A7C15) // neighbours in number are none in address
	return persist.AddrKey(persist.Simple, persist.Scope{}, persist.Mask{}, netip.AddrFrom16(addr))
}

func node() (netip.AddrPort, bool) {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rand.Uint32())}), 80), true
}

func visit(t *persist.Table, k persist.Key) {
	b := t.Bind(k, policy, node)
	t.Accepted(&b.Handle)
	t.Release(&b.Handle)
}

// Measure measures a table of n records that so many threads use at once.
func Measure(n, threads int) (Result, error) {
	before, err := resident()
	if err != nil {
		return Result{}, err
	}
	t := persist.New(persist.Options{})
	r := Result{}
	r.Pause, r.Noise = watched(t, func() {
		for i := range n {
			visit(t, key(uint64(i)))
		}
		for at, more := (persist.Cursor{}), true; more; { // what keeps the records on disk does it
			_, more = t.AppendAll(nil, &at)
		}
		t.Sweep(n)
	})
	after, err := resident()
	if err != nil {
		return Result{}, err
	}
	r.Bytes = float64(after-before) / float64(n)
	known := func(*rand.Rand) persist.Key { return key(rand.Uint64N(uint64(n))) }
	r.Lookup = timed(threads, known, func(k persist.Key) { t.NodeOf(&k) })
	r.Visit = timed(threads, known, func(k persist.Key) { visit(t, k) })
	t.SetLimit(t.Len())
	fresh := func(r *rand.Rand) persist.Key { return key(r.Uint64() | 1<<40) }
	r.Bind = timed(threads, fresh, func(k persist.Key) { visit(t, k) })
	return r, nil
}

// timed is the median processor time of an operation: other programs of the machine do not count. The keys are made before the
// time begins to run.
func timed(threads int, next func(*rand.Rand) persist.Key, do func(persist.Key)) float64 {
	var wg sync.WaitGroup
	took := make([][]float64, threads)
	for i := range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			random := rand.New(rand.NewPCG(uint64(i), rand.Uint64()))
			keys := make([]persist.Key, batch)
			for range batches {
				for k := range keys {
					keys[k] = next(random)
				}
				began := processorTime()
				for k := range keys {
					do(keys[k])
				}
				took[i] = append(took[i], float64(processorTime()-began)/batch)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	return all[len(all)/2]
}

// processorTime is that of the calling thread.
func processorTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has it
	}
	return t.Nano()
}

// watched runs work and returns the longest that a connection waited for the table meanwhile. Then the same thread does the
// like without the table for as long, beside a thread that is as busy.
func watched(t *persist.Table, work func()) (pause, noise float64) {
	for i := range 1000 {
		visit(t, key(uint64(i)))
	}
	longest := func(do func(i uint64), beside func()) float64 {
		var over atomic.Bool
		worst := make(chan time.Duration)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			most := time.Duration(0)
			for i := uint64(0); !over.Load(); i++ {
				began := time.Now()
				do(i)
				most = max(most, time.Since(began))
				time.Sleep(20 * time.Microsecond)
			}
			worst <- most
		}()
		time.Sleep(time.Millisecond) // it has begun
		beside()
		over.Store(true)
		return float64(<-worst)
	}
	began := time.Now()
	pause = longest(func(i uint64) { visit(t, key(i%1000)) }, work)
	length := time.Since(began)
	var sink uint64
	noise = longest(func(i uint64) {
		for n := range uint64(300) {
			sink += i * n
		}
	}, func() {
		for end := time.Now().Add(length); time.Now().Before(end); {
			_ = key(1)
		}
	})
	return pause, noise
}

// Attack lets strangers from random addresses come, one after the other on each of two threads, to a table that is at its
// limit, in which some clients have connections open and others come again and again.
func Attack(strangers, limit, open int) (Result, error) {
	t := persist.New(persist.Options{Limit: limit})
	held := make([]persist.Binding, open)
	for i := range held {
		held[i] = t.Bind(key(uint64(i)), policy, node)
		t.Accepted(&held[i].Handle)
	}
	for i := range limit - open {
		visit(t, key(uint64(open+i)))
	}
	before, err := resident()
	if err != nil {
		return Result{}, err
	}
	r := Result{}
	r.Pause, r.Noise = watched(t, func() {
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range strangers / 2 {
					visit(t, key(rand.Uint64()|1<<40))
				}
			})
		}
		wg.Wait()
	})
	after, err := resident()
	if err != nil {
		return Result{}, err
	}
	r.Bytes = float64(after-before) / float64(limit)
	r.Over = max(t.Len()-limit, 0)
	for i := range held {
		if rec, ok := t.Lookup(key(uint64(i))); !ok || rec.Node != held[i].Node || rec.Open == 0 {
			r.Lost++
		}
		t.Release(&held[i].Handle)
	}
	return r, nil
}

// resident is the memory of this process that is not the contents of files, without what the garbage collector can give back.
func resident() (int64, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, io.ErrUnexpectedEOF
}
