package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/handover"
	"bigpipe/dataplane/monitor"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Errors of Apply. Nothing changes with any of them.
var (
	// ErrProtocol means that the sender speaks another version.
	ErrProtocol = errors.New("another protocol version")
	// ErrForeignStore means that the configuration of another store is applied.
	ErrForeignStore = errors.New("the configuration of another store is applied")
	// ErrBase means that the delta does not begin where this dataplane is; it needs the whole configuration.
	ErrBase = errors.New("the delta does not fit")
	// ErrMalformed means that the message makes no sense.
	ErrMalformed = errors.New("malformed")
)

// EngineOptions are what an engine is made with. The zero value is a dataplane that keeps nothing on disk.
type EngineOptions struct {
	// StateDir is where the applied configuration and the persistence records are kept; "" keeps none.
	StateDir string
	// Addresses says what to bind and dial; nil is what the configuration says.
	Addresses *AddressMap
	// AssignDevice is the network device to which virtual addresses are added that the host lacks; "" adds none. It needs a
	// state directory.
	AssignDevice string
	// Sockets are listening sockets that are there already; nil has none.
	Sockets *handover.Sockets
	// Taken is a running dataplane with the same state directory that this one takes the place of; nil: there is none.
	Taken *Taken
	// Mirror takes the records of pools with mirror persist; nil: nobody does.
	Mirror persist.Mirror
	// Log is where it tells what goes on; nil is slog's default.
	Log *slog.Logger

	prober monitor.Prober // of tests; nil: the network
}

// Engine makes a configuration the running one. Its methods may be called from any goroutine.
type Engine struct {
	log         *slog.Logger
	addresses   *AddressMap
	records     *persist.Table
	publisher   *persist.Publisher // nil: there is no mirror
	connections *forward.Table
	health      *health
	shares      shares
	started     time.Time
	running     atomic.Pointer[runtime]
	gone        gone
	unkept      atomic.Int64 // since when what is applied is not on the disk, in nanoseconds of Unix time; 0: it is

	mu      sync.Mutex // guards all below and every change of running
	journal *journal   // nil without a state directory, and at the end
	disk    disk

	recordFile *recordFile // nil without a state directory
	former     bool        // records are of the process before: their pools may have changed since
	removed    removed

	keys       keys // of cookies
	intercepts intercepts

	paused bool // listeners are made without accepting
	handed bool // another process has taken over

	sockets     *handover.Sockets
	drains      drains
	holds       holds
	presence    *presence
	predecessor *Taken // the dataplane before this one; nil: none
	heard       sync.WaitGroup
	stop        chan struct{}
	stopped     sync.WaitGroup
}

// NewEngine starts an engine. It begins with what the state directory says was applied last; damage there is logged, and
// what can be read is in effect. Where a running dataplane was taken, it begins with what that had, and that one ends; on an
// error it goes on. Close ends the engine.
func NewEngine(o EngineOptions) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	e := &Engine{
		log: o.Log, addresses: o.Addresses, sockets: o.Sockets, started: time.Now(), stop: make(chan struct{}),
		records: persist.New(persist.Options{Limit: persist.DefaultLimit}), holds: holds{count: map[netip.Addr]int{}},
		paused: o.Taken != nil,
	}
	tree, applied, err := e.restore(&o)
	if err != nil {
		o.Taken.Close()
		return nil, err
	}
	if e.health, err = newHealth(&o, e.intercepts.kernel.Mark); err == nil && o.Taken == nil {
		if err = e.holds.open(&o); err != nil {
			e.health.monitors.Close()
		}
	}
	if err != nil {
		if o.Taken != nil {
			o.Taken.Close()
		} else if e.journal != nil {
			e.recordFile.end()
			e.journal.close()
		}
		return nil, err
	}
	if o.Taken == nil {
		e.intercepts.open(&o)
	}
	e.presence = newPresence(o.Log)
	e.running.Store(&runtime{view: config.NewTree(), applied: &pb.ApplyHeader{}, gateway: e.intercepts.kernel.Mark})
	e.connections = forward.NewTable(o.Log)
	if tree != nil && applied != nil {
		e.mu.Lock()
		e.run(e.running.Load().derive(tree, applied), config.Diff(config.NewTree(), tree))
		e.mu.Unlock()
		o.Log.Info("configuration restored", "revision", applied.GetRevision(), "objects", tree.Len(""))
	}
	if o.Taken != nil {
		o.Taken.health.recall(e.health.known)
		if err := e.succeed(&o); err != nil {
			return nil, err
		}
	} else {
		e.holds.settle()
	}
	if e.recordFile != nil {
		e.stopped.Go(func() { e.recordFile.keep(e.stop) })
	}
	if o.Mirror != nil {
		e.publish(o.Mirror)
	}
	e.stopped.Go(e.beat)
	e.stopped.Go(e.followHealth)
	return e, nil
}

