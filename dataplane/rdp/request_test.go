package rdp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// request is a connection request with a cookie line, and a request for TLS as clients send it.
func request(line string) string {
	tail := line + "\x01\x00\x08\x00\x03\x00\x00\x00"
	size := headerSize + len(tail)
	return string([]byte{3, 0, byte((5 + size) >> 8), byte(5 + size), byte(size), 0xe0, 0, 0, 0, 0, 0}) + tail
}

func TestRead(t *testing.T) {
	member := netip.MustParseAddrPort("10.1.1.100:3389")
	long := strings.Repeat("u", 254-headerSize-8-len("Cookie: mstshash=\r\n"))
	for _, tt := range []struct {
		name, sent string
		member     netip.AddrPort
		user       string
	}{
		{"directory", request("Cookie: msts=1677787402.15629.0000\r\n"), member, ""},
		{"user", request("Cookie: mstshash=alice\r\n"), netip.AddrPort{}, "alice"},
		{"longest", request("Cookie: mstshash=" + long + "\r\n"), netip.AddrPort{}, long},
		{"domain", request("Cookie: mstshash=EXAMPLE\\b\r\n") + "\x03\x00", netip.AddrPort{}, `EXAMPLE\b`},
		{"no_cookie", request(""), netip.AddrPort{}, ""},
		{"empty_user", request("Cookie: mstshash=\r\n"), netip.AddrPort{}, ""},
		{"malformed_directory", request("Cookie: msts=1677787402.15629.0001\r\n"), netip.AddrPort{}, ""},
		{"line_without_end", request("Cookie: mstshash=alice"), netip.AddrPort{}, ""},
		{"another_cookie", request("Cookie: x=alice\r\n"), netip.AddrPort{}, ""},
		{"not_tpkt", "GET / HTTP/1.1\r\n\r\n", netip.AddrPort{}, ""},
		{"not_a_connection_request", "\x03\x00\x00\x0b\x06\xd0\x00\x00\x00\x00\x00", netip.AddrPort{}, ""},
		{"too_short", "\x03\x00\x00\x0a\x05\xe0\x00\x00\x00\x00", netip.AddrPort{}, ""},
		{"longer_than_its_packet", "\x03\x00\x00\x0b\x20\xe0" + strings.Repeat("\x00", 40), netip.AddrPort{}, ""},
		{"reserved_length", "\x03\x00\x01\x10\xff\xe0" + strings.Repeat("\x00", 300), netip.AddrPort{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(r Request, from string) {
				t.Helper()
				if r.Member != tt.member || string(r.User) != tt.user {
					t.Errorf("%s: %v %q, want %v %q", from, r.Member, r.User, tt.member, tt.user)
				}
			}
			r, done := Read([]byte(tt.sent))
			if !done {
				t.Fatal("more is asked for")
			}
			check(r, "whole")
			for n := range len(tt.sent) { // byte by byte: nothing, or the same
				if r, done := Read([]byte(tt.sent[:n])); done {
					check(r, fmt.Sprintf("%d bytes", n))
				} else if n >= MaxRequest {
					t.Errorf("%d bytes are not enough", n)
				}
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(request("Cookie: mstshash=alice\r\n")), 9)
	f.Add([]byte(request("Cookie: msts=1677787402.15629.0000\r\n")), 40)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		r, done := Read(b)
		if !done && len(b) >= MaxRequest {
			t.Fatalf("%d bytes are not enough", len(b))
		}
		part, early := Read(b[:min(max(cut, 0), len(b))])
		if early && (!done || part.Member != r.Member || string(part.User) != string(r.User)) {
			t.Errorf("a part says %+v, all %+v", part, r)
		}
	})
}
