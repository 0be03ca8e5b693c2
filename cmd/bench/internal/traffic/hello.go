package traffic

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hello is the first byte of a hello of TLS 1.2 that brings a session ID. The origin answers with its own hello, which accepts the
// session, and closes.
const Hello = 22

// sessionSize is the length of a session ID, in bytes; sessionStart is where the ID is in a hello.
const (
	sessionSize  = 32
	sessionStart = 44
)

// session is the ID of session number i.
func session(i int) [sessionSize]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

// clientHello is the hello of a client that resumes a session and can use no tickets.
func clientHello(id [sessionSize]byte) []byte {
	return hello(1, id, "\x00\x08\xc0\x2f\x00\x9c\x00\x2f\x00\xff"+"\x01\x00"+
		"\x00\x1a\x00\x0a\x00\x06\x00\x04\x00\x1d\x00\x17\x00\x0b\x00\x02\x01\x00\x00\x0d\x00\x06\x00\x04\x04\x01\x08\x04")
}

// serverHello is the answer to it.
func serverHello(id [sessionSize]byte) []byte { return hello(2, id, "\xc0\x2f\x00") }

// helloSize is the length of an answer to Hello, in bytes.
var helloSize = len(serverHello([sessionSize]byte{}))

// hello is a record with a handshake message of a kind: its version, its random bytes, the ID and the rest.
func hello(kind byte, id [sessionSize]byte, rest string) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, sessionSize)
	body = append(append(body, id[:]...), rest...)
	b := []byte{Hello, 3, 1, 0, 0, kind, 0, 0, 0}
	binary.BigEndian.PutUint16(b[3:], uint16(4+len(body)))
	binary.BigEndian.PutUint16(b[7:], uint16(len(body)))
	return append(b, body...)
}
