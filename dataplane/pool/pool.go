package pool

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"bigpipe/dataplane/balance"
	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Timeouts of a pool that does not say otherwise.
const (
	defaultConnectTimeout  = 5 * time.Second
	defaultResponseTimeout = 60 * time.Second
	defaultHelloTimeout    = 5 * time.Second
)

// Env is what pools are compiled with: the configuration around them and what the process lends them.
type Env struct {
	// View is the configuration that the pool is part of.
	View config.View
	// Table holds the persistence records of all pools.
	Table *persist.Table
	// Dial maps a member's address to the one that is dialled; the error says why it must not be dialled. Nil: as it is.
	Dial func(netip.AddrPort) (netip.AddrPort, error)
	// Health knows the members by their addresses, and what those of all pools share. Nil: nobody monitors them, nothing is shared.
	Health *Healths
	// Keys encrypt cookies; nil: there are none.
	Keys *cookie.Ring
	// Removed are members that a process before this one has kept after they were removed, by pool. They count where there is no
	// pool before the one that is compiled.
	Removed map[string][]Removed
	// Now is the wall clock; nil is the system's.
	Now func() time.Time
	// Log is where pools tell what they meet; nil is slog's default.
	Log *slog.Logger

	findings findings
}

// findings are what was looked for in a view on behalf of one pool, and is the same for others.
type findings struct {
	view       config.View
	responding map[netip.AddrPort]bool // members that a pool with lb_mode response has, or not
	names      cookie.Names            // see joinedNames
	pools      map[string]int
}

// found returns what was found in the view so far.
func (e *Env) found() *findings {
	if f := &e.findings; f.view != e.View || f.responding == nil {
		*f = findings{view: e.View, responding: map[netip.AddrPort]bool{}}
	}
	return &e.findings
}

func (e *Env) dial(addr netip.AddrPort) (netip.AddrPort, error) {
	if e.Dial == nil {
		return addr, nil
	}
	return e.Dial(addr)
}

func (e *Env) health(addr netip.AddrPort) *Health {
	if e.Health == nil {
		return &Health{node: &Node{}}
	}
	return e.Health.Of(addr)
}

func (e *Env) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// Pool is a pool of one snapshot. It is immutable and may be used by any number of goroutines.
type Pool struct {
	// Name is the pool's name.
	Name string
	// ID names the pool in the table of records.
	ID persist.PoolID
	// Config is what the pool was compiled from; not to be changed.
	Config *pb.Pool
	// ConnectTimeout bounds a connect to a member, ResponseTimeout the wait for the head of a response.
	ConnectTimeout, ResponseTimeout time.Duration
	// HelloTimeout bounds the wait for a client's hello of TLS, or for its request to terminal services, which the choice depends
	// on. Zero: it does not.
	HelloTimeout time.Duration
	// Fallback is where requests are redirected when no member can be used (%h, %p and %u are filled in); "" is nowhere.
	Fallback string
	// ErrorURL is where requests are redirected that no member answers, in a pool of persist_mode jroute; "" is nowhere.
	ErrorURL string

	log       *slog.Logger
	table     *persist.Table
	members   []*Member // in configured order
	byAddr    map[netip.AddrPort]*Member
	picker    balance.Picker
	usable    func(i int) bool
	checking  func(i int) bool // what may be tried when nobody is usable
	preferred func(i int) bool // usable, and in a priority group that takes traffic
	unhealthy func(i int) bool // what may be tried when nobody is healthy
	groups    *groups          // nil: all members alike
	refusals  int              // members tried after a refusal, at most
	mode      balance.Mode
	maxIdle   time.Duration // see defaultMaxIdle
	persisted method        // nil: none
	cookies   *cookieMethod // nil: the pool writes none
	stripped  *cookieMethod // nil: members see the cookie
	tokens    *tokenMethod  // nil: the pool makes none
	jroutes   *jrouteMethod // nil: the pool knows no routes
	retained  map[netip.AddrPort]*Member
	retention time.Duration // how long members are retained
	now       func() time.Time
	shared    *shared
}

