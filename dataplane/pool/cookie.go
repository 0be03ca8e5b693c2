package pool

import (
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// cookieMethod persists by the cookie that names a member: insert, passive, and the reading side of rewrite.
type cookieMethod struct {
	template cookie.Template
	// insert: the pool writes the cookie itself, and servers must not.
	insert bool
	// always: into each response (rule O-5).
	always bool
}

// cookieNote is what a decision remembers of the request's cookie.
type cookieNote struct {
	// named is the member that the cookie names.
	named *Member
	// kept: the client stays bound to named although another member answers (a connection limit, rule B-16).
	kept bool
}

var sameSites = map[pb.CookieSamesite]cookie.SameSite{
	pb.CookieSamesite_COOKIE_SAMESITE_NONE:   cookie.SameSiteNone,
	pb.CookieSamesite_COOKIE_SAMESITE_LAX:    cookie.SameSiteLax,
	pb.CookieSamesite_COOKIE_SAMESITE_STRICT: cookie.SameSiteStrict,
}

// newCookieMethod compiles persist_mode cookie. Without a cookie_mode the cookie is inserted.
func newCookieMethod(p *pb.Pool) (*cookieMethod, []string) {
	if e := p.GetCookieEncryption(); e > pb.CookieEncryption_COOKIE_ENCRYPTION_DISABLED {
		return nil, []string{"persist_mode cookie with cookie_encryption " + pb.EnumWord(e)}
	}
	c := &cookieMethod{always: p.GetCookieAlwaysSend(), template: cookie.Template{
		Name:     cookie.PoolName(p.GetName()),
		Lifetime: time.Duration(min(p.GetCookieExpiration(), maxSeconds)) * time.Second,
		Path:     p.GetCookiePath(),
		Domain:   p.GetCookieDomain(),
		Secure:   p.GetCookieSecure(),
		HTTPOnly: p.GetCookieHttponly(),
		SameSite: sameSites[p.GetCookieSamesite()],
	}}
	if name := p.GetCookieName(); name != "" {
		c.template.Name = cookie.Named(name)
	}
	switch mode := config.CookieModeOf(p); mode {
	case pb.CookieMode_COOKIE_MODE_INSERT:
		c.insert = true
	case pb.CookieMode_COOKIE_MODE_PASSIVE:
		if p.GetCookieName() == "" {
			c.template.Name = cookie.PassiveName(p.GetName())
		}
	case pb.CookieMode_COOKIE_MODE_REWRITE:
		return c, []string{"persist_mode cookie with cookie_mode rewrite (cookies are read, blank ones are not rewritten)"}
	default:
		return nil, []string{"persist_mode cookie with cookie_mode " + pb.EnumWord(mode)}
	}
	return c, nil
}

// maxSeconds keeps a number of seconds within a time.Duration.
const maxSeconds = 1 << 33

// choose follows the first value that names a member, whatever its state (rules C-4, C-7, C-8, O-16).
func (c *cookieMethod) choose(d *Decision, in *Input) (bool, error) {
	found := c.read(d, in)
	if found.Outcome == cookie.Valid {
		m := d.pool.members[found.Member]
		d.cookie.named = m
		if found.PrintedOrder && !d.dry() {
			d.pool.warnPrintedOrder(c.template.Name)
		}
		if d.dry() {
			d.step("cookie %s names member %s, which is %s", c.template.Name, m.Addr, m.State())
		}
		done, err := d.follow(m)
		d.cookie.kept = !done && err == nil && d.outcome == OutcomeValid
		return done, err
	}
	switch found.Outcome {
	case cookie.Malformed:
		d.outcome = OutcomeMalformed
	case cookie.UnknownMember:
		d.outcome = OutcomeUnknownMember
	default:
		d.outcome = OutcomeNone
	}
	if d.dry() {
		d.step("cookie %s: %s", c.template.Name, d.outcome)
	}
	if d.outcome == OutcomeUnknownMember && d.pool.refuseUnknown() {
		return false, ErrRefused
	}
	return false, nil
}

func (c *cookieMethod) read(d *Decision, in *Input) (found cookie.Found) {
	if in.Request == nil || in.Fresh {
		return found
	}
	for i := in.Request.Next(http1.KindCookie, 0); i >= 0; i = in.Request.Next(http1.KindCookie, i+1) {
		if found.Read(in.Request.Value(i), c.template.Name, d.pool.indexOf) {
			break
		}
	}
	return found
}

func (c *cookieMethod) refused(d *Decision) error { return d.balance() }

func (c *cookieMethod) accepted(*Decision) {}

// SetCookie reports whether the first response must carry our cookie: the pool inserts one, and the request had none that
// names the member that answers (rules O-2, O-4, C-7), or the pool always sends it.
func (d *Decision) SetCookie() bool {
	if d.Member == nil || d.pool.cookies == nil || d.cookie.kept {
		return false
	}
	return d.cookie.named != d.Member || d.pool.cookies.always
}

// AlwaysSetCookie reports whether each response must carry our cookie (rule O-5).
func (d *Decision) AlwaysSetCookie() bool { return d.SetCookie() && d.pool.cookies.always }

// AppendSetCookie appends the line "Set-Cookie: ...\r\n" that names the chosen member, and counts the binding. Now is the
// wall clock (rule C-6).
func (d *Decision) AppendSetCookie(dst []byte, now time.Time) []byte {
	if d.Member == nil || d.pool.cookies == nil {
		return dst
	}
	d.did(OutcomeBound)
	return d.pool.cookies.template.AppendLine(dst, d.Member.cookie, now)
}

// DropSetCookie names the cookie that a server must not set because we do: such lines are dropped from responses. Nil:
// there is none.
func (d *Decision) DropSetCookie() *cookie.Name {
	if d.pool == nil || d.pool.cookies == nil {
		return nil
	}
	return &d.pool.cookies.template.Name
}
