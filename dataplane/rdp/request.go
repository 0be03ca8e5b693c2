// Package rdp reads how a client of terminal services begins: an X.224 connection request in a TPKT (RFC 2126, ITU-T X.224,
// 13.3), in which it names the member that a session directory sent it to, or its user.
package rdp

import (
	"bytes"
	"net/netip"

	"bigpipe/dataplane/cookie"
)

// MaxRequest is the length in bytes of the longest request: what follows the length field is 254 bytes at most.
const MaxRequest = tpktSize + 1 + 254

const (
	tpktSize   = 4
	tpktFirst  = 3    // version
	crCode     = 0xe0 // connection request; the low bits are a credit
	headerSize = 6    // code, two references, class
)

// Request is what a connection request says. The zero value says nothing.
type Request struct {
	// Member is the address that "Cookie: msts=A.P.0000" names; invalid where there is none. It is a client's word: it may be
	// looked up among the members of a pool and must never be dialled.
	Member netip.AddrPort
	// User is the value of "Cookie: mstshash=U", a part of the bytes that were read.
	User []byte
}

// Read reads the request at the beginning of what a client has sent. Not done asks for more bytes, MaxRequest at most. What is no
// request, or carries no cookie, gives the zero Request.
func Read(b []byte) (r Request, done bool) {
	if len(b) > 0 && b[0] != tpktFirst {
		return Request{}, true
	}
	if len(b) <= tpktSize {
		return Request{}, false
	}
	size := int(b[tpktSize]) // what follows it
	if size < headerSize || size == 255 || int(b[2])<<8|int(b[3]) < tpktSize+1+size {
		return Request{}, true
	}
	body := b[tpktSize+1:]
	switch {
	case len(body) > 0 && body[0]&0xf0 != crCode:
		return Request{}, true
	case len(body) < size:
		return Request{}, false
	}
	line, ok := bytes.CutPrefix(body[headerSize:size], []byte("Cookie: "))
	if !ok {
		return Request{}, true
	}
	line, _, ok = bytes.Cut(line, []byte("\r\n"))
	if !ok {
		return Request{}, true
	}
	if value, ok := bytes.CutPrefix(line, []byte("msts=")); ok {
		if v, ok := cookie.Decode(value); ok {
			r.Member = v.Addr
		}
	} else if user, ok := bytes.CutPrefix(line, []byte("mstshash=")); ok && len(user) > 0 {
		r.User = user
	}
	return r, true
}
