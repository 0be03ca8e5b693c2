package pool

import (
	"bigpipe/dataplane/cookie"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// method is one way to persist; each has a file of its own.
type method interface {
	// choose makes the choice if persistence has one. Not done leaves it to the pool's mode. It sets the outcome.
	choose(d *Decision, in *Input) (done bool, err error)
	// refused chooses again after the member did not accept.
	refused(d *Decision) error
	// accepted is told that the member accepted.
	accepted(d *Decision)
	// knows returns the member that a client belongs to; nil when persistence knows of none. It changes nothing.
	knows(p *Pool, in *Input) *Member
}

// compileMethod sets up the pool's persistence. A mode that is not there yet is reported, and the pool is balanced
// without persistence.
func (p *Pool) compileMethod(c *pb.Pool, env *Env) []string {
	switch mode := c.GetPersistMode(); mode {
	case pb.PersistMode_PERSIST_MODE_UNSPECIFIED, pb.PersistMode_PERSIST_MODE_NONE:
		return nil
	case pb.PersistMode_PERSIST_MODE_COOKIE:
		if config.CookieModeOf(c) == pb.CookieMode_COOKIE_MODE_HASH {
			p.persisted = newHashMethod(p, c, env)
			return nil
		}
		m, reasons := newCookieMethod(c, env)
		if m != nil {
			p.persisted = m
			if (m.insert || m.rewrite) && !m.unwritten {
				p.cookies = m
			}
			if m.strip {
				p.stripped = m
			}
		}
		return reasons
	case pb.PersistMode_PERSIST_MODE_TOKEN:
		p.tokens = newTokenMethod(c, env)
		p.persisted = p.tokens
		return nil
	case pb.PersistMode_PERSIST_MODE_JROUTE:
		p.jroutes = newJrouteMethod(p, c)
		p.persisted, p.ErrorURL = p.jroutes, c.GetJrouteErrorUrl()
		return nil
	case pb.PersistMode_PERSIST_MODE_SIMPLE, pb.PersistMode_PERSIST_MODE_STICKY, pb.PersistMode_PERSIST_MODE_SIP,
		pb.PersistMode_PERSIST_MODE_MSRDP:
		r, reasons := newRecordMethod(c, env)
		if r != nil {
			p.persisted = r
		}
		if mode == pb.PersistMode_PERSIST_MODE_MSRDP {
			p.HelloTimeout = defaultHelloTimeout
		}
		return reasons
	case pb.PersistMode_PERSIST_MODE_SSL:
		s, reasons := newSSLMethod(c, env)
		p.persisted, p.HelloTimeout = s, seconds(c.SslHelloTimeout, defaultHelloTimeout)
		return reasons
	default:
		return []string{"persist_mode " + pb.EnumWord(mode)}
	}
}

// warnPrintedOrder says once per pool that a server writes cookies by the formula that seed 002 prints.
func (p *Pool) warnPrintedOrder(name cookie.Name) {
	if !p.shared.printedOrder.Swap(true) {
		p.log.Warn("cookie names its member in the reversed byte order", "pool", p.Name, "cookie", name.String())
	}
}
