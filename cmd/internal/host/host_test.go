package host

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	if got, err := Address(t.Context(), "127.0.0.1"); err != nil || got != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestChoose(t *testing.T) {
	for list, want := range map[string]string{
		"::1 127.0.0.1":        "127.0.0.1",
		"::1 ::ffff:127.0.0.2": "127.0.0.2",
		"2001:db8::1 ::1":      "2001:db8::1",
		"":                     "invalid IP",
	} {
		var addrs []netip.Addr
		for _, word := range strings.Fields(list) {
			addrs = append(addrs, netip.MustParseAddr(word))
		}
		got, err := choose("h", addrs)
		if got.String() != want || (err == nil) != got.IsValid() {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
}
