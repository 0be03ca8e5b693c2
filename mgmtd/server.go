// Package mgmtd serves the configuration: it runs commands and loads files, keeps the result in a store, and pushes it to
// the dataplanes. It is on no packet's path.
package mgmtd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// effectTimeout is how long a reply waits for the dataplanes unless Config says otherwise.
const effectTimeout = 5 * time.Second

// Config is what a Server needs.
type Config struct {
	Store store.Store
	// Dataplanes may be none; then nothing is pushed.
	Dataplanes []Target
	Log        *slog.Logger
	// Resolve returns the address of a host name that a command uses; nil: no host is known.
	Resolve func(host string) (netip.Addr, error)
	// Version is what the command version prints.
	Version string
	// EffectTimeout is how long a reply waits for the dataplanes; 0 means five seconds.
	EffectTimeout time.Duration
	// Now is the wall clock for changes that are to be confirmed; nil means time.Now.
	Now func() time.Time
}

// Server is the Admin service. Run must run beside it for anything to reach a dataplane.
type Server struct {
	pb.UnimplementedAdminServer

	store   store.Store
	log     *slog.Logger
	resolve func(host string) (netip.Addr, error)
	version string
	patient time.Duration
	now     func() time.Time
	started time.Time

	board   *board
	pushers []*pusher

	// writing is held from reading the configuration to having committed the change of it: one writer.
	writing sync.Mutex
	// ports are the volatile persistence timeouts (rule B-19), never modified in place. Guarded by writing.
	ports map[uint32]uint32
}

// New returns a server. Nothing is dialled before Run. Close lets go of what New has opened.
func New(c Config) (*Server, error) {
	s := &Server{
		store: c.Store, log: c.Log, resolve: c.Resolve, version: c.Version, patient: c.EffectTimeout, now: c.Now,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.patient == 0 {
		s.patient = effectTimeout
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.started = s.now()
	newest := s.store.Newest()
	s.board = newBoard(&wanted{stamp: stamp{revision: newest.Revision}, view: newest.Tree})
	names := map[string]bool{}
	for _, t := range c.Dataplanes {
		if names[t.Name] {
			return nil, errors.Join(fmt.Errorf("two dataplanes have the name %q", t.Name), s.Close())
		}
		names[t.Name] = true
		p, err := newPusher(t, s.store.ID(), s.board, s.log)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.pushers = append(s.pushers, p)
	}
	return s, nil
}

// Run keeps the dataplanes at the newest configuration and takes back what is not confirmed in time, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range s.pushers {
		wg.Go(func() { p.run(ctx) })
	}
	wg.Go(func() { s.expire(ctx) })
	wg.Wait()
}

// Close ends the connections to the dataplanes. The store stays open.
func (s *Server) Close() error {
	var errs []error
	for _, p := range s.pushers {
		errs = append(errs, p.conn.Close())
	}
	return errors.Join(errs...)
}

// publish makes the newest snapshot of the store, under the given port timeouts, the wanted configuration. changes lead to
// it from what was wanted until now. writing is held.
func (s *Server) publish(changes []config.Change, ports map[uint32]uint32) *wanted {
	old, _ := s.board.watch()
	newest := s.store.Newest()
	w := &wanted{stamp: stamp{revision: newest.Revision}, view: config.ApplyPortPersist(newest.Tree, ports), base: old.stamp}
	switch {
	case newest.Revision == old.revision:
		w.sequence = old.sequence + 1
		w.changes = portChanges(newest.Tree, s.ports, ports)
	case samePorts(s.ports, ports):
		w.changes = s.effective(old.view, newest.Tree, changes)
	default:
		w.changes = config.Diff(old.view, w.view)
	}
	s.ports = ports
	s.board.publish(w)
	return w
}

// effective turns the stored changes into those that a dataplane sees. old is the effective view before them.
func (s *Server) effective(old config.View, tree *config.Tree, changes []config.Change) []config.Change {
	return config.EffectiveChanges(old, tree, s.ports, changes)
}

func samePorts(a, b map[uint32]uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for port, seconds := range a {
		if other, ok := b[port]; !ok || other != seconds {
			return false
		}
	}
	return true
}

// commit stores changes and wants them in effect, together with a change of the port timeouts. Nothing happens where
// nothing differs. writing is held.
func (s *Server) commit(ctx context.Context, c store.Commit, ports map[uint32]uint32) (*wanted, error) {
	before := s.store.Newest()
	c.Base = before.Revision
	if len(c.Changes) > 0 {
		if _, err := s.store.Commit(ctx, c); err != nil {
			return nil, err
		}
	}
	if s.store.Newest().Revision == before.Revision && samePorts(s.ports, ports) {
		w, _ := s.board.watch()
		return w, nil
	}
	return s.publish(c.Changes, ports), nil
}

// effects waits until the dataplanes have a configuration, at most as long as the server is patient. Of what is not in
// effect it keeps what concerns the change.
func (s *Server) effects(ctx context.Context, want stamp, concerns func(key string) bool) []*pb.DataplaneEffect {
	ctx, cancel := context.WithTimeout(ctx, s.patient)
	defer cancel()
	effects := make([]*pb.DataplaneEffect, len(s.pushers))
	var wg sync.WaitGroup
	for i, p := range s.pushers {
		wg.Go(func() { effects[i] = effectOf(p.name, p.await(ctx, want), want, s.patient, concerns) })
	}
	wg.Wait()
	return effects
}

// effectsShown bounds how many objects one reply names for a dataplane.
const effectsShown = 5000

func effectOf(name string, state pushState, want stamp, patient time.Duration, concerns func(key string) bool) *pb.DataplaneEffect {
	e := &pb.DataplaneEffect{Dataplane: name, Applied: state.has(want)}
	if !e.Applied {
		e.Error = state.err
		if e.Error == "" {
			e.Error = fmt.Sprintf("no answer within %v", patient)
		}
		return e
	}
	for _, n := range state.notInEffect {
		if concerns(n.GetKey()) {
			e.NotInEffect = append(e.NotInEffect, n)
		}
	}
	if more := len(e.NotInEffect) - effectsShown; more > 0 {
		e.NotInEffect = append(e.NotInEffect[:effectsShown:effectsShown], &pb.NotInEffect{Reason: fmt.Sprintf("and %d more", more)})
	}
	return e
}

// everywhere reports whether a change is in effect on all dataplanes.
func everywhere(effects []*pb.DataplaneEffect) bool {
	for _, e := range effects {
		if !e.GetApplied() || len(e.GetNotInEffect()) > 0 {
			return false
		}
	}
	return true
}

// everything concerns every object.
func everything(string) bool { return true }

// options are those of an evaluation. writing is held.
func (s *Server) options(mode eval.Mode, file string) eval.Options {
	return eval.Options{Mode: mode, File: file, Resolve: s.resolve, PortPersist: s.ports}
}