// restore returns what was applied last, nil if nothing was, and sets what goes with it.
func (e *Engine) restore(o *EngineOptions) (tree *config.Tree, applied *pb.ApplyHeader, err error) {
	switch {
	case o.Taken != nil:
		t := o.Taken
		e.records = t.records
		e.recordFile = newRecordFile(o.StateDir, e.records, o.Log)
		e.journal = &journal{path: filepath.Join(o.StateDir, journalName), lock: t.lock}
		e.removed.read(o)
		return t.tree, t.header, nil
	case o.StateDir == "":
		return nil, nil, nil
	}
	e.journal, tree, applied, err = openJournal(o.StateDir)
	switch {
	case errors.Is(err, errDamaged):
		o.Log.Error("the applied configuration is damaged; what can be read is in effect", "error", err)
		applied = &pb.ApplyHeader{StoreId: applied.GetStoreId()} // no protocol: no delta fits
		e.disk.rewrite = true
	case err != nil:
		return nil, nil, fmt.Errorf("state directory: %w", err)
	}
	e.removed.read(o)
	e.records, e.former = restoreRecords(o.StateDir, o.Log), true
	e.records.SetLimit(persist.DefaultLimit)
	e.recordFile = newRecordFile(o.StateDir, e.records, o.Log)
	e.recordFile.begin()
	return tree, applied, nil
}

