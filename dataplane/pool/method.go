package pool

import (
	"fmt"

	"bigpipe/dataplane/balance"
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
	case pb.PersistMode_PERSIST_MODE_SIMPLE, pb.PersistMode_PERSIST_MODE_STICKY, pb.PersistMode_PERSIST_MODE_SIP,
		pb.PersistMode_PERSIST_MODE_MSRDP:
		r, reasons := newRecordMethod(c, env)
		if r != nil {
			p.persisted = r
		}
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

// trace collects the steps of a choice that is explained and not made.
type trace struct {
	steps  []string
	picker balance.Picker
}

// dry reports whether the choice is only explained: nothing may change.
func (d *Decision) dry() bool { return d.trace != nil }

func (d *Decision) picker() balance.Picker {
	if d.trace != nil {
		return d.trace.picker
	}
	return d.pool.picker
}

// step notes a step where a choice is explained; callers ask dry first, so that nothing is formatted in earnest.
func (d *Decision) step(format string, args ...any) {
	d.trace.steps = append(d.trace.steps, fmt.Sprintf(format, args...))
}

// Explain tells which member a connection would get now, and why, a sentence a step. It goes the way of Choose and
// changes nothing. The member is nil when there is none.
func (p *Pool) Explain(in *Input) (m *Member, steps []string) {
	t := &trace{picker: balance.New(p.mode, p.weights(), p.picker)}
	d := Decision{pool: p, trace: t}
	if p.persisted == nil {
		d.step("pool %s does not persist", p.Name)
	}
	if err := d.choose(in); err != nil {
		d.step("%v", err)
		return nil, t.steps
	}
	if d.SetCookie() {
		value := string(d.Member.cookie)
		if p.cookies.reader.Ring != nil {
			value = "an encrypted value"
		}
		d.step("the response sets cookie %s to %s", p.cookies.template.Name, value)
	}
	return d.Member, t.steps
}
