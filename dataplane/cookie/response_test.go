package cookie

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)

func TestTemplate(t *testing.T) {
	web := PoolName("web_pool")
	east := time.FixedZone("east", 9*3600)
	tests := []struct {
		name     string
		template Template
		now      time.Time
		want     string
	}{
		{"C-6_fixture_1", Template{Name: web, Lifetime: time.Hour}, t0, "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"},
		{
			"C-6_seed_002",
			Template{Name: web, Lifetime: 10 * 24 * time.Hour},
			time.Date(2000, 8, 9, 19, 35, 45, 999e6, time.UTC), "; expires=Sat, 19-Aug-2000 19:35:45 GMT; path=/",
		},
		{"C-6_days_of_one_digit_and_leap_year", Template{Name: web, Lifetime: time.Second}, time.Date(2028, 2, 29, 23, 59, 59, 0, time.UTC), "; expires=Wed, 01-Mar-2028 00:00:00 GMT; path=/"},
		{"C-6_clock_in_another_zone", Template{Name: web, Lifetime: time.Hour}, t0.In(east), "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"},
		{"C-6_pain_23_zero_is_a_session_cookie", Template{Name: web}, t0, "; path=/"},
		{"pain_18_domain", Template{Name: web, Domain: ".example.com"}, t0, "; path=/; domain=.example.com"},
		{"pain_8_path", Template{Name: web, Path: "/app"}, t0, "; path=/app"},
		{
			"pain_17_all",
			Template{Name: web, Secure: true, HTTPOnly: true, SameSite: SameSiteLax},
			t0,
			"; path=/; Secure; HttpOnly; SameSite=Lax",
		},
		{"pain_17_strict", Template{Name: web, SameSite: SameSiteStrict}, t0, "; path=/; SameSite=Strict"},
		{"pain_17_none", Template{Name: web, Secure: true, SameSite: SameSiteNone}, t0, "; path=/; Secure; SameSite=None"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := "Set-Cookie: BIGipServerweb_pool=" + c1 + tt.want + "\r\n"
			if got := string(tt.template.AppendLine(nil, []byte(c1), tt.now)); got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
		})
	}
	t.Run("cookie_name", func(t *testing.T) {
		template := Template{Name: Named("NODE")}
		if got := string(template.AppendField([]byte("x"), []byte("v"), t0)); got != "xNODE=v; path=/" {
			t.Errorf("wrote %q", got)
		}
	})
	t.Run("C-5_passive_name_is_written_without_the_blank", func(t *testing.T) {
		template := Template{Name: PassiveName("p")}
		if got := string(template.AppendField(nil, []byte("v"), t0)); got != "BIGipServerp=v; path=/" {
			t.Errorf("wrote %q", got)
		}
	})
}

func TestParseSetCookie(t *testing.T) {
	tests := []struct{ name, line, cookie, value, attributes string }{
		{"plain", "Set-Cookie: N=zz", "N", "zz", ""},
		{"attributes", "Set-Cookie: N=zz; path=/; Secure", "N", "zz", "; path=/; Secure"},
		{"with_its_CRLF", "set-cookie:N=zz ;x\r\n", "N", "zz", " ;x\r\n"},
		{"CRLF_after_the_value", "SET-COOKIE: N=zz\r\n", "N", "zz", "\r\n"},
		{"blanks", "Set-Cookie: \t N \t= zz \t; a", "N", "zz", " \t; a"},
		{"quotes_stay", `Set-Cookie: N="zz"`, "N", `"zz"`, ""},
		{"empty_value", "Set-Cookie: N=", "N", "", ""},
		{"empty_value_and_attributes", "Set-Cookie: N= ;a=b", "N", "", ";a=b"},
		{"comma_separates_nothing", "Set-Cookie: a=1, N=zz", "a", "1, N=zz", ""},
		{"equals_sign_in_the_value", "Set-Cookie: N=a=b", "N", "a=b", ""},
		{"C-5_name_with_a_blank", "Set-Cookie: BIGipServer p=1.2.000; path=/", "BIGipServer p", "1.2.000", "; path=/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := ParseSetCookieLine([]byte(tt.line))
			if !ok {
				t.Fatal("not recognised")
			}
			if string(c.Name()) != tt.cookie || string(c.Value()) != tt.value || string(c.Attributes()) != tt.attributes {
				t.Errorf("name %q, value %q, attributes %q", c.Name(), c.Value(), c.Attributes())
			}
			field := tt.line[len("Set-Cookie:"):]
			if f, ok := ParseSetCookie([]byte(strings.TrimRight(field, "\r\n"))); !ok || string(f.Name()) != tt.cookie || string(f.Value()) != tt.value {
				t.Errorf("as a field: name %q, value %q, %v", f.Name(), f.Value(), ok)
			}
		})
	}
	for _, line := range []string{
		"Set-Cookie2: N=zz", "Cookie: N=zz", "Set-Cookie : N=zz", "X-Set-Cookie: N=zz", "Set-Cookie", "Set-Cookie:", "",
		"Set-Cookie: N", "Set-Cookie: =zz", "Set-Cookie:  = zz", "Set-Cookie: N; a=b", "Set-Cookie: ;N=zz",
	} {
		t.Run("pain_2_not_a_cookie/"+line, func(t *testing.T) {
			if c, ok := ParseSetCookieLine([]byte(line)); ok {
				t.Errorf("read as %q", c.Name())
			}
		})
	}
}

