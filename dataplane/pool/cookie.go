package pool

import (
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// cookieMethod persists by the cookie that names a member: insert, rewrite and passive.
type cookieMethod struct {
	template cookie.Template
	reader   cookie.Reader
	// insert: the pool writes the cookie itself, and servers must not. rewrite: it makes one of a server's blank cookie.
	insert, rewrite bool
	// always: into each response (rule O-5).
	always bool
	// unwritten: cookies are read and none is written, for want of a key.
	unwritten bool
	// onlyWhen: only into responses that set the cookie with this name; "" is none.
	onlyWhen string
	// strip: members do not see the cookie.
	strip bool
	// private: responses with our cookie are not for shared caches.
	private bool
	// across are the names of the cookies of the pools that say which node a client belongs to, its own among them; nil: there are no
	// others. It is shared by these pools. ownName: no other pool's cookie has the name of this one's.
	across  cookie.Names
	ownName bool
	// reserve binds a client address until its cookie comes back; nil: it does not.
	reserve *recordMethod
}

// cookieNote is what a decision remembers of the request's cookie.
type cookieNote struct {
	// named is the member that the cookie names.
	named *Member
	// kept: the client stays bound to named although another member answers (a connection limit, rule B-16).
	kept bool
	// renew: the cookie names the member but not as it is written now, or is of another pool.
	renew bool
	// byRule: a rule chose the pool.
	byRule bool
}

// reservation is how long a client without a cookie is kept together from its first request on.
const reservation = 2 * time.Second

var sameSites = map[pb.CookieSamesite]cookie.SameSite{
	pb.CookieSamesite_COOKIE_SAMESITE_NONE:   cookie.SameSiteNone,
	pb.CookieSamesite_COOKIE_SAMESITE_LAX:    cookie.SameSiteLax,
	pb.CookieSamesite_COOKIE_SAMESITE_STRICT: cookie.SameSiteStrict,
}

// cookieName is the cookie of a pool.
func cookieName(p *pb.Pool) cookie.Name {
	switch {
	case p.GetCookieName() != "":
		return cookie.Named(p.GetCookieName())
	case config.CookieModeOf(p) == pb.CookieMode_COOKIE_MODE_PASSIVE:
		return cookie.PassiveName(p.GetName())
	}
	return cookie.PoolName(p.GetName())
}

// newCookieMethod compiles persist_mode cookie, but for cookie_mode hash. Without a cookie_mode the cookie is inserted. It
// is nil when the pool cannot persist.
func newCookieMethod(p *pb.Pool, env *Env) (*cookieMethod, []string) {
	c := &cookieMethod{
		always: p.GetCookieAlwaysSend(), onlyWhen: p.GetCookieOnlyWhen(), strip: p.GetCookieStrip(), private: p.GetCachePrivate(),
		template: cookie.Template{
			Name:     cookieName(p),
			Lifetime: time.Duration(min(p.GetCookieExpiration(), maxSeconds)) * time.Second,
			Path:     p.GetCookiePath(),
			Domain:   p.GetCookieDomain(),
			Secure:   p.GetCookieSecure(),
			HTTPOnly: p.GetCookieHttponly(),
			SameSite: sameSites[p.GetCookieSamesite()],
		},
	}
	switch config.CookieModeOf(p) {
	case pb.CookieMode_COOKIE_MODE_INSERT:
		c.insert = true
	case pb.CookieMode_COOKIE_MODE_REWRITE:
		c.rewrite = true
	}
	reasons, ok := c.encrypt(p, env)
	if !ok {
		return nil, reasons
	}
	if p.GetCookieAcrossServices() {
		names, pools := env.joinedNames()
		if c.ownName = pools[c.template.Name.String()] == 1; !c.ownName || len(names) > 1 {
			c.across = names
		}
	}
	if p.GetCookieReserve() && env.Table != nil {
		all, _ := persist.NewMask(32, 128) // the lengths fit
		c.reserve = &recordMethod{
			table: env.Table, kind: persist.Cookie, mask: all,
			policy: persist.Policy{Pool: persist.PoolIDOf(p.GetName()), Timeout: reservation, Timer: persist.Fixed},
		}
	}
	return c, reasons
}

// encrypt sets up the encryption of the cookie (rule C-9). It is false when the pool must not persist: a cookie that has to
// be encrypted is neither written nor read in clear.
func (c *cookieMethod) encrypt(p *pb.Pool, env *Env) (reasons []string, ok bool) {
	mode := p.GetCookieEncryption()
	wanted := mode > pb.CookieEncryption_COOKIE_ENCRYPTION_DISABLED
	server := p.GetCookieLifetime() == pb.CookieLifetime_COOKIE_LIFETIME_SERVER
	switch {
	case wanted && !c.insert && !c.rewrite:
		return []string{"cookie_encryption " + pb.EnumWord(mode) + " with cookie_mode passive: servers write clear cookies"}, true
	case !wanted && server:
		return []string{"cookie_lifetime server without cookie_encryption: a clear cookie has no date"}, true
	case !wanted:
		return nil, true
	case env.Keys == nil && mode == pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED:
		return []string{"persist_mode cookie with cookie_encryption required: there is no cookie_key"}, false
	case env.Keys == nil:
		c.unwritten = true
		return []string{"cookie_encryption preferred: there is no cookie_key (clear cookies are read, none is written)"}, true
	}
	c.reader = cookie.Reader{Ring: env.Keys, Sealed: mode == pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED, Now: env.now}
	if server {
		c.reader.Lifetime = c.template.Lifetime
	}
	return nil, true
}

// joinedNames are the names of the cookies of all pools that cookie_across_services joins, and how many pools have each. They are
// gathered once: every one of these pools needs all of them.
func (e *Env) joinedNames() (names cookie.Names, pools map[string]int) {
	f := e.found()
	if f.names == nil {
		f.names, f.pools = cookie.Names{}, map[string]int{}
		e.View.Range("pool", func(o *pb.Object) bool {
			if p := o.GetPool(); JoinsServices(p) {
				name := cookieName(p)
				f.names.Add(name)
				f.pools[name.String()]++
			}
			return true
		})
	}
	return f.names, f.pools
}

// JoinsServices reports whether the pool shares its cookie with others that do, so that each depends on all.
func JoinsServices(p *pb.Pool) bool {
	return p.GetCookieAcrossServices() && config.PersistModeOf(p) == pb.PersistMode_PERSIST_MODE_COOKIE &&
		config.CookieModeOf(p) != pb.CookieMode_COOKIE_MODE_HASH
}

// maxSeconds keeps a number of seconds within a time.Duration.
const maxSeconds = 1 << 33

// choose follows the first value that names a member, whatever its state (rules C-4, C-7, C-8, O-16).
func (c *cookieMethod) choose(d *Decision, in *Input) (bool, error) {
	d.cookie.byRule = in.ByRule
	found := c.read(d.pool, in)
	if found.Outcome == cookie.Valid {
		m := d.pool.members[found.Member]
		d.cookie.renew = found.Outdated
		if found.PrintedOrder && !d.dry() {
			d.pool.warnPrintedOrder(c.template.Name)
		}
		if d.dry() {
			d.step("cookie %s names member %s, which is %s", c.template.Name, m.Addr, m.State())
		}
		return c.follow(d, in, m)
	}
	d.outcome = cookieOutcomes[found.Outcome]
	if d.dry() {
		d.step("cookie %s: %s", c.template.Name, d.outcome)
	}
	if m := c.fromOther(d, in); m != nil {
		d.cookie.renew = true
		if d.dry() {
			d.step("the cookie of another service names member %s, which is %s", m.Addr, m.State())
		}
		return c.follow(d, in, m)
	}
	if d.outcome == OutcomeUnknownMember && d.pool.refuseUnknown() {
		return false, ErrRefused
	}
	return c.reserved(d, in)
}

var cookieOutcomes = [...]Outcome{
	cookie.None: OutcomeNone, cookie.Malformed: OutcomeMalformed, cookie.UnknownMember: OutcomeUnknownMember, cookie.Expired: OutcomeExpired,
}

func (c *cookieMethod) follow(d *Decision, in *Input, m *Member) (bool, error) {
	d.cookie.named = m
	done, err := d.follow(m)
	if !done && err == nil && d.outcome != OutcomeValid {
		return c.reserved(d, in)
	}
	d.cookie.kept = !done && err == nil
	return done, err
}

// reserved lets simultaneous first requests of one client address meet at one member.
func (c *cookieMethod) reserved(d *Decision, in *Input) (bool, error) {
	if c.reserve == nil || in.Fresh {
		return false, nil
	}
	found := d.outcome
	done, err := c.reserve.choose(d, in)
	d.outcome, d.lapsed = found, false
	return done, err
}

func (c *cookieMethod) read(p *Pool, in *Input) (found cookie.Found) {
	if in.Request == nil || in.Fresh {
		return found
	}
	for i := in.Request.Next(http1.KindCookie, 0); i >= 0; i = in.Request.Next(http1.KindCookie, i+1) {
		if c.reader.Read(&found, in.Request.Value(i), c.template.Name, p.find) {
			break
		}
	}
	return found
}

// fromOther finds the member at the node that the cookie of another service names (pain 82). Its port is the member's own.
func (c *cookieMethod) fromOther(d *Decision, in *Input) *Member {
	if len(c.across) == 0 || in.Request == nil || in.Fresh {
		return nil
	}
	var found cookie.Found
	lookup := d.pool.finderAt(in.Virtual.Port())
	for i := in.Request.Next(http1.KindCookie, 0); i >= 0; i = in.Request.Next(http1.KindCookie, i+1) {
		for name, value := range c.across.Each(in.Request.Value(i)) {
			if c.ownName && name == c.template.Name.String() {
				continue
			}
			if c.reader.ReadValue(&found, value, name, lookup) {
				return d.pool.members[found.Member]
			}
		}
	}
	return nil
}

func (c *cookieMethod) refused(d *Decision) error {
	if c.reserve != nil {
		return c.reserve.refused(d)
	}
	return d.balance()
}

func (c *cookieMethod) accepted(d *Decision) {
	if d.record.method != nil {
		c.reserve.accepted(d)
	}
}

func (c *cookieMethod) knows(p *Pool, in *Input) *Member {
	if found := c.read(p, in); found.Outcome == cookie.Valid {
		return p.members[found.Member]
	}
	return nil
}

// policyOf is how reservations live.
func (c *cookieMethod) policyOf(kind persist.Kind, _ *Member) (persist.Policy, bool) {
	if c.reserve == nil || kind != persist.Cookie {
		return persist.Policy{}, false
	}
	return c.reserve.policy, true
}
