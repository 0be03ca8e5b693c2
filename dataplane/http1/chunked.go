package http1

import "strconv"

// chunkState is what the next byte of a chunked body is.
type chunkState uint8

const (
	chunkSize      chunkState = iota // a digit of the size, or what ends it
	chunkExtension                   // a byte of an extension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkLast      // the first byte after the last chunk
	chunkLastLF    // the end of a body without trailers
	chunkTrailer   // a byte of a trailer line
	chunkTrailerLF // its end
	chunkDone
)

// chunk is the state of a chunked body besides the bytes left of the current chunk.
type chunk struct {
	state     chunkState
	digits    int // of the size so far
	size      int64
	extension int    // bytes of extensions of this chunk
	trailers  []byte // the end of the body as forwarded, once there are trailers: last chunk and kept lines
	line      int    // where the current line begins in it
	received  int    // bytes of trailers
	scratch   [20]byte
}

func (c *chunk) reset() {
	*c = chunk{trailers: c.trailers[:0]}
}

const (
	maxDigits = 16 // of a chunk size
	lastChunk = "0\r\n"
)

var endOfChunks = []byte(lastChunk + "\r\n")

// took says that n bytes of the current chunk were forwarded.
func (b *Body) took(n int64) {
	b.left -= n
	if b.left == 0 {
		b.chunk.state = chunkDataCR
	}
}

// nextChunked is Next for chunks. As long as the framing that was received is what would be written, it is left in
// place, and all of it is one slice.
func (b *Body) nextChunked(in []byte) (n int, emit []byte, err error) {
	if b.bare {
		if b.chunk.state == chunkData {
			n = int(min(int64(len(in)), b.left))
			b.took(int64(n))
			return n, in[:n], nil
		}
		n, _, err = b.reframe(in)
		return n, nil, err
	}
	n, err = b.sameFraming(in)
	if n > 0 || err != nil {
		return n, in[:n], err
	}
	return b.reframe(in)
}

// sameFraming returns how many bytes of in can be forwarded as they are.
func (b *Body) sameFraming(in []byte) (int, error) {
	i := 0
	for i < len(in) {
		switch b.chunk.state {
		case chunkData:
			n := min(int64(len(in)-i), b.left)
			b.took(n)
			i += int(n)
		case chunkDataCR, chunkDataLF:
			if err := b.chunk.dataEnd(in[i]); err != nil {
				return 0, err
			}
			i++
		case chunkSize:
			n, size := plainSize(in[i:])
			if n == 0 || b.chunk.digits > 0 {
				return i, nil
			}
			b.chunk.state, b.left = chunkData, size
			i += n
		default:
			return i, nil
		}
	}
	return i, nil
}

// dataEnd reads a byte of the CRLF after chunk data.
func (c *chunk) dataEnd(b byte) error {
	want, next := byte('\r'), chunkDataLF
	if c.state == chunkDataLF {
		want, next = '\n', chunkSize
		c.digits, c.size, c.extension = 0, 0, 0
	}
	if b != want {
		return errChunkEnd
	}
	c.state = next
	return nil
}

// plainSize reads a whole size line just as we would write it, of a chunk that is not the last. N is 0 if it is not.
func plainSize(in []byte) (n int, size int64) {
	for n < len(in) && n < maxDigits-1 {
		c := in[n]
		if class[c]&isHex == 0 || c < 'a' && class[c]&isDigit == 0 || c == '0' && n == 0 {
			break
		}
		size = size<<4 | int64(hexValue(c))
		n++
	}
	if n == 0 || len(in)-n < 2 || in[n] != '\r' || in[n+1] != '\n' {
		return 0, 0
	}
	return n + 2, size
}

// hexValue returns the value of a hexadecimal digit.
func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return lower[c] - 'a' + 10
}

