package pool

import (
	"net/netip"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// retain keeps the members that the configuration before this one still had, or the one before that: for token_retain clients
// with a token reach them, and nobody else does (rule G-12).
func (p *Pool) retain(c *pb.Pool, env *Env, previous *Pool) {
	if previous == nil || config.PersistModeOf(c) != pb.PersistMode_PERSIST_MODE_TOKEN {
		return
	}
	now := env.now()
	p.retention = config.TokenRetainOf(c)
	keep := func(old *Member, since time.Time) {
		if p.Member(old.Addr) != nil || now.Sub(since) >= p.retention {
			return
		}
		m := *old
		m.index, m.removed = len(p.members)+len(p.retained), since
		m.state, m.passive = OperatorState(env.View, m.Addr.String()), c.GetPassiveHealth()
		var err error
		if m.Dial, err = env.dial(m.Addr); err != nil {
			m.state = Down
		}
		if p.retained == nil {
			p.retained = map[netip.AddrPort]*Member{}
		}
		p.retained[m.Addr] = &m
	}
	for _, old := range previous.members {
		keep(old, now)
	}
	for _, old := range previous.retained {
		keep(old, old.removed)
	}
}

// removed returns the member with an address that was removed not long before now, nil when there is none.
func (p *Pool) removed(addr netip.AddrPort, now time.Time) *Member {
	if m := p.retained[addr]; m != nil && now.Sub(m.removed) < p.retention {
		return m
	}
	return nil
}
