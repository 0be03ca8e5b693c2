package token

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bigpipe/dataplane/cookie"
)

// codecs are a codec without keys and two with the same first key.
func codecs(name string) map[string]*Codec {
	return map[string]*Codec{
		"clear":     {Name: name},
		"encrypted": {Name: name, Ring: cookie.NewRing(cookie.Key{1}, cookie.Key{2})},
	}
}

func TestCodec(t *testing.T) {
	for kind, c := range codecs("N") {
		for _, addr := range []string{"10.1.1.100:8080", "[::1]:8080", "0.0.0.0:0", "[2001:112::30]:80"} {
			want := Token{Addr: netip.MustParseAddrPort(addr), Epoch: 1 << 60, Expires: 1796083200123}
			value := c.Append(nil, &want)
			if got, ok := c.Parse(value); !ok || got != want || len(value) > MaxSize {
				t.Errorf("%s %s: %q is %+v, %t", kind, addr, value, got, ok)
			}
			for _, b := range value {
				if b < '-' || b > 'z' {
					t.Errorf("%s: %q cannot stand in a cookie as it is", kind, value)
				}
			}
		}
	}
	made := Token{Addr: netip.MustParseAddrPort("10.1.1.100:8080")}
	if got := string((&Codec{}).Append(nil, &made)); got != "v1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAP__CgEBZB-QAAAAAAAAAAA" {
		t.Errorf("the value in clear is %s", got)
	}
}

// What one codec writes and who reads it.
func TestCodec_keys(t *testing.T) {
	made := Token{Addr: netip.MustParseAddrPort("10.1.1.1:80"), Expires: 5}
	first, second := cookie.Key{1}, cookie.Key{2}
	writer := Codec{Ring: cookie.NewRing(first), Name: "N"}
	value := writer.Append(nil, &made)
	for _, tt := range []struct {
		name   string
		reader Codec
		want   bool
	}{
		{"the_same", writer, true},
		{"another_dataplane", Codec{Ring: cookie.NewRing(first), Name: "N"}, true},
		{"key_is_not_the_first_any_more", Codec{Ring: cookie.NewRing(second, first), Name: "N"}, true},
		{"key_is_gone", Codec{Ring: cookie.NewRing(second), Name: "N"}, false},
		{"other_name", Codec{Ring: cookie.NewRing(first), Name: "M"}, false},
		{"no_keys", Codec{Name: "N"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := made
			want.Former = strings.Contains(tt.name, "any_more")
			if got, ok := tt.reader.Parse(value); ok != tt.want || ok && got != want {
				t.Errorf("%+v, %t", got, ok)
			}
		})
	}
	plain := Codec{Name: "N"}
	if _, ok := writer.Parse(plain.Append(nil, &made)); ok {
		t.Error("a clear token is read although there are keys")
	}
	if a, b := writer.Append(nil, &made), writer.Append(nil, &made); slices.Equal(a, b) {
		t.Error("two tokens for one member can be told to be that")
	}
}

// No byte of an encrypted token may be changed, the clear expiry among them.
func TestCodec_changed(t *testing.T) {
	c := codecs("N")["encrypted"]
	value := c.Append(nil, &Token{Addr: netip.MustParseAddrPort("10.1.1.1:80"), Expires: 1})
	for i := range value {
		changed := slices.Clone(value)
		if changed[i] = 'A'; value[i] == 'A' {
			changed[i] = 'B'
		}
		if _, ok := c.Parse(changed); ok {
			t.Errorf("byte %d may be changed", i)
		}
	}
}

func TestCodec_allocates(t *testing.T) {
	made := Token{Addr: netip.MustParseAddrPort("10.1.1.1:80")}
	for kind, c := range codecs("N") {
		var space [MaxSize]byte
		if n := testing.AllocsPerRun(100, func() { c.Parse(c.Append(space[:0], &made)) }); n >= 1 && !raceEnabled {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	made := Token{Addr: netip.MustParseAddrPort("10.1.1.1:80"), Epoch: 7, Expires: 1796083200123}
	for _, c := range codecs("N") {
		f.Add(c.Append(nil, &made))
	}
	for _, seed := range []string{"", "v1.", "v2.AAAA", "v1." + strings.Repeat("A", 51), "v1." + strings.Repeat("\n", 88)} {
		f.Add([]byte(seed))
	}
	all := codecs("N")
	f.Fuzz(func(t *testing.T, value []byte) {
		if got, ok := all["encrypted"].Parse(value); ok && got != made {
			t.Fatalf("%q says %+v, which was never made", value, got)
		}
		if got, ok := all["clear"].Parse(value); ok {
			if again := all["clear"].Append(nil, &got); string(again) != string(value) {
				t.Fatalf("%q says %+v, which is %q", value, got, again)
			}
		}
	})
}

// Rules G-3 and G-4.
func TestCookie(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cookie Cookie
		maxAge int64
		want   string
	}{
		{"nothing_more", Cookie{Name: "N"}, 0, "N=V; Path=/"},
		{"G-3_defaults", Cookie{Name: "N", HTTPOnly: true, SameSite: cookie.SameSiteStrict}, 0, "N=V; Path=/; HttpOnly; SameSite=Strict"},
		{"G-3_secure", Cookie{Name: "N", Secure: true, HTTPOnly: true, SameSite: cookie.SameSiteStrict}, 0, "N=V; Path=/; HttpOnly; SameSite=Strict; Secure"},
		{"G-3_others", Cookie{Name: "N", Path: "/app", Secure: true, SameSite: cookie.SameSiteNone}, 0, "N=V; Path=/app; SameSite=None; Secure"},
		{"G-4_permanent", Cookie{Name: "N", SameSite: cookie.SameSiteLax}, 300, "N=V; Path=/; Max-Age=300; SameSite=Lax"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.cookie.AppendLine(nil, []byte("V"), tt.maxAge)); got != "Set-Cookie: "+tt.want+"\r\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestValues(t *testing.T) {
	for line, want := range map[string]string{
		"": "[]", "a": "[a]", " a ,b,, c\t": "[a b  c]", ",": "[ ]",
	} {
		var got []string
		for v := range Values([]byte(line)) {
			got = append(got, string(v))
		}
		if text := "[" + strings.Join(got, " ") + "]"; text != want {
			t.Errorf("%q: %s, want %s", line, text, want)
		}
	}
}
