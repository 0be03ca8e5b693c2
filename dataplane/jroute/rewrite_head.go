package jroute

import (
	"bytes"

	"bigpipe/dataplane/http1"
)

// EditHead adds the route to the links in the Location, Content-Location and Refresh fields of a response to a request for a
// host, as its Host field says (rule J-23). The buffer is used for what is changed and must stay until the head was written; it
// is returned for the next response.
func (l *Links) EditHead(r *http1.Head, host, buffer []byte) []byte {
	for i := range r.Len() {
		name, value := r.Name(i), r.Value(i)
		skip := 0
		switch {
		case is(name, "location"), is(name, "content-location"):
		case is(name, "refresh"):
			skip = refreshTarget(value)
		default:
			continue
		}
		from := len(buffer)
		buffer = append(buffer, value[:skip]...)
		buffer = l.AppendLink(buffer, value[skip:], host)
		if len(buffer)-from > len(value) {
			r.EditValue(i, buffer[from:])
		} else {
			buffer = buffer[:from]
		}
	}
	return buffer
}

// AppendLink appends a link, with the route if there is a session ID without one in its path and it leads to the host. Host is
// what the Host field of the request said. What follows the path stays as it is.
func (l *Links) AppendLink(dst, link, host []byte) []byte {
	end := len(link)
	if i := bytes.IndexAny(link, "?#"); i >= 0 {
		end = i
	}
	if !leadsTo(link[:end], host) {
		return append(dst, link...)
	}
	var w Rewriter
	w.Start(l)
	dst = w.End(w.Append(dst, link[:end]))
	return append(dst, link[end:]...)
}

// leadsTo reports whether a link, without query and fragment, leads to a host: it names no other. HTTP and HTTPS on their own
// ports are one host, as a session that changes from the one to the other stays where it is (rule J-19).
func leadsTo(link, host []byte) bool {
	if scheme, rest, ok := cutScheme(link); ok {
		if !is(scheme, "http") && !is(scheme, "https") || len(rest) < 2 || !isSlash(rest[0]) || !isSlash(rest[1]) {
			return false
		}
		link = rest
	}
	// A browser takes a backslash for a slash.
	if len(link) < 2 || !isSlash(link[0]) || !isSlash(link[1]) {
		return true
	}
	authority := link[2:]
	if i := bytes.IndexAny(authority, `/\;`); i >= 0 {
		authority = authority[:i]
	}
	return len(host) > 0 && bytes.EqualFold(withoutPort(authority), withoutPort(host))
}

// cutScheme cuts a link behind "scheme:", if it begins so.
func cutScheme(link []byte) (scheme, rest []byte, ok bool) {
	i := bytes.IndexAny(link, `:/\;`)
	if i < 0 || link[i] != ':' {
		return nil, link, false
	}
	return link[:i], link[i+1:], true
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// withoutPort cuts the port of HTTP or HTTPS off a host.
func withoutPort(host []byte) []byte {
	for _, port := range [...]string{":80", ":443", ":"} {
		if rest, ok := bytes.CutSuffix(host, []byte(port)); ok {
			return rest
		}
	}
	return host
}

// refreshTarget returns where the link begins in the value of a Refresh field, "5; url=/path"; its length without a link.
func refreshTarget(value []byte) int {
	i := bytes.IndexAny(value, ";,")
	if i < 0 {
		return len(value)
	}
	i = skipBlanks(value, i+1)
	if rest := value[i:]; len(rest) >= 3 && is(rest[:3], "url") {
		if j := skipBlanks(value, i+3); j < len(value) && value[j] == '=' {
			i = skipBlanks(value, j+1)
		}
	}
	if i < len(value) && (value[i] == '\'' || value[i] == '"') {
		i++
	}
	return i
}

func skipBlanks(value []byte, i int) int {
	for i < len(value) && (value[i] == ' ' || value[i] == '\t') {
		i++
	}
	return i
}

// is reports whether a name is the one that is given in lower case.
func is(name []byte, lower string) bool {
	return len(name) == len(lower) && bytes.EqualFold(name, []byte(lower))
}
