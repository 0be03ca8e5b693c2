package http1

import (
	"math"
	"slices"
)

// Body tells for the bytes that follow a head which of them to forward. Start it with StartBody of the head.
type Body struct {
	framing  Framing
	response bool  // faults are answered 502
	bare     bool  // chunks are taken off
	other    bool  // another body is forwarded
	left     int64 // bytes of the body, or of the chunk, that are still to come
	chunk    chunk
}

func (b *Body) start(framing Framing, length int64) {
	b.framing, b.left = framing, length
	b.response, b.bare, b.other = false, false, false
	b.chunk.reset()
}

// Done reports whether the body is complete. Bytes that follow belong to the next message.
func (b *Body) Done() bool {
	switch b.framing {
	case FramingNone:
		return true
	case FramingLength:
		return b.left == 0
	case FramingChunked:
		return b.chunk.state == chunkDone
	default:
		return false
	}
}

// Next looks at bytes of the body. The first n are done with; emit is to be forwarded for them and is good until the next
// call: a part of in wherever possible, however many chunks it holds, else new framing. Call again with the rest while n is
// less than len(in) and the body is not done. Emit may be empty. After an error, an *Error, forward nothing more and close
// both connections.
func (b *Body) Next(in []byte) (n int, emit []byte, err error) {
	if b.Done() {
		return 0, nil, nil
	}
	switch b.framing {
	case FramingLength:
		n = int(min(int64(len(in)), b.left))
		b.left -= int64(n)
		return n, in[:n], nil
	case FramingChunked:
		n, emit, err = b.nextChunked(in)
		if err != nil {
			return 0, nil, b.fault(err)
		}
		return n, emit, nil
	default:
		return len(in), in, nil
	}
}

// Check looks at bytes that Next has not seen yet and returns the fault that Next would find in them. It changes nothing.
func (b *Body) Check(in []byte) error {
	if b.framing != FramingChunked {
		return nil
	}
	ahead := *b
	if len(b.chunk.trailers) > 0 {
		ahead.chunk.trailers = slices.Clone(b.chunk.trailers)
	}
	for len(in) > 0 && !ahead.Done() {
		n, _, err := ahead.Next(in)
		if err != nil {
			return err
		}
		in = in[n:]
	}
	return nil
}

// Direct returns how many of the next bytes can be forwarded without being looked at, by splice for example. Report them
// with Moved.
func (b *Body) Direct() int64 {
	switch b.framing {
	case FramingLength:
		return b.left
	case FramingChunked:
		if b.chunk.state == chunkData {
			return b.left
		}
		return 0
	case FramingClose, FramingTunnel:
		return math.MaxInt64
	default:
		return 0
	}
}

// Moved says that n bytes, Direct at most, were forwarded without Next.
func (b *Body) Moved(n int64) {
	switch b.framing {
	case FramingLength:
		b.left -= n
	case FramingChunked:
		b.took(n)
	}
}

// Closed is called when the sender has closed. It returns nil if the body is complete by that, else an *Error: what was
// forwarded is cut short and the receiver's connection must be closed too (pain 99).
func (b *Body) Closed() error {
	if b.Done() || b.framing == FramingClose || b.framing == FramingTunnel {
		return nil
	}
	return b.fault(errCut)
}

func (b *Body) fault(err error) error {
	if b.response {
		return asResponse(err)
	}
	return err
}
