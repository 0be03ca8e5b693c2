package persist

import (
	"fmt"
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

// Apply clears the host part. An IPv4-mapped address is treated as IPv4, a zone is dropped. The zero address stays.
func (m Mask) Apply(addr netip.Addr) netip.Addr {
	if !addr.IsValid() {
		return addr
	}
	addr = addr.Unmap().WithZone("")
	if m == (Mask{}) {
		return addr
	}
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
