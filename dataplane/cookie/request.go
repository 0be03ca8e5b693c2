package cookie

import (
	"bytes"
	"iter"
)

// Values yields the values of all cookies with the name, in the order of the lines and in each of its cookies. A line is
// the value of one Cookie field. Cookies are separated by ";" alone; blanks around name and value do not count; quotes
// belong to the value. A cookie without "=" has an empty value. The values are parts of the lines.
func Values(name Name, lines ...[]byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, line := range lines {
			if !values(&name, line, yield) {
				return
			}
		}
	}
}

// values yields the values in one line. It is false if yield was.
func values(name *Name, line []byte, yield func([]byte) bool) bool {
	for len(line) > 0 {
		cookie, rest := line, []byte(nil)
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			cookie, rest = line[:i], line[i+1:]
		}
		line = rest
		value := cookie[len(cookie):]
		if i := bytes.IndexByte(cookie, '='); i >= 0 {
			cookie, value = cookie[:i], cookie[i+1:]
		}
		if name.Is(trim(cookie)) && !yield(trim(value)) {
			return false
		}
	}
	return true
}

// trim removes blanks and tabs around b.
func trim(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// AppendWithout appends a Cookie line without its cookies of the name; every byte of the others and between them stays. It
// reports how many were left out, and appends nothing when no cookie is left.
func AppendWithout(dst, line []byte, name *Name) (out []byte, left int) {
	from, kept := len(dst), 0
	for more := true; more; {
		var cookie []byte
		cookie, line, more = bytes.Cut(line, []byte{';'})
		key, _, _ := bytes.Cut(cookie, []byte{'='})
		switch {
		case name.Is(trim(key)):
			left++
			continue
		case kept > 0:
			dst = append(dst, ';')
		case left > 0:
			for len(cookie) > 0 && isBlank(cookie[0]) {
				cookie = cookie[1:]
			}
		}
		kept++
		dst = append(dst, cookie...)
	}
	if left > 0 && len(bytes.Trim(dst[from:], "; \t")) == 0 {
		dst = dst[:from]
	}
	return dst, left
}
