package forward

import (
	"bytes"
	"net/netip"
	"unsafe"

	"bigpipe/dataplane/http1"
)

var forwardedFor = []byte("X-Forwarded-For")

// trusts reports whether an address is that of a trusted proxy.
func (set *Settings) trusts(a netip.Addr) bool {
	for _, network := range set.TrustedProxies {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// believed is the client that a request comes from: the peer, or who a trusted proxy names. Each one that was trusted names
// the one before it, so the values count from the last on, up to the first that is no trusted proxy's address. What is no
// address ends the search.
func (set *Settings) believed(peer netip.AddrPort, h *http1.Head) netip.AddrPort {
	client := peer
	if len(set.TrustedProxies) == 0 || !set.trusts(peer.Addr()) {
		return client
	}
	for i := lastForwarded(h, h.Len()); i >= 0; i = lastForwarded(h, i) {
		for list, more := h.Value(i), true; more; {
			var value []byte
			list, value, more = cutLast(list)
			a, ok := forwardedAddr(value)
			if !ok {
				return client
			}
			client = a
			if !set.trusts(a.Addr()) {
				return client
			}
		}
	}
	return client
}

// lastForwarded returns the last line of X-Forwarded-For before line i, or -1.
func lastForwarded(h *http1.Head, i int) int {
	for i--; i >= 0; i-- {
		if name := h.Name(i); len(name) == len(forwardedFor) && bytes.EqualFold(name, forwardedFor) {
			return i
		}
	}
	return -1
}

// cutLast takes the last element of a comma list. More is false when it was the only one.
func cutLast(list []byte) (rest, last []byte, more bool) {
	i := bytes.LastIndexByte(list, ',')
	if i >= 0 {
		rest = list[:i]
	}
	return rest, bytes.Trim(list[i+1:], " \t"), i >= 0
}

// forwardedAddr reads an address, with a port or without: 192.0.2.1, 192.0.2.1:99, 2001:db8::1, [2001:db8::1]:99.
func forwardedAddr(b []byte) (netip.AddrPort, bool) {
	if len(b) == 0 || bytes.IndexByte(b, '%') >= 0 {
		return netip.AddrPort{}, false
	}
	text := unsafe.String(unsafe.SliceData(b), len(b)) // an address without a zone keeps nothing of it
	if n := len(text); text[0] == '[' && text[n-1] == ']' {
		text = text[1 : n-1]
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 0), true
	}
	a, err := netip.ParseAddrPort(text)
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), err == nil
}

// markForwarded says what becomes of the X-Forwarded-For lines of a request whose member is told the client's address: the
// peer's address follows what a trusted proxy has said, and replaces what anybody else has said.
func (x *exchange) markForwarded() {
	f, q := x.f, &x.request
	x.forwarded = x.forwarded[:0]
	if !f.settings.XForwardedFor {
		return
	}
	last := lastForwarded(&q.Head, q.Len())
	if last >= 0 && f.settings.trusts(f.peer.Addr()) {
		if value := q.Value(last); len(value) > 0 {
			x.forwarded = append(append(x.forwarded, value...), ", "...)
		}
		x.forwarded = f.peer.Addr().AppendTo(x.forwarded)
		q.SetValue(last, x.forwarded)
		return
	}
	for i := last; i >= 0; i = lastForwarded(&q.Head, i) {
		q.Drop(i)
	}
}

// appendForwarded appends the line that tells the client's address, unless it was added to one of the request's.
func (x *exchange) appendForwarded(out []byte) []byte {
	if !x.f.settings.XForwardedFor || len(x.forwarded) > 0 {
		return out
	}
	out = append(append(out, forwardedFor...), ": "...)
	out = x.f.peer.Addr().AppendTo(out)
	return append(out, "\r\n"...)
}
