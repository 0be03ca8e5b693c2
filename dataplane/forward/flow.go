package forward

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
)

// flow is a client's connection with the member's that serves it, and what belongs to them.
type flow struct {
	listener *Listener
	settings *Settings                   // of the last decision
	counters *pool.Counters              // where the flow was counted as open
	shared   []Shared                    // where too
	peer     netip.AddrPort              // who connected
	source   netip.AddrPort              // the client: who connected, or who that did it for
	contact  netip.AddrPort              // where it wanted to go, where the listener has all addresses; else invalid
	began    instant                     // when it was accepted
	active   atomic.Int64                // instant of the last progress
	member   atomic.Pointer[pool.Member] // for listings
	waiting  atomic.Int64                // since when the flow waits for a member; 0: it does not
	idle     atomic.Bool                 // HTTP: no request is in transit
	parked   waiter                      // waits for the client while no goroutine does
	asked    bool                        // HTTP: the client has sent something
	partial  bool                        // HTTP: it is the rest of a head that is waited for
	parsed   int                         // HTTP: bytes of that head that were looked at
	fault    error                       // HTTP: why the rest does not come
	limited  bool                        // counted at its source
	killed   atomic.Bool                 // to end at once

	client   conn
	server   *conn                // the member's; never nil, closed where there is none
	watched  atomic.Pointer[conn] // the same, for the sweep
	own      conn                 // of the member, where it is not shared
	in       buffer               // bytes of the client
	from     buffer               // bytes of the member
	decision pool.Decision
	target   *pool.Member // that server is connected to
	traffic  pool.Shard
	counted  struct{ in, out atomic.Uint64 } // bytes that were counted
	moving   atomic.Pointer[pool.Member]     // whose bytes the table counts now and then; nil: the flow counts them soon

	reused    bool // server has carried a request before
	pinned    bool // server was authenticated for this client and is nobody else's (rule O-13)
	afresh    bool // no connection is used that has carried a request before
	cookieDue bool // the next response of the member must carry our cookie
	large     bool // the last response had a large body
	lead      lead // what preceded the request

	next, prev *flow // guarded by the table's shard
	shard      uint8
}

func newFlow(l *Listener, settings *Settings, fd int, peer netip.AddrPort) *flow {
	f := &flow{listener: l, settings: settings, counters: settings.Counters, shared: settings.Shared, peer: peer, source: peer, traffic: pool.NewShard()}
	clock := l.table.clock
	f.began = clock.now()
	f.active.Store(int64(f.began))
	f.parked.flow = f
	f.own.fd = -1
	f.adopt(&f.client)
	f.adopt(&f.own)
	f.client.open(fd)
	f.client.sends = 2 // no delay of small segments is inherited
	f.use(&f.own)
	if l.addr.Addr().IsUnspecified() {
		f.contact = localAddr(fd)
	}
	return f
}

// begin begins to serve the connection. The flow is no longer the caller's.
func (f *flow) begin() {
	if f.settings.HTTP {
		f.beginHTTP()
	} else {
		f.beginTCP()
	}
}

// run goes on serving the connection; a worker calls it. Afterwards the flow is over, or waits for its client.
func (f *flow) run() {
	if r := f.client.relay.Load(); r != nil {
		r.proceed()
	} else {
		f.serveHTTP()
	}
}

// end cleans up behind the connection. Nobody may use the flow any more.
func (f *flow) end() {
	defer f.listener.open.Done()
	if f.limited { // before the client sees the end, and may come again
		f.listener.sources.leave(sourceOf(f.peer.Addr()))
	}
	f.listener.table.remove(f) // before the descriptor can be another's
	f.count(0)
	f.decision.Release()
	if f.killed.Load() {
		f.client.reset()
		f.server.reset()
	}
	f.server.close()
	f.listener.table.leave(&f.client, f.shard)
	f.in.drop()
	f.from.drop()
	closeShared(f.counters, f.shared)
}

// admit counts the connection as open, unless the virtual server or who connected has as many as it may. A trusted proxy may
// have any number: it connects for many.
func (f *flow) admit() bool {
	set := f.settings
	source := sourceOf(f.peer.Addr())
	f.limited = set.SourceLimit > 0 && !set.trusts(f.peer.Addr())
	if f.limited && !f.listener.sources.enter(source, set.SourceLimit) {
		return false
	}
	if !set.open() {
		if f.limited {
			f.listener.sources.leave(source)
		}
		return false
	}
	return true
}

