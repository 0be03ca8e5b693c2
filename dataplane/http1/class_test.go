package http1

import (
	"bytes"
	"testing"
)

func TestTextEnd(t *testing.T) {
	for c := range 256 {
		text := c >= ' ' && c != 0x7f || c == '\t'
		for length := 1; length <= 20; length++ {
			for at := range length {
				b := bytes.Repeat([]byte{'a', 0x80, '\t', 0xff}, 5)[:length]
				b[at] = byte(c)
				want := length
				if !text {
					want = at
				}
				for from := range at + 1 {
					if got := textEnd(b, from); got != want {
						t.Fatalf("%q from %d: %d, want %d", b, from, got, want)
					}
				}
			}
		}
	}
}

// The classes are those of RFC 9110 and RFC 3986.
func TestClasses(t *testing.T) {
	for of, want := range map[uint8]string{
		isToken: "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~",
		isHost:  "!$%&'()*+,-.0123456789:;=ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz~",
		isDigit: "0123456789",
		isHex:   "0123456789ABCDEFabcdef",
		isBlank: "\t ",
	} {
		var got []byte
		for c := range 256 {
			if class[c]&of != 0 {
				got = append(got, byte(c))
			}
		}
		equal(t, "class", string(got), want)
	}
	for c := range 256 {
		if want := c > ' ' && c != '#' && c != 0x7f; (class[c]&isTarget != 0) != want {
			t.Errorf("target byte %#x: %v", c, !want)
		}
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]Kind{
		"Host": KindHost, "HOST": KindHost, "Cookie": KindCookie, "Expect": KindExpect, "Upgrade": KindUpgrade, "te": KindHop,
		"CONNECTION": KindConnection, "Keep-Alive": KindHop, "sEt-cOOkIE": KindSetCookie, "Content-Length": KindContentLength,
		"HTTP2-Settings": KindHop, "Proxy-Connection": KindHop, "Transfer-Encoding": KindTransferEncoding,
		"Hosts": KindOther, "Cookie2": KindOther, "cookif": KindOther, "content_length": KindOther, "Transfer_Encoding": KindOther, "hos": KindOther, "tf": KindOther,
	} {
		if got := kindOf([]byte(name)); got != want {
			t.Errorf("%s: kind %d, want %d", name, got, want)
		}
	}
}
