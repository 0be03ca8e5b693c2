package jroute

import "bytes"

// MaxSession is how many bytes a session ID in a link may have; a longer one is left alone.
const MaxSession = 1024

// Rewriter adds the route to the session IDs in the links of a page that comes in pieces (rule J-23): behind each
// ";jsessionid=ID" that has no route yet. Every other byte stays, and nothing is held back: what was given is in the result,
// but for the route that may follow a session ID at the very end, which End adds. How the page is split makes no difference.
//
// A session ID begins with a letter, digit, hyphen or underscore and is followed by a byte that can stand behind a link in a
// page, or by its end. Whatever looks otherwise is no session ID but a script's pattern, say, and is left alone.
type Rewriter struct {
	parameter string // ";jsessionid="
	route     string // ":route"
	matched   int    // bytes of parameter that were just passed
	session   int    // bytes of a session ID that were just passed
	routed    bool   // it has a route
}

// Start makes w ready for a page.
func (w *Rewriter) Start(l *Links) {
	*w = Rewriter{parameter: ";" + l.Parameter + "=", route: l.Separator + l.Route}
}

// Append appends a piece of the page to dst. The memory of the two must not overlap.
func (w *Rewriter) Append(dst, piece []byte) []byte {
	for len(piece) > 0 {
		n := 0
		switch {
		case w.matched == 0:
			if n = 1 + bytes.IndexByte(piece, w.parameter[0]); n > 0 {
				w.matched = 1
			} else {
				n = len(piece)
			}
		case w.matched < len(w.parameter):
			for n < len(piece) && w.matched < len(w.parameter) && piece[n] == w.parameter[w.matched] {
				n++
				w.matched++
			}
			if n < len(piece) && w.matched < len(w.parameter) {
				w.matched = 0
			}
		default:
			if n = w.pass(piece); n < len(piece) {
				dst = append(dst, piece[:n]...)
				dst = append(dst, w.due(piece[n])...)
				piece = piece[n:]
				continue
			}
		}
		dst = append(dst, piece[:n]...)
		piece = piece[n:]
	}
	return dst
}

// pass returns how many bytes at the beginning of piece belong to a session ID, its route included.
func (w *Rewriter) pass(piece []byte) int {
	separator := w.route[0]
	for n, c := range piece {
		switch {
		case c == separator:
			w.routed = true
		case links[c]&(inSession|firstInSession) == 0, w.session == 0 && links[c]&firstInSession == 0:
			return n
		}
		if w.session <= MaxSession {
			w.session++
		}
	}
	return len(piece)
}

// due ends a session ID, which is followed by next, and returns the route that belongs there.
func (w *Rewriter) due(next byte) string {
	length, routed := w.session, w.routed
	w.matched, w.session, w.routed = 0, 0, false
	if length == 0 || length > MaxSession || routed || links[next]&behindLink == 0 {
		return ""
	}
	return w.route
}

// End ends the page, and appends the route where the page ends with a session ID.
func (w *Rewriter) End(dst []byte) []byte {
	if w.matched < len(w.parameter) {
		w.matched = 0
		return dst
	}
	return append(dst, w.due(' ')...)
}

// Growth returns by how many bytes a whole page grows. The Rewriter must be fresh, and is so afterwards.
func (w *Rewriter) Growth(page []byte) int {
	grown := 0
	for {
		i := bytes.Index(page, []byte(w.parameter))
		if i < 0 {
			return grown
		}
		page = page[i+len(w.parameter):]
		n := w.pass(page)
		next := byte(' ')
		if page = page[n:]; len(page) > 0 {
			next = page[0]
		}
		grown += len(w.due(next))
	}
}

const (
	inSession      = 1 << iota
	firstInSession // may also begin one
	behindLink
)

// links says where in a link a byte may stand.
var links = func() (table [256]uint8) {
	for _, c := range []byte(".~!+=@%") {
		table[c] = inSession
	}
	for c := range table {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			table[c] = firstInSession
		}
	}
	for _, c := range []byte(";/?#\"'<>&\\`,)]}| \t\r\n\f") {
		table[c] = behindLink
	}
	return table
}()
