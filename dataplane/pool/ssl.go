package pool

import (
	"bytes"
	"net/netip"
	"time"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/tlshello"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// sslMethod persists by TLS sessions: a client that brings the ID or the ticket of one goes to the member that gave it (rules
// Records are made of what members answer, never of what clients bring.
type sslMethod struct {
	records recordMethod
	// tickets: those of TLS 1.2 and before are learned too (rule A-14).
	tickets bool
	// fallback serves hellos that bring nothing known; nil: the pool's mode does.
	fallback *recordMethod
	// timeouts are the members' that differ from the pool's; nil: none.
	timeouts map[netip.AddrPort]time.Duration
}

// answerNote is what a decision keeps to learn from the member's answer, and what it has learned.
type answerNote struct {
	method  *sslMethod
	scope   persist.Scope
	port    uint16         // of the virtual server
	session persist.Handle // of the session that the member gave or accepted
	ticket  persist.Handle // of the ticket that it gave
}

func newSSLMethod(c *pb.Pool, env *Env) (s *sslMethod, reasons []string) {
	s = &sslMethod{records: *newRecords(c, env), tickets: c.GetSslTickets() != pb.SslTickets_SSL_TICKETS_IGNORE}
	s.records.kind, s.records.policy.Timer = persist.SSL, persist.Idle // always (rule B-13)
	for _, m := range c.GetMembers() {
		timeout := config.MemberTimeout(c, m)
		if addr, err := netip.ParseAddrPort(m.GetAddress()); err == nil && timeout != s.records.policy.Timeout {
			if s.timeouts == nil {
				s.timeouts = map[netip.AddrPort]time.Duration{}
			}
			s.timeouts[netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())] = timeout
		}
	}
	if timeout, ok := config.FallbackTimeout(c); ok {
		fallback := newRecords(c, env)
		fallback.policy.Timeout = timeout
		if reasons = fallback.simple(c, env); len(reasons) == 0 {
			s.fallback = fallback
		}
	}
	return s, reasons
}

// policyOf is how records live: as the member that they are bound to says (rule A-8).
func (s *sslMethod) policyOf(kind persist.Kind, m *Member) (persist.Policy, bool) {
	switch {
	case kind == persist.Simple && s.fallback != nil:
		return s.fallback.policy, true
	case kind == persist.SSL, kind == persist.Ticket && s.tickets:
		return s.boundTo(m), true
	}
	return persist.Policy{}, false
}

// boundTo is the policy of the records of a member.
func (s *sslMethod) boundTo(m *Member) persist.Policy {
	policy := s.records.policy
	if m != nil && s.timeouts != nil {
		if timeout, ok := s.timeouts[m.Addr]; ok {
			policy.Timeout = timeout
		}
	}
	return policy
}

func (s *sslMethod) choose(d *Decision, in *Input) (done bool, err error) {
	state := tlshello.Complete
	if in.Hello != nil {
		state = in.Hello.State()
	}
	if d.dry() && (in.Hello == nil || state != tlshello.Complete) {
		d.step("no session is known")
	}
	d.outcome = OutcomeNone
	switch state {
	case tlshello.Complete:
	case tlshello.NotTLS:
		d.outcome = OutcomeNotTLS
		return false, nil
	case tlshello.Malformed, tlshello.TooLong:
		d.outcome = OutcomeMalformed
		return false, nil
	default: // it did not come in time
		return false, nil
	}
	if in.Hello != nil {
		done, err = s.follow(d, in)
	}
	if !done && err == nil && (d.outcome == OutcomeNone || d.outcome == OutcomeExpired) && s.fallback != nil {
		return s.fallback.choose(d, in)
	}
	return done, err
}

// follow looks for the record of what a complete hello brings: its ticket, then its ID. Without one the outcome stays none, or becomes expired.
func (s *sslMethod) follow(d *Decision, in *Input) (done bool, err error) {
	if !d.dry() {
		d.answer = &answerNote{method: s, scope: s.scope(in), port: in.Virtual.Port()}
	}
	keys := s.keys(in)
	for i := range keys {
		if keys[i].IsZero() {
			continue
		}
		if s.records.hold(d, in, keys[i]) {
			done, err = s.records.held(d, in)
			s.retime(d)
			return done, err
		}
		if d.outcome == OutcomeNone {
			d.missed()
		}
		d.record = recordNote{}
	}
	return false, nil
}

func (s *sslMethod) scope(in *Input) persist.Scope {
	return persist.ScopeOf(s.records.globals, in.Virtual, s.records.policy.Pool)
}

// keys are those of the ticket and of the ID that a hello brings; zero is none.
func (s *sslMethod) keys(in *Input) (keys [2]persist.Key) {
	scope := s.scope(in)
	if sum, ok := in.Hello.Ticket(); ok && s.tickets {
		keys[0] = persist.IDKey(persist.Ticket, scope, sum[:])
	}
	keys[1] = persist.IDKey(persist.SSL, scope, in.Hello.ID())
	return keys
}

