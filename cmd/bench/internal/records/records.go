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
	Threads []Threads `json:"threads"` // of Measure, as many as were asked for
	Bytes   float64   `json:"bytes"`   // of memory for each record, as the system counts it
	Longest float64   `json:"longest"` // processor time of the longest operation while the table was filled
	Idle    float64   `json:"idle"`    // the longest of as many operations of the same thread on no table: what the machine adds
	Wait    float64   `json:"wait"`    // the longest that somebody else's connection waited for the table
	Control float64   `json:"control"` // the longest that it waited for locks which are used as much and guard nothing
	Lost    int       `json:"lost"`    // records of open connections that an attack has removed
	Over    int       `json:"over"`    // records above the limit
}

// Threads is what operations cost on so many threads at once.
type Threads struct {
	Lookup float64 `json:"lookup"` // the member of a client that has a record
	Visit  float64 `json:"visit"`  // a connection of a client that has a record: bound, accepted, released
	Bind   float64 `json:"bind"`   // a connection of a new client in a full table: another record goes
}

// Write writes it as one line.
func (r Result) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

const (
	batch   = 512 // operations that are timed at once
	batches = 401
	timeout = time.Hour

	controlMost = 10 * time.Second // of waiting for locks that guard nothing
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

// Measure fills a table with n records, and measures it on each of these numbers of threads.
func Measure(n int, threads ...int) (Result, error) {
	before, err := resident()
	if err != nil {
		return Result{}, err
	}
	t := persist.New(persist.Options{})
	r := Result{}
	r.Longest = longest(n, func(i int) { visit(t, key(uint64(i))) })
	for at, more := (persist.Cursor{}), true; more; { // what keeps the records on disk does it
		_, more = t.AppendAll(nil, &at)
	}
	t.Sweep(n)
	after, err := resident()
	if err != nil {
		return Result{}, err
	}
	r.Bytes = float64(after-before) / float64(n)
	var none guarded
	r.Idle = longest(n, func(i int) { none.visit(uint64(i)) })
	known := func(*rand.Rand) persist.Key { return key(rand.Uint64N(uint64(n))) }
	fresh := func(r *rand.Rand) persist.Key { return key(r.Uint64() | 1<<40) }
	r.Threads = make([]Threads, len(threads))
	for i, many := range threads {
		r.Threads[i].Lookup = timed(many, known, func(k persist.Key) { t.NodeOf(&k) })
		r.Threads[i].Visit = timed(many, known, func(k persist.Key) { visit(t, k) })
	}
	t.SetLimit(t.Len())
	for i, many := range threads {
		r.Threads[i].Bind = timed(many, fresh, func(k persist.Key) { visit(t, k) })
	}
	return r, nil
}

// longest is the processor time of the longest of n operations: that other programs take the processor away does not count. What
// the machine does in the thread's name does.
func longest(n int, do func(i int)) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	most, last := int64(0), processorTime()
	for i := range n {
		do(i)
		now := processorTime()
		most, last = max(most, now-last), now
	}
	return float64(most)
}

// guarded are as many locks as a table has, and what is done under them takes about as long.
type guarded [64]struct {
	sync.Mutex
	sum uint64
	_   [48]byte
}

// visit is a connection that locks three times, as one that is bound, accepted and released.
func (g *guarded) visit(client uint64) {
	at := &g[client*0x9E3779B97F4A7C15>>58]
	for range 3 {
		at.Lock()
		for i := range uint64(300) {
			at.sum += at.sum>>1 ^ i
		}
		at.Unlock()
	}
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

// watched lets work do its connections, and returns the longest that a connection of somebody else took meanwhile. Both return
// to the scheduler after each connection, as connections do that wait for bytes.
func watched(do func(client uint64), work func(connection func(client uint64))) float64 {
	var over atomic.Bool
	worst := make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for i := uint64(0); !over.Load(); i++ {
			began := time.Now()
			do(i % 1000)
			most = max(most, time.Since(began))
			time.Sleep(20 * time.Microsecond)
		}
		worst <- most
	}()
	work(func(client uint64) {
		do(client)
		runtime.Gosched()
	})
	over.Store(true)
	return float64(<-worst)
}

// waits is the longest that somebody else waited for the table while threads did count connections, and the longest that he waits
// where there is no table, for some seconds at most: what the scheduler and other programs of the machine do is in both.
func waits(t *persist.Table, threads, count int, client func() uint64) (wait, control float64) {
	connect := func(count int) func(func(uint64)) {
		return func(connection func(uint64)) {
			var wg sync.WaitGroup
			for range threads {
				wg.Go(func() {
					for range count / threads {
						connection(client())
					}
				})
			}
			wg.Wait()
		}
	}
	began := time.Now()
	wait = watched(func(client uint64) { visit(t, key(client)) }, connect(count))
	end := time.Now().Add(min(time.Since(began), controlMost))
	var none guarded
	for time.Now().Before(end) {
		control = max(control, watched(none.visit, connect(min(count, 100_000))))
	}
	return wait, control
}

// Fill measures how long connections wait while another makes n records.
func Fill(n int) (r Result) {
	t := persist.New(persist.Options{})
	var client atomic.Uint64
	r.Wait, r.Control = waits(t, 1, n, func() uint64 { return client.Add(1) })
	return r
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
	r.Wait, r.Control = waits(t, 2, strangers, func() uint64 { return rand.Uint64() | 1<<40 })
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
