package cookie

import (
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestAppendValue(t *testing.T) {
	tests := []struct{ name, member, want string }{
		{"C-1_reversed_address_swapped_port", "10.1.1.100:8080", "1677787402.36895.0000"},
		{"C-1_port_80", "10.1.1.100:80", "1677787402.20480.0000"},
		{"C-1_loopback", "127.0.0.1:18001", "16777343.20806.0000"},
		{"C-1_second_of_the_O_tests", "127.0.0.2:18002", "33554559.21062.0000"},
		{"C-1_port_1433", "10.0.0.1:1433", "16777226.39173.0000"},
		{"C-1_lowest", "0.0.0.0:0", "0.0.0000"},
		{"C-1_highest", "255.255.255.255:65535", "4294967295.65535.0000"},
		{"C-1_mapped_is_IPv4", "[::ffff:10.1.1.100]:8080", "1677787402.36895.0000"},
		{"C-2_address_straight_port_swapped", "[2001:112::30]:80", "vi20010112000000000000000000000030.20480"},
		{"C-2_O-T17", "[::1]:8080", "vi00000000000000000000000000000001.36895"},
		{"C-2_zone_is_left_out", "[fe80::1%eth0]:80", "vife800000000000000000000000000001.20480"},
		{"pain_12_fixture_1", "127.0.0.11:8001", "184549503.16671.0000"},
		{"pain_12_fixture_3", "127.0.0.13:8001", "218103935.16671.0000"},
		{"pain_12_field_example", "172.16.102.101:80", "1701187756.20480.0000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendValue([]byte("="), at(tt.member))); got != "="+tt.want {
				t.Errorf("wrote %s, want =%s", got, tt.want)
			}
			if len(tt.want) > MaxValue {
				t.Errorf("%d bytes, more than MaxValue", len(tt.want))
			}
		})
	}
	if got := AppendValue(nil, netip.AddrPort{}); got != nil {
		t.Errorf("wrote %q for no address", got)
	}
}

func TestDecode(t *testing.T) {
	tests := []struct{ name, value, addr, printed string }{
		{"C-1_vector", "1677787402.36895.0000", "10.1.1.100:8080", "100.1.1.10:8080"},
		{"C-1_field_example", "1701187756.20480.0000", "172.16.102.101:80", "101.102.16.172:80"},
		{"C-1_port_443", "839518730.47873.0000", "10.10.10.50:443", "50.10.10.10:443"},
		{"C-1_port_443_again", "2064452106.47873.0000", "10.10.13.123:443", "123.13.10.10:443"},
		{"C-1_port_80", "404007104.20480.0000", "192.168.20.24:80", "24.20.168.192:80"},
		{"C-1_port_8000", "16908480.16415.0000", "192.0.2.1:8000", "1.2.0.192:8000"},
		{"C-1_port_1433", "16777226.39173.0000", "10.0.0.1:1433", "1.0.0.10:1433"},
		{"C-1_lowest", "0.0.0000", "0.0.0.0:0", ""},
		{"C-1_highest", "4294967295.65535.0000", "255.255.255.255:65535", ""},
		{"C-1_one_reading_only", "167837962.20480.0000", "10.1.1.10:80", ""},
		{"C-4_seed_002_sample_three_zeros", "184658624.20480.000", "192.170.1.11:80", "11.1.170.192:80"},
		{"C-4_pain_10_two_zeros", "201326719.16671.00", "127.0.0.12:8001", "12.0.0.127:8001"},
		{"C-4_pain_10_one_zero", "201326719.16671.0", "127.0.0.12:8001", "12.0.0.127:8001"},
		{"C-4_pain_10_no_third_field", "201326719.16671", "127.0.0.12:8001", "12.0.0.127:8001"},
		{"C-4_many_zeros", "201326719.16671." + strings.Repeat("0", 4000), "127.0.0.12:8001", "12.0.0.127:8001"},
		{"C-4_ten_digits", "0201326719.16671.0000", "127.0.0.12:8001", "12.0.0.127:8001"},
		{"O-T15_small_address", "999.80.0000", "231.3.0.0:20480", "0.0.3.231:20480"},
		{"pain_13_foreign_address", "151587082.5632.0000", "10.9.9.9:22", "9.9.9.10:22"},
		{"C-2_IPv6", "vi20010112000000000000000000000030.20480", "[2001:112::30]:80", ""},
		{"C-2_upper_case_digits", "viFE800000000000000000000000000001.20480", "[fe80::1]:80", ""},
		{"C-3_IPv4", "rd5o00000000000000000000ffffc0000201o80", "192.0.2.1:80", ""},
		{"C-3_IPv6", "rd3o20010112000000000000000000000030o80", "[2001:112::30]:80", ""},
		{"3a_quoted", `"201326719.16671.0000"`, "127.0.0.12:8001", "12.0.0.127:8001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Decode([]byte(tt.value))
			want := Value{Addr: at(tt.addr)}
			if tt.printed != "" {
				want.Printed = at(tt.printed)
			}
			if !ok || got != want {
				t.Errorf("read %v, %v, want %v", got, ok, want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ name, value string }{
		{"pain_11_empty", ""},
		{"pain_11_word", "x"},
		{"pain_11_one_field", "201326719"},
		{"pain_11_third_field_not_zero", "201326719.16671.0001"},
		{"pain_11_negative", "-1.16671.0000"},
		{"pain_11_port_too_big", "201326719.65536.0000"},
		{"pain_11_address_too_big", "4294967296.16671.0000"},
		{"pain_11_extra_byte", "201326719.16671.0000x"},
		{"pain_11_hexadecimal", "0xC00007F.16671.0000"},
		{"pain_11_blanks_inside", " 201326719 .16671.0000"},
		{"O-T15_word", "abc"},
		{"O-T15_address_too_big", "4294967296.1.0000"},
		{"O-T15_short_IPv6", "vi00.1"},
		{"C-4_eleven_digits", "00201326719.16671.0000"},
		{"C-4_six_digits_of_port", "201326719.016671.0000"},
		{"C-4_no_address", ".16671.0000"},
		{"C-4_no_port", "201326719..0000"},
		{"C-4_dot_at_the_end", "201326719.16671."},
		{"C-4_fourth_field", "201326719.16671.0000.0"},
		{"C-4_leading_blank", " 201326719.16671.0000"},
		{"C-4_plus", "+201326719.16671.0000"},
		{"C-2_third_field", "vi20010112000000000000000000000030.20480.0000"},
		{"C-2_31_digits", "vi2001011200000000000000000000003.20480"},
		{"C-2_33_digits", "vi200101120000000000000000000000300.20480"},
		{"C-2_not_a_digit", "vi2001011200000000000000000000003g.20480"},
		{"C-2_port_too_big", "vi20010112000000000000000000000030.65536"},
		{"C-2_no_port", "vi20010112000000000000000000000030"},
		{"C-2_upper_case_prefix", "VI20010112000000000000000000000030.20480"},
		{"C-3_no_domain", "rdo00000000000000000000ffffc0000201o80"},
		{"C-3_domain_too_big", "rd65536o00000000000000000000ffffc0000201o80"},
		{"C-3_no_port", "rd5o00000000000000000000ffffc0000201"},
		{"C-3_port_too_big", "rd5o00000000000000000000ffffc0000201o65536"},
		{"C-3_other_separator", "rd5o00000000000000000000ffffc0000201.80"},
		{"C-3_extra_byte", "rd5o00000000000000000000ffffc0000201o80 "},
		{"C-3_short", "rd5o"},
		{"C-9_encrypted", "!Zm9vYmFyZm9vYmFyZm9vYmFy"},
		{"3a_two_pairs_of_quotes", `""201326719.16671.0000""`},
		{"3a_one_quote", `"201326719.16671.0000`},
		{"3a_lone_quote", `"`},
		{"3a_byte_above_7f", "\xff201326719.16671.0000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := Decode([]byte(tt.value)); ok || got != (Value{}) {
				t.Errorf("read %v, %v", got, ok)
			}
		})
	}
}

// TestRoundTrip: rules C-1 and C-2, every member is read as it was written.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
		addr, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "addr"))
		member := netip.AddrPortFrom(addr.Unmap(), rapid.Uint16().Draw(t, "port"))
		text := AppendValue(nil, member)
		if v, ok := Decode(text); !ok || v.Addr != member {
			t.Fatalf("%v was written as %s and read as %v, %v", member, text, v, ok)
		}
	})
}

