package dataplane

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressMap(t *testing.T) {
	var m AddressMap
	if err := m.Add("10.1.1.1:80=127.0.0.1:8080, 10.1.1.1=127.0.0.2,10.0.0.0/8=127.0.0.0/8,10.1.0.0/20=127.9.240.0/20"); err != nil {
		t.Fatal(err)
	}
	if err := m.Read(strings.NewReader("# lab\n\n[2001:db8::1]:80=127.0.0.3:8080\n2001:db8::/32=fd00:1::/32\n0.0.0.0:80=127.0.0.5:8000\n")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ real, local string }{
		{"10.1.1.1:80", "127.0.0.1:8080"},
		{"[::ffff:10.1.1.1]:80", "127.0.0.1:8080"},
		{"10.1.1.1:81", "127.0.0.2:81"},
		{"10.2.3.4:443", "127.2.3.4:443"},
		{"10.1.15.9:1", "127.9.255.9:1"},
		{"[2001:db8::1]:80", "127.0.0.3:8080"},
		{"[2001:db8::1]:81", "[fd00:1::1]:81"},
		{"0.0.0.0:80", "127.0.0.5:8000"},
	}
	for _, tt := range tests {
		if got, err := m.Local(netip.MustParseAddrPort(tt.real)); err != nil || got.String() != tt.local {
			t.Errorf("%s is %s, %v, want %s", tt.real, got, err, tt.local)
		}
	}
	other := netip.MustParseAddrPort("192.0.2.1:80")
	if got, err := m.Local(other); err != nil || got != other {
		t.Errorf("not mapped: %s, %v", got, err)
	}
	m.Only = true
	if _, err := m.Local(other); !errors.Is(err, ErrNotMapped) {
		t.Errorf("map only: %v", err)
	}
	if m.Maps(other) || !m.Maps(netip.MustParseAddrPort("10.9.9.9:1")) {
		t.Error("Maps is wrong")
	}
	var none *AddressMap
	if got, err := none.Local(other); err != nil || got != other {
		t.Errorf("no map: %s, %v", got, err)
	}
}

func TestAddressMapFaults(t *testing.T) {
	var m AddressMap
	err := m.Add("10.1.1.1,x=y,10.0.0.0/8=127.0.0.0/16,10.1.1.1:80=127.0.0.1,10.1.1.1=x,1.1.1.1=2.2.2.2,1.1.1.1=3.3.3.3,10.0.0.0/8=y,10.0.0.0/9=fd00::/9")
	for _, want := range []string{
		"want REAL=LOCAL", `"x" is not an address, an`, "differ in length", `"127.0.0.1" is not an address with a port`,
		`"x" is not an address`, "1.1.1.1 is mapped twice", `"y" is not a network`, `"10.0.0.0/9=fd00::/9": the networks differ`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault %q in %v", want, err)
		}
	}
	if err := m.Read(strings.NewReader("# no\nbad\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("file: %v", err)
	}
}
