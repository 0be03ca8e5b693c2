package http1

// Kind names the header fields that this package or its callers treat specially.
type Kind uint8

// The kinds of header fields.
const (
	KindOther Kind = iota
	KindHost
	KindCookie
	KindSetCookie
	KindContentLength
	KindTransferEncoding
	KindConnection
	KindUpgrade
	KindExpect
	KindHop // Keep-Alive, Proxy-Connection, TE and HTTP2-Settings: for one connection only, never forwarded
	kinds
)

// kindOf classifies a header name.
func kindOf(name []byte) Kind {
	want, kind := "", KindOther
	switch len(name) {
	case 2:
		want, kind = "te", KindHop
	case 4:
		want, kind = "host", KindHost
	case 6:
		want, kind = "cookie", KindCookie
		if lower[name[0]] == 'e' {
			want, kind = "expect", KindExpect
		}
	case 7:
		want, kind = "upgrade", KindUpgrade
	case 10:
		switch lower[name[0]] {
		case 'c':
			want, kind = "connection", KindConnection
		case 'k':
			want, kind = "keep-alive", KindHop
		default:
			want, kind = "set-cookie", KindSetCookie
		}
	case 14:
		want, kind = "content-length", KindContentLength
		if lower[name[0]] == 'h' {
			want, kind = "http2-settings", KindHop
		}
	case 16:
		want, kind = "proxy-connection", KindHop
	case 17:
		want, kind = "transfer-encoding", KindTransferEncoding
	}
	if kind == KindOther || !equalFold(name, want) {
		return KindOther
	}
	return kind
}

// field is one header line: positions from the start of the line, so that 16 bits do.
type field struct {
	start    uint32 // of the line, in the buffer
	nameEnd  uint16
	value    uint16 // first byte of the value, blanks skipped
	valueEnd uint16
	end      uint16 // of the line, without CRLF
	kind     Kind
	change   change
}

// change says how a line is forwarded. Zero is: byte for byte.
type change uint8

const (
	dropped change = 1 << iota
	replaced
	edited // the same, but for the blanks around the value
)

type edit struct {
	field int
	value []byte
}

// Head is what requests and responses have in common: the header lines and what they say about framing and connection.
type Head struct {
	buf   []byte
	edits []edit
	err   error // the fault that was found; Parse goes on to return it

	size    int // of the complete head, empty line included; 0 until then
	section int // where the header lines begin

	// Where reading stopped. No byte is looked at twice for syntax however slowly they come.
	scan  int // next byte
	start int // of the current line
	colon int // of the current line, 0 while it is not known

	length  int64 // value of Content-Length, 0 without one
	chunked bool  // Transfer-Encoding: chunked
	minor   int
	options options
	changed bool // a line is not forwarded byte for byte

	count  int
	seen   uint16 // kinds that occur
	twice  uint16 // kinds that occur more than once
	first  [kinds]uint8
	fields [MaxFields]field
}

func (h *Head) reset() {
	clear(h.edits)
	h.buf, h.edits, h.err = nil, h.edits[:0], nil
	h.size, h.section, h.scan, h.start, h.colon = 0, 0, 0, 0, 0
	h.length, h.chunked, h.minor, h.options, h.changed = 0, false, 0, 0, false
	h.count, h.seen, h.twice = 0, 0, 0
}

// Size returns the bytes of the complete head with its empty line, 0 while it is incomplete.
func (h *Head) Size() int { return h.size }

// Minor returns the minor version: 0 for HTTP/1.0, 1 for HTTP/1.1.
func (h *Head) Minor() int { return h.minor }

// Len returns the number of header lines. Lines are numbered from 0 in the order received.
func (h *Head) Len() int { return h.count }

// Name returns the name of line i as received.
func (h *Head) Name(i int) []byte {
	f := &h.fields[i]
	return h.buf[f.start:][:f.nameEnd]
}

// Value returns the value of line i as received, without blanks around it.
func (h *Head) Value(i int) []byte {
	f := &h.fields[i]
	return h.buf[f.start:][f.value:f.valueEnd]
}

// Line returns line i as received, with its CRLF.
func (h *Head) Line(i int) []byte {
	f := &h.fields[i]
	return h.buf[f.start:][:int(f.end)+2]
}

// has reports whether a line of the kind was received.
func (h *Head) has(kind Kind) bool { return h.seen&(1<<kind) != 0 }

// repeats reports whether more than one line of the kind was received.
func (h *Head) repeats(kind Kind) bool { return h.twice&(1<<kind) != 0 }