// shared is what pools of one name hand to each other.
type shared struct {
	outcomes *tally
	// expired and evicted are what the table had counted at the last reset.
	expired, evicted atomic.Uint64
	// toldExpired and toldEvicted are what the table had counted when it was logged last.
	toldExpired, toldEvicted atomic.Uint64
	telling                  telling
	// unserved counts connections that found no member.
	unserved atomic.Uint64
	// unfollowed is set once a session of TLS 1.3 was met that nothing persists.
	unfollowed atomic.Bool
	// printedOrder is set once a cookie in the byte order of seed 002 was met.
	printedOrder atomic.Bool
	// collision is set once a member set what carries our token.
	collision atomic.Bool
}

// Compile makes the pool of the next snapshot. Previous is the pool of that name in the last one, or nil. The reasons say
// what of the configuration cannot be in effect; the pool works without it.
func Compile(c *pb.Pool, env *Env, previous *Pool) (p *Pool, reasons []string) {
	p = &Pool{
		Name:            c.GetName(),
		ID:              persist.PoolIDOf(c.GetName()),
		Config:          c,
		log:             env.Log,
		now:             env.now,
		table:           env.Table,
		ConnectTimeout:  seconds(c.ConnectTimeout, defaultConnectTimeout),
		ResponseTimeout: seconds(c.ResponseTimeout, defaultResponseTimeout),
		Fallback:        c.GetFallback(),
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	p.usable = func(i int) bool { return p.members[i].usable() }
	p.preferred = func(i int) bool { return p.groups.has(p.members[i]) && p.members[i].usable() }
	p.unhealthy = func(i int) bool { m := p.members[i]; return m.state.UsableForNew() && m.unhealthy() && !m.full() }
	p.checking = func(i int) bool { m := p.members[i]; return m.State() == Checking && !m.full() }
	if previous != nil {
		p.shared = previous.shared
	} else {
		p.shared = &shared{outcomes: newTally()}
	}
	p.mode, reasons = lbMode(c, env)
	reasons = append(reasons, p.compileMembers(c, env, previous)...)
	reasons = append(reasons, p.compileMethod(c, env)...)
	p.retain(c, env, previous)
	if p.table != nil { // the table may know a limit of a pool that was removed
		p.table.SetPoolLimit(p.ID, int(c.GetPersistLimit()))
	}
	p.refusals = len(p.members) - 1
	if c.ReselectTries != nil {
		p.refusals = int(min(c.GetReselectTries(), 1<<20))
	}
	p.maxIdle = seconds(config.Globals(env.View).FastestMaxIdleTime, defaultMaxIdle)
	p.groups = newGroups(p)
	var old balance.Picker
	if previous != nil {
		old = previous.picker
	}
	p.picker = balance.New(p.mode, p.weights(), old)
	return p, reasons
}

func seconds(configured *uint32, otherwise time.Duration) time.Duration {
	if configured == nil || *configured == 0 {
		return otherwise
	}
	return time.Duration(*configured) * time.Second
}

// lbMode is the mode that balances the pool; one that is not there yet is reported.
func lbMode(c *pb.Pool, env *Env) (balance.Mode, []string) {
	word := pb.EnumWord(config.LbModeOf(env.View, c))
	mode, err := balance.ParseMode(word)
	if err != nil {
		return balance.RoundRobin, []string{fmt.Sprintf("lb_mode %s (balanced by round_robin)", word)}
	}
	return mode, nil
}

// fewMembers is up to how many members are found by looking at each, which a map of 330 bytes for four does no faster.
const fewMembers = 8

func (p *Pool) compileMembers(pool *pb.Pool, env *Env, previous *Pool) (reasons []string) {
	if len(pool.GetMembers()) > fewMembers {
		p.byAddr = make(map[netip.AddrPort]*Member, len(pool.GetMembers()))
	}
	for _, c := range pool.GetMembers() {
		addr, err := netip.ParseAddrPort(c.GetAddress())
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("member %s: not an address and port", c.GetAddress()))
			continue
		}
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		if p.Member(addr) != nil {
			continue
		}
		m := &Member{Addr: addr, Ratio: ratioOf(c, env, p.mode), Priority: c.GetPriority(), index: len(p.members)}
		m.Limit = c.GetLimit()
		m.ServiceLimit = env.View.Get("node/" + addr.String()).GetNode().GetLimit()
		m.NodeLimit = env.View.Get("node/" + addr.Addr().String()).GetNode().GetLimit()
		m.state = OperatorState(env.View, c.GetAddress())
		if m.Dial, err = env.dial(addr); err != nil {
			m.state = Down
			reasons = append(reasons, fmt.Sprintf("member %s: %v", addr, err))
		}
		m.health = env.health(addr)
		m.watch(pool)
		m.ResetOnDown = pool.GetOnDown() == pb.OnDown_ON_DOWN_RESET
		m.cookie, m.epoch = cookie.AppendValue(nil, addr), c.GetEpoch()
		old := previous.Member(addr)
		if old != nil {
			m.counters = old.counters
		} else {
			m.counters = NewCounters()
		}
		m.accompany(c, seconds(pool.SlowStart, 0), old, previous != nil, time.Now())
		m.live = p.live(m, env)
		p.members = append(p.members, m)
		if p.byAddr != nil {
			p.byAddr[addr] = m
		}
	}
	return reasons
}

