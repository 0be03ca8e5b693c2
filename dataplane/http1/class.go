package http1

import (
	"encoding/binary"
	"math/bits"
)

// Classes of bytes.
const (
	isToken  = 1 << iota // may stand in a method or a header name
	isTarget             // may stand in a request target: all but controls, blank and "#"
	isHost               // may stand in a host with port
	isDigit
	isHex   // lower and upper case
	isBlank // space and tab
)

var (
	class [256]uint8 // the classes of a byte
	lower [256]byte  // a byte with ASCII capitals made small
)

func init() {
	for c := range 256 {
		lower[c] = byte(c)
		switch {
		case '0' <= c && c <= '9':
			class[c] = isToken | isHost | isDigit | isHex
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			class[c] = isToken | isHost
		}
		if 'A' <= c && c <= 'Z' {
			lower[c] = byte(c) + 'a' - 'A'
		}
		if c > ' ' && c != 0x7f && c != '#' {
			class[c] |= isTarget
		}
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		class[c] |= isToken
	}
	for _, c := range []byte("-._~!$&'()*+,;=%:[]") {
		class[c] |= isHost
	}
	for _, c := range []byte("abcdefABCDEF") {
		class[c] |= isHex
	}
	class[' '] |= isBlank
	class['\t'] |= isBlank
}

// textEnd returns the position of the first control byte at or after i, or len(b). Tab is text.
func textEnd(b []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	// Eight bytes at a time. A borrow can mark a byte wrongly only above one that is marked rightly, and only the lowest mark
	// is used.
	for len(b)-i >= 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		del := x ^ ones*0x7f
		marks := ((x-ones*0x20)&^x | (del-ones)&^del) & highs
		if marks == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(marks) >> 3
		if b[i] != '\t' {
			return i
		}
		i++
	}
	for i < len(b) && (b[i] >= ' ' && b[i] != 0x7f || b[i] == '\t') {
		i++
	}
	return i
}

// classEnd returns the position of the first byte at or after i that is not of the class, or len(b).
func classEnd(b []byte, i int, of uint8) int {
	for i < len(b) && class[b[i]]&of != 0 {
		i++
	}
	return i
}

// equalFold compares without regard to ASCII case. The second must be in lower case.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range len(s) {
		if lower[b[i]] != s[i] {
			return false
		}
	}
	return true
}

// equalNames compares two header names without regard to ASCII case.
func equalNames(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower[a[i]] != lower[b[i]] {
			return false
		}
	}
	return true
}

// trim removes space and tab at both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && class[b[0]]&isBlank != 0 {
		b = b[1:]
	}
	for len(b) > 0 && class[b[len(b)-1]]&isBlank != 0 {
		b = b[:len(b)-1]
	}
	return b
}

// cutElement takes the first element of a comma list. More is false for the last one.
func cutElement(list []byte) (element, rest []byte, more bool) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:], true
		}
	}
	return trim(list), nil, false
}