// reframe reads framing up to the end of its line, and returns what to forward for it.
func (b *Body) reframe(in []byte) (n int, emit []byte, err error) {
	c := &b.chunk
	for i, x := range in {
		switch c.state {
		case chunkDataCR, chunkDataLF:
			// Only where chunks are taken off.
			if err := c.dataEnd(x); err != nil {
				return 0, nil, err
			}
		case chunkSize, chunkExtension:
			if err := c.sizeByte(x); err != nil {
				return 0, nil, err
			}
		case chunkSizeLF:
			if x != '\n' {
				return 0, nil, errChunkLine
			}
			if c.size == 0 {
				c.state = chunkLast
				continue
			}
			c.state, b.left = chunkData, c.size
			emit = strconv.AppendInt(c.scratch[:0], c.size, 16)
			return i + 1, append(emit, "\r\n"...), nil
		default:
			emit, err := c.endByte(x, b.other)
			if err != nil || c.state == chunkDone {
				return i + 1, emit, err
			}
		}
	}
	return len(in), nil, nil
}

// sizeByte reads a byte of a size line.
func (c *chunk) sizeByte(x byte) error {
	switch {
	case c.state == chunkSize && class[x]&isHex != 0:
		if c.digits == maxDigits || c.size > 1<<59-1 {
			return errChunkSize
		}
		c.digits++
		c.size = c.size<<4 | int64(hexValue(x))
	case c.digits == 0:
		return errChunkSize
	case x == '\r':
		c.state = chunkSizeLF
	case x == '\n':
		return errChunkLine
	case c.state == chunkSize && x == ';':
		c.state = chunkExtension
	case c.state == chunkSize:
		return errChunkSize
	case x < ' ' && x != '\t' || x == 0x7f || c.extension == MaxExtension:
		return errExtension
	default:
		c.extension++
	}
	return nil
}

// endByte reads a byte after the last chunk, of a body that is forwarded or of one for which another is. Emit is the whole end of
// the body, once it is complete.
func (c *chunk) endByte(x byte, other bool) (emit []byte, err error) {
	switch c.state {
	case chunkLast:
		if x == '\r' {
			c.state = chunkLastLF
			return nil, nil
		}
		c.trailers = append(c.trailers[:0], lastChunk...)
		c.line = len(c.trailers)
		c.state = chunkTrailer
	case chunkLastLF:
		if x != '\n' {
			return nil, errTrailer
		}
		c.state = chunkDone
		return endOfChunks, nil
	}
	if c.received++; c.received > MaxTrailer {
		return nil, errTrailerBytes
	}
	c.trailers = append(c.trailers, x)
	if c.state == chunkTrailerLF {
		return c.trailerEnd(other)
	}
	switch {
	case x == '\r':
		c.state = chunkTrailerLF
	case x < ' ' && x != '\t' || x == 0x7f:
		return nil, errTrailer
	}
	return nil, nil
}

// trailerEnd judges the trailer line that has been read.
func (c *chunk) trailerEnd(other bool) (emit []byte, err error) {
	line := c.trailers[c.line:]
	if line[len(line)-1] != '\n' {
		return nil, errTrailer
	}
	c.state = chunkTrailer
	if len(line) == 2 {
		c.state = chunkDone
		return c.trailers, nil
	}
	name := line[:classEnd(line, 0, isToken)]
	if len(name) == 0 || line[len(name)] != ':' {
		return nil, errTrailer
	}
	if forbiddenTrailer(name) || other && (staleField(name) || equalFold(name, "etag")) {
		c.trailers = c.trailers[:c.line]
	}
	c.line = len(c.trailers)
	return nil, nil
}

// forbiddenTrailer reports whether a field has no business in a trailer: framing, routing, cookies, authentication and what
// says how to read the content (row 12).
func forbiddenTrailer(name []byte) bool {
	if kindOf(name) != KindOther {
		return true
	}
	for _, prefix := range [...]string{"proxy-", "x-forwarded-", "if-"} {
		if len(name) > len(prefix) && equalFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	for _, other := range [...]string{
		"trailer", "forwarded", "via", "max-forwards", "x-real-ip", "authorization", "www-authenticate",
		"authentication-info", "content-type", "content-encoding", "content-range", "set-cookie2", "cookie2", "range", "cache-control", "pragma", "vary", "location", "age", "expires",
	} {
		if equalFold(name, other) {
			return true
		}
	}
	return false
}