// ratioOf is the member's weight: its own, or under a mode that looks at node addresses that of its node address.
func ratioOf(c *pb.Member, env *Env, mode balance.Mode) uint32 {
	if mode.ByNode() {
		return config.NodeRatio(env.View, c.GetAddress())
	}
	return config.MemberRatio(c)
}

func (p *Pool) weights() []balance.Member {
	list := make([]balance.Member, len(p.members))
	for i, m := range p.members {
		list[i] = balance.Member{Name: m.Addr.String(), Weight: m.Ratio, Addr: m.Addr}
		if p.mode.Measures() {
			list[i].Meter = p.meter(m)
		}
		list[i].Live = m.live
	}
	return list
}

func (p *Pool) meter(m *Member) balance.Meter {
	if p.mode == balance.Response {
		return meter{m: m, probed: true}
	}
	return meter{m: m, byNode: p.mode.ByNode(), idle: p.maxIdle}
}

// PerRequest reports whether the pool's clients are told apart by each request, even on one connection (rule O-14). A nil pool
// has none.
func (p *Pool) PerRequest() bool { return p != nil && (p.tokens != nil || p.jroutes != nil) }

// Knows reports whether persistence knows that a client belongs to the pool, and the pool can serve it: by the client's member
// or, where that is down, by another one. Nothing changes by it. A nil pool knows nobody.
func (p *Pool) Knows(in *Input) bool {
	if p == nil || p.persisted == nil {
		return false
	}
	m := p.persisted.knows(p, in)
	return m != nil && (m.State().UsableForPersisted() || slices.ContainsFunc(p.members, (*Member).usable))
}

// Members returns the members in configured order; not to be changed.
func (p *Pool) Members() []*Member { return p.members }

// Member returns the member with an address of the configuration, nil when there is none. A nil pool has no members.
func (p *Pool) Member(addr netip.AddrPort) *Member {
	if p == nil {
		return nil
	}
	if p.byAddr != nil {
		return p.byAddr[addr]
	}
	for _, m := range p.members {
		if m.Addr == addr {
			return m
		}
	}
	return nil
}

// find finds a member for the cookie reader.
func (p *Pool) find(addr netip.AddrPort) (index int, epoch uint64, ok bool) {
	if m := p.Member(addr); m != nil {
		return m.index, m.epoch, true
	}
	return 0, 0, false
}