func (f *flow) describe() Connection {
	now := f.listener.table.clock.now()
	c := Connection{Client: f.peer, Virtual: f.listener.settings.Load().Virtual}
	c.Age, c.Idle = time.Duration(now-f.began), time.Duration(now-instant(f.active.Load()))
	if m := f.member.Load(); m != nil {
		c.Node = m.Addr
	}
	return c
}

// sweep is called each tick with the table's shard locked. It reports whether finish must be called, without the lock, because
// the time of somebody is over.
func (f *flow) sweep(now instant) (late bool) {
	if f.listener.idleOver(now) {
		f.wakeIdle()
	}
	if f.listener.killing.Load() {
		f.killed.Store(true)
	}
	kill := f.killed.Load()
	if r := f.client.relay.Load(); r != nil {
		return kill || f.client.reader.passed(now)
	}
	if since := instant(f.waiting.Load()); since != 0 && now-since > patience && f.client.gone.Load() {
		f.killed.Store(true)
		kill = true
	}
	return kill || f.client.overdue(now) || f.watched.Load().overdue(now)
}

// finish wakes whoever's time is over. The flow may have ended, or begun with something else, since sweep.
func (f *flow) finish(now instant) {
	if r := f.client.relay.Load(); r != nil {
		r.tell(happenedTime)
		return
	}
	kill := f.killed.Load()
	f.client.expire(now, kill)
	f.watched.Load().expire(now, kill)
}

// touch notes progress.
func (f *flow) touch() { f.active.Store(f.client.clock.nanos.Load()) }

// count counts the bytes at the client's side since the last call, and requests.
func (f *flow) count(requests uint64) {
	if f.moving.Load() != nil {
		f.moving.Store(nil)
	}
	in, out := f.uncounted()
	f.counters.Add(f.traffic, in, out, requests)
	f.decision.Count(in, out, requests)
}

// countMoved counts the bytes of what takes long before it has ended: a relay, a large body. It is called by the table with
// its shard locked.
func (f *flow) countMoved() {
	m := f.moving.Load()
	if m == nil {
		return
	}
	if in, out := f.uncounted(); in+out > 0 {
		f.counters.Add(f.traffic, in, out, 0)
		m.Counters().Add(f.traffic, in, out, 0)
	}
}

// uncounted takes the bytes that nobody has counted yet.
func (f *flow) uncounted() (in, out uint64) {
	return since(&f.counted.in, &f.client.pulled), since(&f.counted.out, &f.client.pushed)
}

// since makes counted what total is, and returns by how much it was less. Several goroutines may do so at once.
func since(counted, total *atomic.Uint64) uint64 {
	for {
		before := counted.Load()
		if now := total.Load(); now == before || counted.CompareAndSwap(before, now) {
			return now - before
		}
	}
}

// ruleInput is what the settings' rule decides by.
func (f *flow) ruleInput(set *Settings, request rule.Request) rule.Input {
	in := rule.Input{Client: f.source, Server: set.Virtual, Request: request}
	if f.contact.IsValid() {
		in.Server = f.contact
	}
	return in
}

// poolInput is what a pool chooses by.
func (f *flow) poolInput(set *Settings, c *choice) pool.Input {
	return pool.Input{Client: f.source, Virtual: set.Virtual, Destination: f.contact, Fresh: c.fresh, ByRule: set.ByRule}
}

// returning tells a rule which pools a client comes back to.
type returning struct {
	pools []*pool.Pool
	in    pool.Input
}

// Knows is for the rule.
func (r *returning) Knows(i int) bool { return i < len(r.pools) && r.pools[i].Knows(&r.in) }

// choice is where the settings send a connection or request.
type choice struct {
	action   rule.Action
	pool     *pool.Pool // with rule.UsePool
	fresh    bool
	location *rule.Location
}

// route asks the settings.
func (set *Settings) route(in *rule.Input) choice {
	d := rule.Decision{Action: rule.UsePool}
	if set.Rule != nil {
		d = set.Rule.Decide(in)
	}
	c := choice{action: d.Action, fresh: d.PersistNone, location: d.Location}
	if d.Action == rule.UsePool && d.Pool < len(set.Pools) {
		c.pool = set.Pools[d.Pool]
	}
	if c.action == rule.UsePool && c.pool == nil {
		c.action = rule.Nothing
	}
	return c
}