// Kind returns the kind of line i.
func (h *Head) Kind(i int) Kind { return h.fields[i].kind }

// Next returns the first line of a kind at or after line from, or -1.
func (h *Head) Next(kind Kind, from int) int {
	if !h.has(kind) {
		return -1
	}
	for i := max(from, int(h.first[kind])); i < h.count; i++ {
		if h.fields[i].kind == kind {
			return i
		}
	}
	return -1
}

// Lookup returns the first line with a name, written in lower case, at or after line from, or -1.
func (h *Head) Lookup(name string, from int) int {
	for i := from; i < h.count; i++ {
		if int(h.fields[i].nameEnd) == len(name) && equalFold(h.Name(i), name) {
			return i
		}
	}
	return -1
}

// Drop keeps line i from being forwarded.
func (h *Head) Drop(i int) {
	h.fields[i].change = dropped
	h.changed = true
}

// SetValue forwards line i, in its place and under its name as received, with another value. The value is not copied and
// must stay as it is until the head was appended; it must not hold CR, LF or NUL.
func (h *Head) SetValue(i int, value []byte) { h.change(i, replaced, value) }

// EditValue is [Head.SetValue] for a line of which every byte stays that is not of the value: the blanks around it too.
func (h *Head) EditValue(i int, value []byte) { h.change(i, edited, value) }

func (h *Head) change(i int, how change, value []byte) {
	h.fields[i].change = how
	h.changed = true
	for j := range h.edits {
		if h.edits[j].field == i {
			h.edits[j].value = value
			return
		}
	}
	h.edits = append(h.edits, edit{i, value})
}

// edited returns the value that replaces that of line i.
func (h *Head) edited(i int) []byte {
	for j := range h.edits {
		if h.edits[j].field == i {
			return h.edits[j].value
		}
	}
	return nil
}

// readFields reads header lines until the empty line. It reports whether the head is complete.
func (h *Head) readFields(buf []byte) (bool, error) {
	w := buf
	limit := h.section + MaxFieldBytes + 2
	if len(w) > limit {
		w = w[:limit]
	}
	i := h.scan
	for {
		if h.colon == 0 {
			i = classEnd(w, i, isToken)
			if i == len(w) {
				break
			}
			if i == h.start && w[i] == '\r' {
				if i+1 == len(w) {
					break
				}
				if w[i+1] != '\n' {
					return false, errBareCR
				}
				h.size = i + 2
				return true, nil
			}
			if w[i] != ':' || i == h.start {
				return false, nameFault(w[i], i == h.start)
			}
			if h.count == MaxFields {
				return false, errFieldCount
			}
			h.colon = i
			i++
		}
		i = textEnd(w, i)
		if i == len(w) || w[i] == '\r' && i+1 == len(w) {
			break
		}
		if w[i] != '\r' || w[i+1] != '\n' {
			return false, valueFault(w[i])
		}
		if i+2-h.section > MaxFieldBytes {
			return false, errFieldBytes
		}
		h.addField(w[h.start:i])
		i += 2
		h.start, h.colon = i, 0
	}
	h.scan = i
	if len(w) == limit {
		return false, errFieldBytes
	}
	return false, nil
}

// addField records the current line, given without its CRLF.
func (h *Head) addField(line []byte) {
	name := h.colon - h.start
	value, end := name+1, len(line)
	for value < end && class[line[value]]&isBlank != 0 {
		value++
	}
	for value < end && class[line[end-1]]&isBlank != 0 {
		end--
	}
	kind := kindOf(line[:name])
	bit := uint16(1) << kind
	if h.seen&bit == 0 {
		h.seen |= bit
		h.first[kind] = uint8(h.count)
	} else {
		h.twice |= bit
	}
	h.fields[h.count] = field{
		start: uint32(h.start), nameEnd: uint16(name),
		value: uint16(value), valueEnd: uint16(end), end: uint16(len(line)), kind: kind,
	}
	h.count++
}

// nameFault says what is wrong where a header name ends in c.
func nameFault(c byte, atStart bool) *Error {
	switch {
	case c == '\n' && atStart:
		return errBareLF
	case atStart && class[c]&isBlank != 0:
		return errFold
	case c == '\r' || c == '\n':
		return errNoColon
	default:
		return errFieldName
	}
}

// valueFault says what is wrong with c in a header value.
func valueFault(c byte) *Error {
	switch c {
	case '\r':
		return errBareCR
	case '\n':
		return errBareLF
	default:
		return errControl
	}
}
