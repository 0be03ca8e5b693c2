package bigpipev1

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
)

// ErrMaskHole is in the error of MaskBits when a mask has a one after a zero.
var ErrMaskHole = errors.New("has a one after a zero")

// MaskBits counts the ones of a dotted IPv4 mask: 24 for 255.255.255.0.
func MaskBits(mask string) (int, error) {
	a, err := netip.ParseAddr(mask)
	if err != nil || !a.Is4() {
		return 0, fmt.Errorf("%q is not a dotted mask such as 255.255.255.0", mask)
	}
	b := a.As4()
	word := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	n := bits.LeadingZeros32(^word)
	if word<<n != 0 {
		return 0, fmt.Errorf("%s %w", mask, ErrMaskHole)
	}
	return n, nil
}

// MaskText is the dotted mask of the first bits, 0 to 32.
func MaskText(bits int) string {
	word := ^uint32(0) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(word >> 24), byte(word >> 16), byte(word >> 8), byte(word)}).String()
}
