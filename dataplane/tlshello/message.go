package tlshello

import (
	"crypto/sha256"
	"hash"
)

// MaxID is the length of the longest session ID, in bytes.
const MaxID = 32

// The extensions that say something about sessions.
const (
	extensionTicket   = 35
	extensionPSK      = 41
	extensionVersions = 43
)

const versionTLS13 = 0x0304

// message reads the fields of one handshake message, in pieces of any size.
type message struct {
	kind  byte
	step  step
	need  int    // bytes of the field that are still to come
	left  int    // bytes of the message that are
	value uint32 // of a field that is a number, as far as it has come
	inner int    // bytes of the list of versions that are still to come

	id       [MaxID]byte
	idLength int
	tls13    bool // it names TLS 1.3: the client among others, the server as its choice
	psk      bool // it has the extension of TLS 1.3's sessions
	tickets  bool // it has the extension of tickets

	ticket    [sha256.Size]byte // of the ticket
	ticketSum hash.Hash         // of the ticket so far; nil when it came in one piece
	hasTicket bool
}

// step names the field that is being read.
type step uint8

const (
	stepEnd   step = iota
	stepFixed      // version and random
	stepIDLength
	stepID
	stepCiphersLength
	stepCiphers
	stepCompressionsLength
	stepCompressions
	stepChosen // the server's cipher and compression
	stepExtensionsLength
	stepExtension // type and length
	stepOther     // an extension without interest
	stepVersionsLength
	stepVersion
	stepTicket
	stepLifetime // of a new ticket
	stepTicketLength
)

// start begins a message of a length; false says that it is too short.
func (m *message) start(kind byte, length int) bool {
	m.kind, m.left = kind, length
	if kind == newSessionTicket {
		return m.field(stepLifetime, 4)
	}
	return m.field(stepFixed, 2+32)
}

// field goes on with a field of n bytes; false says that the message ends before.
func (m *message) field(s step, n int) bool {
	m.step, m.need, m.value = s, n, 0
	return n <= m.left
}

// read takes a piece of the message, which must not be longer than what is left of it. False says that it is malformed.
func (m *message) read(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), m.need)
		m.take(b[:n])
		b = b[n:]
		m.need -= n
		m.left -= n
		for m.need == 0 && m.step != stepEnd {
			if !m.advance() {
				return false
			}
		}
	}
	return true
}

// take takes a piece of the field.
func (m *message) take(b []byte) {
	switch m.step {
	case stepID:
		copy(m.id[m.idLength-m.need:], b)
	case stepTicket:
		m.takeTicket(b)
	case stepIDLength, stepCiphersLength, stepCompressionsLength, stepExtensionsLength, stepExtension, stepVersionsLength,
		stepVersion, stepTicketLength:
		for _, c := range b {
			m.value = m.value<<8 | uint32(c)
		}
	}
}

// takeTicket hashes a ticket; one that is there whole costs no memory.
func (m *message) takeTicket(b []byte) {
	if m.ticketSum == nil && len(b) == m.need {
		m.ticket = sha256.Sum256(b)
		return
	}
	if m.ticketSum == nil {
		m.ticketSum = sha256.New()
	}
	m.ticketSum.Write(b)
	if len(b) == m.need {
		m.ticketSum.Sum(m.ticket[:0])
		m.ticketSum = nil
	}
}

// advance goes on with the field after the one that is complete. False says that the message is malformed.
func (m *message) advance() bool {
	n := int(m.value)
	switch m.step {
	case stepFixed:
		return m.field(stepIDLength, 1)
	case stepIDLength:
		m.idLength = min(n, MaxID)
		return n <= MaxID && m.field(stepID, n)
	case stepID:
		if m.kind == serverHello {
			return m.field(stepChosen, 2+1)
		}
		return m.field(stepCiphersLength, 2)
	case stepCiphersLength:
		return m.field(stepCiphers, n)
	case stepCiphers:
		return m.field(stepCompressionsLength, 1)
	case stepCompressionsLength:
		return m.field(stepCompressions, n)
	case stepCompressions, stepChosen:
		if m.left == 0 { // extensions may be missing
			m.step = stepEnd
			return true
		}
		return m.field(stepExtensionsLength, 2)
	case stepExtensionsLength:
		return n == m.left && m.nextExtension()
	case stepExtension:
		return m.extension(n>>16, n&0xffff)
	case stepVersionsLength:
		return n == m.inner-1 && n > 0 && n%2 == 0 && m.field(stepVersion, 2)
	case stepVersion:
		return m.version(n)
	case stepLifetime:
		return m.field(stepTicketLength, 2)
	case stepTicketLength:
		m.hasTicket = n > 0
		return n == m.left && m.field(stepTicket, n)
	}
	return m.nextExtension() // after the last field of one, or of the message
}

func (m *message) nextExtension() bool {
	if m.left == 0 {
		m.step = stepEnd
		return true
	}
	return m.field(stepExtension, 4)
}

// extension begins an extension. A second one of tickets is refused, as it would be by any server.
func (m *message) extension(kind, length int) bool {
	switch {
	case length > m.left:
		return false
	case kind == extensionTicket && m.tickets:
		return false
	case kind == extensionTicket && m.kind == clientHello:
		m.tickets, m.hasTicket = true, length > 0
		return m.field(stepTicket, length)
	case kind == extensionTicket:
		m.tickets = true
	case kind == extensionPSK:
		m.psk = true
	case kind == extensionVersions && m.kind == clientHello:
		m.inner = length
		return length > 0 && m.field(stepVersionsLength, 1)
	case kind == extensionVersions:
		m.inner = 0
		return length == 2 && m.field(stepVersion, 2)
	}
	return m.field(stepOther, length)
}

// version takes one that is listed, or chosen.
func (m *message) version(n int) bool {
	m.tls13 = m.tls13 || n == versionTLS13
	if m.kind == serverHello {
		return m.nextExtension()
	}
	if m.inner -= 2; m.inner > 1 { // the length of the list is counted too
		return m.field(stepVersion, 2)
	}
	return m.nextExtension()
}
