package rule

import (
	"bytes"
	"strconv"
	"strings"
)

// Location is the target of a redirect: the URL of a rule's redirect statement or of a pool's fallback, with %h, %p and %u to
// be filled in for each request. Other percent signs stay as they are.
type Location struct {
	parts []locationPart
}

// locationPart is a text, then what is filled in after it: 'h', 'p', 'u' or 0.
type locationPart struct {
	text string
	fill byte
}

// NewLocation reads a URL. A host without a scheme ("www.example.com", "%h/sorry.html") becomes an http URL; a text that
// begins with "/" stays relative.
func NewLocation(url string) *Location {
	if !strings.Contains(url, "://") && !strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "%u") {
		url = "http://" + url
	}
	l := &Location{}
	start := 0
	for i := 0; i+1 < len(url); i++ {
		if c := url[i+1]; url[i] == '%' && (c == 'h' || c == 'p' || c == 'u') {
			l.parts = append(l.parts, locationPart{url[start:i], c})
			i++
			start = i + 1
		}
	}
	l.parts = append(l.parts, locationPart{url[start:], 0})
	return l
}

// Append appends the URL to b: %h is the host of the Host header without its port, or the address that the client contacted when
// there is none; %p is the port that the client contacted; %u is the path and query.
func (l *Location) Append(b []byte, in *Input) []byte {
	for _, p := range l.parts {
		b = append(b, p.text...)
		switch p.fill {
		case 'h':
			b = appendHost(b, in)
		case 'p':
			b = strconv.AppendUint(b, uint64(in.Server.Port()), 10)
		case 'u':
			if in.Request != nil {
				b = append(b, in.Request.URI()...)
			}
		}
	}
	return b
}

func appendHost(b []byte, in *Input) []byte {
	if in.Request != nil {
		if host := hostName(in.Request.Host()); len(host) > 0 {
			return append(b, host...)
		}
	}
	addr := in.Server.Addr().Unmap()
	if addr.Is4() {
		return addr.AppendTo(b)
	}
	b = append(b, '[')
	b = addr.WithZone("").AppendTo(b)
	return append(b, ']')
}

// hostName cuts the port off a host, which may be an address in brackets.
func hostName(host []byte) []byte {
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		return host[:i]
	}
	return host
}
