// Package cookie reads and writes the cookies that name a pool's member, and the Cookie and Set-Cookie fields that carry
// them, on raw bytes: what is not replaced stays as it came.
//
// An address that was read from a cookie is a client's word. It may be looked up among the members of a pool and must
// never be dialled.
package cookie

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"net/netip"
	"strconv"
)

// MaxValue is the length in bytes of the longest value that [AppendValue] writes.
const MaxValue = len("vi") + 32 + len(".65535")

// AppendValue appends the value that names the member: 10.1.1.100:8080 is 1677787402.36895.0000 (rule C-1),
// [2001:112::30]:80 is vi20010112000000000000000000000030.20480 (rule C-2). An IPv4 address in IPv6 form is written as
// IPv4, a zone is left out, an invalid address appends nothing.
func AppendValue(dst []byte, member netip.AddrPort) []byte {
	addr, port := member.Addr().Unmap(), bits.ReverseBytes16(member.Port())
	switch {
	case addr.Is4():
		a := addr.As4()
		dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(a[:])), 10)
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, uint64(port), 10)
		return append(dst, ".0000"...)
	case addr.Is6():
		a := addr.As16()
		dst = append(dst, "vi"...)
		dst = hex.AppendEncode(dst, a[:])
		dst = append(dst, '.')
		return strconv.AppendUint(dst, uint64(port), 10)
	default:
		return dst
	}
}

// Value is what a cookie's value names.
type Value struct {
	Addr netip.AddrPort
	// Printed is the address in the byte order that seed 002 prints, to be tried when Addr is no member: sites that
	// made their cookies by that text use it. It is invalid if there is no such reading or it equals Addr.
	Printed netip.AddrPort
}

// Decode reads a cookie's value as it stood in the field, one pair of quotes around it allowed. It accepts exactly what
// rule C-4 names: an IPv4 address of 1 to 10 digits with a port of 1 to 5 and, as third field, any number of zeros or
// nothing; the IPv6 form of C-2; the route domain forms of C-3, whose domain is ignored. Encrypted values are not read.
func Decode(value []byte) (Value, bool) {
	value = unquote(value)
	if rest, ok := bytes.CutPrefix(value, []byte("vi")); ok {
		return decodeIPv6(rest)
	}
	if rest, ok := bytes.CutPrefix(value, []byte("rd")); ok {
		return decodeRouteDomain(rest)
	}
	return decodeIPv4(value)
}

func decodeIPv4(b []byte) (Value, bool) {
	n, b, ok := cutNumber(b, 10, math.MaxUint32)
	if !ok || len(b) == 0 || b[0] != '.' {
		return Value{}, false
	}
	port, b, ok := cutNumber(b[1:], 5, math.MaxUint16)
	if !ok || !isThirdField(b) {
		return Value{}, false
	}
	var written, printed [4]byte
	binary.LittleEndian.PutUint32(written[:], uint32(n))
	binary.BigEndian.PutUint32(printed[:], uint32(n))
	p := bits.ReverseBytes16(uint16(port))
	v := Value{Addr: netip.AddrPortFrom(netip.AddrFrom4(written), p)}
	if printed != written {
		v.Printed = netip.AddrPortFrom(netip.AddrFrom4(printed), p)
	}
	return v, true
}

// isThirdField reports whether b is nothing, or a dot and at least one zero and nothing else.
func isThirdField(b []byte) bool {
	return len(b) == 0 || len(b) > 1 && b[0] == '.' && onlyZeros(b[1:])
}

func onlyZeros(b []byte) bool {
	for _, c := range b {
		if c != '0' {
			return false
		}
	}
	return true
}

// decodeIPv6 reads "<32 hex>.<swapped port>".
func decodeIPv6(b []byte) (Value, bool) {
	addr, b, ok := cutAddr(b)
	if !ok || len(b) == 0 || b[0] != '.' {
		return Value{}, false
	}
	port, b, ok := cutNumber(b[1:], 5, math.MaxUint16)
	if !ok || len(b) != 0 {
		return Value{}, false
	}
	return Value{Addr: netip.AddrPortFrom(addr, bits.ReverseBytes16(uint16(port)))}, true
}

// decodeRouteDomain reads "<id>o<32 hex>o<plain port>".
func decodeRouteDomain(b []byte) (Value, bool) {
	_, b, ok := cutNumber(b, 5, math.MaxUint16)
	if !ok || len(b) == 0 || b[0] != 'o' {
		return Value{}, false
	}
	addr, b, ok := cutAddr(b[1:])
	if !ok || len(b) == 0 || b[0] != 'o' {
		return Value{}, false
	}
	port, b, ok := cutNumber(b[1:], 5, math.MaxUint16)
	if !ok || len(b) != 0 {
		return Value{}, false
	}
	return Value{Addr: netip.AddrPortFrom(addr, uint16(port))}, true
}

// cutAddr reads 32 hex digits; an IPv4 address in IPv6 form becomes IPv4.
func cutAddr(b []byte) (addr netip.Addr, rest []byte, ok bool) {
	var a [16]byte
	if len(b) < 2*len(a) {
		return netip.Addr{}, nil, false
	}
	if _, err := hex.Decode(a[:], b[:2*len(a)]); err != nil {
		return netip.Addr{}, nil, false
	}
	return netip.AddrFrom16(a).Unmap(), b[2*len(a):], true
}

// cutNumber reads 1 to maxDigits decimal digits, not more, of a number up to limit.
func cutNumber(b []byte, maxDigits int, limit uint64) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		if i == maxDigits {
			return 0, nil, false
		}
		n = n*10 + uint64(b[i]-'0')
	}
	return n, b[i:], i > 0 && n <= limit
}

// unquote removes one pair of double quotes.
func unquote(b []byte) []byte {
	if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' {
		return b[1 : n-1]
	}
	return b
}

// Part returns length bytes of a value from offset on, what hash mode looks at; length 0 means up to the end. It is false
// when the value is too short (rule C-11). Value, offset and length are in bytes, the latter two not negative.
func Part(value []byte, offset, length int) ([]byte, bool) {
	if offset < 0 || length < 0 || offset >= len(value) || length > len(value)-offset {
		return nil, false
	}
	if length == 0 {
		return value[offset:], true
	}
	return value[offset : offset+length], true
}
