package http1

import "strconv"

// Unknown is the length of a body whose length is not known before its end.
const Unknown = -1

// ChangeBody says that the caller will forward another body than the one that follows the head: of length bytes, or Unknown. Call
// it between Parse and AppendHead. Fields that would not hold for the new body are not forwarded, a strong entity tag becomes a
// weak one, and a body with a Content-Length whose new length is Unknown is to be sent in chunks (see Chunks), or ended by the
// close where the client or the member speaks HTTP/1.0. The Body then gives what the chunks hold, without their framing. In a
// response that has no body, to HEAD or with status 304, the fields are treated alike.
func (r *Response) ChangeBody(length int64) {
	r.other = true
	if i := r.Next(KindContentLength, 0); i >= 0 {
		if length == Unknown || r.framing != FramingLength {
			r.Drop(i)
			r.open = r.framing == FramingLength
		} else {
			r.SetValue(i, strconv.AppendInt(r.digits[:0], length, 10))
		}
	}
	for i := range r.count {
		if name := r.Name(i); staleField(name) || equalFold(name, "accept-ranges") || equalFold(name, "last-modified") {
			r.Drop(i)
		}
	}
	if i := r.Lookup("etag", 0); i >= 0 && len(r.Value(i)) > 0 && r.Value(i)[0] == '"' {
		r.tag = append(append(r.tag[:0], "W/"...), r.Value(i)...)
		r.EditValue(i, r.tag)
	}
}

// staleField reports whether a field, in a head or trailer, says something of the bytes of the body.
func staleField(name []byte) bool {
	for _, stale := range [...]string{"content-md5", "digest", "content-digest", "repr-digest"} {
		if equalFold(name, stale) {
			return true
		}
	}
	return false
}

// Chunks reports whether the body goes to the client in chunks.
func (r *Response) Chunks() bool {
	return !r.asked.HTTP10 && (r.framing == FramingChunked || r.open && r.minor == 1)
}

// EndsByClose reports whether only the close of its connection tells the client where the body ends.
func (r *Response) EndsByClose() bool {
	return r.framing == FramingClose || r.framing == FramingTunnel || !r.Chunks() && (r.framing == FramingChunked || r.open)
}

// AppendChunkSize appends the line before the data of a chunk, which must have a byte at least. CRLF follows the data.
func AppendChunkSize(dst []byte, size int) []byte {
	return append(strconv.AppendInt(dst, int64(size), 16), "\r\n"...)
}

// Ending returns what ends the chunks of a body that is Done, trailers included. It is good until the next StartBody.
func (b *Body) Ending() []byte {
	if len(b.chunk.trailers) > 0 {
		return b.chunk.trailers
	}
	return endOfChunks
}