// succeed takes the place of the dataplane that was taken. On an error the engine is closed.
func (e *Engine) succeed(o *EngineOptions) error {
	err := e.claim(o.Taken)
	if err != nil && died(context.Background(), o.StateDir, err) {
		e.log.Warn("the dataplane before this one has died; what it had given is in effect", "pid", o.Taken.conn.PID(), "error", err)
		err = nil
	}
	if err != nil {
		e.journal = nil // nothing may be written
		o.Taken.Close()
		e.Close(context.Background())
		return fmt.Errorf("take over from process %d: %w", o.Taken.conn.PID(), err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = false
	for _, l := range e.running.Load().endpoints() {
		l.Resume()
	}
	if left := o.Sockets.Drop(); len(left) > 0 {
		e.log.Info("sockets that were given and are not used", "names", left)
	}
	e.disk.rewrite = true
	if err := e.holds.open(o); err != nil {
		e.log.Error("addresses are not assigned", "error", err)
	}
	e.predecessor = o.Taken
	e.heard.Go(func() { e.hear(o.Taken) })
	return nil
}

// Close stops accepting and lets open connections end until ctx does; then they are reset. Where another process has taken over,
// idle connections have a while to end. It returns when nothing of the engine runs any more.
func (e *Engine) Close(ctx context.Context) {
	close(e.stop)
	e.stopped.Wait()
	e.health.monitors.Close()
	e.mu.Lock()
	e.disk.retryAt = time.Time{} // a last attempt
	e.mu.Unlock()
	e.flush()
	e.mu.Lock()
	if e.journal != nil {
		e.recordFile.end()
		e.journal.close() // the next dataplane need not wait for the last connection
		e.journal = nil
	}
	if !e.handed {
		e.drains.hasten()
		e.predecessor.Close()
	}
	for _, v := range e.running.Load().virtuals {
		v.drain(e)
	}
	e.mu.Unlock()
	e.drains.wait(ctx)
	end := context.AfterFunc(ctx, e.predecessor.Close)
	e.heard.Wait()
	end()
	e.holds.close()
	if e.recordFile != nil {
		e.recordFile.sync.Wait()
	}
	if err := e.intercepts.close(); err != nil {
		e.log.Error("cannot remove rules that intercept packets", "error", err)
	}
	e.presence.watch.Close()
	e.connections.Close()
}

// Update is a whole configuration or a delta.
type Update struct {
	Header  *pb.ApplyHeader
	Changed []*pb.Object // kept; not to be changed afterwards
	Deleted []string
}

// Apply makes a configuration the wanted one. It fails for no object: what is not in effect is in the result, and goes
// on being tried.
func (e *Engine) Apply(u *Update) ([]*pb.NotInEffect, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handed {
		return nil, ErrHandedOver
	}
	prev := e.running.Load()
	if err := prev.accepts(u); err != nil {
		return nil, err
	}
	tree, changes := prev.wanted(u)
	e.run(prev.derive(tree, u.Header), changes)
	e.record(u.Header, tree, changes)
	e.removed.keep(e.log)
	return e.notInEffect(), nil
}

// accepts checks an update before anything happens.
func (r *runtime) accepts(u *Update) error {
	h, applied := u.Header, r.applied
	switch {
	case h == nil:
		return fmt.Errorf("%w: no header", ErrMalformed)
	case h.GetProtocol() != pb.ApplyProtocol:
		return fmt.Errorf("%w: %d, want %d", ErrProtocol, h.GetProtocol(), pb.ApplyProtocol)
	case h.GetStoreId() == "":
		return fmt.Errorf("%w: no store identity", ErrMalformed)
	case applied.GetStoreId() != "" && applied.GetStoreId() != h.GetStoreId():
		return fmt.Errorf("%w: %s; to follow %s, start with an empty state directory", ErrForeignStore, applied.GetStoreId(), h.GetStoreId())
	case h.GetFull() && len(u.Deleted) > 0:
		return fmt.Errorf("%w: a whole configuration that deletes", ErrMalformed)
	case !h.GetFull() && (applied.GetProtocol() == 0 || h.GetBaseRevision() != applied.GetRevision() || h.GetBaseSequence() != applied.GetSequence()):
		return fmt.Errorf("%w: it begins at %d.%d, applied is %d.%d", ErrBase,
			h.GetBaseRevision(), h.GetBaseSequence(), applied.GetRevision(), applied.GetSequence())
	}
	for _, o := range u.Changed {
		if o.Key() == "" {
			return fmt.Errorf("%w: an object without a kind", ErrMalformed)
		}
	}
	return nil
}

// wanted returns the configuration after an update, and how it differs from the one before.
func (r *runtime) wanted(u *Update) (*config.Tree, []config.Change) {
	if u.Header.GetFull() {
		tree := config.NewTree(u.Changed...)
		return tree, config.Diff(r.view, tree)
	}
	o := config.NewOverlay(r.view)
	for _, key := range u.Deleted {
		o.Delete(key)
	}
	for _, obj := range u.Changed {
		o.Put(obj)
	}
	return o.Tree(), o.Changes()
}

// run compiles what the changes touch, makes the next runtime the running one, and follows it. The caller holds the lock.
func (e *Engine) run(next *runtime, changes []config.Change) {
	touched := affected(next.view, changes)
	if e.readKeys(next) {
		touched.sealed()
	}
	retime := next.compilePools(touched.pools, &pool.Env{
		Table: e.records, Dial: e.addresses.Local, Health: e.health.known, Keys: e.keys.ring, Log: e.log,
		Removed: e.removed.former,
	})
	e.removed.note(next, touched.pools)
	e.health.check(next, changes, e.addresses)
	next.compileRules(touched.rules)
	plans, gone := next.compileVirtuals(touched.virtuals, e.addresses, &e.shares)
	e.limitRecords(next.view)
	if e.former && next.applied.GetProtocol() != 0 { // else it is damaged, and a whole one is to come
		retime.all(next.pools)
		e.former = false
	}
	retime.apply(e.records)
	for _, v := range gone {
		e.gone.add(v.counters.Counts())
		v.drain(e)
	}
	e.running.Store(next)
	e.holds.take(addressesOf(plans))
	for v, p := range plans { // who gives up an address goes before who may want it
		if !p.bind.IsValid() {
			v.follow(p, e)
		}
	}
	for v, p := range plans {
		if p.bind.IsValid() {
			v.follow(p, e)
		}
	}
	e.intercept()
}

// addressesOf returns the addresses that are to be bound.
func addressesOf(plans map[*virtual]plan) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range plans {
		if p.bind.IsValid() {
			addrs = append(addrs, p.bind.Addr().Unmap())
		}
	}
	return addrs
}

// compileVirtuals plans the dirty virtual servers. Those that are no more configured leave the runtime.
func (r *runtime) compileVirtuals(names map[string]struct{}, addresses *AddressMap, shares *shares) (plans map[*virtual]plan, gone []*virtual) {
	plans = make(map[*virtual]plan, len(names))
	for name := range names {
		v, vs := r.virtuals[name], config.FindVirtual(r.view, name)
		if vs == nil {
			if v != nil {
				delete(r.virtuals, name)
				gone = append(gone, v)
			}
			continue
		}
		if v == nil {
			v = &virtual{address: name, counters: pool.NewCounters()}
			r.virtuals[name] = v
		}
		plans[v] = r.plan(vs, v, addresses, shares)
	}
	return plans, gone
}

func (e *Engine) limitRecords(tree *config.Tree) {
	limit := persist.DefaultLimit
	if g := config.Globals(tree); g.PersistTableLimit != nil {
		limit = int(g.GetPersistTableLimit())
	}
	e.records.SetLimit(limit)
}

// Bound returns where a virtual server listens, for connections if it does for these, which the address map may have changed;
// false while it does not listen.
func (e *Engine) Bound(virtual string) (netip.AddrPort, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.running.Load().virtuals[virtual]
	switch {
	case v == nil || v.listener == nil && v.udp == nil:
		return netip.AddrPort{}, false
	case v.listener == nil:
		return v.udp.Addr(), true
	}
	return v.listener.Addr(), true
}

// Status tells what is applied and what of it is not in effect now.
func (e *Engine) Status() *pb.StatusReply {
	r := e.running.Load()
	return &pb.StatusReply{
		Version:       Version(),
		StoreId:       r.applied.GetStoreId(),
		Revision:      r.applied.GetRevision(),
		Sequence:      r.applied.GetSequence(),
		NotInEffect:   e.notInEffect(),
		UptimeSeconds: wholeSeconds(time.Since(e.started)),
	}
}

func wholeSeconds(d time.Duration) uint64 { return uint64(max(d, 0) / time.Second) }
