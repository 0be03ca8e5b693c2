package http1

import (
	"errors"
	"strings"
	"testing"
)

var (
	plain  = Asked{KeepAlive: true}
	head   = Asked{KeepAlive: true, Head: true}
	client = Asked{KeepAlive: true, HTTP10: true}
	socket = Asked{KeepAlive: true, Upgrade: true}
)

func ok(lines ...string) string { return message("HTTP/1.1 200 OK", lines...) }

func TestResponseHead(t *testing.T) {
	cookie := "Set-Cookie: BIGipServerweb=1677787402.36895.0000; path=/"
	tests := []struct {
		name   string
		asked  Asked
		in     string
		status int
		out    string // what the client gets; "same" is: in, byte for byte
	}{
		{"bytes_kept", plain, message("HTTP/1.1 200 A \t\xff", "sERVER:x", cookie, "Set-Cookie: a=1", "set-cookie:b=2 ", "Cookie: c=3", "Content-Length: 3") + "abc", 0, "same"},
		{"5a-1_CL_and_TE", plain, ok("Content-Length: 5", chunkedLine) + "0\r\n\r\n", 502, ""},
		{"5a-2_CL_twice_same", plain, ok("Content-Length: 1", "Content-Length: 1") + "a", 502, ""},
		{"5a-3_CL_twice_different", plain, ok("Content-Length: 1", "Content-Length: 2") + "ab", 502, ""},
		{"5a-4_CL_list", plain, ok("Content-Length: 1, 1") + "a", 502, ""},
		{"5a-5_CL_plus", plain, ok("Content-Length: +1") + "a", 502, ""},
		{"5a-5_CL_empty", plain, ok("Content-Length:") + "a", 502, ""},
		{"5a-6_CL_01", plain, ok("Content-Length: 01") + "a", 0, ok("Content-Length: 1") + "a"},
		{"5a-7_TE_twice", plain, ok(chunkedLine, chunkedLine) + "0\r\n\r\n", 502, ""},
		{"5a-7_TE_chunked_identity", plain, ok("Transfer-Encoding: chunked, identity") + "0\r\n\r\n", 502, ""},
		{"5a-7_TE_gzip_chunked", plain, ok("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n", 502, ""},
		{"5a-7_TE_xchunked", plain, ok("Transfer-Encoding: xchunked") + "0\r\n\r\n", 502, ""},
		{"5a-7_TE_empty", plain, ok("Transfer-Encoding:") + "0\r\n\r\n", 502, ""},
		{"5a-8_TE_in_HTTP10", plain, message("HTTP/1.0 200 OK", chunkedLine) + "0\r\n\r\n", 502, ""},
		{"5a-9_chunk_size_0x1", plain, ok(chunkedLine) + "0x1\r\na\r\n0\r\n\r\n", 502, ok(chunkedLine)},
		{"5a-10_chunk_size_LF", plain, ok(chunkedLine) + "1\na\r\n0\r\n\r\n", 502, ok(chunkedLine)},
		{"5a-11_extension_dropped", plain, ok(chunkedLine) + "1;a=b\r\na\r\n0\r\n\r\n", 0, ok(chunkedLine) + "1\r\na\r\n0\r\n\r\n"},
		{"5a-12_trailers", plain, ok(chunkedLine) + "1\r\na\r\n0\r\nSet-Cookie: a=b\r\nServer-Timing: x\r\nContent-Length: 9\r\n\r\n", 0, ok(chunkedLine) + "1\r\na\r\n0\r\nServer-Timing: x\r\n\r\n"},
		{"5a-13_LF_line_ends", plain, "HTTP/1.1 200 OK\nContent-Length: 0\n\n", 502, ""},
		{"5a-14_bare_CR", plain, ok("A: b\rc"), 502, ""},
		{"5a-14_NUL", plain, ok("A: b\x00c"), 502, ""},
		{"5a-15_fold", plain, ok("A: b", " c", "Content-Length: 0"), 502, ""},
		{"5a-16_space_in_name", plain, ok("A B: c"), 502, ""},
		{"5a-16_empty_name", plain, ok(": c"), 502, ""},
		{"5a-17_no_colon", plain, ok("Abc"), 502, ""},
		{"5a-18_control", plain, ok("A: \x07"), 502, ""},
		{"5a-25_connection_names_set_cookie", plain, ok("Connection: Set-Cookie, X-Gone", cookie, "X-Gone: 1", "Content-Length: 0"), 0, ok(cookie, "Content-Length: 0")},

		{"status_line_other_protocol", plain, "SSH-2.0-x\r\n", 502, ""},
		{"status_line_garbage", plain, "<html>", 502, ""},
		{"status_line_empty_line_first", plain, "\r\n" + ok("Content-Length: 0"), 502, ""},
		{"status_line_version", plain, message("HTTP/1.2 200 OK", "Content-Length: 0"), 502, ""},
		{"status_line_version_2", plain, message("HTTP/2.0 200 OK", "Content-Length: 0"), 502, ""},
		{"status_line_two_digits", plain, message("HTTP/1.1 20 OK", "Content-Length: 0"), 502, ""},
		{"status_line_four_digits", plain, message("HTTP/1.1 2000 OK", "Content-Length: 0"), 502, ""},
		{"status_line_below_100", plain, message("HTTP/1.1 099 OK", "Content-Length: 0"), 502, ""},
		{"status_line_plus", plain, message("HTTP/1.1 +20 OK", "Content-Length: 0"), 502, ""},
		{"status_line_two_blanks", plain, message("HTTP/1.1  200 OK", "Content-Length: 0"), 502, ""},
		{"status_line_tab", plain, message("HTTP/1.1\t200 OK", "Content-Length: 0"), 502, ""},
		{"status_line_text_at_once", plain, message("HTTP/1.1 200OK", "Content-Length: 0"), 502, ""},
		{"status_line_short", plain, "HTTP/1.1\r\n\r\n", 502, ""},
		{"status_line_control_in_text", plain, message("HTTP/1.1 200 O\x01K", "Content-Length: 0"), 502, ""},
		{"status_line_without_text", plain, message("HTTP/1.1 200 ", "Content-Length: 0"), 0, "same"},
		{"status_line_without_blank", plain, message("HTTP/1.1 200", "Content-Length: 0"), 0, "same"},
		{"status_line_999", plain, message("HTTP/1.1 999 Odd", "Content-Length: 0"), 0, "same"},
		{"status_line_longest", plain, message("HTTP/1.1 200 "+strings.Repeat("x", MaxStatusLine-13), "Content-Length: 0"), 0, "same"},
		{"status_line_too_long", plain, message("HTTP/1.1 200 "+strings.Repeat("x", MaxStatusLine-12), "Content-Length: 0"), 502, ""},
		{"fields_101", plain, ok(strings.Split(strings.Repeat("A: b\n", 100)+"A: b", "\n")...), 502, ""},
		{"field_bytes", plain, ok("A: " + strings.Repeat("b", 65537)), 502, ""},

		{"hop_by_hop", plain, ok("Connection: keep-alive", "Keep-Alive: timeout=5", "A: b", "Proxy-Connection: x", "Content-Length: 0"), 0, ok("A: b", "Content-Length: 0")},
		{"upgrade_offer_not_forwarded", plain, ok("Upgrade: h2,h2c", "Connection: Upgrade", "Content-Length: 0"), 0, ok("Content-Length: 0")},
		{"upgrade_required", plain, message("HTTP/1.1 426 Upgrade Required", "Upgrade: TLS/1.0", "Connection: close, Upgrade", "Content-Length: 0"), 0, message("HTTP/1.1 426 Upgrade Required", "Upgrade: TLS/1.0", "Connection: upgrade", "Content-Length: 0")},
		{"until_close", plain, ok("A: b") + "until the end", 0, ok("A: b", "Connection: close") + "until the end"},
		{"until_close_HTTP10", plain, message("HTTP/1.0 200 OK") + "until the end", 0, message("HTTP/1.0 200 OK", "Connection: close") + "until the end"},
		{"HTTP10_length", plain, message("HTTP/1.0 200 OK", "Content-Length: 1") + "a", 0, message("HTTP/1.0 200 OK", "Content-Length: 1", "Connection: keep-alive") + "a"},
		{"client_closes", Asked{}, ok("Content-Length: 1") + "a", 0, ok("Content-Length: 1", "Connection: close") + "a"},
		{"to_HTTP10_length", client, ok("Content-Length: 1") + "a", 0, ok("Content-Length: 1", "Connection: keep-alive") + "a"},
		{"to_HTTP10_chunks", client, ok("A: b", chunkedLine) + "1;x\r\na\r\n2\r\nbc\r\n0\r\nX: y\r\n\r\n", 0, ok("A: b", "Connection: close") + "abc"},
		{"to_HTTP10_bad_chunks", client, ok(chunkedLine) + "1\r\nab\r\n0\r\n\r\n", 502, ok("Connection: close") + "a"},

		{"99_head_with_body", head, ok("Content-Length: 3") + "abc", 0, ok("Content-Length: 3")},
		{"99_head_with_chunks", head, ok(chunkedLine) + "0\r\n\r\n", 0, ok(chunkedLine)},
		{"99_head_without_framing", head, ok("A: b"), 0, "same"},
		{"99_204_with_length", plain, message("HTTP/1.1 204 No Content", "Content-Length: 3", "A: b") + "abc", 0, message("HTTP/1.1 204 No Content", "A: b")},
		{"99_204_with_chunks", plain, message("HTTP/1.1 204 No Content", chunkedLine) + "0\r\n\r\n", 0, message("HTTP/1.1 204 No Content")},
		{"99_304_with_length", plain, message("HTTP/1.1 304 Not Modified", "Content-Length: 3") + "abc", 0, message("HTTP/1.1 304 Not Modified", "Content-Length: 3")},
		{"99_304_CL_and_TE", plain, message("HTTP/1.1 304 Not Modified", "Content-Length: 3", chunkedLine), 502, ""},

		{"1xx_before_the_final", plain, message("HTTP/1.1 100 Continue") + message("HTTP/1.1 103 Early Hints", "Link: </x>") + ok("Content-Length: 1") + "a", 0, "same"},
		{"1xx_with_length", plain, message("HTTP/1.1 103 Early Hints", "Content-Length: 3", "Connection: close") + ok("Content-Length: 0"), 0, message("HTTP/1.1 103 Early Hints") + ok("Content-Length: 0")},
		{"1xx_with_body", plain, message("HTTP/1.1 103 Early Hints", "Content-Length: 3") + "abc" + ok("Content-Length: 0"), 502, message("HTTP/1.1 103 Early Hints")},
		{"1xx_eight", plain, strings.Repeat(message("HTTP/1.1 102 Processing"), 8) + ok("Content-Length: 0"), 0, "same"},
		{"1xx_flood", plain, strings.Repeat(message("HTTP/1.1 102 Processing"), 9) + ok("Content-Length: 0"), 502, strings.Repeat(message("HTTP/1.1 102 Processing"), 8)},
		{"101", socket, message("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Content-Length: 0") + "\x81\x00anything", 0, message("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade") + "\x81\x00anything"},
		{"101_without_connection", socket, message("HTTP/1.1 101 Switching Protocols", "Upgrade: x"), 0, message("HTTP/1.1 101 Switching Protocols", "Upgrade: x", "Connection: upgrade")},
		{"101_after_100", socket, message("HTTP/1.1 100 Continue") + message("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: x") + "t", 0, "same"},
		{"101_unasked", plain, message("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"), 502, ""},
		{"101_HTTP10", socket, message("HTTP/1.0 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"), 502, ""},
		{"101_asked_but_200", socket, ok("Content-Length: 1") + "a", 0, "same"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := test.out
			if want == "same" {
				want = test.in
			}
			everySplit(test.in, func(how string, segments ...[]byte) {
				r := responses([]Asked{test.asked}, segments...)
				if r.status() != test.status {
					t.Fatalf("%s: status %d (%v), want %d", how, r.status(), r.err, test.status)
				}
				if test.status == 0 || how == "whole" {
					equal(t, how, string(r.out), want)
				} else if !strings.HasPrefix(string(r.out), want) || r.done > 0 {
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
	in := ok("Set-Cookie: a=1", "Set-Cookie: BIGipServerweb=forged", "set-cookie:b=2", "Set-Cookie: BIGipCookie=000", "Content-Length: 0", "Connection: close")
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
	equal(t, "lines", strings.Join(lines, "|"), "a=1|BIGipServerweb=forged|b=2|BIGipCookie=000")
	out := AppendField(r.AppendHead(nil, r.After()), "Set-Cookie", "BIGipServerweb=1.2.0000; path=/")
	equal(t, "edited", string(AppendEnd(out)), ok("Set-Cookie: a=1", "set-cookie:b=2", "Set-Cookie: BIGipCookie=1.2.0000; path=/",
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
