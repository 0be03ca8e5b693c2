package jroute

import (
	"bytes"

	"bigpipe/dataplane/cookie"
)

// Link stands between the routes of proxies behind each other: "R1.R2" (rule J-6).
const Link = '.'

// AppendCookie appends the line of a cookie with the attributes of another: all that follows its value.
func AppendCookie(dst []byte, name, route string, attributes []byte) []byte {
	dst = append(append(dst, "Set-Cookie: "...), name...)
	dst = append(append(dst, '='), route...)
	return append(append(dst, attributes...), "\r\n"...)
}

// AppendLinked appends the value of a Set-Cookie field whose cookie's value gets a route before it.
func AppendLinked(dst []byte, set *cookie.SetCookie, route string) []byte {
	dst = append(append(dst, set.Name()...), '=')
	dst = append(append(dst, route...), Link)
	return append(append(dst, set.Value()...), set.Attributes()...)
}

// SameAttributes reports whether the attributes of two cookies are the same, in their order. The case of their names and blanks
// around them do not count.
func SameAttributes(a, b []byte) bool {
	for {
		var x, y []byte
		x, a = nextAttribute(a)
		y, b = nextAttribute(b)
		if x == nil || y == nil {
			return x == nil && y == nil
		}
		xName, xValue, _ := bytes.Cut(x, []byte{'='})
		yName, yValue, _ := bytes.Cut(y, []byte{'='})
		if !bytes.EqualFold(trim(xName), trim(yName)) || !bytes.Equal(trim(xValue), trim(yValue)) {
			return false
		}
	}
}

// nextAttribute takes the first attribute off that is not empty; nil: there is none.
func nextAttribute(text []byte) (attribute, rest []byte) {
	for len(text) > 0 {
		attribute, text, _ = bytes.Cut(text, []byte{';'})
		if attribute = trim(attribute); len(attribute) > 0 {
			return attribute, text
		}
	}
	return nil, nil
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// Accompanied reports whether header lines, each with its CRLF, set a cookie of a name with the same attributes.
func Accompanied(lines []byte, name cookie.Name, attributes []byte) bool {
	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\r\n"))
		set, ok := cookie.ParseSetCookieLine(line)
		if ok && name.Is(set.Name()) && SameAttributes(set.Attributes(), attributes) {
			return true
		}
	}
	return false
}

// AppendUnlinked appends a Cookie line in whose cookies of a name the first bytes of the value are left out, as many as cut says;
// every other byte stays. Changed is false where nothing is cut: then nothing is appended.
func AppendUnlinked(dst, line []byte, name cookie.Name, cut func(value []byte) int) (_ []byte, changed bool) {
	done := 0
	for value := range cookie.Values(name, line) {
		n := cut(value)
		if n == 0 {
			continue
		}
		at := cap(line) - cap(value) // the value is a part of the line: where it begins
		dst = append(dst, line[done:at]...)
		done, changed = at+n, true
	}
	if changed {
		dst = append(dst, line[done:]...)
	}
	return dst, changed
}
