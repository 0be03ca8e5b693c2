package token

import (
	"bytes"
	"iter"
	"strconv"

	"bigpipe/dataplane/cookie"
)

// Cookie is what all Set-Cookie lines of a pool's tokens have in common. Texts are written as they are; the configuration
// sees to it that they hold no ";" and no control byte.
type Cookie struct {
	Name string
	// Path is "/" if it is empty.
	Path             string
	Secure, HTTPOnly bool
	SameSite         cookie.SameSite
}

// AppendLine appends a whole header line with its CRLF (rule G-3):
//
//	Set-Cookie: gwsp-0123456789=v1.AAAA; Path=/; HttpOnly; SameSite=Strict
//
// MaxAge is in seconds; 0 ends the cookie with the browser (rule G-4).
func (c *Cookie) AppendLine(dst, value []byte, maxAge int64) []byte {
	dst = append(append(append(dst, "Set-Cookie: "...), c.Name...), '=')
	dst = append(append(dst, value...), "; Path="...)
	if c.Path == "" {
		dst = append(dst, '/')
	} else {
		dst = append(dst, c.Path...)
	}
	if maxAge > 0 {
		dst = strconv.AppendInt(append(dst, "; Max-Age="...), maxAge, 10)
	}
	if c.HTTPOnly {
		dst = append(dst, "; HttpOnly"...)
	}
	switch c.SameSite {
	case cookie.SameSiteStrict:
		dst = append(dst, "; SameSite=Strict"...)
	case cookie.SameSiteLax:
		dst = append(dst, "; SameSite=Lax"...)
	case cookie.SameSiteNone:
		dst = append(dst, "; SameSite=None"...)
	}
	if c.Secure {
		dst = append(dst, "; Secure"...)
	}
	return append(dst, "\r\n"...)
}

// Values yields the values in one header line: a client may have joined several with commas.
func Values(line []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for more := true; more; {
			var value []byte
			value, line, more = bytes.Cut(line, []byte{','})
			if !yield(bytes.Trim(value, " \t")) {
				return
			}
		}
	}
}
