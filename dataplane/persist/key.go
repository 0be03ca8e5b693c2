package persist

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"math/bits"
	"net/netip"
)

// PoolID names a pool in fixed size. The zero PoolID is no pool; in a Filter it means any.
type PoolID uint64

// PoolIDOf derives a pool's ID from its name: the same on every machine and after every restart. Who prints IDs keeps
// the names.
func PoolIDOf(name string) PoolID {
	sum := sha256.Sum256([]byte(name))
	id := PoolID(binary.BigEndian.Uint64(sum[:8]))
	if id == 0 {
		return 1
	}
	return id
}

// Globals are the two variables that widen the scope of records.
type Globals struct {
	PersistOnAnyVIP         bool // every persistent virtual server shares records (rule B-3)
	PersistOnAnyPortSameVIP bool // those on one virtual address share records (rule B-2)
}

// Scope says which virtual servers share a record. The zero Scope is shared by all, a Scope with an address alone by
// the virtual servers of that address, a full one by nobody.
type Scope struct {
	Addr netip.Addr
	Port uint16
	Pool PoolID
}

// ScopeOf is the scope rule: any_vip wins over same_vip, and the default is this virtual server with this pool (rules
// B-1, B-2, B-3). Every key takes its scope from here.
func ScopeOf(g Globals, virtual netip.AddrPort, pool PoolID) Scope {
	addr := virtual.Addr().Unmap().WithZone("")
	switch {
	case g.PersistOnAnyVIP:
		return Scope{}
	case g.PersistOnAnyPortSameVIP:
		return Scope{Addr: addr}
	default:
		return Scope{Addr: addr, Port: virtual.Port(), Pool: pool}
	}
}

// Shared says whether pools other than the record's own may meet the record.
func (s Scope) Shared() bool { return s.Pool == 0 }

// Virtual prints the virtual server: "" when all share the record, "ADDRESS:*" when an address shares it.
func (s Scope) Virtual() string {
	switch {
	case !s.Addr.IsValid():
		return ""
	case s.Shared() && s.Addr.Is6():
		return "[" + s.Addr.String() + "]:*"
	case s.Shared():
		return s.Addr.String() + ":*"
	}
	return netip.AddrPortFrom(s.Addr, s.Port).String()
}

// space is the part of a key that many records have in common.
type space struct {
	scope Scope
	kind  Kind
	bits  uint8 // length of the mask over the 16-byte address; 0 for IDs
}

const (
	narrowKey = 16              // bytes that every record holds; longer keys take a wide record
	wideKey   = sha256.Size     // the longest key held as it is
	hashedKey = sha256.Size + 1 // length that marks the SHA-256 of a longer key
)

// Key finds a record: kind, scope, mask and up to 32 bytes. Keys are comparable. The zero Key is the key of a
// connection that carries none; it never makes a record.
type Key struct {
	space  space
	length uint8 // 0, 1 to 32, or hashedKey
	data   [wideKey]byte
}

// AddrKey makes a key of a client's or a destination's address. The port is never part of it. IPv4 and IPv4-mapped
// addresses are one. Keys of different masks never meet (rule B-11). The zero address gives the zero Key.
func AddrKey(kind Kind, scope Scope, mask Mask, addr netip.Addr) Key {
	if !addr.IsValid() {
		return Key{}
	}
	addr = mask.Apply(addr)
	k := Key{space: space{scope: scope, kind: kind, bits: uint8(mask.bits(addr))}, length: narrowKey}
	if addr.Is4() {
		k.space.bits += 96
	}
	b := addr.As16()
	copy(k.data[:], b[:])
	return k
}

// IDKey makes a key of an opaque ID: a session ID, a ticket, a Call-ID. Any byte is allowed, zeros too. An ID longer
// than 32 bytes is replaced by its SHA-256, never cut. The empty ID gives the zero Key.
func IDKey(kind Kind, scope Scope, id []byte) Key {
	if len(id) == 0 {
		return Key{}
	}
	k := Key{space: space{scope: scope, kind: kind}}
	if len(id) > wideKey {
		k.length = hashedKey
		k.data = sha256.Sum256(id)
		return k
	}
	k.length = uint8(len(id))
	copy(k.data[:], id)
	return k
}

// IsZero says that there is nothing to persist on.
func (k Key) IsZero() bool { return k.length == 0 }

// Kind returns what the key was made of.
func (k Key) Kind() Kind { return k.space.kind }

// Scope returns who shares the key.
func (k Key) Scope() Scope { return k.space.scope }

// Prefix returns the masked address of an address key, the zero Prefix for an ID.
func (k Key) Prefix() netip.Prefix {
	if k.IsZero() || !k.space.kind.addressed() {
		return netip.Prefix{}
	}
	addr := netip.AddrFrom16([narrowKey]byte(k.data[:narrowKey])).Unmap()
	bits := int(k.space.bits)
	if addr.Is4() {
		bits -= 96
	}
	return netip.PrefixFrom(addr, bits)
}

// ID returns the bytes of an ID key (the SHA-256 of a long ID), nil for an address key.
func (k Key) ID() []byte {
	if k.space.kind.addressed() {
		return nil
	}
	return k.bytes()
}

func (k *Key) bytes() []byte { return k.data[:min(k.length, wideKey)] }

func (k *Key) wide() bool { return k.length > narrowKey }

// Compare orders keys by kind, scope, and address or ID: the same in each process.
func (k *Key) Compare(o *Key) int {
	if k.space != o.space {
		a, b := &k.space, &o.space
		n := cmp.Or(cmp.Compare(a.kind, b.kind), a.scope.Addr.Compare(b.scope.Addr), cmp.Compare(a.scope.Port, b.scope.Port))
		if n != 0 {
			return n
		}
	}
	if n := bytes.Compare(k.bytes(), o.bytes()); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(k.space.bits, o.space.bits), cmp.Compare(k.length, o.length), cmp.Compare(k.space.scope.Pool, o.space.scope.Pool))
}

// String prints the masked address, or the ID in hex. Filter.SetClient reads both forms.
func (k Key) String() string {
	if k.space.kind.addressed() {
		return k.Prefix().Addr().String()
	}
	return hex.EncodeToString(k.bytes())
}

// hash spreads keys over shards and index. What strangers choose of a key is hashed with a seed of the table, so that they cannot
// aim at one bucket; for the rest, which the configuration names, a quick mixture is enough.
func (k *Key) hash(seed maphash.Seed) uint64 {
	const odd1, odd2, odd3 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9
	sp := &k.space
	addr := sp.scope.Addr.As16()
	high, low := binary.LittleEndian.Uint64(addr[:8]), binary.LittleEndian.Uint64(addr[8:])
	words := uint64(sp.kind) | uint64(sp.bits)<<8 | uint64(k.length)<<16 | uint64(sp.scope.Port)<<24
	h, l := bits.Mul64(high*odd1+low+words*odd2, (uint64(sp.scope.Pool)+words)*odd3|1)
	return maphash.Bytes(seed, k.bytes()) ^ h ^ l
}
