package cookie

import (
	"bytes"
	"iter"
	"net/netip"
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

// Outcome says what the cookies of a request came to.
type Outcome uint8

// From the least to the most telling: of several cookies with the name, the most telling outcome is reported.
const (
	// None: there is no cookie with the name.
	None Outcome = iota
	// Malformed: no value is an address (rule C-4).
	Malformed
	// UnknownMember: a value is an address, but of no member (rule C-8).
	UnknownMember
	// Valid: a value names a member.
	Valid
)

var outcomeWords = [...]string{None: "none", Malformed: "malformed", UnknownMember: "unknown_member", Valid: "valid"}

// String returns the outcome as counters and logs name it.
func (o Outcome) String() string {
	if int(o) < len(outcomeWords) {
		return outcomeWords[o]
	}
	return "unknown"
}

// Found is what was found in the Cookie lines of one request. Use a zero Found for each request.
type Found struct {
	Outcome Outcome
	// Member is what the lookup gave for the address; it has a meaning only if Outcome is Valid.
	Member int
	// PrintedOrder: the member was found only in the byte order that seed 002 prints.
	PrintedOrder bool
}

// Read looks into one Cookie line and reports whether it names a member, which decides: the lines after it need not be
// read. The first value that names a member wins, whatever that member's state is (rules C-4, C-7, O-T16). Member tells
// the index of the member with exactly this address and port. Lines are read in the order they came.
func (f *Found) Read(line []byte, name Name, member func(netip.AddrPort) (int, bool)) bool {
	for text := range Values(name, line) {
		v, ok := Decode(text)
		if !ok {
			f.Outcome = max(f.Outcome, Malformed)
			continue
		}
		f.Outcome = max(f.Outcome, UnknownMember)
		i, ok := member(v.Addr)
		if !ok && v.Printed.IsValid() {
			i, ok = member(v.Printed)
			f.PrintedOrder = ok
		}
		if ok {
			f.Outcome, f.Member = Valid, i
			return true
		}
	}
	return false
}
