package forward

import (
	"bytes"

	"bigpipe/dataplane/pool"
)

// spareKey says who may use the connection of the flow to a member.
func (f *flow) spareKey(m *pool.Member) spareKey {
	one := f.settings.OneConnect
	k := spareKey{owner: &f.listener.spares, member: m.Dial, source: one.source(f.source.Addr())}
	if f.settings.Transparent { // it is the address of one client
		k.source, k.transparent = f.peer.Addr(), true
	}
	if one.Share {
		k.owner = &f.listener.table.spares.shared
	}
	return k
}

// takeSpare uses a connection that is left over, if there is one.
func (f *flow) takeSpare(m *pool.Member) bool {
	t := f.listener.table
	k := f.spareKey(m)
	c := t.spares.take(&k, f.shard, f.settings.OneConnect, t.clock.now())
	if c == nil {
		return false
	}
	f.server.close()
	f.from.drop()
	c.killed = &f.killed
	f.use(c)
	return true
}

// nobody is the connection of a flow that has none.
var nobody = &conn{fd: -1}

// giveSpare leaves the member's connection to who needs it next.
func (f *flow) giveSpare() {
	t, c := f.listener.table, f.server
	if f.settings.OneConnect.worn(c, t.clock.now()) {
		return
	}
	f.use(nobody)
	c.reader.set(0, 0)
	c.writer.set(0, 0)
	c.short = false
	k := f.spareKey(f.target)
	if !t.spares.put(&k, f.shard, spare{conn: c, listener: f.listener, settings: f.settings, target: f.target, since: t.clock.now()}) {
		c.close()
	}
}

// detach gives the member's connection up as soon as the response was read to its end, if it is shared: while the client takes
// the rest of the response, others can use it. One that may not be used again is closed (rule O-9).
func (x *exchange) detach() {
	f := x.f
	if f.settings.OneConnect == nil || x.detached || !x.upload.complete() {
		return
	}
	x.stopUpload()
	f.pinned = f.pinned || x.authenticates()
	if f.pinned && x.reusable() {
		return
	}
	x.detached, f.pinned = true, false
	f.decision.Rest()
	if x.reusable() && !x.asked.Upgrade {
		f.giveSpare()
	}
	f.server.close()
}

// reusable reports whether the member's connection can take another request after a complete response: both messages were
// whole, nothing follows, and both sides want to go on. The upload must have ended.
func (x *exchange) reusable() bool {
	f := x.f
	return x.response.Reusable() && f.from.len() == 0 && (x.asked.KeepAlive || f.settings.OneConnect != nil) && x.delivered()
}

// credentials notes that the request says who the client is, in a way that a server remembers for a connection.
func (x *exchange) credentials() {
	f := x.f
	if f.settings.OneConnect == nil || f.pinned {
		return
	}
	for _, name := range [...]string{"authorization", "proxy-authorization"} {
		if i := x.request.Lookup(name, 0); i >= 0 && connectionBound(x.request.Value(i)) {
			f.pinned = true
		}
	}
}

// authenticates reports whether the member asks for such credentials: those that come next belong to this connection.
func (x *exchange) authenticates() bool {
	r := &x.response
	name := "www-authenticate"
	switch r.Status() {
	case 401:
	case 407:
		name = "proxy-authenticate"
	default:
		return false
	}
	for i := r.Lookup(name, 0); i >= 0; i = r.Lookup(name, i+1) {
		if connectionBound(r.Value(i)) {
			return true
		}
	}
	return false
}

var schemeNTLM, schemeNegotiate = []byte("NTLM"), []byte("Negotiate")

// connectionBound reports whether one of the schemes in the value of an authentication field authenticates a connection
// instead of a request.
func connectionBound(value []byte) bool {
	for len(value) > 0 {
		var element []byte
		element, value, _ = bytes.Cut(value, []byte(","))
		scheme, _, _ := bytes.Cut(bytes.Trim(element, " \t"), []byte(" "))
		if bytes.EqualFold(scheme, schemeNTLM) || bytes.EqualFold(scheme, schemeNegotiate) {
			return true
		}
	}
	return false
}
