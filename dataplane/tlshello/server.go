package tlshello

import "crypto/sha256"

// News says what a piece of a server's answer has brought.
type News uint8

const (
	// NewSession: the server's hello is complete. ID and TLS13 tell what it says.
	NewSession News = 1 << iota
	// NewTicket: the server has given the client a ticket.
	NewTicket
)

// longestServer is how many bytes of a server are read at most. Its certificates are among them when it gives a ticket.
const longestServer = 256 << 10

// Server reads a server's answer up to what ends to be readable. The zero value is ready.
type Server struct {
	// Tickets makes it read on after the hello, for the ticket that TLS 1.2 and before may give.
	Tickets bool

	done     bool
	hello    bool // the server's hello was read
	total    int
	records  records
	prologue prologue
	skip     int // bytes of a message without interest that are still to come
	message  message
	ticket   message // while a ticket is read
}

// Done reports that nothing more is to be learned: the bytes that follow need not be fed.
func (s *Server) Done() bool { return s.done }

// Reset makes s as new.
func (s *Server) Reset() { *s = Server{} }

// ID returns the session ID that the server gives or accepts, nil if there is none. It is good until Reset.
func (s *Server) ID() []byte {
	if !s.hello || s.message.idLength == 0 {
		return nil
	}
	return s.message.id[:s.message.idLength]
}

// TLS13 reports whether the server has chosen TLS 1.3, whose IDs mean nothing (rule A-P8).
func (s *Server) TLS13() bool { return s.hello && s.message.tls13 }

// Ticket returns the SHA-256 of the ticket that the server has given.
func (s *Server) Ticket() (sum [sha256.Size]byte, ok bool) {
	return s.ticket.ticket, s.ticket.hasTicket
}

// Feed reads the next bytes of the server and returns what they have brought.
func (s *Server) Feed(b []byte) (news News) {
	for len(b) > 0 && !s.done {
		piece, rest, ok := s.records.next(b)
		if s.total += len(b) - len(rest); !ok || s.total > longestServer {
			s.done = true
			break
		}
		b = rest
		for len(piece) > 0 && !s.done {
			var n News
			piece, n = s.read(piece)
			news |= n
		}
	}
	return news
}

// read takes a part of a record's piece and returns the rest.
func (s *Server) read(piece []byte) (rest []byte, news News) {
	if s.skip > 0 {
		n := min(s.skip, len(piece))
		s.skip -= n
		return piece[n:], 0
	}
	if m := s.current(); m != nil {
		n := min(m.left, len(piece))
		if !m.read(piece[:n]) {
			s.done, m.hasTicket = true, false
			return nil, 0
		}
		if m.left == 0 {
			news = s.complete(m)
		}
		return piece[n:], news
	}
	rest, done := s.prologue.take(piece)
	if done {
		s.begin()
	}
	return rest, 0
}

// current is the message that is being read; nil: none.
func (s *Server) current() *message {
	switch {
	case s.message.left > 0:
		return &s.message
	case s.ticket.left > 0:
		return &s.ticket
	}
	return nil
}

// begin begins a message. Before the hello nothing may come but requests for one.
func (s *Server) begin() {
	kind, length := s.prologue.kind(), s.prologue.length()
	s.prologue = prologue{}
	switch {
	case s.hello && kind == newSessionTicket:
		s.done = !s.ticket.start(newSessionTicket, length)
	case s.hello:
		s.skip = length
	case kind == serverHello:
		s.done = !s.message.start(serverHello, length)
	default:
		s.done = kind != helloRequest || length > 0
	}
}

// complete says what a complete message brings.
func (s *Server) complete(m *message) News {
	if m == &s.message {
		s.hello = true
		s.done = !s.Tickets || m.tls13 || !m.tickets
		return NewSession
	}
	s.done = true
	if !m.hasTicket {
		return 0
	}
	return NewTicket
}
