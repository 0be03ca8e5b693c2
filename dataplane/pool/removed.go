package pool

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"bigpipe/dataplane/cookie"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Removed is a member that the configuration lost, in the form in which it outlives the process.
type Removed struct {
	Addr  netip.AddrPort `json:"address"`
	Epoch uint64         `json:"epoch,omitempty"`
	Since time.Time      `json:"since"`
}

// retain keeps the members that the configuration before this one still had, or the one before that: for token_retain clients
// with a token reach them, and nobody else does (rule G-12). Where there is no pool before this one, the environment knows what
// an earlier process has kept.
func (p *Pool) retain(c *pb.Pool, env *Env, previous *Pool) {
	if config.PersistModeOf(c) != pb.PersistMode_PERSIST_MODE_TOKEN {
		return
	}
	now := env.now()
	p.retention = config.TokenRetainOf(c)
	keep := func(m Member, since time.Time) {
		if p.Member(m.Addr) != nil || now.Sub(since) >= p.retention {
			return
		}
		m.index, m.removed = len(p.members)+len(p.retained), since
		m.state = OperatorState(env.View, m.Addr.String())
		m.watch(c)
		var err error
		if m.Dial, err = env.dial(m.Addr); err != nil {
			m.state = Down
		}
		if p.retained == nil {
			p.retained = map[netip.AddrPort]*Member{}
		}
		p.retained[m.Addr] = &m
	}
	if previous == nil {
		for _, r := range env.Removed[p.Name] {
			since := r.Since
			if since.After(now) { // the clock was set back
				since = now
			}
			keep(Member{
				Addr: r.Addr, Ratio: 1, counters: NewCounters(), health: env.health(r.Addr),
				cookie: cookie.AppendValue(nil, r.Addr), epoch: r.Epoch,
			}, since)
		}
		return
	}
	for _, old := range previous.members {
		keep(*old, now)
	}
	for _, old := range previous.retained {
		keep(*old, old.removed)
	}
}

// Removed returns the members that are still honoured though they were removed, by address.
func (p *Pool) Removed() []Removed {
	if p == nil || len(p.retained) == 0 {
		return nil
	}
	list := make([]Removed, 0, len(p.retained))
	for _, m := range p.retained {
		list = append(list, Removed{Addr: m.Addr, Epoch: m.epoch, Since: m.removed})
	}
	slices.SortFunc(list, func(a, b Removed) int {
		return cmp.Or(a.Addr.Addr().Compare(b.Addr.Addr()), cmp.Compare(a.Addr.Port(), b.Addr.Port()))
	})
	return list
}

// removed returns the member with an address that was removed not long before now, nil when there is none.
func (p *Pool) removed(addr netip.AddrPort, now time.Time) *Member {
	if m := p.retained[addr]; m != nil && now.Sub(m.removed) < p.retention {
		return m
	}
	return nil
}
