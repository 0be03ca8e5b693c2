package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// The binary form of a record, for another process or a file. Numbers are big-endian, durations nanoseconds:
//
//	kind, bits, length, timer, flags, 1 byte each · scope: address, port (2), pool (8) · node: address, port (2) · pool,
//	refresher, timeout, age, idle, remaining, 8 bytes each · open (4) · the bytes of the key
//
// An address is its length in one byte (0, 4 or 16) and its bytes.

const binaryAccepted = 1 // flag

// AppendBinary implements encoding.BinaryAppender; the error is always nil.
func (r *Record) AppendBinary(b []byte) ([]byte, error) {
	flags := byte(0)
	if r.Accepted {
		flags |= binaryAccepted
	}
	sp := &r.Key.space
	b = append(b, byte(sp.kind), sp.bits, r.Key.length, byte(r.Timer), flags)
	b = appendAddr(b, sp.scope.Addr)
	b = binary.BigEndian.AppendUint16(b, sp.scope.Port)
	b = binary.BigEndian.AppendUint64(b, uint64(sp.scope.Pool))
	b = appendAddr(b, r.Node.Addr())
	b = binary.BigEndian.AppendUint16(b, r.Node.Port())
	b = binary.BigEndian.AppendUint64(b, uint64(r.Pool))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Refresher))
	for _, d := range [...]time.Duration{r.Timeout, r.Age, r.Idle, r.Remaining} {
		b = binary.BigEndian.AppendUint64(b, uint64(d))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.Open))
	return append(b, r.Key.bytes()...), nil
}

func appendAddr(b []byte, a netip.Addr) []byte {
	b = append(b, byte(a.BitLen()/8))
	return append(b, a.AsSlice()...)
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. What no record can be is refused.
func (r *Record) UnmarshalBinary(b []byte) error {
	in := binaryReader{rest: b}
	var rec Record
	k := &rec.Key
	k.space.kind, k.space.bits, k.length = Kind(in.byte()), in.byte(), in.byte()
	rec.Timer = Timer(in.byte())
	rec.Accepted = in.byte()&binaryAccepted != 0
	k.space.scope = Scope{Addr: in.addr(), Port: uint16(in.number(2)), Pool: PoolID(in.number(8))}
	rec.Node = netip.AddrPortFrom(in.addr(), uint16(in.number(2)))
	rec.Pool, rec.Refresher = PoolID(in.number(8)), PoolID(in.number(8))
	for _, d := range [...]*time.Duration{&rec.Timeout, &rec.Age, &rec.Idle, &rec.Remaining} {
		*d = time.Duration(in.number(8))
	}
	rec.Open = int(in.number(4))
	if k.length > hashedKey {
		return fmt.Errorf("persistence record: a key of %d bytes", k.length)
	}
	copy(k.data[:], in.take(int(min(k.length, wideKey))))
	if in.short || len(in.rest) > 0 {
		return fmt.Errorf("persistence record: %d bytes are not its length", len(b))
	}
	if err := rec.check(); err != nil {
		return fmt.Errorf("persistence record: %w", err)
	}
	*r = rec
	return nil
}

// check finds what no record of a table can be.
func (r *Record) check() error {
	k := &r.Key
	switch {
	case k.space.kind == 0 || int(k.space.kind) >= len(kindWords):
		return fmt.Errorf("unknown kind %d", uint8(k.space.kind))
	case k.length == 0:
		return errors.New("it has no key")
	case r.Timer > Fixed:
		return fmt.Errorf("unknown timer %d", uint8(r.Timer))
	case !r.Node.Addr().IsValid():
		return errors.New("it has no node")
	case min(r.Timeout, r.Age, r.Idle) < 0 || r.Remaining < Forever:
		return errors.New("a time before its beginning")
	case !k.space.kind.addressed() && k.space.bits != 0:
		return errors.New("an ID has no mask")
	case k.space.kind.addressed():
		p := k.Prefix()
		if k.length != narrowKey || !p.IsValid() || p != p.Masked() {
			return errors.New("its address does not fit its mask")
		}
	}
	return nil
}

// binaryReader takes numbers off a text; once it is too short everything is zero.
type binaryReader struct {
	rest  []byte
	short bool
}

func (in *binaryReader) take(n int) []byte {
	if n > len(in.rest) {
		in.short, in.rest = true, nil
		return nil
	}
	b := in.rest[:n]
	in.rest = in.rest[n:]
	return b
}

func (in *binaryReader) byte() byte { return byte(in.number(1)) }

func (in *binaryReader) number(size int) (n uint64) {
	for _, b := range in.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// addr reads an address, which is never IPv4 in the form of IPv6.
func (in *binaryReader) addr() netip.Addr {
	size := int(in.byte())
	if size == 0 {
		return netip.Addr{}
	}
	a, ok := netip.AddrFromSlice(in.take(size))
	if !ok || a.Is4In6() {
		in.short = true
	}
	return a
}
