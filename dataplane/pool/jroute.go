package pool

import (
	"bytes"
	"net/netip"

	"bigpipe/dataplane/balance"
	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/jroute"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// jrouteMethod persists by the route of a member, which the client brings back in a cookie of its own beside the session's, or behind
// the session in the path (seed 004). No record is kept.
type jrouteMethod struct {
	// cookie carries the route; session and single are those that members set.
	cookie, session, single cookie.Name
	// parameter holds the session in a path, suffix stands before the route that a member itself put into a session.
	parameter jroute.Parameter
	suffix    string
	// routes finds a member by its route; ids are the routes and links what links of a response get, by the member's index.
	routes map[string]*Member
	ids    []string
	links  []jroute.Links // nil: links stay as they are
	// contexts are where the pool persists.
	contexts jroute.Contexts
	// strip hides routes in paths from members.
	strip bool
	// idempotent are the requests that may be sent again.
	idempotent []idempotent
	// private: responses with a failover's route are not for shared caches.
	private bool
}

// idempotent are requests whose path matches a pattern, and how often each may be sent to another member; less than 0 is without
// limit.
type idempotent struct {
	pattern string
	retries int
}

// jrouteNote is what a decision remembers of the request.
type jrouteNote struct {
	// outside: the path is in none of the contexts; else context is its own.
	outside bool
	context string
	// cookies: the request carried the route's cookie or the session's, so that the client needs nothing in its links.
	cookies bool
	// named is the member that a route names, and where the route was. Cookie is the first member that the route's cookies name.
	named, cookie *Member
	where         place
	// unknown: the route's cookie names nobody, while there is a session.
	unknown bool
	// kept: the client stays bound to named although another member answers (a connection limit, rule B-16).
	kept bool
	// silent are the members that did not answer the request, replays counts them.
	silent  balance.Set
	replays int
}

// place says where a route was found.
type place uint8

const (
	nowhere place = iota
	inCookie
	inSession
	inPath
)

func newJrouteMethod(p *Pool, c *pb.Pool) *jrouteMethod {
	session := config.JrouteSessionCookieOf(c)
	k := &jrouteMethod{
		cookie: cookie.Named(config.JrouteCookieOf(c)), session: cookie.Named(session), single: cookie.Named(session + "SSO"),
		parameter: jroute.ParameterOf(session), suffix: config.JrouteSuffixOf(c),
		routes:   make(map[string]*Member, len(p.members)),
		contexts: jroute.NewContexts(c.GetJrouteContext()),
		strip:    c.JrouteStrip == nil || c.GetJrouteStrip(),
		private:  c.GetCachePrivate(),
	}
	for _, i := range c.GetJrouteIdempotent() {
		retries := -1
		if i.Retries != nil {
			retries = int(i.GetRetries())
		}
		k.idempotent = append(k.idempotent, idempotent{i.GetPattern(), retries})
	}
	names := make(map[string]string, len(p.members))
	for _, m := range c.GetMembers() {
		names[m.GetAddress()] = config.RouteOf(m)
	}
	rewrite := c.GetJrouteRewrite()
	for _, m := range p.members {
		route := names[m.Addr.String()]
		k.ids = append(k.ids, route)
		if k.routes[route] == nil {
			k.routes[route] = m
		}
		if rewrite != pb.JrouteRewrite_JROUTE_REWRITE_NONE {
			k.links = append(k.links, jroute.Links{
				Parameter: k.parameter.Name(), Separator: jroute.Separator, Route: route,
				Body: rewrite != pb.JrouteRewrite_JROUTE_REWRITE_HEADERS,
			})
		}
	}
	return k
}

// choose follows the route where it is (rules J-1, J-9, J-11, J-12). Where all members are unhealthy that of the route is tried all
// the same, before any other (rule J-13).
func (k *jrouteMethod) choose(d *Decision, in *Input) (bool, error) {
	d.outcome = OutcomeNone
	unknown := k.read(&d.jroute, in)
	m := d.jroute.named
	switch {
	case in.Fresh:
		d.jroute.named, d.jroute.cookie, d.jroute.unknown = nil, nil, false
		return false, nil
	case m == nil && unknown:
		d.outcome = OutcomeUnknownMember
		if d.dry() {
			d.step("the route names no member")
		}
		if d.pool.refuseUnknown() {
			return false, ErrRefused
		}
		return false, nil
	case m == nil:
		switch {
		case !d.dry():
		case d.jroute.outside:
			d.step("the path is in no jroute_context")
		default:
			d.step("no route")
		}
		return false, nil
	}
	if d.dry() {
		d.step("route %s in %s names member %s, which is %s", k.ids[m.index], k.places(d.jroute.where), m.Addr, m.State())
	}
	done, err := d.follow(m)
	d.jroute.kept = !done && err == nil && d.outcome == OutcomeValid
	if !done && err == nil && d.outcome == OutcomeDown && m.unhealthy() && d.pool.allUnhealthy() {
		if done = d.take(m, d.pool.persistedLimits(m)); done && d.dry() {
			d.step("no member is healthy: that of the route is tried first")
		}
	}
	return done, err
}

// places names a place.
func (k *jrouteMethod) places(p place) string {
	switch p {
	case inCookie:
		return "cookie " + k.cookie.String()
	case inSession:
		return "cookie " + k.session.String()
	}
	return "the path"
}

func (k *jrouteMethod) refused(d *Decision) error { return d.balance() }

func (k *jrouteMethod) accepted(*Decision) {}

func (k *jrouteMethod) knows(_ *Pool, in *Input) *Member {
	if in.Fresh {
		return nil
	}
	var n jrouteNote
	k.read(&n, in)
	return n.named
}

// read notes what a request carries: of the route's cookies, the session's and the path's routes, the first that names a member which
// can be used counts, else the first that names one. Unknown: there are routes in the cookies or the path, and none does.
func (k *jrouteMethod) read(n *jrouteNote, in *Input) (unknown bool) {
	if in.Request == nil {
		return false
	}
	n.context = k.contexts[len(k.contexts)-1]
	if in.Target != nil {
		context, ok := k.contexts.Of(jroute.PathOf(in.Target))
		if n.context, n.outside = context, !ok; !ok {
			return false
		}
	}
	strange := k.readCookies(n, in.Request)
	if n.where != inCookie || !n.named.State().UsableForPersisted() {
		for s, ok := k.parameter.Next(in.Target, 0); ok; s, ok = k.parameter.Next(in.Target, s.End) {
			m := k.routes[string(s.Route)]
			if m == nil && len(s.Route) > 0 {
				unknown = true
			}
			if m == nil && len(s.Route) == 0 {
				m = k.routes[string(jroute.Suffix(s.ID, k.suffix))]
			}
			n.consider(m, inPath)
		}
	}
	return (unknown || strange) && n.named == nil
}

// readCookies notes what cookies carry. A session's suffix that names nobody is a part of the session. Unknown: so is not what the
// route's cookie holds.
func (k *jrouteMethod) readCookies(n *jrouteNote, q *http1.Head) (unknown bool) {
	for i := q.Next(http1.KindCookie, 0); i >= 0; i = q.Next(http1.KindCookie, i+1) {
		for value := range cookie.Values(k.cookie, q.Value(i)) {
			if value = unquoted(value); len(value) == 0 {
				continue
			}
			n.cookies = true
			m, _ := k.find(value)
			unknown = unknown || m == nil
			if n.cookie == nil {
				n.cookie = m
			}
			n.consider(m, inCookie)
		}
	}
	if n.where == inCookie && n.named.State().UsableForPersisted() {
		return false
	}
	session := false
	for i := q.Next(http1.KindCookie, 0); i >= 0; i = q.Next(http1.KindCookie, i+1) {
		for value := range cookie.Values(k.session, q.Value(i)) {
			session = true
			n.consider(k.routes[string(jroute.Suffix(unquoted(value), k.suffix))], inSession)
		}
	}
	n.cookies = n.cookies || session
	n.unknown = unknown && session
	return unknown
}

// consider takes a member that a route names, nil for none, unless there is one already that can be used, or is as good.
func (n *jrouteNote) consider(m *Member, where place) {
	if m == nil || n.named != nil && (n.named.State().UsableForPersisted() || !m.State().UsableForPersisted()) {
		return
	}
	n.named, n.where = m, where
}

// find finds the member of a route, or of the first of several that proxies behind each other have put together (rule J-6); linked is
// how many bytes of the value are for us then.
func (k *jrouteMethod) find(value []byte) (m *Member, linked int) {
	if m := k.routes[string(value)]; m != nil {
		return m, 0
	}
	for i, c := range value {
		if c != jroute.Link {
			continue
		}
		if m := k.routes[string(value[:i])]; m != nil {
			return m, i + 1
		}
	}
	return nil, 0
}

// unquoted is a cookie's value without quotes around it.
func unquoted(value []byte) []byte {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// due reports whether the response must carry the route of the member that answers: the client's cookie names another one after a
// failover, or nobody (rule J-7).
func (k *jrouteMethod) due(d *Decision) bool {
	n := &d.jroute
	switch {
	case n.outside || n.kept:
		return false
	case n.named == nil:
		return n.unknown
	case n.cookie != nil:
		return n.where != inCookie || n.named != d.Member
	}
	return n.where == inSession && n.named != d.Member
}

// edit makes routes accompany the sessions that a member sets (rule J-6), and adds one after a failover (rule J-7).
func (k *jrouteMethod) edit(d *Decision, r *http1.Head, due bool, buffer []byte) (e Edited, _ []byte) {
	if d.jroute.outside {
		return e, buffer
	}
	route, own := k.ids[d.Member.index], false
	first := r.Next(http1.KindSetCookie, 0)
	for i := first; i >= 0; i = r.Next(http1.KindSetCookie, i+1) {
		set, ok := cookie.ParseSetCookie(r.Value(i))
		if !ok || !k.cookie.Is(set.Name()) {
			continue
		}
		own = true
		if value := unquoted(set.Value()); len(value) == 0 || string(value) == route || linkedTo(value, route) {
			continue
		}
		from := len(buffer)
		buffer = jroute.AppendLinked(buffer, &set, route)
		r.EditValue(i, buffer[from:])
	}
	from := len(buffer)
	for i := first; i >= 0; i = r.Next(http1.KindSetCookie, i+1) {
		set, ok := cookie.ParseSetCookie(r.Value(i))
		if !ok || !k.session.Is(set.Name()) && !k.single.Is(set.Name()) || own && k.accompanied(r, set.Attributes()) ||
			jroute.Accompanied(buffer[from:], k.cookie, set.Attributes()) {
			continue
		}
		buffer = jroute.AppendCookie(buffer, k.cookie.String(), route, set.Attributes())
	}
	if len(buffer) > from {
		d.did(OutcomeBound)
	} else if due && !own {
		d.did(OutcomeMoved)
		buffer = k.appendMoved(d, r, buffer)
	}
	e.Lines = buffer[from:]
	e.Set = due
	return e, buffer
}

// linkedTo reports whether a member has put the route before its own already.
func linkedTo(value []byte, route string) bool {
	return len(value) > len(route) && string(value[:len(route)]) == route && value[len(route)] == jroute.Link
}

// accompanied reports whether the member sets a route with the attributes of its session itself (rule J-5).
func (k *jrouteMethod) accompanied(r *http1.Head, attributes []byte) bool {
	for i := r.Next(http1.KindSetCookie, 0); i >= 0; i = r.Next(http1.KindSetCookie, i+1) {
		if set, ok := cookie.ParseSetCookie(r.Value(i)); ok && k.cookie.Is(set.Name()) && jroute.SameAttributes(set.Attributes(), attributes) {
			return true
		}
	}
	return false
}

// appendMoved appends the line that sends the client to the member that answers, where the member sets no session.
func (k *jrouteMethod) appendMoved(d *Decision, r *http1.Head, buffer []byte) []byte {
	buffer = append(append(buffer, "Set-Cookie: "...), k.cookie.String()...)
	buffer = append(append(buffer, '='), k.ids[d.Member.index]...)
	buffer = append(append(buffer, "; Path="...), d.jroute.context...)
	buffer = append(buffer, "\r\n"...)
	if k.private && !isPrivate(r) {
		buffer = http1.AppendField(buffer, "Cache-Control", "private")
	}
	return buffer
}

// The header that tells a member its route, so that it can set the cookie itself (rule J-5).
const (
	proxyJroute      = "Proxy-jroute"
	lowerProxyJroute = "proxy-jroute"
)

// editRequest drops what a client says of routes that only we may say, and hides the routes from the member that it must not see
// (rules J-6, J-23).
func (k *jrouteMethod) editRequest(d *Decision, q *http1.Request, buffer []byte) []byte {
	for i := q.Lookup(lowerProxyJroute, 0); i >= 0; i = q.Lookup(lowerProxyJroute, i+1) {
		q.Drop(i)
	}
	if d.jroute.outside {
		return buffer
	}
	if k.strip {
		from := len(buffer)
		out, changed := k.parameter.AppendStripped(buffer, jroute.Origin(q.Target()))
		if changed {
			q.SetPath(out[from:])
		}
		buffer = out
	}
	if !d.jroute.cookies {
		return buffer
	}
	for i := q.Next(http1.KindCookie, 0); i >= 0; i = q.Next(http1.KindCookie, i+1) {
		if bytes.IndexByte(q.Value(i), jroute.Link) < 0 {
			continue
		}
		from := len(buffer)
		out, changed := jroute.AppendUnlinked(buffer, q.Value(i), k.cookie, k.linked)
		if changed {
			q.EditValue(i, out[from:])
		}
		buffer = out
	}
	return buffer
}

// linked is how many bytes of a cookie's value are for us and not for the proxies behind us.
func (k *jrouteMethod) linked(value []byte) int {
	_, n := k.find(value)
	return n
}

// Links says what links of the response get; nil: nothing, since the client brings the route back by itself or the pool needs none.
func (d *Decision) Links() *jroute.Links {
	if d.Member == nil || d.pool.jroutes == nil || d.pool.jroutes.links == nil || d.jroute.outside || d.jroute.cookies {
		return nil
	}
	return &d.pool.jroutes.links[d.Member.index]
}

// Compressed counts a page whose links could not get the route, since it is compressed (rule J-23).
func (d *Decision) Compressed() {
	if d.Member != nil {
		d.pool.shared.outcomes.add(d.shard, OutcomeCompressed)
		d.pool.tell(OutcomeCompressed, 1, netip.Addr{})
	}
}

// AppendRequestFields appends the header lines that tell the chosen member what persistence wants it to know.
func (d *Decision) AppendRequestFields(dst []byte) []byte {
	if d.Member == nil || d.pool.jroutes == nil || d.jroute.outside {
		return dst
	}
	return http1.AppendField(dst, proxyJroute, d.pool.jroutes.ids[d.Member.index])
}

// Resume says that the choice stands for another request of the client.
func (d *Decision) Resume(q *http1.Request) {
	if d.pool == nil || d.pool.jroutes == nil {
		return
	}
	d.jroute = jrouteNote{}
	d.pool.jroutes.read(&d.jroute, &Input{Request: &q.Head, Target: q.Target()})
	d.jroute.kept = true // nobody moves
}

// Idempotent reports whether the pool says that sending a request again does no harm (jroute_idempotent).
func (d *Decision) Idempotent(q *http1.Request) bool { return d.retries(q) != 0 }

// retries is how often the request may be sent to another member; less than 0 is without limit.
func (d *Decision) retries(q *http1.Request) int {
	if d.Member == nil || d.pool.jroutes == nil || len(d.pool.jroutes.idempotent) == 0 || d.jroute.outside {
		return 0
	}
	page := d.pool.jroutes.parameter.Page(q.Target())
	for _, i := range d.pool.jroutes.idempotent {
		if jroute.Match(i.pattern, page) {
			return i.retries
		}
	}
	return 0
}

// MayReplay reports whether a request that the chosen member did not answer may be sent to another one (rule J-15).
func (d *Decision) MayReplay(q *http1.Request) bool {
	n := d.retries(q)
	return n < 0 || d.jroute.replays < n
}

// Replay chooses another member for such a request, one that has not seen it.
func (d *Decision) Replay() error {
	d.jroute.replays++
	d.jroute.silent.Add(d.Member.index)
	d.tried = d.jroute.silent
	return d.counted(d.balance())
}

// unhealthy reports whether monitors or traffic find a member down that the operator has not.
func (m *Member) unhealthy() bool {
	s := m.State()
	return (s == Down || s == AddressDown) && m.state.UsableForPersisted()
}

// allUnhealthy reports whether no member is healthy, or may be.
func (p *Pool) allUnhealthy() bool {
	for _, m := range p.members {
		if s := m.State(); s.UsableForNew() || s == Checking {
			return false
		}
	}
	return true
}