// knows looks for a record of this pool, as recordMethod does.
func (s *sslMethod) knows(p *Pool, in *Input) *Member {
	if in.Fresh {
		return nil
	}
	if in.Hello != nil {
		keys := s.keys(in)
		for i := range keys {
			if node, bound, ok := s.records.table.NodeOf(&keys[i]); ok && bound == p.ID {
				return p.Member(node)
			}
		}
	}
	if s.fallback != nil && (in.Hello == nil || in.Hello.State() == tlshello.Complete) {
		return s.fallback.knows(p, in)
	}
	return nil
}

// retime makes the record that was found live as the chosen member says.
func (s *sslMethod) retime(d *Decision) {
	if s.timeouts != nil && d.record.method == &s.records && !d.dry() {
		s.records.table.Follow(&d.record.binding.Handle, s.boundTo(d.Member))
	}
}

func (s *sslMethod) refused(d *Decision) error {
	if d.record.method == nil {
		return d.balance()
	}
	err := d.record.method.move(d)
	s.retime(d)
	return err
}

func (s *sslMethod) accepted(d *Decision) { s.records.table.Accepted(&d.record.binding.Handle) }

// Learns reports whether the member's answer is to be read for the session that it gives, and whether for tickets too. What was
// read is told to Learn.
func (d *Decision) Learns() (sessions, tickets bool) {
	return d.answer != nil, d.answer != nil && d.answer.method.tickets
}

// Learn records what the member's answer has brought. It must be called before the client gets the bytes that brought it, which
// may come back with the session at once (rule A-P8).
func (d *Decision) Learn(news tlshello.News, client *tlshello.Client, server *tlshello.Server) {
	a := d.answer
	if a == nil || d.Member == nil {
		return
	}
	if news&tlshello.NewSession != 0 {
		d.learnSession(client, server)
	}
	if sum, ok := server.Ticket(); ok && news&tlshello.NewTicket != 0 {
		d.learn(&a.ticket, persist.IDKey(persist.Ticket, a.scope, sum[:]))
	}
}

// learnSession learns the session ID of a server's hello. One that only repeats the client's is learned if the server vouches
// for it, which it does not under TLS 1.3 (rule A-P8), nor when it has accepted a ticket (rule A-P9).
func (d *Decision) learnSession(client *tlshello.Client, server *tlshello.Server) {
	a := d.answer
	id := server.ID()
	switch {
	case server.TLS13():
		d.pool.warnUnfollowed(a.method)
		return
	case id == nil:
		return
	}
	key := persist.IDKey(persist.SSL, a.scope, id)
	if !bytes.Equal(id, client.ID()) {
		d.learn(&a.session, key)
		return
	}
	if d.record.key == key { // the connection came by it
		return
	}
	table := a.method.records.table
	if b := table.Acquire(key, a.method.boundTo(d.Member)); b.Outcome == persist.Found {
		a.session = b.Handle
		table.Accepted(&a.session)
		return
	}
	if _, ticket := client.Ticket(); !ticket {
		d.learn(&a.session, key)
	}
}

// learn binds a key to the member, whatever it was bound to before: the member has vouched for it last.
func (d *Decision) learn(h *persist.Handle, key persist.Key) {
	s := d.answer.method
	table, policy := s.records.table, s.boundTo(d.Member)
	chosen := func() (netip.AddrPort, bool) { return d.Member.Addr, true }
	b := table.Bind(key, policy, chosen)
	if b.Outcome == persist.Found {
		note := recordNote{method: &s.records, virtualPort: d.answer.port}
		note.binding.Node, note.binding.Pool = b.Node, b.Pool
		if d.pool.match(&note) != d.Member {
			table.Rebind(key, policy, &b, chosen)
		}
	}
	switch b.Outcome {
	case persist.Bound:
		d.did(OutcomeBound)
	case persist.Moved:
		d.did(OutcomeMoved)
	case persist.Full:
		d.did(OutcomeTableFull)
	}
	*h = b.Handle
	table.Accepted(h)
}

// release gives up what was learned; timers start then.
func (a *answerNote) release() {
	if a != nil {
		a.method.records.table.Release(&a.session)
		a.method.records.table.Release(&a.ticket)
	}
}

// warnUnfollowed says once per pool that its members speak TLS 1.3, whose sessions cannot be told apart (rule A-13).
func (p *Pool) warnUnfollowed(s *sslMethod) {
	if s.fallback == nil && !p.shared.unfollowed.Swap(true) {
		p.log.Warn("sessions of TLS 1.3 are not persisted; ssl_fallback simple would persist by client addresses", "pool", p.Name)
	}
}
