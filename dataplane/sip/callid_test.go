package sip

import (
	"bytes"
	"strings"
	"testing"
)

func TestCallID(t *testing.T) {
	const invite = "INVITE sip:bob@biloxi.example SIP/2.0\r\n"
	for _, tt := range []struct{ name, message, want string }{
		{"request", invite + "Via: SIP/2.0/UDP h;branch=z9\r\nCall-ID: a84b4c76e66710@pc33\r\n\r\nCall-ID: body", "a84b4c76e66710@pc33"},
		{"response", "SIP/2.0 200 OK\r\ncall-id:x@h\r\n\r\n", "x@h"},
		{"short_form", invite + "i: y@h\r\n\r\n", "y@h"},
		{"space_before_the_colon", invite + "CALL-ID \t: z@h \r\n\r\n", "z@h"},
		{"lines_without_carriage_return", "BYE sip:b SIP/2.0\nTo: b\nCall-ID: lf\n\n", "lf"},
		{"folded", invite + "Call-ID:\r\n \r\n\t  folded@h\r\n\r\n", "folded@h"},
		{"folded_field_before", invite + "Subject: a\r\n Call-ID: no\r\nCall-ID: yes\r\n\r\n", "yes"},
		{"the_first_of_two", invite + "Call-ID: one\r\nCall-ID: two\r\n\r\n", "one"},
		{"empty_lines_before", "\r\n\r\n" + invite + "Call-ID: c\r\n\r\n", "c"},
		{"no_end_of_head", invite + "Call-ID: c", "c"},
		{"empty_value", invite + "Call-ID:  \r\nFrom: a\r\n\r\n", ""},
		{"only_in_the_body", invite + "From: a\r\n\r\nCall-ID: c\r\n", ""},
		{"none", invite + "From: a\r\n\r\n", ""},
		{"keep_alive", "\r\n\r\n", ""},
		{"nothing", "", ""},
		{"not_sip", "GET / HTTP/1.1\r\nCall-ID: c\r\n\r\n", ""},
		{"binary", "\x00\x01\x00\x00!\x12\xa4B", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(CallID([]byte(tt.message))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzCallID(f *testing.F) {
	f.Add([]byte("INVITE sip:b SIP/2.0\r\nCall-ID:\r\n c@h\r\n\r\n"))
	f.Add([]byte("SIP/2.0 200 OK\ni:x\n\n"))
	f.Fuzz(func(t *testing.T, message []byte) {
		id := CallID(message)
		switch {
		case id == nil:
		case len(id) == 0 || strings.ContainsAny(string(id), "\n") || !bytes.Equal(trim(id), id):
			t.Errorf("%q", id)
		case !bytes.Contains(message, id):
			t.Errorf("%q is no part of the message", id)
		}
	})
}
