package jroute

import (
	"bytes"
	"strings"
)

// Separator stands between a session and its route in a path.
const Separator = ":"

// Parameter is the path parameter that holds a session: "jsessionid" for a cookie JSESSIONID. Its case counts (rule J-8).
type Parameter struct {
	name string
	mark []byte // ";jsessionid="
}

// ParameterOf is the parameter that belongs to a session cookie.
func ParameterOf(cookie string) Parameter {
	name := strings.ToLower(cookie)
	return Parameter{name: name, mark: []byte(";" + name + "=")}
}

// Name is the parameter as it is written.
func (p *Parameter) Name() string { return p.name }

// Session is one that the path of a request names, with its route. ID and Route are parts of the target.
type Session struct {
	ID []byte
	// Route is empty where there is none.
	Route []byte
	// Start and End bound separator and route in the target; they are equal without a separator. Mark is where the parameter
	// begins.
	Mark, Start, End int
}

// Next finds the first session at or after from in the path of a target. The route is what follows the last separator, up to a ";",
// a "/", a "?" or the end (rule J-8). To go on, call it again with the session's End.
func (p *Parameter) Next(target []byte, from int) (s Session, ok bool) {
	path := target[:pathEnd(target)]
	if from >= len(path) {
		return s, false
	}
	i := bytes.Index(path[from:], p.mark)
	if i < 0 {
		return s, false
	}
	s.Mark = from + i
	start := s.Mark + len(p.mark)
	value := path[start:]
	if end := bytes.IndexAny(value, ";/"); end >= 0 {
		value = value[:end]
	}
	s.End = start + len(value)
	s.ID, s.Start = value, s.End
	if i := bytes.LastIndex(value, []byte(Separator)); i >= 0 {
		s.ID, s.Route, s.Start = value[:i], value[i+len(Separator):], start+i
	}
	return s, true
}

// AppendStripped appends a target without the routes of its sessions (rule J-23). Changed is false where it has none: then nothing is
// appended.
func (p *Parameter) AppendStripped(dst, target []byte) (_ []byte, changed bool) {
	done := 0
	for s, ok := p.Next(target, 0); ok; s, ok = p.Next(target, s.End) {
		if s.Start == s.End {
			continue
		}
		dst = append(dst, target[done:s.Start]...)
		done, changed = s.End, true
	}
	if changed {
		dst = append(dst, target[done:]...)
	}
	return dst, changed
}

// Page is the path of a target without a session at its end: what patterns are compared with.
func (p *Parameter) Page(target []byte) []byte {
	path := PathOf(target)
	for s, ok := p.Next(path, 0); ok; s, ok = p.Next(path, s.End) {
		if s.End == len(path) {
			return path[:s.Mark]
		}
	}
	return path
}

func pathEnd(target []byte) int {
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		return i
	}
	return len(target)
}

// Origin is a target from its path on, the query included; nil where it has no path.
func Origin(target []byte) []byte {
	if len(target) > 0 && target[0] == '/' {
		return target
	}
	scheme := bytes.Index(target, []byte("://"))
	if scheme < 0 {
		return nil
	}
	rest := target[scheme+len("://"):]
	if i := bytes.IndexAny(rest, "/?"); i >= 0 && rest[i] == '/' {
		return rest[i:]
	}
	return nil
}

// PathOf is the path of a target, "/" where it has none.
func PathOf(target []byte) []byte {
	if path := Origin(target); path != nil {
		return path[:pathEnd(path)]
	}
	return root
}

var root = []byte("/")

// Suffix is the route in a session that ends with one: what follows the first suffix, as Tomcat writes "ID.route". It is empty where
// there is none.
func Suffix(session []byte, suffix string) []byte {
	if suffix == "" {
		return nil
	}
	if i := bytes.Index(session, []byte(suffix)); i >= 0 {
		return session[i+len(suffix):]
	}
	return nil
}