func TestPart(t *testing.T) {
	tests := []struct {
		name           string
		offset, length int
		want           string
		ok             bool
	}{
		{"C-11_middle", 2, 3, "cde", true},
		{"C-11_all", 0, 0, "abcdef", true},
		{"C-11_length_0_is_to_the_end", 4, 0, "ef", true},
		{"C-11_up_to_the_end", 4, 2, "ef", true},
		{"C-11_too_short_for_length", 4, 3, "", false},
		{"C-11_too_short_for_offset", 6, 0, "", false},
		{"C-11_huge", 1, math.MaxInt, "", false},
		{"negative_offset", -1, 1, "", false},
		{"negative_length", 0, -1, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := Part([]byte("abcdef"), tt.offset, tt.length); string(got) != tt.want || ok != tt.ok {
				t.Errorf("got %q, %v", got, ok)
			}
		})
	}
}

var (
	ipv4Value = regexp.MustCompile(`^(\d{1,10})\.(\d{1,5})(\.0+)?$`)
	ipv6Value = regexp.MustCompile(`^vi([0-9a-fA-F]{32})\.(\d{1,5})$`)
	domain    = regexp.MustCompile(`^rd(\d{1,5})o([0-9a-fA-F]{32})o(\d{1,5})$`)
)

// wellFormed is rule C-4 said another way.
func wellFormed(value string) bool {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	within := func(digits string, limit uint64) bool {
		n, err := strconv.ParseUint(digits, 10, 64)
		return err == nil && n <= limit
	}
	if m := ipv4Value.FindStringSubmatch(value); m != nil {
		return within(m[1], math.MaxUint32) && within(m[2], math.MaxUint16)
	}
	if m := ipv6Value.FindStringSubmatch(value); m != nil {
		return within(m[2], math.MaxUint16)
	}
	m := domain.FindStringSubmatch(value)
	return m != nil && within(m[1], math.MaxUint16) && within(m[3], math.MaxUint16)
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"1677787402.36895.0000", "184658624.20480.000", "201326719.16671", `"0.0.0000"`, "4294967296.1.0000",
		"vi20010112000000000000000000000030.20480", "rd5o00000000000000000000ffffc0000201o80", "!abc", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		v, ok := Decode(value)
		if ok != wellFormed(string(value)) {
			t.Fatalf("Decode(%q) = %v", value, ok)
		}
		if ok != v.Addr.IsValid() || v.Printed == v.Addr && ok {
			t.Fatalf("Decode(%q) = %+v, %v", value, v, ok)
		}
		if again, ok2 := Decode(AppendValue(nil, v.Addr)); ok && (!ok2 || again.Addr != v.Addr) {
			t.Fatalf("%v was read back as %v", v.Addr, again.Addr)
		}
	})
}
