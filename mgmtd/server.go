// Package mgmtd serves the configuration: it runs commands and loads files, keeps the result in a store, and pushes it to
// the dataplanes. It is on no packet's path.
package mgmtd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

const (
	// defaultEffectTimeout is how long a reply waits for the dataplanes unless Config says otherwise.
	defaultEffectTimeout = 5 * time.Second
	// defaultAskTimeout is how long a dataplane may take to answer a question unless Config says otherwise.
	defaultAskTimeout = 5 * time.Second
)

// Config is what a Server needs.
type Config struct {
	Store store.Store
	// Dataplanes may be none; then nothing is pushed.
	Dataplanes []Dataplane
	Log        *slog.Logger
	// Resolve returns the address of a host name that a command uses; nil: no host is known.
	Resolve func(host string) (netip.Addr, error)
	// Cookie returns the value of a persistence cookie that names a member; nil: none can be made.
	Cookie func(member netip.AddrPort) string
	// Version is what the command version prints.
	Version string
	// EffectTimeout is how long a reply waits for the dataplanes; 0 means five seconds.
	EffectTimeout time.Duration
	// AskTimeout is how long a dataplane may be silent when it is asked something; 0 means five seconds.
	AskTimeout time.Duration
	// Now is the wall clock for changes that are to be confirmed; nil means time.Now.
	Now func() time.Time
}

// Server is the Admin service. Run must run beside it for anything to reach a dataplane.
type Server struct {
	pb.UnimplementedAdminServer

	store   store.Store
	log     *slog.Logger
	resolve func(host string) (netip.Addr, error)
	cookie  func(member netip.AddrPort) string
	version string
	now     func() time.Time
	started time.Time
	// effectTimeout and askTimeout are those of Config.
	effectTimeout, askTimeout time.Duration

	// publisher has the configuration that the pushers bring to their dataplanes.
	publisher *publisher
	pushers   []*pusher

	// writing is held by whoever changes the store and what is published, from having looked at what is newest to having published:
	// one writer. Texts are read and evaluated without it.
	writing sync.Mutex
}

// New returns a server. Nothing is dialled before Run. Close lets go of what New has opened.
func New(c Config) (*Server, error) {
	s := &Server{
		store: c.Store, log: c.Log, resolve: c.Resolve, cookie: c.Cookie, version: c.Version, now: c.Now,
		effectTimeout: cmp.Or(c.EffectTimeout, defaultEffectTimeout), askTimeout: cmp.Or(c.AskTimeout, defaultAskTimeout),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.started = s.now()
	newest := s.store.Newest()
	s.publisher = newPublisher(&wanted{stamp: stamp{revision: newest.Revision}, view: newest.Tree})
	names := map[string]bool{}
	for _, d := range c.Dataplanes {
		if names[d.Name] {
			return nil, errors.Join(fmt.Errorf("two dataplanes have the name %q", d.Name), s.Close())
		}
		names[d.Name] = true
		p, err := newPusher(d, s.store.ID(), s.publisher, s.log)
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

// effects waits until the dataplanes have a configuration, at most for effectTimeout. Of what is not in effect it keeps
// what concerns the change.
func (s *Server) effects(ctx context.Context, want stamp, concerns func(key string) bool) []*pb.DataplaneEffect {
	ctx, cancel := context.WithTimeout(ctx, s.effectTimeout)
	defer cancel()
	effects := make([]*pb.DataplaneEffect, len(s.pushers))
	var wg sync.WaitGroup
	for i, p := range s.pushers {
		wg.Go(func() { effects[i] = effectOf(p.name, p.await(ctx, want), want, s.effectTimeout, concerns) })
	}
	wg.Wait()
	return effects
}

// effectsShown bounds how many objects one reply names for a dataplane.
const effectsShown = 5000

func effectOf(name string, state pushState, want stamp, timeout time.Duration, concerns func(key string) bool) *pb.DataplaneEffect {
	e := &pb.DataplaneEffect{Dataplane: name, Applied: state.has(want)}
	if !e.Applied {
		e.Error = state.err
		if e.Error == "" {
			e.Error = noAnswer(timeout)
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
