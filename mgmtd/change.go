package mgmtd

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// freeAttempts is how often a change is evaluated without keeping other writers out. When others were faster each time, it
// is evaluated once more while they wait.
const freeAttempts = 3

// base is what a text is evaluated against.
type base struct {
	store.Snapshot
	// ports are the volatile persistence timeouts of ports (rule B-19).
	ports map[uint32]uint32
}

func (s *Server) base() base {
	newest := s.store.Newest()
	w, _ := s.publisher.watch()
	return base{Snapshot: newest, ports: w.ports}
}

// stands reports whether a base is still the newest. writing is held.
func (s *Server) stands(b base) bool {
	newest := s.base()
	return newest.Revision == b.Revision && maps.Equal(newest.ports, b.ports)
}

// decision is what a text means for a base.
type decision struct {
	base base
	out  *eval.Outcome
	// diagnostics are all that was found, in the order of the text.
	diagnostics []*pb.Diagnostic
	// exit is not 0 when nothing is to be done.
	exit uint32
}

// commits reports whether there is something to store or to push.
func (d *decision) commits() bool {
	return d.exit == pb.ExitDone && (len(d.out.Changes) > 0 || d.out.PortPersistChanged)
}

// change evaluates a text and commits what it changes. Only the commit keeps other writers out: a query never waits for them,
// nor do they wait for the evaluation. It returns nil when there is nothing more to do: refused, or a dry run.
func (e *execution) change(ctx context.Context) (*changed, error) {
	d, c, err := e.committed(ctx)
	if report := e.report(d.diagnostics...); report != nil {
		return nil, report
	}
	switch {
	case d.exit != pb.ExitDone:
		e.refused, e.exit = true, d.exit
		return nil, nil
	case err != nil:
		return nil, e.storeFault(err)
	case e.header.GetDryRun():
		if err := e.report(d.out.Notes()...); err != nil {
			return nil, err
		}
		return nil, e.dryRun(d.base.Tree, d.out)
	}
	if err := e.report(e.notes(d.out)...); err != nil {
		return nil, err
	}
	return c, nil
}

// committed is change without its reports.
func (e *execution) committed(ctx context.Context) (*decision, *changed, error) {
	resolve := remembering(e.server.resolve)
	for range freeAttempts {
		d := e.decide(resolve)
		if !d.commits() || e.header.GetDryRun() {
			return d, e.unchanged(d), nil
		}
		c, err := e.commitDecision(ctx, d)
		if !errors.Is(err, store.ErrConflict) {
			return d, c, err
		}
	}
	e.server.writing.Lock()
	defer e.server.writing.Unlock()
	d := e.decide(resolve)
	if !d.commits() {
		return d, e.unchanged(d), nil
	}
	c, err := e.commitLocked(ctx, d)
	return d, c, err
}

// remembering asks for each host once, so that a text that is evaluated again does not wait again.
func remembering(resolve func(string) (netip.Addr, error)) func(string) (netip.Addr, error) {
	if resolve == nil {
		return nil
	}
	type answer struct {
		address netip.Addr
		err     error
	}
	var known sync.Map // answer, by host
	return func(host string) (netip.Addr, error) {
		if a, ok := known.Load(host); ok {
			return a.(answer).address, a.(answer).err
		}
		var a answer
		a.address, a.err = resolve(host)
		known.Store(host, a)
		return a.address, a.err
	}
}

// decide evaluates the text against what is newest. A text is refused whole: its commands that act beyond the configuration
// are looked at too.
func (e *execution) decide(resolve func(string) (netip.Addr, error)) *decision {
	d := &decision{base: e.server.base()}
	if want := e.header.BaseRevision; want != nil && *want != d.base.Revision {
		d.exit = pb.ExitRefused
		d.diagnostics = []*pb.Diagnostic{e.placed(fault(codeConflict, "conflict: revision %d is not the newest, which is %d; nothing was changed",
			*want, d.base.Revision))}
		return d
	}
	d.out = eval.Evaluate(d.base.Tree, e.statements, eval.Options{
		Mode: e.mode, File: e.header.GetOrigin().GetFile(), Resolve: resolve, PortPersist: d.base.ports,
		Files: e.header.GetFiles(), Unreadable: e.header.GetUnreadableFiles(),
	})
	d.diagnostics = eval.Join(e.parsed, d.out.Diagnostics)
	switch {
	case hasErrors(e.parsed): // evaluated all the same, so that all faults are reported at once
		d.exit = pb.ExitFaulty
	case d.out.Exit != pb.ExitDone:
		d.exit = uint32(d.out.Exit)
	default:
		refused := e.impossible(d.base, d.out)
		d.exit = refused.exit
		for _, r := range refused.list {
			d.diagnostics = append(d.diagnostics, e.at(r.position, fault(r.code, "%s", r.message)))
		}
		if refused.more > 0 {
			d.diagnostics = append(d.diagnostics, grammar.More(refused.more, grammar.Faults))
		}
	}
	return d
}

