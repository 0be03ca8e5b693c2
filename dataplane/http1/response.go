package http1

// Response is the head of a response, interim ones included. The zero value is ready for the response to a request that
// asked for nothing special.
type Response struct {
	Head
	asked   Asked
	interim int // interim heads read
	status  int
	inField bool // the status line has been read
	framing Framing
	doubt   bool // the member may send a body where none may be

	// What ChangeBody has found.
	other  bool // another body is forwarded
	open   bool // the member has said its length, and the client is not told
	digits [20]byte
	tag    []byte
}

// Reset makes r ready for the response to a request. It also lets go of the buffer.
func (r *Response) Reset(asked Asked) {
	r.clear()
	r.asked, r.interim = asked, 0
}

func (r *Response) clear() {
	r.reset()
	r.status, r.inField, r.framing, r.doubt = 0, false, FramingNone, false
	r.other, r.open = false, false
}

// Parse reads a head at the beginning of buf. It returns its size when it is complete, and 0 while more bytes are needed: call
// it again with the same bytes and more behind them. After an interim head the next call begins a new head, so give it
// what follows. How the bytes are split makes no difference. An error is an *Error with status 502, and final: the member's
// connection must be closed.
func (r *Response) Parse(buf []byte) (n int, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.size > 0 {
		if !r.Interim() {
			r.buf = buf
			return r.size, nil
		}
		r.clear()
	}
	r.buf = buf
	complete, err := r.read(buf)
	if err != nil {
		r.size = 0
		r.err = asResponse(err)
		return 0, r.err
	}
	if !complete {
		return 0, nil
	}
	return r.size, nil
}

func (r *Response) read(buf []byte) (bool, error) {
	if !r.inField {
		more, err := r.readStatusLine(buf)
		if more || err != nil {
			return false, err
		}
		r.inField = true
	}
	complete, err := r.readFields(buf)
	if complete {
		err = r.finish()
	}
	return complete, err
}

// readStatusLine reads "HTTP/1.1 200 OK". The text and the blank before it may be missing.
func (r *Response) readStatusLine(buf []byte) (more bool, err error) {
	const start, code, text = "HTTP/1.", len("HTTP/1.1 "), len("HTTP/1.1 200")
	for i := range min(len(buf), len(start)) {
		if buf[i] != start[i] {
			return false, errStatusLine
		}
	}
	w := buf[:min(len(buf), MaxStatusLine+1)]
	i := textEnd(w, r.scan)
	r.scan = i
	switch {
	case i > MaxStatusLine:
		return false, errStatusLine
	case i == len(w):
		return true, nil
	case w[i] != '\r':
		return false, errStatusLine
	case i+1 == len(buf):
		return true, nil
	case buf[i+1] != '\n' || i < text:
		return false, errStatusLine
	}
	minor := int(w[len(start)]) - '0'
	if minor != 0 && minor != 1 || w[code-1] != ' ' || classEnd(w, code, isDigit) != text || w[code] == '0' ||
		i > text && w[text] != ' ' {
		return false, errStatusLine
	}
	r.minor = minor
	r.status = int(w[code]-'0')*100 + int(w[code+1]-'0')*10 + int(w[code+2]-'0')
	r.section, r.start, r.scan = i+2, i+2, i+2
	return false, nil
}

// finish judges the complete head and decides what changes in what is forwarded.
func (r *Response) finish() error {
	if r.Interim() {
		if r.interim++; r.interim > MaxInterim {
			return errInterimFlood
		}
	}
	if r.status == 101 && (!r.asked.Upgrade || r.minor == 0) {
		return errUnasked101
	}
	if r.status == 101 && r.names("websocket") && !r.one("sec-websocket-accept") {
		return errWebSocketAccept
	}
	if err := r.readFraming(); err != nil {
		return err
	}
	if err := r.readConnection(); err != nil {
		return err
	}
	if r.keepsUpgrade() {
		r.keepUpgrade()
	}
	r.decideFraming()
	if r.chunked && r.asked.HTTP10 {
		r.Drop(r.Next(KindTransferEncoding, 0))
	}
	return nil
}

// decideFraming says how the body ends. A status without a body has none, whatever the fields say; if they promise one, the
// member is not trusted to have sent none.
func (r *Response) decideFraming() {
	switch {
	case r.status == 101:
		r.framing = FramingTunnel
		r.dropFraming()
	case r.status < 200 || r.status == 204:
		r.doubt = r.chunked || r.length > 0
		r.dropFraming()
	case r.status == 304:
		r.doubt = r.chunked || r.length > 0
	case r.asked.Head:
	case r.chunked:
		r.framing = FramingChunked
	case r.length > 0:
		r.framing = FramingLength
	case !r.has(KindContentLength):
		r.framing = FramingClose
	}
}

// dropFraming keeps the framing fields from being forwarded, where a response must not have them.
func (r *Response) dropFraming() {
	for _, kind := range [...]Kind{KindContentLength, KindTransferEncoding} {
		if i := r.Next(kind, 0); i >= 0 {
			r.Drop(i)
		}
	}
}

// keepsUpgrade reports whether the Upgrade fields are forwarded: the protocol is switched, or has to be.
func (r *Response) keepsUpgrade() bool {
	return r.status == 101 || r.status == 426 && r.has(KindUpgrade)
}

// Status returns the status code, 100 to 999.
func (r *Response) Status() int { return r.status }

// Interim reports whether a final response follows: forward the head, unless the client speaks HTTP/1.0, and call Parse with
// what follows. 101 is final.
func (r *Response) Interim() bool { return r.status < 200 && r.status != 101 }

// Framing returns how the body ends, and its bytes for FramingLength.
func (r *Response) Framing() (Framing, int64) {
	if r.framing == FramingLength {
		return FramingLength, r.length
	}
	return r.framing, 0
}

// StartBody makes b ready for the body that follows the head. Chunks are taken off for a client that speaks HTTP/1.0, and after
// ChangeBody.
func (r *Response) StartBody(b *Body) {
	framing, length := r.Framing()
	b.start(framing, length)
	b.response, b.bare, b.other = true, r.asked.HTTP10 || r.other, r.other
}

// Reusable reports whether the member's connection can take another request after the body. It cannot if bytes follow the
// body unasked, which only the caller sees: close it then (pain 99).
func (r *Response) Reusable() bool {
	return r.KeepAlive() && !r.doubt && r.framing != FramingClose && r.framing != FramingTunnel
}

// After returns what can happen to the client's connection after the response: KeepAlive if the client wants it and the end
// of the body does not need the close.
func (r *Response) After() After {
	if !r.asked.KeepAlive || r.EndsByClose() {
		return Close
	}
	return KeepAlive
}

// AppendHead appends the head to forward, without the empty line that ends it: add lines with AppendField, then call
// AppendEnd. After is what shall happen to the client's connection; KeepAlive becomes Close where After says so. It is ignored
// in an interim response and in a 101 response.
func (r *Response) AppendHead(dst []byte, after After) []byte {
	dst = r.appendFields(dst, 0)
	if r.keepsUpgrade() && !r.has(KindConnection) {
		dst = AppendField(dst, "Connection", upgradeOption)
	}
	if r.status < 200 {
		return dst
	}
	if r.open && r.Chunks() {
		dst = AppendField(dst, "Transfer-Encoding", chunkedCoding)
	}
	if r.After() == Close {
		after = Close
	}
	return appendAfter(dst, after, r.asked.HTTP10 || r.minor == 0)
}
