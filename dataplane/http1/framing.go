package http1

import "math"

// options are the words of the Connection fields that have a meaning of their own.
type options uint8

const (
	optClose options = 1 << iota
	optKeepAlive
	optUpgrade
)

// KeepAlive reports whether the sender of the message is willing to use its connection again: HTTP/1.1 unless it said
// close, HTTP/1.0 if it said keep-alive.
func (h *Head) KeepAlive() bool {
	return h.options&optClose == 0 && (h.minor == 1 || h.options&optKeepAlive != 0)
}

// readFraming reads Content-Length and Transfer-Encoding and has them forwarded in their plainest form.
func (h *Head) readFraming() error {
	length, coding := h.Next(KindContentLength, 0), h.Next(KindTransferEncoding, 0)
	switch {
	case length < 0 && coding < 0:
		return nil
	case length >= 0 && coding >= 0:
		return errLengthCoding
	case h.repeats(KindContentLength):
		return errTwoLengths
	case h.repeats(KindTransferEncoding):
		return errCoding
	case length >= 0:
		n, digits, ok := parseLength(h.Value(length))
		if !ok {
			return errLength
		}
		h.length = n
		h.plain(length, digits)
		return nil
	case h.minor == 0:
		return errCoding10
	}
	value := h.Value(coding)
	if err := checkCodings(value); err != nil {
		return err
	}
	h.chunked = true
	if string(value) != string(chunkedCoding) {
		h.SetValue(coding, chunkedCoding)
		return nil
	}
	h.plain(coding, value)
	return nil
}

// plain has line i forwarded as "name: value", unless it is that already, with or without the blank.
func (h *Head) plain(i int, value []byte) {
	f := &h.fields[i]
	blanks := f.value - f.nameEnd - 1
	if len(value) == int(f.valueEnd-f.value) && f.valueEnd == f.end &&
		(blanks == 0 || blanks == 1 && h.buf[f.start:][f.value-1] == ' ') {
		return
	}
	h.SetValue(i, value)
}

// parseLength reads a Content-Length of digits only. Digits is the value without leading zeros.
func parseLength(value []byte) (n int64, digits []byte, ok bool) {
	if len(value) == 0 {
		return 0, nil, false
	}
	for _, c := range value {
		if class[c]&isDigit == 0 || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, nil, false
		}
		n = n*10 + int64(c-'0')
	}
	for len(value) > 1 && value[0] == '0' {
		value = value[1:]
	}
	return n, value, true
}

// checkCodings accepts "chunked" and nothing else. Where the end of the body would not be known the answer is 400, a coding
// that is merely not supported is answered 501.
func checkCodings(list []byte) error {
	var chunked, other, unknown bool
	for more := true; more; {
		var coding []byte
		coding, list, more = cutElement(list)
		switch {
		case len(coding) == 0 || chunked:
			return errCoding
		case equalFold(coding, "chunked"):
			chunked = true
		default:
			other, unknown = true, unknown || !knownCoding(coding)
		}
	}
	switch {
	case chunked && !other:
		return nil
	case chunked || unknown:
		return errCodingOther
	default:
		return errCoding
	}
}

func knownCoding(coding []byte) bool {
	for _, name := range [...]string{"gzip", "x-gzip", "deflate", "compress", "x-compress", "identity"} {
		if equalFold(coding, name) {
			return true
		}
	}
	return false
}

// readConnection reads the Connection fields and marks what is for this connection only: Connection itself, the fields that
// it names and the fields that always are. It may name Cookie, Set-Cookie, Host, Content-Length, Transfer-Encoding and
// Expect as it likes: those stay (row 25).
func (h *Head) readConnection() error {
	const hop = 1<<KindConnection | 1<<KindUpgrade | 1<<KindHop
	if h.seen&hop == 0 {
		return nil
	}
	for i := range h.count {
		if 1<<h.fields[i].kind&hop != 0 {
			h.Drop(i)
		}
	}
	named := 0
	for i := h.Next(KindConnection, 0); i >= 0; i = h.Next(KindConnection, i+1) {
		list := h.Value(i)
		for more := true; more; {
			var option []byte
			option, list, more = cutElement(list)
			switch {
			case equalFold(option, "close"):
				h.options |= optClose
			case equalFold(option, "keep-alive"):
				h.options |= optKeepAlive
			case equalFold(option, "upgrade"):
				h.options |= optUpgrade
			case len(option) > 0:
				h.dropNamed(option)
			}
			if named++; named > MaxOptions {
				return errOptions
			}
		}
	}
	return nil
}

// dropNamed drops the fields with the name that a Connection field gave.
func (h *Head) dropNamed(name []byte) {
	for i := range h.count {
		f := &h.fields[i]
		if f.kind == KindOther && int(f.nameEnd) == len(name) && equalNames(h.Name(i), name) {
			h.Drop(i)
		}
	}
}

// keepUpgrade forwards the Upgrade fields after all, with a Connection field that says nothing but upgrade. It reports
// whether there was a Connection field to say it in.
func (h *Head) keepUpgrade() bool {
	for i := h.Next(KindUpgrade, 0); i >= 0; i = h.Next(KindUpgrade, i+1) {
		h.fields[i].change = 0
	}
	i := h.Next(KindConnection, 0)
	if i < 0 {
		return false
	}
	if equalFold(h.Value(i), "upgrade") {
		h.fields[i].change = 0
	} else {
		h.SetValue(i, upgradeOption)
	}
	return true
}

// names reports whether an Upgrade field names a protocol, written in lower case and without a version.
func (h *Head) names(protocol string) bool {
	for i := h.Next(KindUpgrade, 0); i >= 0; i = h.Next(KindUpgrade, i+1) {
		list := h.Value(i)
		for more := true; more; {
			var name []byte
			name, list, more = cutElement(list)
			if equalFold(name, protocol) {
				return true
			}
		}
	}
	return false
}

// one reports whether there is a single line with a name, written in lower case, and it has a value.
func (h *Head) one(name string) bool {
	i := h.Lookup(name, 0)
	return i >= 0 && len(h.Value(i)) > 0 && h.Lookup(name, i+1) < 0
}

// offersH2C reports whether an Upgrade field names HTTP/2: behind that the proxy could not see requests any more.
func (h *Head) offersH2C() bool {
	for i := h.Next(KindUpgrade, 0); i >= 0; i = h.Next(KindUpgrade, i+1) {
		list := h.Value(i)
		for more := true; more; {
			var protocol []byte
			protocol, list, more = cutElement(list)
			if len(protocol) >= 2 && equalFold(protocol[:2], "h2") {
				return true
			}
			if len(protocol) >= 6 && equalFold(protocol[:6], "http/2") {
				return true
			}
		}
	}
	return false
}

var (
	chunkedCoding = []byte("chunked")
	upgradeOption = []byte("upgrade")
)