// TestDropOwnLine: insert mode drops the server's cookie of our name, and nothing else.
func TestDropOwnLine(t *testing.T) {
	name := PoolName("web_pool")
	in := []string{
		"Set-Cookie2: BIGipServerweb_pool=1\r\n", "Set-Cookie: a=1\r\n", "Set-Cookie: BIGipServerweb_pool=zz\r\n",
		"Cookie: BIGipServerweb_pool=1\r\n", "Set-Cookie: bigipserverweb_pool=1\r\n", "Set-Cookie: BIGipServerweb_pool2=1\r\n",
		"Set-Cookie: b=BIGipServerweb_pool=1\r\n", "set-cookie:BIGipServerweb_pool = 2; path=/\r\n",
	}
	want := slices.Delete(slices.Clone(in), 2, 3)
	want = want[:len(want)-1]
	var got []string
	for _, line := range in {
		if c, ok := ParseSetCookieLine([]byte(line)); !ok || !name.Is(c.Name()) {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func TestAppendRewritten(t *testing.T) {
	web := PoolName("web_pool")
	ours := "BIGipServerweb_pool=" + c1
	hour := Template{Name: web, Lifetime: time.Hour}
	all := Template{Name: web, Domain: "d", Secure: true, HTTPOnly: true, SameSite: SameSiteLax}
	tests := []struct {
		name, rest string // what follows the value
		template   Template
		want       string
	}{
		{"C-10_no_attributes", "", Template{Name: web}, ours + "; path=/"},
		{"C-10_path_is_ours", "; Path=/app", Template{Name: web}, ours + "; path=/"},
		{"C-10_expires_of_the_server_stays", "; expires=x; max-age=3", Template{Name: web}, ours + "; path=/; expires=x; max-age=3"},
		{"C-10_expires_is_ours", "; EXPIRES=x; Max-Age = 3", hour, ours + "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"},
		{"C-10_bytes_of_others_stay", " ;\t X = \"y\" ; HttpOnly;;Z\xff", hour, ours + "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/;\t X = \"y\" ; HttpOnly;Z\xff"},
		{"C-10_all_are_ours", "; Domain=e; secure; httponly=1; SameSite=None; Other", all, ours + "; path=/; domain=d; Secure; HttpOnly; SameSite=Lax; Other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			field := []byte("BIGipCookie=" + strings.Repeat("0", 120) + tt.rest)
			c, ok := ParseSetCookie(field)
			if !ok || c.Blank() != 120 {
				t.Fatal("not recognised")
			}
			before := string(field)
			if got := string(tt.template.AppendRewritten([]byte("x"), &c, []byte(c1), t0)); got != "x"+tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if string(field) != before {
				t.Error("the server's field was changed")
			}
		})
	}
}

func TestBlank(t *testing.T) {
	for _, n := range []int{0, 1, 74, 75, 76, 119, 120, 121, 4000} {
		want := 0
		if n == 75 || n == 120 {
			want = n
		}
		c, ok := ParseSetCookie([]byte("BIGipCookie=" + strings.Repeat("0", n)))
		if got := c.Blank(); !ok || got != want {
			t.Errorf("C-10: %d zeros are taken for %d", n, got)
		}
	}
	zeros := strings.Repeat("0", 119)
	for _, field := range []string{"BIGipCookie=" + zeros + "1", "bigipcookie=0" + zeros, "a=0" + zeros, "BIGipCookie=abc"} {
		if c, ok := ParseSetCookie([]byte(field)); !ok || c.Blank() != 0 {
			t.Errorf("C-10: %s is taken for a blank cookie", field)
		}
	}
}

func TestWriteDoesNotAllocate(t *testing.T) {
	template := Template{Name: PoolName("web_pool"), Lifetime: time.Hour, Domain: ".example.com", Secure: true}
	line := []byte("Set-Cookie: BIGipCookie=" + strings.Repeat("0", 120) + "; path=/\r\n")
	member := at("127.0.0.11:8001")
	buf := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() {
		var value [MaxValue]byte
		v := AppendValue(value[:0], member)
		out := template.AppendLine(buf, v, t0)
		c, ok := ParseSetCookieLine(line)
		if !ok || c.Blank() != 120 {
			t.Error("not recognised")
		}
		buf = template.AppendRewritten(out, &c, v, t0)[:0]
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzSetCookie(f *testing.F) {
	for _, seed := range []string{
		"Set-Cookie: N=zz; path=/\r\n", "set-cookie:a", "Set-Cookie2: a=1", "Set-Cookie: =", "Set-Cookie: a = ;\r\n", "SET-COOKIE:a=\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, ok := ParseSetCookieLine(line)
		if !ok {
			return
		}
		if len(c.Name()) == 0 || bytes.ContainsAny(c.Name(), "=;") || bytes.IndexByte(c.Value(), ';') >= 0 {
			t.Fatalf("name %q and value %q in %q", c.Name(), c.Value(), line)
		}
		// The parts are where they are said to be; between them are blanks and "=" alone.
		rest, found := bytes.CutPrefix(bytes.TrimLeft(line[len("Set-Cookie:"):], " \t"), c.Name())
		rest, equals := bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte{'='})
		value, ends := bytes.CutSuffix(bytes.TrimLeft(rest, " \t"), c.Attributes())
		if !found || !equals || !ends || !bytes.Equal(value, c.Value()) && len(c.Value()) > 0 {
			t.Fatalf("name %q, value %q and attributes %q in %q", c.Name(), c.Value(), c.Attributes(), line)
		}
	})
}

// FuzzAppendRewritten: our cookie with our attributes, then the server's others, byte for byte and in their order.
func FuzzAppendRewritten(f *testing.F) {
	zeros := strings.Repeat("0", 120)
	for _, seed := range []string{"; Path=/app;  HttpOnly;Expires=x ", "", ";;;", " ;a=b;=c; = ;\tSECURE = 1", ";domain", ";max-age=1;maxage=1", ";\u017fecure;maX-age"} {
		for bits := range byte(4) {
			f.Add("BIGipCookie="+zeros+seed, bits*0x15)
		}
	}
	f.Add("a=b", byte(0))
	f.Fuzz(func(t *testing.T, field string, bits byte) {
		c, ok := ParseSetCookie([]byte(field))
		if !ok {
			return
		}
		template := Template{Name: Named("N"), Path: "/x", Secure: bits&2 != 0, HTTPOnly: bits&4 != 0}
		want, ours := "N="+c1, map[string]bool{"path": true, "secure": template.Secure, "httponly": template.HTTPOnly}
		if bits&1 != 0 {
			template.Lifetime = time.Hour
			want += "; expires=Mon, 30-Nov-2026 19:00:00 GMT"
			ours["expires"], ours["max-age"] = true, true
		}
		want += "; path=/x"
		if bits&8 != 0 {
			template.Domain = "d"
			want += "; domain=d"
			ours["domain"] = true
		}
		if template.Secure {
			want += "; Secure"
		}
		if template.HTTPOnly {
			want += "; HttpOnly"
		}
		if bits&16 != 0 {
			template.SameSite = SameSiteStrict
			want += "; SameSite=Strict"
			ours["samesite"] = true
		}
		before, _, _ := strings.Cut(field, string(c.Name()))
		for _, attribute := range strings.Split(field, ";")[1:] {
			name, _, _ := strings.Cut(attribute, "=")
			if name = strings.Trim(name, " \t"); name != "" && !ours[lower(name)] {
				want += ";" + attribute
			}
		}
		if got := string(template.AppendRewritten(nil, &c, []byte(c1), t0)); got != before+want {
			t.Fatalf("%q became %q, want %q", field, got, before+want)
		}
	})
}

// lower is the name in small ASCII letters; other letters have no case here.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}

func BenchmarkAppendLine(b *testing.B) {
	template := Template{Name: PoolName("web_pool"), Lifetime: time.Hour}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = template.AppendLine(buf[:0], []byte(c1), t0)
	}
}
