package cookie

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func lines(text ...string) [][]byte {
	all := make([][]byte, len(text))
	for i, s := range text {
		all[i] = []byte(s)
	}
	return all
}

func collect(name Name, text ...string) []string {
	var got []string
	for v := range Values(name, lines(text...)...) {
		got = append(got, string(v))
	}
	return got
}

func TestName(t *testing.T) {
	tests := []struct{ name, pool, want string }{
		{"C-5_plain", "web_pool", "BIGipServerweb_pool"},
		{"C-5_partition", "/Part/web", "BIGipServer~Part~web"},
		{"C-5_folder", "/Part/app/web", "BIGipServer~Part~app~web"},
		{"C-5_Common_is_left_out", "/Common/web", "BIGipServerweb"},
		{"C-5_no_slash_ever", "a/b", "BIGipServera~b"},
		{"appgen", "appgen_168.1.1.1.80", "BIGipServerappgen_168.1.1.1.80"},
		{"nothing_that_ends_a_name", "a;b=c d,e\r\n", "BIGipServera~b~c~d~e~~"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := PoolName(tt.pool)
			if name.String() != tt.want || !name.Is([]byte(tt.want)) {
				t.Errorf("got %q, want %q", name, tt.want)
			}
		})
	}
	if PoolName("my_pool").Is([]byte("BIGipServer my_pool")) || PoolName("p").Is(nil) {
		t.Error("a name is read in a spelling that is not its own")
	}
	passive := PassiveName("my_pool")
	if !passive.Is([]byte("BIGipServer my_pool")) || !passive.Is([]byte("BIGipServermy_pool")) ||
		passive.Is([]byte("BIGipServer  my_pool")) {
		t.Error("C-5: a passive name is read with and without one blank")
	}
	if passive.String() != "BIGipServermy_pool" {
		t.Errorf("C-5: written as %q", passive)
	}
	if !Named("JROUTE").Is([]byte("JROUTE")) || Named("JROUTE").Is([]byte("jroute")) {
		t.Error("3a: names differ in case")
	}
}

