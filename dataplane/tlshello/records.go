package tlshello

const (
	// recordHandshake is the type of the records that carry handshake messages in the clear.
	recordHandshake = 22
	// versionMajor is the first byte of the version in each record from SSL 3.0 on.
	versionMajor = 3
	// longestRecord is the most bytes that a record carries in the clear.
	longestRecord = 1 << 14
	// mostEmpty is how many records may carry nothing.
	mostEmpty = 16
)

// records takes the record layer off a stream.
type records struct {
	header [5]byte
	have   int // bytes of the header that are there
	left   int // bytes of the record that are still to come
	begun  bool
	empty  int // records so far that carried nothing
}

// next returns the next piece of a handshake record, and what of b comes after it. An empty piece says that b is used up, or that
// what begins is no handshake record: then ok is false.
func (r *records) next(b []byte) (piece, rest []byte, ok bool) {
	for len(b) > 0 {
		if r.left > 0 {
			n := min(r.left, len(b))
			r.left -= n
			return b[:n], b[n:], true
		}
		n := copy(r.header[r.have:], b)
		r.have += n
		b = b[n:]
		if r.header[0] != recordHandshake || r.have > 1 && r.header[1] != versionMajor {
			return nil, nil, false
		}
		if r.have < len(r.header) {
			break
		}
		r.have, r.begun = 0, true
		if r.left = int(r.header[3])<<8 | int(r.header[4]); r.left > longestRecord {
			return nil, nil, false
		}
		if r.left == 0 {
			if r.empty++; r.empty > mostEmpty {
				return nil, nil, false
			}
		}
	}
	return nil, nil, true
}

// The types of handshake messages.
const (
	helloRequest     = 0
	clientHello      = 1
	serverHello      = 2
	newSessionTicket = 4
)

// prologue is the type and the length of a handshake message.
type prologue struct {
	bytes [4]byte
	have  int
}

// take takes what it needs of b and returns the rest. It is done when all four bytes are there.
func (p *prologue) take(b []byte) (rest []byte, done bool) {
	n := copy(p.bytes[p.have:], b)
	p.have += n
	return b[n:], p.have == len(p.bytes)
}

func (p *prologue) kind() byte { return p.bytes[0] }

func (p *prologue) length() int {
	return int(p.bytes[1])<<16 | int(p.bytes[2])<<8 | int(p.bytes[3])
}
