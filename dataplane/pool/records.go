package pool

import (
	"cmp"
	"net/netip"
	"time"

	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// recordMethod persists by a record in the table: simple by the client's address, sticky by the destination's, sip by the call,
// msrdp by the user.
type recordMethod struct {
	table   *persist.Table
	kind    persist.Kind
	globals persist.Globals
	mask    persist.Mask
	proxies config.MapProxies
	policy  persist.Policy
}

// recordNote is what a decision remembers of its record. The zero value is no record.
type recordNote struct {
	method  *recordMethod
	key     persist.Key
	binding persist.Binding
	// virtualPort is the port of the virtual server (rule B-6).
	virtualPort uint16
}

// newRecordMethod compiles persist_mode simple, sticky, sip and msrdp. Nil without a reason: the pool does not persist (rule B-15).
func newRecordMethod(c *pb.Pool, env *Env) (*recordMethod, []string) {
	r := &recordMethod{
		table:  env.Table,
		policy: persist.Policy{Pool: persist.PoolIDOf(c.GetName()), Timeout: config.PersistTimeout(c), Timer: persist.Idle},
	}
	globals := config.Globals(env.View)
	if globals.GetPersistTimer() == pb.PersistTimer_PERSIST_TIMER_TIMEOUT {
		r.policy.Timer = persist.Fixed
	}
	if config.Scoped(c) {
		r.globals = persist.Globals{
			PersistOnAnyVIP:         globals.GetPersistAcrossVirtuals(),
			PersistOnAnyPortSameVIP: globals.GetPersistAcrossServices(),
		}
	}
	var mask config.Mask
	switch config.PersistModeOf(c) {
	case pb.PersistMode_PERSIST_MODE_SIMPLE:
		r.kind, mask, r.proxies = persist.Simple, config.SimpleMaskOf(c), config.MapProxiesOf(globals)
	case pb.PersistMode_PERSIST_MODE_STICKY:
		r.kind, mask = persist.Sticky, config.StickyMaskOf(c)
	case pb.PersistMode_PERSIST_MODE_SIP:
		r.kind = persist.SIP
		return r, nil
	case pb.PersistMode_PERSIST_MODE_MSRDP:
		r.kind = persist.MSRDP
		return r, nil
	default:
		return nil, nil
	}
	var err error
	if r.mask, err = persist.NewMask(mask.Bits4, mask.Bits6); err != nil {
		return nil, []string{err.Error()}
	}
	return r, nil
}

// key is the record's key under the wide scopes of globals or, with none, that of this virtual server and pool.
func (r *recordMethod) key(in *Input, globals persist.Globals) persist.Key {
	if r.byID() {
		return persist.IDKey(r.kind, persist.ScopeOf(globals, in.Virtual, r.policy.Pool), in.ID)
	}
	addr, _ := r.proxies.Map(in.Client.Addr())
	if r.kind == persist.Sticky {
		addr = in.Destination.Addr()
		if !addr.IsValid() {
			addr = in.Virtual.Addr()
		}
	}
	return persist.AddrKey(r.kind, persist.ScopeOf(globals, in.Virtual, r.policy.Pool), r.mask, addr)
}

// byID reports whether records are found by what the client's bytes name, and not by an address.
func (r *recordMethod) byID() bool { return r.kind == persist.SIP || r.kind == persist.MSRDP }

// named follows the member that the client's bytes name, which needs no record.
func (r *recordMethod) named(d *Decision, in *Input) (bool, error) {
	m := d.pool.Member(in.Named)
	if d.dry() {
		d.step("the client names %s", in.Named)
	}
	if m == nil {
		d.outcome = OutcomeUnknownMember
		if d.pool.refuseUnknown() {
			return false, ErrRefused
		}
		return false, nil
	}
	return d.follow(m)
}

// choose follows the record, and binds one where there is none in the moment in which the member is chosen.
func (r *recordMethod) choose(d *Decision, in *Input) (bool, error) {
	switch {
	case in.Named.IsValid() && !in.Fresh:
		return r.named(d, in)
	case r.byID() && len(in.ID) == 0:
		d.outcome = OutcomeNone
		if d.dry() {
			d.step("no %s is known that the client's bytes would name", idWords[r.kind])
		}
		return false, nil
	}
	if d.dry() && !r.byID() {
		if addr, mapped := r.proxies.Map(in.Client.Addr()); mapped {
			d.step("client %s counts as %s (map_proxy)", in.Client.Addr(), addr)
		}
	}
	done, err := r.find(d, in, r.key(in, r.globals))
	if !done && err == nil && d.outcome == OutcomeOtherPool {
		// The shared record stays as it is; a narrow one keeps the choice that is made here (rule B-7).
		done, err = r.find(d, in, r.key(in, persist.Globals{}))
		if d.action == OutcomeBound {
			d.outcome = OutcomeOtherPool
		}
	}
	return done, err
}

var idWords = map[persist.Kind]string{persist.SIP: "call", persist.MSRDP: "user"}

func (r *recordMethod) find(d *Decision, in *Input, key persist.Key) (bool, error) {
	d.record = recordNote{method: r, key: key, virtualPort: in.Virtual.Port()}
	if d.dry() {
		d.record.binding = r.look(d, key)
	} else {
		d.record.binding = r.table.Acquire(key, r.policy)
	}
	if d.record.binding.Outcome == persist.NoNode {
		d.outcome = OutcomeNone
		return r.bind(d)
	}
	if in.Fresh {
		d.outcome = OutcomeNone
		return true, r.move(d)
	}
	return r.use(d)
}

// look is Acquire where a choice is only explained.
func (r *recordMethod) look(d *Decision, key persist.Key) persist.Binding {
	rec, ok := r.table.Lookup(key)
	if !ok {
		d.step("no record of %s%s", key, scopeText(key.Scope()))
		return persist.Binding{}
	}
	left := "never ends"
	if rec.Remaining != persist.Forever {
		left = "ends in " + rec.Remaining.Round(time.Second).String()
	}
	d.step("the record of %s%s names %s, is %s old and %s", key, scopeText(key.Scope()), rec.Node, rec.Age.Round(time.Second), left)
	return persist.Binding{Node: rec.Node, Pool: rec.Pool, Outcome: persist.Found}
}

func scopeText(s persist.Scope) string {
	if v := s.Virtual(); v != "" {
		return " on " + v
	}
	return " on all virtual servers"
}

// use follows the record that the decision holds.
func (r *recordMethod) use(d *Decision) (bool, error) {
	m := d.pool.match(&d.record)
	switch {
	case m == nil && d.record.key.Scope().Shared():
		if d.dry() {
			d.step("pool %s has no member at %s: the shared record stays", d.pool.Name, d.record.binding.Node.Addr())
		}
		d.record.release()
		d.outcome = OutcomeOtherPool
		return false, nil
	case m == nil:
		d.outcome = OutcomeUnknownMember
		if d.dry() {
			d.step("pool %s has no member %s any more", d.pool.Name, d.record.binding.Node)
		}
		if d.pool.refuseUnknown() {
			return false, ErrRefused
		}
		return true, r.move(d)
	}
	if d.dry() {
		d.step("member %s is %s", m.Addr, m.State())
	}
	done, err := d.follow(m)
	if done || err != nil {
		return done, err
	}
	if d.outcome == OutcomeDown {
		return true, r.move(d)
	}
	d.record.release() // at its limit: the record stays
	return false, nil
}

// bind chooses and records in one moment, unless another connection was quicker: then its choice is followed.
func (r *recordMethod) bind(d *Decision) (bool, error) {
	if d.dry() {
		return true, r.explainBind(d)
	}
	d.record.binding = r.table.Bind(d.record.key, r.policy, d.offer)
	switch d.record.binding.Outcome {
	case persist.NoNode:
		return true, ErrNoMember
	case persist.Found:
		return r.use(d)
	case persist.Bound:
		if r.kind != persist.Cookie { // a cookie is bound when it is set
			d.did(OutcomeBound)
		}
	case persist.Full:
		d.outcome = OutcomeTableFull
	}
	return true, nil
}

// explainBind is bind where a choice is only explained.
func (r *recordMethod) explainBind(d *Decision) error {
	err := d.balance()
	switch {
	case err != nil, d.record.key.IsZero():
	case !r.table.Room(r.policy.Pool):
		d.step("the table of records is full: no record would be made")
		d.outcome = OutcomeTableFull
	case r.kind != persist.Cookie:
		d.did(OutcomeBound)
	}
	return err
}

// offer lets the table record the choice that the pool's mode makes.
func (d *Decision) offer() (netip.AddrPort, bool) {
	if d.balance() != nil {
		return netip.AddrPort{}, false
	}
	return d.Member.Addr, true
}

// move gives the record another member, or follows where another connection has moved it (rule B-8).
func (r *recordMethod) move(d *Decision) error {
	if d.dry() {
		d.step("the record moves")
		return d.balance()
	}
	d.take(nil, limits{})
	for range len(d.pool.members) + 1 {
		if !r.table.Rebind(d.record.key, r.policy, &d.record.binding, d.offer) {
			return ErrNoMember
		}
		if d.Member != nil {
			switch d.record.binding.Outcome {
			case persist.Moved:
				d.did(OutcomeMoved)
			case persist.Bound:
				d.did(OutcomeBound)
			}
			return nil
		}
		m := d.pool.match(&d.record)
		if m == nil || d.tried.Has(m.index) || !m.State().UsableForPersisted() || !d.pool.keeps(m) {
			continue
		}
		if d.take(m, d.pool.persistedLimits(m)) {
			return nil
		}
		break // at its limit: the record stays
	}
	d.record.release()
	return d.balance()
}

func (r *recordMethod) refused(d *Decision) error {
	if d.record.method == nil {
		return d.balance()
	}
	return r.move(d)
}

func (r *recordMethod) accepted(d *Decision) { r.table.Accepted(&d.record.binding.Handle) }

// knows looks for a record of this pool: one that other pools share may be of any.
func (r *recordMethod) knows(p *Pool, in *Input) *Member {
	switch {
	case in.Fresh:
		return nil
	case in.Named.IsValid():
		return p.Member(in.Named)
	case r.byID() && len(in.ID) == 0:
		return nil
	}
	rec, ok := r.table.Lookup(r.key(in, r.globals))
	if !ok || rec.Pool != r.policy.Pool {
		return nil
	}
	return p.Member(rec.Node)
}

// release gives the record up; its timer starts when the last connection does.
func (n *recordNote) release() {
	if n.method != nil {
		n.method.table.Release(&n.binding.Handle)
		*n = recordNote{}
	}
}

// match finds the member that a record names. A record of this pool names an address and port, one of another pool the
// node's address alone, and the port is the member's own (rule B-5). Of several members there the one with the recorded
// port is taken, else with the virtual server's, else with the lowest (rule B-6).
func (p *Pool) match(n *recordNote) *Member {
	node := n.binding.Node
	if n.binding.Pool == n.method.policy.Pool {
		return p.Member(node)
	}
	return p.atNode(node, n.virtualPort)
}

// atNode is match for a member of another pool.
func (p *Pool) atNode(node netip.AddrPort, virtualPort uint16) *Member {
	var best *Member
	rank := func(m *Member) int {
		switch m.Addr.Port() {
		case node.Port():
			return 0
		case virtualPort:
			return 1
		}
		return 2
	}
	for _, m := range p.members {
		if m.Addr.Addr() != node.Addr() {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(rank(m), rank(best)), cmp.Compare(m.Addr.Port(), best.Addr.Port())) < 0 {
			best = m
		}
	}
	return best
}

// Policy says how records live that are made through the pool, and of which kind they are; the zero kind is none.
func (p *Pool) Policy() (persist.Kind, persist.Policy) {
	if r, ok := p.persisted.(*recordMethod); ok {
		return r.kind, r.policy
	}
	return 0, persist.Policy{}
}
