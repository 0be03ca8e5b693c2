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
	r := newRecords(c, env)
	var reasons []string
	switch config.PersistModeOf(c) {
	case pb.PersistMode_PERSIST_MODE_SIMPLE:
		reasons = r.simple(c, env)
	case pb.PersistMode_PERSIST_MODE_STICKY:
		reasons = r.sticky(c)
	case pb.PersistMode_PERSIST_MODE_SIP:
		r.kind = persist.SIP
	case pb.PersistMode_PERSIST_MODE_MSRDP:
		r.kind = persist.MSRDP
	default:
		return nil, nil
	}
	if len(reasons) > 0 {
		return nil, reasons
	}
	return r, nil
}

// newRecords is what all methods with records have in common.
func newRecords(c *pb.Pool, env *Env) *recordMethod {
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
	return r
}

// simple makes r persist by the client's address.
func (r *recordMethod) simple(c *pb.Pool, env *Env) (reasons []string) {
	r.kind, r.proxies = persist.Simple, config.MapProxiesOf(config.Globals(env.View))
	return r.masked(config.SimpleMaskOf(c))
}

// sticky makes r persist by the destination's address.
func (r *recordMethod) sticky(c *pb.Pool) (reasons []string) {
	r.kind = persist.Sticky
	return r.masked(config.StickyMaskOf(c))
}

func (r *recordMethod) masked(mask config.Mask) (reasons []string) {
	var err error
	if r.mask, err = persist.NewMask(mask.Bits4, mask.Bits6); err != nil {
		return []string{err.Error()}
	}
	return nil
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
	if !r.hold(d, in, key) {
		d.missed()
		return r.bind(d)
	}
	return r.held(d, in)
}

// hold makes the decision hold the record of a key, if there is one.
func (r *recordMethod) hold(d *Decision, in *Input, key persist.Key) bool {
	d.record = recordNote{method: r, key: key, virtualPort: in.Virtual.Port()}
	if d.dry() {
		d.record.binding = r.look(d, key)
	} else {
		d.record.binding = r.table.Acquire(key, r.policy)
	}
	return d.record.binding.Outcome != persist.NoNode
}

// held chooses by the record that the decision holds.
func (r *recordMethod) held(d *Decision, in *Input) (bool, error) {
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
		if rec.Key.IsZero() {
			d.step("no record of %s%s", key, scopeText(key.Scope()))
			return persist.Binding{}
		}
		d.step("the record of %s%s names %s and has run out", key, scopeText(key.Scope()), rec.Node)
		return persist.Binding{Expired: true}
	}
	left := "never ends"
	if rec.Remaining != persist.Forever {
		left = "ends in " + rec.Remaining.Round(time.Second).String()
	}
	d.step("the record of %s%s names %s, is %s old and %s", key, scopeText(key.Scope()), rec.Node, rec.Age.Round(time.Second), left)
	return persist.Binding{Node: rec.Node, Pool: rec.Pool, Outcome: persist.Found}
}

// missed notes that there is no record, or that it has run out.
func (d *Decision) missed() {
	d.outcome, d.lapsed = OutcomeNone, d.record.binding.Expired
	if d.lapsed {
		d.outcome = OutcomeExpired
	}
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
	key := r.key(in, r.globals)
	node, bound, ok := r.table.NodeOf(&key)
	if !ok || bound != r.policy.Pool {
		return nil
	}
	return p.Member(node)
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

// keeper is a method that keeps records.
type keeper interface {
	// policyOf is how a record of a kind lives that is bound to a member of the pool; nil is another node. False: the method has
	// no records of the kind.
	policyOf(kind persist.Kind, m *Member) (persist.Policy, bool)
}

func (r *recordMethod) policyOf(kind persist.Kind, _ *Member) (persist.Policy, bool) {
	return r.policy, kind == r.kind
}

// PolicyOf says how records of a kind live that the pool binds to a node, or refreshes. It is false where the pool keeps none.
func (p *Pool) PolicyOf(kind persist.Kind, node netip.AddrPort) (persist.Policy, bool) {
	k, ok := p.persisted.(keeper)
	if !ok {
		return persist.Policy{}, false
	}
	m := p.Member(node)
	if m == nil {
		m = p.atNode(node, 0) // of another pool
	}
	return k.policyOf(kind, m)
}

// KeepsRecords reports whether the pool binds or refreshes records.
func (p *Pool) KeepsRecords() bool {
	_, ok := p.persisted.(keeper)
	return ok
}

// SamePolicies reports whether the records of two pools, of which o may be nil, live alike.
func (p *Pool) SamePolicies(o *Pool) bool {
	if o == nil {
		return false
	}
	for kind := persist.Simple; kind <= persist.Cookie; kind++ {
		if !p.samePolicy(o, kind, netip.AddrPort{}) {
			return false
		}
		for _, list := range [...][]*Member{p.members, o.members} {
			for _, m := range list {
				if !p.samePolicy(o, kind, m.Addr) {
					return false
				}
			}
		}
	}
	return true
}

func (p *Pool) samePolicy(o *Pool, kind persist.Kind, node netip.AddrPort) bool {
	a, keepsA := p.PolicyOf(kind, node)
	b, keepsB := o.PolicyOf(kind, node)
	return a == b && keepsA == keepsB
}
