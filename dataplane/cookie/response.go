package cookie

import (
	"bytes"
	"time"
)

// SameSite is the cookie attribute of that name.
type SameSite uint8

// What SameSite can say. The zero value says nothing.
const (
	SameSiteUnset SameSite = iota // the attribute is not written
	SameSiteLax
	SameSiteStrict
	SameSiteNone // browsers want Secure with it
)

var sameSiteAttribute = [...]string{
	SameSiteLax:    "; SameSite=Lax",
	SameSiteStrict: "; SameSite=Strict",
	SameSiteNone:   "; SameSite=None",
}

// Template is what all Set-Cookie fields of a pool have in common. With nothing but a name it gives the bytes of the
// legacy system. Texts are written as they are; the configuration sees to it that they hold no ";" and no control byte.
type Template struct {
	Name Name
	// Lifetime is how long a browser keeps the cookie. Zero: as long as it runs, no expires is written (rule C-6).
	Lifetime time.Duration
	// Path is "/" if it is empty.
	Path string
	// Domain is not written if it is empty.
	Domain   string
	Secure   bool
	HTTPOnly bool
	SameSite SameSite
}

// AppendLine appends a whole header line with its CRLF. Now is the wall clock.
func (t *Template) AppendLine(dst, value []byte, now time.Time) []byte {
	dst = append(dst, "Set-Cookie: "...)
	dst = t.AppendField(dst, value, now)
	return append(dst, "\r\n"...)
}

// AppendField appends the value of a Set-Cookie field:
//
//	BIGipServermy_pool=184658624.20480.0000; expires=Sat, 19-Aug-2000 19:35:45 GMT; path=/
//
// Value is what [AppendValue] writes, or a sealed form of it. Now is the wall clock.
func (t *Template) AppendField(dst, value []byte, now time.Time) []byte {
	dst = append(dst, t.Name.text...)
	dst = append(dst, '=')
	dst = append(dst, value...)
	return t.AppendAttributes(dst, now)
}

// AppendAttributes appends what follows the value, beginning with "; ".
func (t *Template) AppendAttributes(dst []byte, now time.Time) []byte {
	if t.Lifetime > 0 {
		dst = append(dst, "; expires="...)
		dst = now.Add(t.Lifetime).UTC().AppendFormat(dst, "Mon, 02-Jan-2006 15:04:05 GMT")
	}
	dst = append(dst, "; path="...)
	if t.Path == "" {
		dst = append(dst, '/')
	} else {
		dst = append(dst, t.Path...)
	}
	if t.Domain != "" {
		dst = append(dst, "; domain="...)
		dst = append(dst, t.Domain...)
	}
	if t.Secure {
		dst = append(dst, "; Secure"...)
	}
	if t.HTTPOnly {
		dst = append(dst, "; HttpOnly"...)
	}
	if int(t.SameSite) < len(sameSiteAttribute) {
		dst = append(dst, sameSiteAttribute[t.SameSite]...)
	}
	return dst
}

// SetCookie is a Set-Cookie field of a server. Its parts point into the text that was parsed.
type SetCookie struct {
	text                           []byte
	name, nameEnd, value, valueEnd int
}

// ParseSetCookie reads the value of one Set-Cookie field. It is false when the field names no cookie, which is nothing to
// refuse: such a field goes on as it is. Only the first "=" and the first ";" count, as for a browser; a comma separates
// nothing.
func ParseSetCookie(field []byte) (SetCookie, bool) {
	return parseSetCookie(field, 0, len(field))
}

// ParseSetCookieLine is [ParseSetCookie] for a whole header line, with or without its CRLF. It is false for a line of
// another field, Set-Cookie2 and Cookie among them.
func ParseSetCookieLine(line []byte) (SetCookie, bool) {
	const field = "Set-Cookie:"
	if len(line) < len(field) || !bytes.EqualFold(line[:len(field)], []byte(field)) {
		return SetCookie{}, false
	}
	end := len(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
	return parseSetCookie(line, len(field), end)
}

// parseSetCookie reads text[start:end].
func parseSetCookie(text []byte, start, end int) (SetCookie, bool) {
	if i := bytes.IndexByte(text[start:end], ';'); i >= 0 {
		end = start + i
	}
	equals := bytes.IndexByte(text[start:end], '=')
	if equals < 0 {
		return SetCookie{}, false
	}
	c := SetCookie{text: text}
	c.name, c.nameEnd = trimSpan(text, start, start+equals)
	c.value, c.valueEnd = trimSpan(text, start+equals+1, end)
	return c, c.name < c.nameEnd
}

// trimSpan is trim for the bytes from start to end of text.
func trimSpan(text []byte, start, end int) (int, int) {
	for start < end && isBlank(text[start]) {
		start++
	}
	for start < end && isBlank(text[end-1]) {
		end--
	}
	return start, end
}

// Name returns the cookie's name as the server wrote it. Compare it with [Name.Is].
func (c *SetCookie) Name() []byte { return c.text[c.name:c.nameEnd] }

// Value returns the cookie's value, quotes included.
func (c *SetCookie) Value() []byte { return c.text[c.value:c.valueEnd] }

// Attributes returns all that follows the value, beginning with ";" and perhaps blanks before it.
func (c *SetCookie) Attributes() []byte { return c.text[c.valueEnd:] }

// Blank returns the number of zeros if this is the blank cookie of a server that wants it rewritten: BIGipCookie with 120
// zeros, or 75, which older servers send (rule C-10). Otherwise it returns 0.
func (c *SetCookie) Blank() int {
	n := c.valueEnd - c.value
	if n != 120 && n != 75 || string(c.Name()) != "BIGipCookie" || !onlyZeros(c.Value()) {
		return 0
	}
	return n
}

// written reports whether AppendAttributes writes the attribute with this name, so that a server's does not count. Max-Age
// says the same as expires.
func (t *Template) written(name []byte) bool {
	is := func(word string) bool { return equalFold(name, word) }
	switch {
	case is("expires"), is("max-age"):
		return t.Lifetime > 0
	case is("path"):
		return true
	case is("domain"):
		return t.Domain != ""
	case is("secure"):
		return t.Secure
	case is("httponly"):
		return t.HTTPOnly
	case is("samesite"):
		return t.SameSite != SameSiteUnset
	}
	return false
}

// equalFold compares a name with a word in small ASCII letters. Letters beyond ASCII have no case, as for a browser.
func equalFold(name []byte, word string) bool {
	if len(name) != len(word) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// AppendRewritten appends what becomes of a server's blank cookie: name, value, expires and path are ours, and so are other
// attributes that the template writes; those of the server that it does not write follow byte for byte (rule C-10). Now is
// the wall clock.
func (t *Template) AppendRewritten(dst []byte, blank *SetCookie, value []byte, now time.Time) []byte {
	dst = append(dst, blank.text[:blank.name]...)
	dst = t.AppendField(dst, value, now)
	_, rest, more := bytes.Cut(blank.Attributes(), []byte{';'})
	for more {
		var attribute []byte
		attribute, rest, more = bytes.Cut(rest, []byte{';'})
		name, _, _ := bytes.Cut(attribute, []byte{'='})
		if name = trim(name); len(name) == 0 || t.written(name) {
			continue
		}
		dst = append(append(dst, ';'), attribute...)
	}
	return dst
}
