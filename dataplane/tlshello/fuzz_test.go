package tlshello

import (
	"bytes"
	"os"
	"testing"
)

// seeds adds all vectors, and some hellos that are not among them.
func seeds(f *testing.F) {
	list, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range list {
		if name := e.Name(); bytes.HasSuffix([]byte(name), []byte(".hex")) {
			f.Add(vector(f, name), uint16(7))
		}
	}
	f.Add(v2(9, 16, 16, 0), uint16(11))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"), uint16(1))
	f.Add(recordsOf(3, handshake(clientHello, clientBody(id(32), extension(35, "ticket")))), uint16(50))
	hello := handshake(serverHello, serverBody(id(32), extension(35, "")))
	f.Add(record(22, append(hello, handshake(newSessionTicket, ticketBody("ticket"))...)), uint16(90))
}

// FuzzClient: what is found does not depend on how the bytes are cut, and is what a reader of whole slices finds.
func FuzzClient(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		whole := readClient(b)
		if got := readClient(pieces(b, 1)...); got != whole {
			t.Fatalf("byte by byte %s, whole %s", got, whole)
		}
		i := int(at) % (len(b) + 1)
		if got := readClient(b[:i], b[i:]); got != whole {
			t.Fatalf("cut at %d %s, whole %s", i, got, whole)
		}
		var c Client
		if c.Feed(b) != Complete || b[0]&0x80 != 0 {
			return
		}
		want, ok := plainID(b, clientHello)
		if !ok || !bytes.Equal(want, c.ID()) {
			t.Fatalf("ID %x, and read from the whole %x (%t)", c.ID(), want, ok)
		}
	})
}

// FuzzServer is FuzzClient for answers.
func FuzzServer(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		whole := readServer(b)
		if got := readServer(pieces(b, 1)...); got != whole {
			t.Fatalf("byte by byte %s, whole %s", got, whole)
		}
		i := int(at) % (len(b) + 1)
		if got := readServer(b[:i], b[i:]); got != whole {
			t.Fatalf("cut at %d %s, whole %s", i, got, whole)
		}
		s := Server{Tickets: true}
		if s.Feed(b)&NewSession == 0 {
			return
		}
		want, ok := plainID(b, serverHello)
		if !ok || !bytes.Equal(want, s.ID()) {
			t.Fatalf("ID %x, and read from the whole %x (%t)", s.ID(), want, ok)
		}
	})
}

// plainID reads the ID of a hello from bytes that are all there.
func plainID(b []byte, kind byte) (id []byte, ok bool) {
	var messages []byte
	for len(b) >= 5 && b[0] == recordHandshake {
		n := min(int(b[3])<<8|int(b[4]), len(b)-5)
		messages = append(messages, b[5:5+n]...)
		b = b[5+n:]
	}
	for kind == serverHello && bytes.HasPrefix(messages, []byte{helloRequest, 0, 0, 0}) {
		messages = messages[4:]
	}
	if len(messages) < 39 || messages[0] != kind || len(messages) < 39+int(messages[38]) {
		return nil, false
	}
	return messages[39 : 39+int(messages[38])], true
}
