package pool

import (
	"cmp"
	"strings"
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/token"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// tokenMethod persists by a token that we make and the client brings back, in a cookie or a header. No record is kept: any
// dataplane with the same keys reads it.
type tokenMethod struct {
	codec token.Codec
	// name is the cookie that carries it, and cookie what else that says.
	name   cookie.Name
	cookie token.Cookie
	// header is the name in lower case of the header that carries it; "" where a cookie does.
	header string
	// timeout is the life of a session from its first response on; 0 is without end. Permanent tells browsers (rule G-4).
	timeout   time.Duration
	permanent bool
	// yields: where a member sets the same cookie or header, ours is left out (rule G-8).
	yields bool
	// private: responses with a token are not for shared caches.
	private bool
}

// tokenNote is what a decision remembers of the request's token.
type tokenNote struct {
	// named is the member that the token names, and expires when it ends; see [token.Token].
	named   *Member
	expires int64
	// kept: the client stays bound to named although another member answers (a connection limit, rule B-16).
	kept bool
	// renew: a key made the token that is not the first any more, and may be gone soon.
	renew bool
}

// tokenSameSite is what token_samesite says; strict is the default (rule G-3).
func tokenSameSite(p *pb.Pool) cookie.SameSite {
	return cmp.Or(sameSites[p.GetTokenSamesite()], cookie.SameSiteStrict)
}

func newTokenMethod(p *pb.Pool, env *Env) *tokenMethod {
	name := config.TokenNameOf(p)
	k := &tokenMethod{
		codec: token.Codec{Ring: env.Keys, Name: name},
		name:  cookie.Named(name),
		cookie: token.Cookie{
			Name: name, Path: p.GetTokenPath(),
			// No client side is TLS, so auto is off.
			Secure:   p.GetTokenSecure() == pb.TokenSecure_TOKEN_SECURE_ENABLE,
			HTTPOnly: p.TokenHttponly == nil || p.GetTokenHttponly(),
			SameSite: tokenSameSite(p),
		},
		timeout:   config.TokenTimeoutOf(p),
		permanent: p.GetTokenLifetime() == pb.TokenLifetime_TOKEN_LIFETIME_PERMANENT,
		yields:    p.GetTokenOnConflict() == pb.TokenOnConflict_TOKEN_ON_CONFLICT_BACKEND,
		private:   p.GetCachePrivate(),
	}
	if p.GetTokenType() == pb.TokenType_TOKEN_TYPE_HEADER {
		k.header = strings.ToLower(name)
		k.codec.Name = k.header // names of headers compare without case (rule G-6)
	}
	return k
}

// carrier says where the token travels.
func (k *tokenMethod) carrier() string {
	if k.header != "" {
		return "header " + k.cookie.Name
	}
	return "cookie " + k.cookie.Name
}

// choose follows the first token that is valid, whatever the state of its member (rules G-2, G-6, G-11 to G-13).
func (k *tokenMethod) choose(d *Decision, in *Input) (bool, error) {
	m, t, outcome := k.read(d.pool, in)
	if outcome != cookie.Valid {
		d.outcome = cookieOutcomes[outcome]
		if d.dry() {
			d.step("token in %s: %s", k.carrier(), d.outcome)
		}
		if d.outcome == OutcomeUnknownMember && d.pool.refuseUnknown() {
			return false, ErrRefused
		}
		return false, nil
	}
	if d.dry() {
		d.step("the token in %s names member %s, which is %s%s", k.carrier(), m.Addr, m.State(), removedNote(m))
	}
	d.token.named, d.token.expires, d.token.renew = m, t.Expires, t.Former
	done, err := d.follow(m)
	d.token.kept = !done && err == nil && d.outcome == OutcomeValid
	return done, err
}

func removedNote(m *Member) string {
	if m.removed.IsZero() {
		return ""
	}
	return " and was removed"
}

func (k *tokenMethod) refused(d *Decision) error { return d.balance() }

func (k *tokenMethod) accepted(*Decision) {}

func (k *tokenMethod) knows(p *Pool, in *Input) *Member {
	m, _, _ := k.read(p, in)
	return m
}

// read looks for the first valid token of a request. Of others it tells the most telling outcome.
func (k *tokenMethod) read(p *Pool, in *Input) (m *Member, t token.Token, outcome cookie.Outcome) {
	if in.Request == nil || in.Fresh {
		return nil, t, cookie.None
	}
	look := func(value []byte) (valid bool) {
		var found cookie.Outcome
		m, t, found = k.judge(p, value)
		outcome = max(outcome, found)
		return found == cookie.Valid
	}
	if k.header != "" {
		for i := in.Request.Lookup(k.header, 0); i >= 0; i = in.Request.Lookup(k.header, i+1) {
			for value := range token.Values(in.Request.Value(i)) {
				if look(value) {
					return m, t, outcome
				}
			}
		}
		return nil, t, outcome
	}
	for i := in.Request.Next(http1.KindCookie, 0); i >= 0; i = in.Request.Next(http1.KindCookie, i+1) {
		for value := range cookie.Values(k.name, in.Request.Value(i)) {
			if look(value) {
				return m, t, outcome
			}
		}
	}
	return nil, t, outcome
}

// judge tells what one value comes to. Only a member, or what was one not long ago, is ever returned (rules G-12, G-13).
func (k *tokenMethod) judge(p *Pool, value []byte) (*Member, token.Token, cookie.Outcome) {
	t, ok := k.codec.Parse(value)
	if !ok {
		return nil, t, cookie.Malformed
	}
	now := p.now()
	m := p.Member(t.Addr)
	if m == nil {
		m = p.removed(t.Addr, now)
	}
	switch {
	case m == nil || m.epoch != t.Epoch:
		return nil, t, cookie.UnknownMember
	case t.Expires != 0 && now.UnixMilli() >= t.Expires:
		return nil, t, cookie.Expired
	}
	return m, t, cookie.Valid
}

// due reports whether the response must carry a token: the client brought none of the member that answers, or one that must be
// encrypted anew.
func (k *tokenMethod) due(d *Decision) bool {
	return !d.token.kept && (d.token.named != d.Member || d.token.renew)
}

// edit adds a token to a response: that of a new session, or that of the session which goes on, with its end (rule G-5). A member
// that sets the same cookie or header would take the client's token away: ours goes after its cookie or replaces its header, or
// gives way (rule G-8).
func (k *tokenMethod) edit(d *Decision, r *http1.Head, due bool, buffer []byte) (e Edited, _ []byte) {
	from := len(buffer)
	collides := k.collides(r)
	switch {
	case collides && k.yields:
	case due && d.token.named != d.Member:
		buffer = k.appendNew(d, buffer)
		e.Set = true
	case d.token.named != nil && (due || collides):
		e.Set = due
		buffer = k.append(buffer, d.token.named, d.token.expires, d.pool.now())
	}
	if collides {
		d.pool.warnCollision(k)
	}
	if len(buffer) == from {
		return e, buffer
	}
	if collides && k.header != "" {
		for i := r.Lookup(k.header, 0); i >= 0; i = r.Lookup(k.header, i+1) {
			r.Drop(i)
		}
	}
	if k.private && !isPrivate(r) {
		buffer = http1.AppendField(buffer, "Cache-Control", "private")
	}
	e.Lines = buffer[from:]
	return e, buffer
}

// collides reports whether a member sets what carries our token.
func (k *tokenMethod) collides(r *http1.Head) bool {
	if k.header != "" {
		return r.Lookup(k.header, 0) >= 0
	}
	for i := r.Next(http1.KindSetCookie, 0); i >= 0; i = r.Next(http1.KindSetCookie, i+1) {
		if set, ok := cookie.ParseSetCookie(r.Value(i)); ok && k.name.Is(set.Name()) {
			return true
		}
	}
	return false
}

// appendNew appends the line that begins a session at the chosen member, and counts the binding.
func (k *tokenMethod) appendNew(d *Decision, dst []byte) []byte {
	d.did(OutcomeBound)
	now, expires := d.pool.now(), int64(0)
	if k.timeout > 0 {
		expires = now.Add(k.timeout).UnixMilli()
	}
	return k.append(dst, d.Member, expires, now)
}

// append appends the line with a token.
func (k *tokenMethod) append(dst []byte, m *Member, expires int64, now time.Time) []byte {
	var space [token.MaxSize]byte
	value := k.codec.Append(space[:0], &token.Token{Addr: m.Addr, Epoch: m.epoch, Expires: expires})
	if k.header != "" {
		return http1.AppendField(dst, k.cookie.Name, value)
	}
	maxAge := int64(0)
	if k.permanent && expires != 0 {
		maxAge = max((expires-now.UnixMilli()+999)/1000, 1)
	}
	return k.cookie.AppendLine(dst, value, maxAge)
}

// warnCollision says once per pool that a member sets what carries our token.
func (p *Pool) warnCollision(k *tokenMethod) {
	if !p.shared.collision.Swap(true) {
		p.log.Warn("a member sets what carries the pool's token", "pool", p.Name, "carrier", k.carrier())
	}
}