// errLocal means that this machine could not connect, which says nothing about the member.
var errLocal = errors.New("no socket to be had")

// adopt makes c, which is closed or at rest, a conn of the flow.
func (f *flow) adopt(c *conn) {
	t := f.listener.table
	c.clock, c.killed = t.clock, &f.killed
	if c.poll == nil {
		c.owners, c.poll = &t.polls.owners, t.polls.choose()
	}
}

// use makes c the member's connection of the flow.
func (f *flow) use(c *conn) {
	f.server = c
	f.watched.Store(c)
}

// reach connects to the chosen member, and to the next ones while they do not accept. Where there is a connection to the
// member already, that is used.
func (f *flow) reach() error {
	for {
		err := f.obtain(f.decision.Member)
		if err == nil {
			break
		}
		if errors.Is(err, errKilled) || errors.Is(err, errLocal) {
			return err
		}
		if err := f.decision.Refused(); err != nil {
			return err
		}
	}
	f.target = f.decision.Member
	f.decision.Accepted()
	return nil
}

// obtain gets the flow a connection to a member.
func (f *flow) obtain(m *pool.Member) error {
	if f.connected(m) {
		f.reused = true
	} else if err := f.dial(m, f.decision.Pool().ConnectTimeout); err != nil {
		return err
	}
	return f.join(m)
}

// errOver means that the member went down while the connection to it was made.
var errOver = errors.New("the member is down by now")

// join notes that the flow is connected to a member, so that [Table.Reset] finds it from now on. A member that was over before is
// left again.
func (f *flow) join(m *pool.Member) error {
	f.member.Store(m)
	if m.Over() {
		f.member.Store(nil)
		f.server.reset()
		f.server.close()
		return errOver
	}
	return nil
}

// connected reports whether the flow has a connection to a member, its own or one that was spare.
func (f *flow) connected(m *pool.Member) bool {
	switch {
	case f.afresh:
		return false
	case f.server.isOpen() && f.target.Dial == m.Dial && f.server.as == f.settings.introduction() && f.server.quiet():
		return true
	case f.settings.OneConnect == nil:
		return false
	}
	return f.takeSpare(m)
}

// dial connects the server side anew.
func (f *flow) dial(m *pool.Member, timeout time.Duration) error {
	f.server.close()
	f.from.drop()
	f.reused = false
	to, mark := f.settings.destination(m, f.contact)
	fd, err := f.socket(to, mark)
	if err != nil {
		return dialError(err)
	}
	if f.settings.OneConnect != nil { // it may outlive the flow
		c := &conn{fd: -1}
		f.adopt(c)
		f.use(c)
	}
	sa := newSockaddr(to)
	f.wait()
	f.server.as = f.settings.introduction()
	start := time.Time{}
	if !f.settings.HTTP {
		start = f.decision.Start()
	}
	err = f.server.connect(&sa, fd, timeout)
	if err == nil {
		f.decision.Took(start)
	}
	f.waiting.Store(0)
	if err == nil {
		err = f.introduce()
	}
	if err != nil {
		f.server.close()
	}
	return dialError(err)
}

// socket opens a socket to connect with, whose packets have a mark. Where there is none left the spares give up theirs.
func (f *flow) socket(to netip.AddrPort, mark uint32) (fd int, err error) {
	if !to.IsValid() {
		return -1, unix.EADDRNOTAVAIL
	}
	for range 2 {
		fd, err = unix.Socket(family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err == nil || !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
			break
		}
		f.listener.table.spares.drop(nil)
	}
	if err == nil && f.settings.Transparent {
		if err := impersonate(fd, f.peer.Addr()); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	if err == nil {
		if err := setMark(fd, mark); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	if err == nil && f.settings.HTTP {
		// The request follows at once and carries the acknowledgement of the handshake.
		setOption(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
	}
	return fd, err
}

// dialError makes what no other member would change errLocal. All else depends on the destination: that this host has no
// address of its family, no way to it, or no port left towards it.
func dialError(err error) error {
	for _, local := range [...]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		if errors.Is(err, local) {
			return errLocal
		}
	}
	return err
}

// wait notes that the flow waits for a member from now on.
func (f *flow) wait() { f.waiting.Store(int64(f.client.clock.now())) }
