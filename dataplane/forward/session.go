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

// session is a client's connection and what belongs to it.
type session struct {
	listener *Listener
	settings *Settings                   // of the last decision
	counters *pool.Counters              // where the session was counted as open
	peer     netip.AddrPort              // the client
	contact  netip.AddrPort              // where it wanted to go, where the listener has all addresses; else invalid
	began    instant                     // when it was accepted
	active   atomic.Int64                // instant of the last progress
	member   atomic.Pointer[pool.Member] // for listings
	waiting  atomic.Int64                // since when the session waits for a member; 0: it does not
	idle     atomic.Bool                 // HTTP: no request is in transit
	killed   atomic.Bool                 // to end at once

	client, server conn
	in             buffer // bytes of the client
	from           buffer // bytes of the member
	decision       pool.Decision
	target         *pool.Member // that server is connected to
	traffic        pool.Shard
	counted        struct{ in, out atomic.Uint64 } // bytes that were counted
	moving         atomic.Pointer[pool.Member]     // whose bytes the table counts now and then; nil: the session counts them soon

	reused    bool // server has carried a request before
	cookieDue bool // the next response of the member must carry our cookie
	large     bool // the last response had a large body
	lead      lead // what preceded the request

	next, prev *session // guarded by the table's shard
	shard      uint8
}

func newSession(l *Listener, settings *Settings, fd int, peer netip.AddrPort) *session {
	s := &session{listener: l, settings: settings, counters: settings.Counters, peer: peer, traffic: pool.NewShard()}
	clock := l.table.clock
	s.began = clock.now()
	s.active.Store(int64(s.began))
	s.client.clock, s.client.killed = clock, &s.killed
	s.server.clock, s.server.killed = clock, &s.killed
	s.client.open(fd)
	s.client.sends = 2 // no delay of small segments is inherited
	s.server.fd = -1
	if l.addr.Addr().IsUnspecified() {
		s.contact = localAddr(fd)
	}
	return s
}

// run serves the connection and cleans up behind it.
func (s *session) run() {
	defer s.listener.open.Done()
	if s.settings.HTTP {
		s.serveHTTP()
	} else {
		s.serveTCP()
	}
	s.listener.table.remove(s) // before the descriptor can be another's
	s.count(0)
	s.decision.Release()
	if s.killed.Load() {
		s.client.reset()
		s.server.reset()
	}
	s.server.close()
	s.listener.table.leave(&s.client, s.shard)
	s.in.drop()
	s.from.drop()
	s.counters.Close()
}

func (s *session) describe() Connection {
	now := s.listener.table.clock.now()
	c := Connection{Client: s.peer, Virtual: s.listener.settings.Load().Virtual}
	c.Age, c.Idle = time.Duration(now-s.began), time.Duration(now-instant(s.active.Load()))
	if m := s.member.Load(); m != nil {
		c.Node = m.Addr
	}
	return c
}

// sweep is called each tick with the table's shard locked.
func (s *session) sweep(now instant) {
	kill := s.killed.Load()
	s.client.expire(now, kill)
	s.server.expire(now, kill)
}

// touch notes progress.
func (s *session) touch() { s.active.Store(s.client.clock.nanos.Load()) }

// count counts the bytes at the client's side since the last call, and requests.
func (s *session) count(requests uint64) {
	if s.moving.Load() != nil {
		s.moving.Store(nil)
	}
	in, out := s.uncounted()
	s.counters.Add(s.traffic, in, out, requests)
	s.decision.Count(in, out, requests)
}

// countMoved counts the bytes of what takes long before it has ended: a relay, a large body. It is called by the table with
// its shard locked.
func (s *session) countMoved() {
	m := s.moving.Load()
	if m == nil {
		return
	}
	if in, out := s.uncounted(); in+out > 0 {
		s.counters.Add(s.traffic, in, out, 0)
		m.Counters().Add(s.traffic, in, out, 0)
	}
}

// uncounted takes the bytes that nobody has counted yet.
func (s *session) uncounted() (in, out uint64) {
	return since(&s.counted.in, &s.client.pulled), since(&s.counted.out, &s.client.pushed)
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
func (s *session) ruleInput(set *Settings, request rule.Request) rule.Input {
	in := rule.Input{Client: s.peer, Server: set.Virtual, Request: request}
	if s.contact.IsValid() {
		in.Server = s.contact
	}
	return in
}

// poolInput is what a pool chooses by.
func (s *session) poolInput(set *Settings, c *choice) pool.Input {
	return pool.Input{Client: s.peer, Virtual: set.Virtual, Destination: s.contact, Fresh: c.fresh}
}

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

// reach connects to the chosen member, and to the next ones while they do not accept. Where the server is connected to the
// member already, that connection is used.
func (s *session) reach() error {
	for {
		m := s.decision.Member
		if s.server.isOpen() && s.target.Dial == m.Dial && s.server.quiet() {
			s.reused = true
			break
		}
		err := s.dial(m, s.decision.Pool().ConnectTimeout)
		if err == nil {
			break
		}
		if errors.Is(err, errKilled) || errors.Is(err, errLocal) {
			return err
		}
		if err := s.decision.Refused(); err != nil {
			return err
		}
	}
	s.target = s.decision.Member
	s.member.Store(s.target)
	s.decision.Accepted()
	return nil
}

// dial connects the server side anew.
func (s *session) dial(m *pool.Member, timeout time.Duration) error {
	s.server.close()
	s.from.drop()
	s.reused = false
	if !m.Dial.IsValid() {
		return unix.EADDRNOTAVAIL
	}
	fd, err := unix.Socket(family(m.Dial.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return dialError(err)
	}
	if s.settings.HTTP {
		// The request follows at once and carries the acknowledgement of the handshake.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0)
	}
	to := newSockaddr(m.Dial)
	s.wait()
	err = s.server.connect(&to, fd, timeout)
	s.waiting.Store(0)
	if err != nil {
		s.server.close()
	}
	return dialError(err)
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

// wait notes that the session waits for a member from now on.
func (s *session) wait() { s.waiting.Store(int64(s.client.clock.now())) }
