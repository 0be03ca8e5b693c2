package tlshello

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// vector reads a file of hex digits.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// record frames a fragment.
func record(kind byte, fragment []byte) []byte {
	return append([]byte{kind, 3, 1, byte(len(fragment) >> 8), byte(len(fragment))}, fragment...)
}

// records frames a message in fragments of n bytes.
func recordsOf(n int, b []byte) (framed []byte) {
	for len(b) > n {
		framed = append(framed, record(recordHandshake, b[:n])...)
		b = b[n:]
	}
	return append(framed, record(recordHandshake, b)...)
}

// handshake puts the type and the length before a message.
func handshake(kind byte, body []byte) []byte {
	return append([]byte{kind, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

// extension frames an extension.
func extension(kind int, body string) []byte {
	return append([]byte{byte(kind >> 8), byte(kind), byte(len(body) >> 8), byte(len(body))}, body...)
}

// clientBody is the body of a client's hello.
func clientBody(id []byte, extensions ...[]byte) []byte {
	b := append([]byte{3, 3}, make([]byte, 32)...)
	b = append(append(b, byte(len(id))), id...)
	b = append(b, 0, 2, 0xc0, 0x2f, 1, 0)
	return append(b, extensionsOf(extensions)...)
}

// serverBody is the body of a server's hello.
func serverBody(id []byte, extensions ...[]byte) []byte {
	b := append([]byte{3, 3}, make([]byte, 32)...)
	b = append(append(b, byte(len(id))), id...)
	b = append(b, 0xc0, 0x2f, 0)
	return append(b, extensionsOf(extensions)...)
}

func extensionsOf(list [][]byte) []byte {
	if list == nil {
		return nil
	}
	b := bytes.Join(list, nil)
	return append([]byte{byte(len(b) >> 8), byte(len(b))}, b...)
}

// ticketBody is the body of a message with a new ticket.
func ticketBody(ticket string) []byte {
	return append([]byte{0, 0, 1, 0, byte(len(ticket) >> 8), byte(len(ticket))}, ticket...)
}

// readClient feeds pieces to a client, and prints what was found.
func readClient(pieces ...[]byte) string {
	var c Client
	for _, p := range pieces {
		c.Feed(p)
	}
	sum, ok := c.Ticket()
	text := fmt.Sprintf("%s id=%x tls13=%t psk=%t", c.State(), c.ID(), c.OffersTLS13(), c.PSK())
	if ok {
		text += fmt.Sprintf(" ticket=%x", sum)
	}
	return text
}

// readServer feeds pieces to a server, and prints what was found.
func readServer(pieces ...[]byte) string {
	s := Server{Tickets: true}
	var news News
	for _, p := range pieces {
		got := s.Feed(p)
		if news&got != 0 {
			return "the same news twice"
		}
		news |= got
	}
	text := fmt.Sprintf("hello=%t id=%x tls13=%t done=%t", news&NewSession != 0, s.ID(), s.TLS13(), s.Done())
	sum, ok := s.Ticket()
	if ok != (news&NewTicket != 0) {
		return "a ticket and no news, or the other way round"
	}
	if ok {
		text += fmt.Sprintf(" ticket=%x", sum)
	}
	return text
}

// everySplit checks that read finds the same however b is cut: in two at each place, in single bytes, and in sevens.
func everySplit(t *testing.T, b []byte, read func(...[]byte) string) {
	t.Helper()
	whole := read(b)
	check := func(how string, pieces ...[]byte) {
		t.Helper()
		if got := read(pieces...); got != whole {
			t.Fatalf("%s: %s, and unsplit: %s", how, got, whole)
		}
	}
	for i := range len(b) + 1 {
		check(fmt.Sprintf("cut at %d", i), b[:i], b[i:])
	}
	check("byte by byte", pieces(b, 1)...)
	check("in sevens", pieces(b, 7)...)
}

func pieces(b []byte, n int) (list [][]byte) {
	for ; len(b) > n; b = b[n:] {
		list = append(list, b[:n])
	}
	return append(list, b)
}
