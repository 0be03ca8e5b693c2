// Package token reads and writes session tokens, the values of persist_mode token, and the lines of a response that carry
// them.
//
// An address that was read from a token is a client's word. It may be looked up among the members of a pool and must never
// be dialled.
package token

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"sync"

	"bigpipe/dataplane/cookie"
)

// A value is "v1." and URL-safe base64 without padding of:
//
//	expiry    8 bytes: milliseconds since 1970, UTC; 0 is never
//	key       4 bytes: which key encrypts what follows; 0 is none
//	endpoint  26 bytes: address 16, IPv4 in IPv6 form; port 2; epoch 8
//
// With a key the endpoint is a nonce of 12 bytes, the ciphertext of AES-256-GCM and a tag of 16 bytes; the additional data is
// "bigpipe token", a zero byte, the token's name, a zero byte, expiry and key. Numbers are big-endian. Nonces are random:
// change a key before it has made 2^32 values.
const (
	version      = "v1."
	label        = "bigpipe token\x00"
	headSize     = 8 + 4
	endpointSize = 16 + 2 + 8
	nonceSize    = 12
	plainRaw     = headSize + endpointSize
	sealedRaw    = headSize + nonceSize + endpointSize + 16
	plainSize    = len(version) + (plainRaw*8+5)/6

	// MaxSize is the length in bytes of the longest value.
	MaxSize = len(version) + (sealedRaw*8+5)/6
)

var encoding = base64.RawURLEncoding.Strict()

// Token is what a value says.
type Token struct {
	Addr netip.AddrPort
	// Epoch is that of the member when its session began: another machine may have got its address since.
	Epoch uint64
	// Expires is when the session ends, in milliseconds since 1970; 0 is never. Reading does not look at it.
	Expires int64
	// Former: a key encrypted it that is not the first any more. Appending does not look at it.
	Former bool
}

// Codec writes and reads the tokens of a pool. With a ring they are encrypted, and no others are read; without one they are
// clear.
type Codec struct {
	Ring *cookie.Ring
	// Name is that of the cookie or header: an encrypted value under another name is none.
	Name string
}

// buffer is what the cipher works on, which would be allocated for each value otherwise.
type buffer struct {
	raw   [sealedRaw]byte
	plain [endpointSize]byte
	data  []byte
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) additional(name string, head []byte) []byte {
	b.data = append(append(b.data[:0], label...), name...)
	b.data = append(append(b.data, 0), head...)
	return b.data
}

// Append appends the value of a token.
func (c *Codec) Append(dst []byte, t *Token) []byte {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	raw := binary.BigEndian.AppendUint64(b.raw[:0], uint64(t.Expires))
	dst = append(dst, version...)
	if c.Ring == nil {
		raw = binary.BigEndian.AppendUint32(raw, 0)
		return encoding.AppendEncode(dst, appendEndpoint(raw, t))
	}
	key := &c.Ring.Sealers()[0]
	raw = binary.BigEndian.AppendUint32(raw, key.ID)
	nonce := b.raw[headSize:][:nonceSize]
	_, _ = rand.Read(nonce) // it never fails
	raw = key.Seal(b.raw[:headSize+nonceSize], nonce, appendEndpoint(b.plain[:0], t), b.additional(c.Name, raw))
	return encoding.AppendEncode(dst, raw)
}

func appendEndpoint(dst []byte, t *Token) []byte {
	addr := t.Addr.Addr().As16()
	dst = append(dst, addr[:]...)
	dst = binary.BigEndian.AppendUint16(dst, t.Addr.Port())
	return binary.BigEndian.AppendUint64(dst, t.Epoch)
}

// Parse reads a value; false if it is none that [Codec.Append] wrote with a key of the ring. A token has one value in clear,
// and an encrypted one stays good only byte for byte.
func (c *Codec) Parse(value []byte) (Token, bool) {
	want, size := plainSize, plainRaw
	if c.Ring != nil {
		want, size = MaxSize, sealedRaw
	}
	if len(value) != want || string(value[:len(version)]) != version {
		return Token{}, false
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if n, err := encoding.Decode(b.raw[:], value[len(version):]); err != nil || n != size {
		return Token{}, false
	}
	head, id := b.raw[:headSize], binary.BigEndian.Uint32(b.raw[8:])
	expires := int64(binary.BigEndian.Uint64(head))
	if c.Ring == nil {
		return endpoint(b.raw[headSize:plainRaw], expires), id == 0
	}
	data := b.additional(c.Name, head)
	for i, key := range c.Ring.Sealers() {
		if key.ID != id {
			continue
		}
		if p, err := key.Open(b.plain[:0], b.raw[headSize:][:nonceSize], b.raw[headSize+nonceSize:], data); err == nil {
			t := endpoint(p, expires)
			t.Former = i > 0
			return t, true
		}
	}
	return Token{}, false
}

func endpoint(p []byte, expires int64) Token {
	return Token{
		Addr:    netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[:16])).Unmap(), binary.BigEndian.Uint16(p[16:])),
		Epoch:   binary.BigEndian.Uint64(p[18:]),
		Expires: expires,
	}
}
