package persist

import (
	"fmt"
	"math/bits"
	"net/netip"
)

// Mask cuts the addresses of a pool's simple or sticky keys, IPv4 and IPv6 each by its own length (rule B-11).
// The zero Mask keeps the whole address.
type Mask struct {
	cut4, cut6 uint8 // low bits that are cleared
}

// NewMask returns the mask that keeps the first bits4 bits (0 to 32) of an IPv4 and the first bits6 bits (0 to 128) of
// an IPv6 address.
func NewMask(bits4, bits6 int) (Mask, error) {
	if bits4 < 0 || bits4 > 32 {
		return Mask{}, fmt.Errorf("IPv4 mask length %d is not within 0 to 32", bits4)
	}
	if bits6 < 0 || bits6 > 128 {
		return Mask{}, fmt.Errorf("IPv6 prefix length %d is not within 0 to 128", bits6)
	}
	return Mask{cut4: uint8(32 - bits4), cut6: uint8(128 - bits6)}, nil
}

// ParseMask reads simple_mask or sticky_mask ("none", "" or dotted, as 255.255.255.0) and takes the IPv6 prefix length
// beside it. It refuses "/24", addresses of another family and masks with a hole, as 255.0.255.0.
func ParseMask(text4 string, bits6 int) (Mask, error) {
	bits4 := 32
	if text4 != "" && text4 != "none" {
		addr, err := netip.ParseAddr(text4)
		if err != nil || !addr.Is4() {
			return Mask{}, fmt.Errorf("mask %q is not a dotted IPv4 mask", text4)
		}
		if bits4, err = MaskBits(addr); err != nil {
			return Mask{}, err
		}
	}
	return NewMask(bits4, bits6)
}

// MaskBits counts the leading ones of an IPv4 mask; a mask with a hole is refused.
func MaskBits(mask netip.Addr) (int, error) {
	mask = mask.Unmap()
	if !mask.Is4() {
		return 0, fmt.Errorf("mask %s is not a dotted IPv4 mask", mask)
	}
	b := mask.As4()
	word := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	ones := bits.LeadingZeros32(^word)
	if word<<ones != 0 {
		return 0, fmt.Errorf("mask %s is not contiguous", mask)
	}
	return ones, nil
}

// Apply clears the host part. An IPv4-mapped address is treated as IPv4, a zone is dropped. The zero address stays.
func (m Mask) Apply(addr netip.Addr) netip.Addr {
	if !addr.IsValid() {
		return addr
	}
	addr = addr.Unmap().WithZone("")
	prefix, err := addr.Prefix(m.bits(addr))
	if err != nil { // the length always fits the family
		return addr
	}
	return prefix.Addr()
}

// bits is the number of bits kept of an unmapped address.
func (m Mask) bits(addr netip.Addr) int {
	if addr.Is4() {
		return 32 - int(m.cut4)
	}
	return 128 - int(m.cut6)
}
