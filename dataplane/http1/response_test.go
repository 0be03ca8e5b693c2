package http1

import (
	"errors"
	"strings"
	"testing"

	"bigpipe/dataplane/internal/edges"
)

var (
	plain  = Asked{KeepAlive: true}
	head   = Asked{KeepAlive: true, Head: true}
	client = Asked{KeepAlive: true, HTTP10: true}
	socket = Asked{KeepAlive: true, Upgrade: true}
)

func TestResponseHead(t *testing.T) {
	for _, row := range edges.Responses {
		t.Run(row.Name, func(t *testing.T) {
			status := 0
			if row.Bad {
				status = 502
			}
			var q Request
			if _, err := q.Parse([]byte(row.Request)); err != nil {
				t.Fatal(err)
			}
			everySplit(row.In, func(how string, segments ...[]byte) {
				r := responses([]Asked{q.Asked()}, segments...)
				if r.status() != status {
					t.Fatalf("%s: status %d (%v), want %d", how, r.status(), r.err, status)
				}
				if !row.Bad {
					equal(t, how, string(r.out), row.Out)
				} else if !strings.HasPrefix(string(r.out), row.Out) || r.done > 0 {
					t.Errorf("%s: forwarded %q", how, r.out)
				}
			})
		})
	}
}

// What a member sends on one connection is cut into the responses to the requests in order.
func TestResponsesInOrder(t *testing.T) {
	in := ok("Content-Length: 2") + "ab" + ok("Content-Length: 9") + message("HTTP/1.1 100 Continue") +
		ok(chunkedLine) + "1\r\nc\r\n0\r\n\r\n" + message("HTTP/1.1 304 Not Modified") + ok("Content-Length: 0")
	everySplit(in, func(how string, segments ...[]byte) {
		r := responses([]Asked{plain, head, plain, plain, plain}, segments...)
		if r.err != nil || r.done != 5 {
			t.Fatalf("%s: %d responses, %v", how, r.done, r.err)
		}
		equal(t, how, string(r.out), in)
	})
}

func TestResponseFacts(t *testing.T) {
	tests := []struct {
		name     string
		asked    Asked
		in       string
		framing  Framing
		length   int64
		reusable bool
		after    After
	}{
		{"length", plain, ok("Content-Length: 5"), FramingLength, 5, true, KeepAlive},
		{"length_zero", plain, ok("Content-Length: 0"), FramingNone, 0, true, KeepAlive},
		{"chunked", plain, ok(chunkedLine), FramingChunked, 0, true, KeepAlive},
		{"chunked_to_HTTP10", client, ok(chunkedLine), FramingChunked, 0, true, Close},
		{"until_close", plain, ok(), FramingClose, 0, false, Close},
		{"O-T11_member_closes", plain, ok("Content-Length: 5", "Connection: close"), FramingLength, 5, false, KeepAlive},
		{"O-9_member_HTTP10", plain, message("HTTP/1.0 200 OK", "Content-Length: 5"), FramingLength, 5, false, KeepAlive},
		{"O-9_member_HTTP10_keep_alive", plain, message("HTTP/1.0 200 OK", "Content-Length: 5", "Connection: keep-alive"), FramingLength, 5, true, KeepAlive},
		{"O-10_client_closes", Asked{}, ok("Content-Length: 5"), FramingLength, 5, true, Close},
		{"head", head, ok("Content-Length: 5"), FramingNone, 0, true, KeepAlive},
		{"204", plain, message("HTTP/1.1 204 No Content"), FramingNone, 0, true, KeepAlive},
		{"99_204_length_zero", plain, message("HTTP/1.1 204 No Content", "Content-Length: 0"), FramingNone, 0, true, KeepAlive},
		{"99_204_length", plain, message("HTTP/1.1 204 No Content", "Content-Length: 3"), FramingNone, 0, false, KeepAlive},
		{"99_204_chunked", plain, message("HTTP/1.1 204 No Content", chunkedLine), FramingNone, 0, false, KeepAlive},
		{"304", plain, message("HTTP/1.1 304 Not Modified"), FramingNone, 0, true, KeepAlive},
		{"99_304_length", plain, message("HTTP/1.1 304 Not Modified", "Content-Length: 3"), FramingNone, 0, false, KeepAlive},
		{"101", socket, message("HTTP/1.1 101 Switching Protocols"), FramingTunnel, 0, false, Close},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var r Response
			r.Reset(test.asked)
			if n, err := r.Parse([]byte(test.in)); n != len(test.in) || err != nil {
				t.Fatal(n, err)
			}
			framing, length := r.Framing()
			if framing != test.framing || length != test.length || r.Reusable() != test.reusable || r.After() != test.after {
				t.Errorf("framing %d of %d, reusable %v, after %d", framing, length, r.Reusable(), r.After())
			}
			if r.Interim() {
				t.Error("interim")
			}
		})
	}
}

// A Set-Cookie of the server is dropped or replaced, ours is added last, all others keep their order and bytes.
func TestResponseEdits(t *testing.T) {
	in := ok("Set-Cookie: a=1", "Set-Cookie: BIGipServerweb=forged", "set-cookie:b=2", "Set-Cookie: BIGipCookie=000",
		"X:\t y  ", "Z:", "Content-Length: 0", "Connection: close")
	var r Response
	r.Reset(plain)
	if _, err := r.Parse([]byte(in)); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := r.Next(KindSetCookie, 0); i >= 0; i = r.Next(KindSetCookie, i+1) {
		lines = append(lines, string(r.Value(i)))
		if strings.HasPrefix(string(r.Value(i)), "BIGipServerweb=") {
			r.Drop(i)
		}
		if strings.HasPrefix(string(r.Value(i)), "BIGipCookie=") {
			r.SetValue(i, []byte("BIGipCookie=1.2.0000; path=/"))
		}
	}
	r.EditValue(r.Lookup("x", 0), []byte("edited"))
	r.EditValue(r.Lookup("z", 0), []byte("edited"))
	equal(t, "lines", strings.Join(lines, "|"), "a=1|BIGipServerweb=forged|b=2|BIGipCookie=000")
	out := AppendField(r.AppendHead(nil, r.After()), "Set-Cookie", "BIGipServerweb=1.2.0000; path=/")
	equal(t, "edited", string(AppendEnd(out)), ok("Set-Cookie: a=1", "set-cookie:b=2", "Set-Cookie: BIGipCookie=1.2.0000; path=/", "X:\t edited  ", "Z:edited",
		"Content-Length: 0", "Set-Cookie: BIGipServerweb=1.2.0000; path=/"))
}

// A status code and what the fault was in are named to the client as the member's.
func TestResponseFaultIs502(t *testing.T) {
	var r Response
	r.Reset(plain)
	_, err := r.Parse([]byte(ok("Content-Length: x")))
	var e *Error
	if !errors.As(err, &e) || e.Status != 502 || e.Error() != "response: bad Content-Length" {
		t.Errorf("%#v", err)
	}
	if n, again := r.Parse([]byte(ok())); n != 0 || !errors.Is(again, err) {
		t.Errorf("then %d, %v", n, again)
	}
}