// changed is what a text did to the configuration.
type changed struct {
	outcome *eval.Outcome
	// want is what the dataplanes are to have.
	want     stamp
	concerns func(key string) bool
	// anything is false for mere queries.
	anything bool
}

// unchanged is for a text that leaves everything as it is. It is in effect when what it was evaluated against is.
func (e *execution) unchanged(d *decision) *changed {
	if d.exit != pb.ExitDone {
		return nil
	}
	w, _ := e.server.publisher.watch()
	want := w.stamp
	if want.revision < d.base.Revision {
		want = stamp{revision: d.base.Revision}
	}
	return e.changedBy(d, want)
}

func (e *execution) changedBy(d *decision, want stamp) *changed {
	return &changed{
		outcome: d.out, want: want, concerns: concerned(e.mode, e.statements, d.out.Changes),
		anything: e.mode != eval.ModeCommand || d.out.Summary != "" || d.commits(),
	}
}

// commitDecision commits what was decided. store.ErrConflict: the base is not the newest any more.
func (e *execution) commitDecision(ctx context.Context, d *decision) (*changed, error) {
	e.server.writing.Lock()
	defer e.server.writing.Unlock()
	if !e.server.stands(d.base) {
		return nil, store.ErrConflict
	}
	return e.commitLocked(ctx, d)
}

// commitLocked commits what was decided. writing is held, and the base is the newest.
func (e *execution) commitLocked(ctx context.Context, d *decision) (*changed, error) {
	c := store.Commit{
		Base: d.base.Revision, Changes: d.out.Changes, Actor: e.header.GetActor(), Summary: d.out.Summary,
		Pending: e.pending(e.server.store.Newest()),
	}
	want, acted, err := e.server.commit(ctx, c, d.out.PortPersist)
	if err != nil {
		return nil, err
	}
	e.acted = e.acted || acted
	return e.changedBy(d, want.stamp), nil
}

// commit stores changes and wants them in effect, together with the timeouts of ports. acted is false where nothing differed,
// so that nothing happened. writing is held.
func (s *Server) commit(ctx context.Context, c store.Commit, ports map[uint32]uint32) (want *wanted, acted bool, err error) {
	before, _ := s.publisher.watch()
	if len(c.Changes) > 0 {
		if _, err := s.store.Commit(ctx, c); err != nil {
			return nil, false, err
		}
	}
	if s.store.Newest().Revision == before.revision && maps.Equal(before.ports, ports) {
		return before, false, nil
	}
	return s.publish(c.Changes, ports), true, nil
}

// publish makes the newest snapshot of the store, under the given port timeouts, the wanted configuration. changes lead to
// it from the revision before. writing is held.
func (s *Server) publish(changes []config.Change, ports map[uint32]uint32) *wanted {
	old, _ := s.publisher.watch()
	newest := s.store.Newest()
	w := &wanted{stamp: stamp{revision: newest.Revision}, view: config.ApplyPortPersist(newest.Tree, ports), ports: ports, base: old.stamp}
	switch {
	case newest.Revision == old.revision:
		w.sequence = old.sequence + 1
		w.changes = portChanges(newest.Tree, old.ports, ports)
	case newest.Revision == old.revision+1 && maps.Equal(old.ports, ports):
		w.changes = config.EffectiveChanges(old.view, newest.Tree, ports, changes)
	default:
		w.changes = config.Diff(old.view, w.view)
	}
	s.publisher.publish(w)
	return w
}

// concerned returns which objects a change is about: after a load all, else what it changed or named.
func concerned(mode eval.Mode, statements []*grammar.Statement, changes []config.Change) func(string) bool {
	if mode == eval.ModeLoad {
		return everything
	}
	keys := map[string]bool{}
	for _, c := range changes {
		keys[c.Key] = true
	}
	for _, st := range statements {
		if st.Object != nil {
			keys[st.Key] = true
		}
	}
	return func(key string) bool { return keys[key] }
}

// pending is the time limit of a change: its own, or that of an earlier change which still waits.
func (e *execution) pending(newest store.Snapshot) *store.Pending {
	p := newest.Pending
	if e.header.ConfirmWithinSeconds == nil {
		return p
	}
	back := newest.Revision
	if p != nil {
		back = p.BackTo
	}
	within := time.Duration(e.header.GetConfirmWithinSeconds()) * time.Second
	return &store.Pending{BackTo: back, Deadline: e.server.now().Add(within)}
}

// storeFault reports that a change could not be stored.
func (e *execution) storeFault(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return e.refuse(pb.ExitRefused, codeConflict, "%v; nothing was changed", err)
	}
	e.server.log.Error("store failed", "error", err)
	return e.refuse(pb.ExitRefused, codeStore, "the change could not be stored: %v", err)
}