func TestValues(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  []string
	}{
		{"no_line", nil, nil},
		{"pain_1_empty_line", []string{""}, nil},
		{"pain_1_leading_semicolon", []string{";N=2"}, []string{"2"}},
		{"pain_1_semicolons_alone", []string{";;;;"}, nil},
		{"pain_1_leading_comma", []string{",N=2"}, nil},
		{"3a_trailing_semicolon", []string{"N=2; "}, []string{"2"}},
		{"3a_comma_separates_nothing", []string{"a=1,N=2", "b=1, N=2"}, nil},
		{"3a_comma_in_the_value", []string{"N=1,N=2"}, []string{"1,N=2"}},
		{"3a_blanks_around_the_equals_sign", []string{" N = 2 ;\tN\t=\t3\t"}, []string{"2", "3"}},
		{"3a_name_in_other_case", []string{"n=2"}, nil},
		{"3a_no_equals_sign", []string{"N; N2=1"}, []string{""}},
		{"3a_empty_value", []string{"N="}, []string{""}},
		{"3a_quotes_stay", []string{`N="2"`}, []string{`"2"`}},
		{"3a_semicolon_in_quotes", []string{`N="a;N=b"`}, []string{`"a`, `b"`}},
		{"3a_equals_sign_in_the_value", []string{"N==2=="}, []string{"=2=="}},
		{"3a_long_cookie_first", []string{"a=" + strings.Repeat("x", 7000) + "; N=2"}, []string{"2"}},
		{"pain_5_two_lines", []string{"a=1", "N=2"}, []string{"2"}},
		{"pain_5_line_39_of_40", append(slices.Repeat([]string{"a=1"}, 38), "N=2", "a=1"), []string{"2"}},
		{"pain_6_one_name_twice", []string{"N=garbage; N=2"}, []string{"garbage", "2"}},
		{"longer_and_shorter_names", []string{"NN=1; N=2; =3; xN=4; N =5"}, []string{"2", "5"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := collect(Named("N"), tt.lines...); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("C-5_passive_name_with_a_blank", func(t *testing.T) {
		got := collect(PassiveName("my_pool"), "BIGipServer my_pool=1; BIGipServermy_pool=2; BIGipServer my =3")
		if !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("stops_when_told", func(t *testing.T) {
		n := 0
		for range Values(Named("N"), lines("N=1; N=2", "N=3")...) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%d values", n)
		}
	})
}

// The fixture of the pains: three members, and an address that is none.
const (
	c1 = "184549503.16671.0000"
	c2 = "201326719.16671.0000"
	c3 = "218103935.16671.0000"
	cx = "1660944511.16671.0000"
	ce = "151587082.5632.0000"
)

var webPool = map[netip.AddrPort]int{
	at("127.0.0.11:8001"): 0,
	at("127.0.0.12:8001"): 1,
	at("127.0.0.13:8001"): 2,
	at("11.1.170.192:80"): 3,
}

func webMember(a netip.AddrPort) (int, uint64, bool) {
	i, ok := webPool[a]
	return i, 0, ok
}

// inClear reads clear values.
var inClear Reader

func read(text ...string) Found {
	var f Found
	for _, line := range text {
		if inClear.Read(&f, []byte(line), Named("N"), webMember) {
			break
		}
	}
	return f
}

func TestRead(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  Found
	}{
		{"absent", []string{"a=1"}, Found{}},
		{"no_line", nil, Found{}},
		{"O-4_valid", []string{"N=" + c2}, Found{Outcome: Valid, Member: 1}},
		{"O-T16_first_broken", []string{"N=garbage; N=" + c2}, Found{Outcome: Valid, Member: 1}},
		{"pain_6_unknown_then_valid", []string{"N=" + cx + "; N=" + c2}, Found{Outcome: Valid, Member: 1}},
		{"pain_6_first_valid_wins", []string{"N=" + c1 + "; N=" + c2}, Found{Outcome: Valid, Member: 0}},
		{"pain_6_over_lines", []string{"N=" + c3, "N=" + c1}, Found{Outcome: Valid, Member: 2}},
		{"pain_5_two_lines", []string{"a=1", "N=" + c2}, Found{Outcome: Valid, Member: 1}},
		{"pain_11_malformed", []string{"N=201326719.16671.0001"}, Found{Outcome: Malformed}},
		{"pain_11_blanks_inside", []string{"N= 201326719 .16671.0000"}, Found{Outcome: Malformed}},
		{"pain_11_empty", []string{"N="}, Found{Outcome: Malformed}},
		{"3a_no_equals_sign", []string{"N"}, Found{Outcome: Malformed}},
		{"3a_byte_above_7f", []string{"N=\xff." + c2}, Found{Outcome: Malformed}},
		{"C-8_unknown_address", []string{"N=" + cx}, Found{Outcome: UnknownMember}},
		{"C-8_same_address_other_port", []string{"N=201326719.16927.0000"}, Found{Outcome: UnknownMember}},
		{"pain_13_foreign_address", []string{"N=" + ce}, Found{Outcome: UnknownMember}},
		{"pain_13_lowest", []string{"N=0.0.0000"}, Found{Outcome: UnknownMember}},
		{"pain_13_highest", []string{"N=4294967295.65535.0000"}, Found{Outcome: UnknownMember}},
		{"unknown_tells_more_than_malformed", []string{"N=" + cx + "; N=x", "N=y"}, Found{Outcome: UnknownMember}},
		{"C-4_printed_order_second", []string{"N=184658624.20480.000"}, Found{Valid, 3, true, false}},
		{"C-4_printed_order_of_an_earlier_value", []string{"N=" + cx + "; N=" + c1}, Found{Outcome: Valid, Member: 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(tt.lines...); got != tt.want {
				t.Errorf("found %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("C-4_real_order_first", func(t *testing.T) {
		both := func(a netip.AddrPort) (int, uint64, bool) {
			i, ok := map[netip.AddrPort]int{at("1.2.3.4:80"): 0, at("4.3.2.1:80"): 1}[a]
			return i, 0, ok
		}
		var f Found
		inClear.Read(&f, append([]byte("N="), AppendValue(nil, at("4.3.2.1:80"))...), Named("N"), both)
		if f != (Found{Outcome: Valid, Member: 1}) {
			t.Errorf("found %+v", f)
		}
	})
}

func TestOutcome(t *testing.T) {
	for o, want := range []string{"none", "malformed", "unknown_member", "expired", "valid", "unknown"} {
		if got := Outcome(o).String(); got != want {
			t.Errorf("outcome %d is %q, want %q", o, got, want)
		}
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	name := PassiveName("web_pool")
	text := lines("a=1; BIGipServer web_pool=x", `b=2; BIGipServerweb_pool="`+c2+`"`)
	n := testing.AllocsPerRun(100, func() {
		var f Found
		for _, line := range text {
			inClear.Read(&f, line, name, webMember)
		}
		if f.Member != 1 {
			t.Error("not found")
		}
		for v := range Values(name, text...) {
			if len(v) == 0 {
				t.Error("empty value")
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzValues(f *testing.F) {
	for _, seed := range []string{"N=1", ";N=1;;N", "a=1,N=2", " N = \"x\" ; n=2", "N", "=", "N==;N\t=\t"} {
		f.Add(seed, "N")
	}
	f.Fuzz(func(t *testing.T, line, name string) {
		if name == "" {
			return
		}
		var want []string
		for _, cookie := range strings.Split(line, ";") {
			n, v, _ := strings.Cut(cookie, "=")
			if strings.Trim(n, " \t") == name {
				want = append(want, strings.Trim(v, " \t"))
			}
		}
		if got := collect(Named(name), line); !slices.Equal(got, want) {
			t.Fatalf("in %q %q has %q, want %q", line, name, got, want)
		}
		var found Found
		if inClear.Read(&found, []byte(line), Named(name), webMember) != (found.Outcome == Valid) {
			t.Fatalf("found %+v in %q", found, line)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	name := PoolName("web_pool")
	line := []byte("session=0123456789abcdef; theme=dark; BIGipServerweb_pool=" + c2 + "; lang=en")
	b.ReportAllocs()
	for b.Loop() {
		var f Found
		inClear.Read(&f, line, name, webMember)
	}
}

// TestValuesWork: pain 1: however a line is made of separators and names, a cookie is looked at once: there are as many values as
// the line, cut at semicolons, has cookies of the name, and each part comes in its place.
func TestValuesWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{";", ",", "=", "N", "N=", "N=1", " ", "\t", "a=2", `"`}), 0, 400).Draw(t, "line"), "")
		var want []string
		for cookie := range strings.SplitSeq(line, ";") {
			key, value, _ := strings.Cut(cookie, "=")
			if strings.Trim(key, " \t") == "N" {
				want = append(want, strings.Trim(value, " \t"))
			}
		}
		looked := 0
		got := collect(Named("N"), line)
		var f Found
		inClear.Read(&f, []byte(line), Named("N"), func(netip.AddrPort) (int, uint64, bool) { looked++; return 0, 0, false })
		if !slices.Equal(got, want) || looked > 2*len(want) {
			t.Fatalf("%q: %q, want %q; %d look-ups", line, got, want, looked)
		}
	})
}