// finderAt is find by the node's address alone (rule B-5), on a virtual server with this port.
func (p *Pool) finderAt(virtualPort uint16) cookie.Lookup {
	return func(addr netip.AddrPort) (index int, epoch uint64, ok bool) {
		if m := p.atNode(addr, virtualPort); m != nil {
			return m.index, m.epoch, true
		}
		return 0, 0, false
	}
}

func (p *Pool) refuseUnavailable() bool {
	return p.Config.GetPersistUnavailable() == pb.Unavailable_UNAVAILABLE_REFUSE
}

func (p *Pool) refuseUnknown() bool {
	return p.Config.GetPersistUnknown() == pb.Unavailable_UNAVAILABLE_REFUSE
}

// persistedLimits are the member's limits for clients that are bound to it.
func (p *Pool) persistedLimits(m *Member) limits {
	if p.Config.GetPersistLimitOverride() {
		return limits{}
	}
	return m.limits()
}

// keeps reports whether clients stay bound to a member while a higher priority group than its own takes the traffic.
func (p *Pool) keeps(m *Member) bool {
	return p.Config.PersistLowerPriority == nil || p.Config.GetPersistLowerPriority() || p.groups.has(m)
}

// key is what a mode that hashes chooses by: where the client wanted to go on a virtual server that takes any destination,
// else the client's address (rules M-4, M-5). Of 24 hash_bits its network counts: 24 bits of IPv4, 64 of IPv6.
func (p *Pool) key(in *Input) netip.Addr {
	addr := in.Client.Addr().Unmap()
	if d := in.Destination.Addr(); d.IsValid() {
		addr = d.Unmap()
	}
	if p.Config.GetHashBits() != 24 {
		return addr
	}
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	network, _ := addr.Prefix(bits)
	return network.Addr()
}

// Outcomes returns what persistence found and did for this pool. Records that ran out or were evicted are counted by
// the table.
func (p *Pool) Outcomes() *pb.PersistOutcomes {
	sum, records := p.shared.outcomes.message(), p.recordStats()
	sum.Expired = p.shared.outcomes.sum(OutcomeExpired) + records.Expired - p.shared.expired.Load()
	sum.Evicted = records.Evicted - p.shared.evicted.Load()
	return sum
}

// ResetOutcomes counts outcomes and unserved connections from zero again.
func (p *Pool) ResetOutcomes() {
	records := p.recordStats()
	p.shared.expired.Store(records.Expired)
	p.shared.evicted.Store(records.Evicted)
	p.shared.outcomes.reset()
	p.shared.unserved.Store(0)
}

// PersistMode is how the pool persists; none where it does not, whatever it was told.
func (p *Pool) PersistMode() pb.PersistMode {
	if p.persisted == nil {
		return pb.PersistMode_PERSIST_MODE_NONE
	}
	return p.Config.GetPersistMode()
}

// Mirrored reports whether records of the pool are for other units, too (mirror persist). Those of a nil pool are not.
func (p *Pool) Mirrored() bool { return p != nil && p.Config.GetMirrorPersist() }

// Unserved is how many connections found no member that they could use.
func (p *Pool) Unserved() uint64 { return p.shared.unserved.Load() }

// Records is the number of records that were bound through the pool.
func (p *Pool) Records() int { return p.recordStats().Records }

// LargestKey returns the key that most of the pool's latest connections with a record had, as records print it, and its share of
// them from 0 to 1 (pain 83). The share is 0 where there were too few; the key is "" if its record is gone.
func (p *Pool) LargestKey() (key string, share float64) {
	if p.table == nil {
		return "", 0
	}
	k, share := p.table.Busiest(p.ID)
	if !k.IsZero() {
		key = k.String()
	}
	return key, share
}

func (p *Pool) recordStats() persist.Stats {
	if p.table == nil {
		return persist.Stats{}
	}
	return p.table.PoolStats(p.ID)
}
