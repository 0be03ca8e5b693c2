package http1

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// chunks returns a body that expects chunks.
func chunks() *Body {
	b := &Body{}
	b.start(FramingChunked, 0)
	return b
}

// Chunks that are framed as we would frame them are forwarded from where they are, in one piece.
func TestBodyForwardsChunksInPlace(t *testing.T) {
	in := []byte("5\r\nhello\r\n1a\r\n" + strings.Repeat("x", 26) + "\r\n3\r\nabc\r\n")
	b := chunks()
	n, emit, err := b.Next(in)
	if n != len(in) || err != nil || len(emit) != len(in) || &emit[0] != &in[0] {
		t.Fatalf("%d of %d done, %d to forward, %v", n, len(in), len(emit), err)
	}
	n, emit, err = b.Next([]byte("0\r\n\r\nGET"))
	if n != 5 || string(emit) != "0\r\n\r\n" || err != nil || !b.Done() {
		t.Errorf("end: %d done, %q, %v", n, emit, err)
	}
	if n, emit, err = b.Next([]byte("GET")); n != 0 || len(emit) != 0 || err != nil {
		t.Errorf("after the end: %d done, %q, %v", n, emit, err)
	}
}

// The last chunk is held back until the whole end is known to be good.
func TestBodyHoldsLastChunk(t *testing.T) {
	b := chunks()
	n, emit, err := b.Next([]byte("1\r\na\r\n"))
	if n != 6 || err != nil {
		t.Errorf("data: %d done, %v", n, err)
	}
	equal(t, "data", string(emit), "1\r\na\r\n")
	for _, in := range []string{"0", "\r\n", "A: b\r", "\n", "\r"} {
		if n, emit, err = b.Next([]byte(in)); n != len(in) || len(emit) > 0 || err != nil {
			t.Errorf("%q: %d done, %q forwarded, %v", in, n, emit, err)
		}
	}
	if _, _, err = b.Next([]byte("x")); err == nil {
		t.Error("bad end accepted")
	}
}

func TestBodyDirect(t *testing.T) {
	b := chunks()
	if b.Direct() != 0 {
		t.Error("direct before a chunk")
	}
	_, emit, err := b.Next([]byte("400;ext\r\n"))
	if string(emit) != "400\r\n" || err != nil || b.Direct() != 1024 {
		t.Fatalf("%q, %v, direct %d", emit, err, b.Direct())
	}
	b.Moved(1000)
	if b.Direct() != 24 {
		t.Errorf("direct %d, want 24", b.Direct())
	}
	b.Moved(24)
	if b.Direct() != 0 {
		t.Error("direct after a chunk")
	}
	for in := "\r\n0\r\n\r\n"; len(in) > 0; {
		n, _, err := b.Next([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		in = in[n:]
	}
	if !b.Done() {
		t.Error("not done")
	}

	b.start(FramingLength, 10)
	b.Moved(4)
	if n, emit, _ := b.Next([]byte("0123456789")); n != 6 || string(emit) != "012345" || !b.Done() {
		t.Errorf("length: %d done, %q", n, emit)
	}
	b.start(FramingClose, 0)
	if b.Direct() != math.MaxInt64 || b.Done() {
		t.Error("until close: bounded")
	}
	b.start(FramingNone, 0)
	if n, _, _ := b.Next([]byte("x")); n != 0 || b.Direct() != 0 || !b.Done() {
		t.Error("a body where there is none")
	}
}

// Check sees what Next will see, and leaves no trace.
func TestBodyCheck(t *testing.T) {
	b := chunks()
	if err := b.Check([]byte("1\r\na\r\n0\r\nA: b\r\n\r\nGET \x00")); err != nil {
		t.Error(err)
	}
	if err := b.Check([]byte("1\r\nab")); err == nil {
		t.Error("fault not seen")
	}
	var out []byte
	rest := "1\r\na\r\n0\r\nCookie: a\r\nSum: 1\r\n\r\n"
	for i := range rest {
		if err := b.Check([]byte(rest[i:] + "next")); err != nil {
			t.Fatalf("before %q: %v", rest[i:], err)
		}
		_, emit, err := b.Next([]byte(rest[i : i+1]))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, emit...)
	}
	equal(t, "forwarded", string(out), "1\r\na\r\n0\r\nSum: 1\r\n\r\n")
}

func TestBodyClosed(t *testing.T) {
	in := "1\r\na\r\n0\r\nA: b\r\n\r\n"
	b := chunks()
	for i := range in {
		if err := b.Closed(); err == nil {
			t.Errorf("complete after %q", in[:i])
		}
		if _, _, err := b.Next([]byte{in[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Closed(); err != nil {
		t.Error(err)
	}
	b.start(FramingLength, 2)
	if _, _, err := b.Next([]byte("a")); err != nil || b.Closed() == nil {
		t.Error("pain 99: a short body is complete")
	}
	b.start(FramingClose, 0)
	if b.Closed() != nil {
		t.Error("until close: not complete")
	}
	var r Response
	r.Reset(plain)
	if _, err := r.Parse([]byte(ok(chunkedLine))); err != nil {
		t.Fatal(err)
	}
	r.StartBody(b)
	var e *Error
	if !errors.As(b.Closed(), &e) || e.Status != 502 {
		t.Errorf("a short response: %v", b.Closed())
	}
}

func TestForbiddenTrailers(t *testing.T) {
	for _, name := range []string{
		"Content-Length", "transfer-encoding", "Host", "Cookie", "Set-Cookie", "Connection", "TE", "Trailer", "Upgrade", "Expect",
		"Keep-Alive", "Authorization", "Proxy-Authorization", "Proxy-jroute", "X-Forwarded-Proto", "Forwarded", "Content-Type",
		"Content-Encoding", "Content-Range", "If-Match", "Cache-Control",
	} {
		if !forbiddenTrailer([]byte(name)) {
			t.Errorf("%s is forwarded", name)
		}
	}
	for _, name := range []string{"Content-Digest", "ETag", "Server-Timing", "grpc-status", "X-Sum", "Cookies", "Ho"} {
		if forbiddenTrailer([]byte(name)) {
			t.Errorf("%s is dropped", name)
		}
	}
}
