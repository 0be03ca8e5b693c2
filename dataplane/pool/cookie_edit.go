package pool

import (
	"bytes"
	"time"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
)

// SetCookie reports whether the first response must carry our cookie: the pool inserts one, and the request had none that
// names the member that answers (rules O-2, O-4, C-7), or the pool always sends it. A token is such a cookie (rule G-2), and
// so is the route of a member after a failover (rule J-7).
func (d *Decision) SetCookie() bool {
	if d.Member != nil && d.pool.tokens != nil {
		return d.pool.tokens.due(d)
	}
	if d.Member != nil && d.pool.jroutes != nil {
		return d.pool.jroutes.due(d)
	}
	if d.Member == nil || d.pool.cookies == nil || !d.pool.cookies.insert || d.cookie.kept {
		return false
	}
	return d.cookie.named != d.Member || d.cookie.renew || d.pool.cookies.always
}

// AlwaysSetCookie reports whether each response must carry our cookie (rule O-5).
func (d *Decision) AlwaysSetCookie() bool {
	return d.Member != nil && d.pool.cookies != nil && d.SetCookie() && d.pool.cookies.always
}

// appendValue appends the value that names a member.
func (c *cookieMethod) appendValue(dst []byte, m *Member, now time.Time) []byte {
	if c.reader.Ring == nil {
		return append(dst, m.cookie...)
	}
	return c.reader.Ring.AppendSealed(dst, c.template.Name, cookie.Sealed{Addr: m.Addr, Epoch: m.epoch, Made: now})
}

// AppendSetCookie appends the line "Set-Cookie: ...\r\n" that names the chosen member, and counts the binding. Now is the
// wall clock (rule C-6).
func (d *Decision) AppendSetCookie(dst []byte, now time.Time) []byte {
	if d.Member == nil || d.pool.cookies == nil {
		return dst
	}
	d.did(OutcomeBound)
	c := d.pool.cookies
	var value [cookie.SealedSize]byte
	return c.template.AppendLine(dst, c.appendValue(value[:0], d.Member, now), now)
}

// Edited is what [Decision.EditResponse] made of a response.
type Edited struct {
	// Lines are to be added to the head.
	Lines []byte
	// Set: our cookie is among them, as it was due.
	Set bool
}

// EditResponse edits the lines of a final response that have to do with the pool's cookie, token or routes: servers must not set a
// cookie that is ours, and a blank one becomes ours (rule C-10). Due asks for our own line. The buffer is used for what is added
// and must stay until the head was written; it is returned for the next response. Without a cookie nothing is touched.
func (d *Decision) EditResponse(r *http1.Head, due bool, buffer []byte) (e Edited, _ []byte) {
	if d.Member != nil && d.pool.tokens != nil {
		return d.pool.tokens.edit(d, r, due, buffer)
	}
	if d.Member != nil && d.pool.jroutes != nil {
		return d.pool.jroutes.edit(d, r, due, buffer)
	}
	if d.Member == nil || d.pool.cookies == nil {
		return e, buffer
	}
	c, p := d.pool.cookies, d.pool
	ours := false
	if c.rewrite {
		buffer, ours = d.rewriteBlank(r, buffer)
	}
	if c.insert {
		asked := c.onlyWhen == ""
		for i := r.Next(http1.KindSetCookie, 0); i >= 0; i = r.Next(http1.KindSetCookie, i+1) {
			set, ok := cookie.ParseSetCookie(r.Value(i))
			switch {
			case !ok:
			case c.template.Name.Is(set.Name()):
				r.Drop(i)
			case string(set.Name()) == c.onlyWhen:
				asked = true
			}
		}
		e.Set = due && asked
	}
	from := len(buffer)
	if e.Set {
		buffer = d.AppendSetCookie(buffer, p.now())
		ours = true
	}
	if ours && c.private && !isPrivate(r) {
		buffer = http1.AppendField(buffer, "Cache-Control", "private")
	}
	e.Lines = buffer[from:]
	return e, buffer
}

// rewriteBlank makes our cookie of the first blank one, and drops others, which nobody would read (rule C-10). A client that
// is bound to a member that could not serve it stays bound.
func (d *Decision) rewriteBlank(r *http1.Head, buffer []byte) (_ []byte, rewritten bool) {
	c, m := d.pool.cookies, d.Member
	if d.cookie.kept {
		m = d.cookie.named
	}
	for i := r.Next(http1.KindSetCookie, 0); i >= 0; i = r.Next(http1.KindSetCookie, i+1) {
		set, ok := cookie.ParseSetCookie(r.Value(i))
		zeros := 0
		if ok {
			zeros = set.Blank()
		}
		switch {
		case zeros == 0 || zeros == 75 && d.cookie.byRule:
			continue
		case rewritten:
			r.Drop(i)
			continue
		}
		rewritten = true
		if d.cookie.named != m {
			d.did(OutcomeBound)
		}
		now, from := d.pool.now(), len(buffer)
		var value [cookie.SealedSize]byte
		buffer = c.template.AppendRewritten(buffer, &set, c.appendValue(value[:0], m, now), now)
		r.EditValue(i, buffer[from:])
	}
	return buffer, rewritten
}

// isPrivate reports whether a response keeps itself out of shared caches.
func isPrivate(r *http1.Head) bool {
	for i := r.Lookup("cache-control", 0); i >= 0; i = r.Lookup("cache-control", i+1) {
		for directive := range bytes.SplitSeq(r.Value(i), []byte{','}) {
			switch string(bytes.ToLower(bytes.Trim(directive, " \t"))) {
			case "private", "no-store":
				return true
			}
		}
	}
	return false
}

// EditRequest hides the pool's cookie from the member if the pool says so, and routes that are not for it; all other cookies stay as
// they came. The buffer is used for what is changed and must stay until the head was written; it is returned for the next request.
func (d *Decision) EditRequest(q *http1.Request, buffer []byte) []byte {
	if d.Member != nil && d.pool.jroutes != nil {
		return d.pool.jroutes.editRequest(d, q, buffer)
	}
	if d.Member == nil || d.pool.stripped == nil {
		return buffer
	}
	for i := q.Next(http1.KindCookie, 0); i >= 0; i = q.Next(http1.KindCookie, i+1) {
		from := len(buffer)
		out, left := cookie.AppendWithout(buffer, q.Value(i), &d.pool.stripped.template.Name)
		switch {
		case left == 0:
			continue
		case len(out) == from:
			q.Drop(i)
		default:
			q.EditValue(i, out[from:])
		}
		buffer = out
	}
	return buffer
}
