package tlshello

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// State says what is known of a client's first bytes.
type State uint8

const (
	// Pending: more bytes are needed.
	Pending State = iota
	// Complete: the whole hello was read.
	Complete
	// NotTLS: something else than TLS is spoken (rule A-P6).
	NotTLS
	// Malformed: it is no hello that a server could read, or has a session ID of more than 32 bytes (rule A-P4).
	Malformed
	// TooLong: the hello does not end within 64 KiB (rule A-P7).
	TooLong
)

var stateWords = [...]string{"pending", "complete", "not_tls", "malformed", "too_long"}

// String returns the word for logs and explanations.
func (s State) String() string { return stateWords[min(int(s), len(stateWords)-1)] }

// LongestClient is how many bytes of a client are read at most.
const LongestClient = 64 << 10

// Client reads a client's hello. The zero value is ready.
type Client struct {
	state    State
	total    int // bytes that were read
	records  records
	prologue prologue
	message  message
	v2       *legacyHello // nil: no hello in the frame of SSL 2
}

// Feed reads the next bytes of the client and returns what is known then. Once that is more than Pending nothing more is read.
func (c *Client) Feed(b []byte) State {
	b = b[:min(len(b), LongestClient-c.total)]
	c.total += len(b)
	for len(b) > 0 && c.state == Pending {
		b = c.read(b)
	}
	if c.state == Pending && c.total == LongestClient {
		c.state = TooLong
	}
	return c.state
}

// Recall returns a hello as of a client that comes back with a session. The text is that of a record: the session's ID, or the
// SHA-256 of its ticket, in hex; as nobody knows which, the client brings both.
func Recall(session string) (*Client, error) {
	id, err := hex.DecodeString(session)
	if err != nil || len(id) == 0 || len(id) > MaxID {
		return nil, fmt.Errorf("session %q is not an ID in hex, of up to %d bytes", session, MaxID)
	}
	c := &Client{state: Complete}
	c.message.idLength = copy(c.message.id[:], id)
	c.message.hasTicket = copy(c.message.ticket[:], id) == len(c.message.ticket)
	return c, nil
}

// Reset makes c as new.
func (c *Client) Reset() { *c = Client{} }

// State returns what is known.
func (c *Client) State() State { return c.state }

// ID returns the session ID, nil if there is none. It is good until Reset.
func (c *Client) ID() []byte {
	if c.state != Complete || c.message.idLength == 0 {
		return nil
	}
	return c.message.id[:c.message.idLength]
}

// Ticket returns the SHA-256 of the session ticket of TLS 1.2 and before; ok is false if there is none (rule A-14).
func (c *Client) Ticket() (sum [sha256.Size]byte, ok bool) {
	return c.message.ticket, c.state == Complete && c.message.hasTicket
}

// OffersTLS13 reports whether the client would speak TLS 1.3.
func (c *Client) OffersTLS13() bool { return c.state == Complete && c.message.tls13 }

// PSK reports whether the client brings a session of TLS 1.3, of which nothing can be read.
func (c *Client) PSK() bool { return c.state == Complete && c.message.psk }

// read takes a part of b and returns the rest.
func (c *Client) read(b []byte) (rest []byte) {
	if c.v2 == nil && !c.records.begun && c.records.have == 0 && b[0]&0x80 != 0 {
		c.v2 = &legacyHello{}
	}
	if c.v2 != nil {
		rest, c.state = c.v2.read(b, &c.message)
		return rest
	}
	piece, rest, ok := c.records.next(b)
	switch {
	case !ok && !c.records.begun:
		c.state = NotTLS
	case !ok:
		c.state = Malformed
	case c.message.kind == 0:
		return c.begin(piece, rest)
	case len(piece) > 0:
		c.continued(piece)
	}
	return rest
}

// begin reads the beginning of the message in a piece of a record, and goes on with the piece.
func (c *Client) begin(piece, rest []byte) []byte {
	piece, done := c.prologue.take(piece)
	switch {
	case c.prologue.have > 0 && c.prologue.kind() != clientHello:
		c.state = Malformed
	case !done:
	case c.prologue.length() > LongestClient:
		c.state = TooLong
	case !c.message.start(clientHello, c.prologue.length()):
		c.state = Malformed
	default:
		c.continued(piece)
	}
	return rest
}

// continued reads a piece of the message. What comes after the message is none of ours.
func (c *Client) continued(piece []byte) {
	switch {
	case !c.message.read(piece[:min(len(piece), c.message.left)]):
		c.state = Malformed
	case c.message.left == 0:
		c.state = Complete
	}
}

// legacyHello is a hello in the frame of SSL 2, which clients sent that also spoke SSL 3 (rule A-P5).
type legacyHello struct {
	header   [11]byte
	have     int
	skip, id int // bytes before the ID that are still to come, bytes of the ID that are
	left     int // bytes of the hello that are
}

// read takes what it needs of b and returns the rest.
func (h *legacyHello) read(b []byte, m *message) (rest []byte, state State) {
	if h.have < len(h.header) {
		n := copy(h.header[h.have:], b)
		h.have += n
		if h.have > 2 && h.header[2] != clientHello {
			return nil, NotTLS
		}
		if h.have < len(h.header) {
			return nil, Pending
		}
		if !h.begin(m) {
			return nil, Malformed
		}
		b = b[n:]
	}
	b = b[:min(len(b), h.left)]
	h.left -= len(b)
	b = b[h.skipped(len(b)):]
	if n := min(h.id, len(b)); n > 0 {
		copy(m.id[m.idLength-h.id:], b[:n])
		h.id -= n
	}
	if h.left > 0 {
		return nil, Pending
	}
	return nil, Complete
}

// skipped takes up to n bytes off what comes before the ID.
func (h *legacyHello) skipped(n int) int {
	n = min(n, h.skip)
	h.skip -= n
	return n
}

// begin reads the header; false says that its lengths do not fit.
func (h *legacyHello) begin(m *message) bool {
	number := func(at int) int { return int(h.header[at])<<8 | int(h.header[at+1]) }
	h.left = number(0)&0x7fff - (len(h.header) - 2)
	h.skip, h.id = number(5), number(7)
	m.idLength = min(h.id, MaxID)
	return h.id <= MaxID && h.skip+h.id+number(9) == h.left
}
