package forward

import (
	"sync"

	"bigpipe/dataplane/http1"
)

// bufferSize is the size of pooled buffers.
const bufferSize = 32 * 1024

// smallBuffer is the least memory for what is held while more is waited for.
const smallBuffer = 256

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// buffer holds bytes between being read and being written. It borrows its memory only while it is in use.
type buffer struct {
	pooled *[bufferSize]byte // nil when none is borrowed, or when data is larger
	data   []byte
	r, w   int // data[r:w] is held
}

// bytes returns what is held. The slice is good until the next call of another method but discard.
func (b *buffer) bytes() []byte { return b.data[b.r:b.w] }

func (b *buffer) len() int { return b.w - b.r }

// discard drops the first n bytes.
func (b *buffer) discard(n int) { b.r += n }

// free returns room for more bytes behind those that are held; there is always some.
func (b *buffer) free() []byte {
	switch {
	case b.r == b.w && len(b.data) < bufferSize: // none, or what shrink has left
		b.borrow()
	case b.r == b.w:
		b.r, b.w = 0, 0
	case b.w < len(b.data):
	case b.r > 0:
		b.w = copy(b.data, b.bytes())
		b.r = 0
	case len(b.data) < bufferSize:
		b.borrow()
	default:
		b.grow()
	}
	return b.data[b.w:]
}

// borrow moves what is held to memory of the pool, which must be larger.
func (b *buffer) borrow() {
	pooled := buffers.Get().(*[bufferSize]byte)
	n := copy(pooled[:], b.bytes())
	*b = buffer{pooled: pooled, data: pooled[:], w: n}
}

// shrink keeps what is held in little memory, and gives the rest back.
func (b *buffer) shrink() {
	n := b.len()
	switch {
	case n == 0:
		b.drop()
	case b.pooled != nil && n <= bufferSize/4:
		data := make([]byte, max(2*n, smallBuffer))
		copy(data, b.bytes())
		b.drop()
		b.data, b.w = data, n
	}
}

// grow makes room for the largest head that is accepted. Nothing needs more: heads are refused before.
func (b *buffer) grow() {
	data := make([]byte, max(2*len(b.data), http1.MaxHead+1))
	n := copy(data, b.bytes())
	b.drop()
	b.data, b.r, b.w = data, 0, n
}

// release gives the memory back if nothing is held.
func (b *buffer) release() {
	if b.r == b.w {
		b.drop()
	}
}

// drop gives the memory back, with what it holds.
func (b *buffer) drop() {
	if b.pooled != nil {
		buffers.Put(b.pooled)
	}
	*b = buffer{}
}
