package pool

import (
	"cmp"

	"bigpipe/dataplane/balance"
	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// hashMethod persists by a part of a cookie of the site: equal parts reach one member (rule C-11). It chooses by rendezvous
// hashing over the configured members: the one with the highest score, and while that cannot be used the next one. So it is
// the same on each unit and after each restart, and an absent member moves its own clients alone.
type hashMethod struct {
	name           cookie.Name
	offset, length int
	// seeds are what members bring to their scores. Under a wide scope it is the node's address alone, so that pools with
	// the same nodes choose the same (rules B-10, B-23).
	seeds []uint64
	wide  bool
}

// hashNote is what a decision remembers of the hash.
type hashNote struct {
	key   uint64
	valid bool
	port  uint16 // of the virtual server
}

func newHashMethod(p *Pool, c *pb.Pool, env *Env) *hashMethod {
	h := &hashMethod{
		name:   cookie.Named(c.GetCookieHashName()),
		offset: int(c.GetCookieHashOffset()), length: int(c.GetCookieHashLength()),
	}
	globals := config.Globals(env.View)
	h.wide = config.Scoped(c) && (globals.GetPersistAcrossVirtuals() || globals.GetPersistAcrossServices())
	for _, m := range p.members {
		name := m.Addr.String()
		if h.wide {
			name = m.Addr.Addr().String()
		}
		h.seeds = append(h.seeds, balance.Digest([]byte(name)))
	}
	return h
}

func (h *hashMethod) choose(d *Decision, in *Input) (bool, error) {
	part, outcome := h.part(in)
	d.outcome = outcome
	if outcome != OutcomeValid {
		if d.dry() {
			d.step("cookie %s: %s", h.name, outcome)
		}
		return false, nil
	}
	d.hash = hashNote{key: balance.Digest(part), valid: true, port: in.Virtual.Port()}
	return h.walk(d)
}

// walk follows the members by their scores until one serves. The outcome is that of the first.
func (h *hashMethod) walk(d *Decision) (done bool, err error) {
	var verdict Outcome
	for m := h.next(d, nil); m != nil; m = h.next(d, m) {
		if d.dry() {
			d.step("the hash of cookie %s says member %s, which is %s", h.name, m.Addr, m.State())
		}
		done, err = d.follow(m)
		if verdict == OutcomeOff {
			verdict = d.outcome
		}
		d.outcome = verdict
		if done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// next returns the member that comes after another one, or first after nil, among those that were not tried.
func (h *hashMethod) next(d *Decision, after *Member) (best *Member) {
	for _, m := range d.pool.members {
		if d.tried.Has(m.index) || after != nil && h.compare(&d.hash, m, after) <= 0 {
			continue
		}
		if best == nil || h.compare(&d.hash, m, best) < 0 {
			best = m
		}
	}
	return best
}

// compare is negative where a comes before b: by the higher score, and of members at one node by rule B-6.
func (h *hashMethod) compare(n *hashNote, a, b *Member) int {
	elsewhere := func(m *Member) int {
		if m.Addr.Port() == n.port {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(balance.Score(n.key, h.seeds[b.index]), balance.Score(n.key, h.seeds[a.index])),
		cmp.Compare(elsewhere(a), elsewhere(b)),
		cmp.Compare(a.Addr.Port(), b.Addr.Port()),
		a.Addr.Addr().Compare(b.Addr.Addr()),
	)
}

func (h *hashMethod) refused(d *Decision) error {
	if d.hash.valid {
		if done, err := h.walk(d); done || err != nil {
			return err
		}
	}
	return d.balance()
}

func (h *hashMethod) accepted(*Decision) {}

// knows nobody: a hash tells nothing of where a client was before.
func (h *hashMethod) knows(*Pool, *Input) *Member { return nil }

// part is what is hashed: that of the first cookie of the name that is long enough.
func (h *hashMethod) part(in *Input) ([]byte, Outcome) {
	outcome := OutcomeNone
	if in.Request == nil || in.Fresh {
		return nil, outcome
	}
	for i := in.Request.Next(http1.KindCookie, 0); i >= 0; i = in.Request.Next(http1.KindCookie, i+1) {
		for value := range cookie.Values(h.name, in.Request.Value(i)) {
			if part, ok := cookie.Part(value, h.offset, h.length); ok {
				return part, OutcomeValid
			}
			outcome = OutcomeMalformed
		}
	}
	return nil, outcome
}
