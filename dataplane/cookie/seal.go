package cookie

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// An encrypted value (rule C-9) is "!" and 84 characters of URL-safe base64 without padding, whatever it names:
//
//	nonce       12 bytes, random
//	ciphertext  35 bytes: format 1; address 16, IPv4 in IPv6 form; port 2; epoch 8; time of making 8, Unix seconds
//	tag         16 bytes
//
// It is AES-256-GCM; the additional data is "bigpipe cookie", a zero byte and the cookie's name, so that a value under
// another name is none. Numbers are big-endian. Nonces are random: change a key before it has made 2^32 cookies.
const (
	sealFormat = 1
	plainSize  = 1 + 16 + 2 + 8 + 8
	nonceSize  = 12
	rawSize    = nonceSize + plainSize + 16
	sealLabel  = "bigpipe cookie\x00"

	// SealedSize is the length in bytes of every encrypted value.
	SealedSize = 1 + rawSize*4/3
)

var sealEncoding = base64.RawURLEncoding.Strict()

// Key encrypts cookies.
type Key [32]byte

// ErrKey means that a text is no key.
var ErrKey = errors.New("a key is 64 hexadecimal digits on one line")

// ParseKey reads 64 hexadecimal digits on one line; blanks and line ends around them do not count.
func ParseKey(text []byte) (Key, error) {
	var k Key
	digits := strings.TrimSpace(string(text))
	if len(digits) != hex.EncodedLen(len(k)) {
		return Key{}, ErrKey
	}
	if _, err := hex.Decode(k[:], []byte(digits)); err != nil {
		return Key{}, ErrKey
	}
	return k, nil
}

// Ring is the keys of a unit. It is immutable and may be used by any number of goroutines.
type Ring struct {
	aeads   []cipher.AEAD
	sealers []Sealer
}

// Sealer is a key of a ring for what other packages encrypt, under labels of their own.
type Sealer struct {
	// ID tells keys apart; it gives nothing of the key away and is never 0.
	ID uint32
	cipher.AEAD
}

// Sealers returns the keys in their order: the first encrypts, all decrypt. Not to be changed.
func (r *Ring) Sealers() []Sealer { return r.sealers }

// id names a key by its digest.
func (k *Key) id() uint32 {
	sum := sha256.Sum256(append([]byte("bigpipe key\x00"), k[:]...))
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}

// NewRing makes a ring of at least one key. The first encrypts, all decrypt.
func NewRing(first Key, others ...Key) *Ring {
	r := &Ring{}
	for _, k := range append([]Key{first}, others...) {
		block, err := aes.NewCipher(k[:])
		if err != nil {
			panic(err) // the length fits
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			panic(err) // AES has the block size of GCM
		}
		r.aeads, r.sealers = append(r.aeads, aead), append(r.sealers, Sealer{k.id(), aead})
	}
	return r
}

// Sealed is what an encrypted value says.
type Sealed struct {
	Addr netip.AddrPort
	// Epoch is that of the member when the cookie was made: another machine may have got its address since.
	Epoch uint64
	// Made is when, to the second.
	Made time.Time
	// Old: it was made with another key than the one that encrypts now. It is not encrypted.
	Old bool
}

// sealBuffers lends what the cipher works on, which would be allocated for each value otherwise.
var sealBuffers = sync.Pool{New: func() any { return new(sealBuffer) }}

type sealBuffer struct {
	raw   [rawSize]byte
	plain [plainSize]byte
	text  [SealedSize]byte
	label []byte
}

func (b *sealBuffer) name(name string) []byte {
	b.label = append(append(b.label[:0], sealLabel...), name...)
	return b.label
}

// AppendSealed appends the encrypted value of a cookie with the name.
func (r *Ring) AppendSealed(dst []byte, name Name, s Sealed) []byte {
	b := sealBuffers.Get().(*sealBuffer)
	defer sealBuffers.Put(b)
	addr := s.Addr.Addr().As16()
	p := append(b.plain[:0], sealFormat)
	p = append(p, addr[:]...)
	p = binary.BigEndian.AppendUint16(p, s.Addr.Port())
	p = binary.BigEndian.AppendUint64(p, s.Epoch)
	p = binary.BigEndian.AppendUint64(p, uint64(s.Made.Unix()))
	_, _ = rand.Read(b.raw[:nonceSize]) // it never fails
	raw := r.aeads[0].Seal(b.raw[:nonceSize], b.raw[:nonceSize], p, b.name(name.text))
	return sealEncoding.AppendEncode(append(dst, '!'), raw)
}

// IsSealed reports whether a value looks encrypted, by whomever.
func IsSealed(value []byte) bool {
	value = unquote(value)
	return len(value) > 0 && value[0] == '!'
}

// Open decrypts a value that was found under a name; false if no key of the ring made it for that name.
func (r *Ring) Open(value []byte, name string) (Sealed, bool) {
	value = unquote(value)
	if len(value) != SealedSize || value[0] != '!' {
		return Sealed{}, false
	}
	b := sealBuffers.Get().(*sealBuffer)
	defer sealBuffers.Put(b)
	copy(b.text[:], value)
	if n, err := sealEncoding.Decode(b.raw[:], b.text[1:]); err != nil || n != rawSize {
		return Sealed{}, false
	}
	label := b.name(name)
	for i, aead := range r.aeads {
		if p, err := aead.Open(b.plain[:0], b.raw[:nonceSize], b.raw[nonceSize:], label); err == nil {
			s, ok := parsePlain(p)
			s.Old = i > 0
			return s, ok
		}
	}
	return Sealed{}, false
}

func parsePlain(p []byte) (Sealed, bool) {
	if len(p) != plainSize || p[0] != sealFormat {
		return Sealed{}, false
	}
	return Sealed{
		Addr:  netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[1:17])).Unmap(), binary.BigEndian.Uint16(p[17:])),
		Epoch: binary.BigEndian.Uint64(p[19:]),
		Made:  time.Unix(int64(binary.BigEndian.Uint64(p[27:])), 0),
	}, true
}
