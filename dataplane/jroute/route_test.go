package jroute

import (
	"bytes"
	"strings"
	"testing"

	"bigpipe/dataplane/cookie"
)

// sessions lists the sessions of a target: "ID ROUTE", one a line.
func sessions(p *Parameter, target string) string {
	var list []string
	for s, ok := p.Next([]byte(target), 0); ok; s, ok = p.Next([]byte(target), s.End) {
		list = append(list, string(s.ID)+" "+string(s.Route))
	}
	return strings.Join(list, "\n")
}

func TestPath(t *testing.T) {
	tests := []struct{ name, target, want, stripped string }{
		{"J-8_end", "/app/p;jsessionid=abc:R2", "abc R2", "/app/p;jsessionid=abc"},
		{"J-8_query", "/app/p;jsessionid=abc:R2?x=1", "abc R2", "/app/p;jsessionid=abc?x=1"},
		{"J-8_parameter", "/app/p;jsessionid=abc:R2;v=1", "abc R2", "/app/p;jsessionid=abc;v=1"},
		{"J-8_segment", "/app;jsessionid=abc:R2/p", "abc R2", "/app;jsessionid=abc/p"},
		{"J-8_last_separator", "/p;jsessionid=a:b:R2", "a:b R2", "/p;jsessionid=a:b"},
		{"J-8_names_differ_in_case", "/p;JSESSIONID=abc:R2", "", ""},
		{"J-8_not_in_the_query", "/p?a=;jsessionid=abc:R2", "", ""},
		{"J-8_other_parameters", "/p;xjsessionid=a:R1;jsessionidx=b:R1;jsessionid=c:R2", "c R2", "/p;xjsessionid=a:R1;jsessionidx=b:R1;jsessionid=c"},
		{"no_route", "/p;jsessionid=abc?a:b", "abc ", ""},
		{"empty_route", "/p;jsessionid=abc:", "abc ", "/p;jsessionid=abc"},
		{"empty_session", "/p;jsessionid=:R1", " R1", "/p;jsessionid="},
		{"none", "/", "", ""},
		{"twice", "/a;jsessionid=1:R1/b;jsessionid=2:R2", "1 R1\n2 R2", "/a;jsessionid=1/b;jsessionid=2"},
	}
	p := ParameterOf("JSESSIONID")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sessions(&p, tt.target); got != tt.want {
				t.Errorf("sessions %q, want %q", got, tt.want)
			}
			out, changed := p.AppendStripped([]byte("GET "), []byte(tt.target))
			if want := "GET " + tt.stripped; string(out) != want || changed != (tt.stripped != "") {
				t.Errorf("stripped %q, %t, want %q", out, changed, want)
			}
		})
	}
	if other := ParameterOf("SessId"); other.Name() != "sessid" || sessions(&other, "/;sessid=a:b") != "a b" {
		t.Error("another name is not read")
	}
}

func TestPageOf(t *testing.T) {
	p := ParameterOf("JSESSIONID")
	for target, want := range map[string]string{
		"/ro/a.jsp;jsessionid=x:R1?q": "/ro/a.jsp", "/ro;jsessionid=x/a": "/ro;jsessionid=x/a", "/ro/a?;jsessionid=x": "/ro/a", "http://h/x?y": "/x",
		"http://h": "/", "http://h?a/b": "/", "*": "/", "/": "/",
	} {
		if got := string(p.Page([]byte(target))); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	for target, want := range map[string]string{"/a?b": "/a?b", "http://h/a?b": "/a?b", "http://h?/b": "", "*": ""} {
		if got := string(Origin([]byte(target))); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

func TestSuffix(t *testing.T) {
	for session, want := range map[string]string{"x.R1": "R1", "x.a.b": "a.b", "x": "", "x.": ""} {
		if got := string(Suffix([]byte(session), ".")); got != want {
			t.Errorf("%s: %q, want %q", session, got, want)
		}
	}
	if got := Suffix([]byte("x.R1"), ""); got != nil {
		t.Errorf("no suffix: %q", got)
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/ro/*", "/ro/", true},
		{"/ro/*", "/ro/a/b", true},
		{"/ro/*", "/ro", false},
		{"*.jsp", "/a/b.jsp", true},
		{"*.jsp", "/a.jsp.gif", false},
		{"/a?b", "/axb", true},
		{"/a?b", "/ab", false},
		{"/a*b*c", "/a1b2b3c", true},
		{"/a*b*c", "/a1b2b3", false},
		{"*", "", true},
		{"", "", true},
		{"", "/", false},
		{"/x**", "/x", true},
		{"*a*a*a*a*a*a*a*a*b", strings.Repeat("a", 4096), false},
	} {
		if got := Match(tt.pattern, []byte(tt.path)); got != tt.want {
			t.Errorf("%s of %.20s: %t", tt.pattern, tt.path, got)
		}
	}
}

func TestContexts(t *testing.T) {
	c := NewContexts([]string{"/app", "/app/admin/", "/b"})
	for path, want := range map[string]string{
		"/app": "/app", "/app/": "/app", "/app/x": "/app", "/apple": "", "/app/admin": "/app/admin", "/app/admin/x": "/app/admin", "/app/administer": "/app",
		"/app;jsessionid=x": "/app", "/b/app": "/b", "/": "", "": "",
	} {
		if got, ok := c.Of([]byte(path)); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", path, got, ok, want)
		}
	}
	for _, c := range []Contexts{NewContexts(nil), NewContexts([]string{"/"})} {
		if got, ok := c.Of([]byte("/any/thing")); got != "/" || !ok {
			t.Errorf("%q, %t", got, ok)
		}
	}
	if got, _ := NewContexts([]string{"/", "/app"}).Of([]byte("/app/x")); got != "/app" {
		t.Errorf("the longest does not win: %q", got)
	}
}

func TestSameAttributes(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"; Path=/app; HttpOnly", ";path = /app ;httponly;", true},
		{"", " ; ;", true},
		{"; Path=/app", "; Path=/APP", false},
		{"; Path=/app", "; Path=/app; Secure", false},
		{"; Path=/app; Secure", "; Path=/app", false},
	} {
		if got := SameAttributes([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("%q, %q: %t", tt.a, tt.b, got)
		}
	}
}

// cutTo cuts what stands before the last dot of a value.
func cutTo(value []byte) int { return bytes.LastIndexByte(value, Link) + 1 }

func TestUnlinked(t *testing.T) {
	for line, want := range map[string]string{
		"a=1; R=x.y;  b=2": "a=1; R=y;  b=2", "R=x.y": "R=y", "R = x.y ;R=z": "R = y ;R=z", "R=a.b; R=c.d.e": "R=b; R=e", "a=x.y; R=z": "", "": "",
	} {
		if got, changed := AppendUnlinked([]byte("<"), []byte(line), cookie.Named("R"), cutTo); string(got) != "<"+want || changed != (want != "") {
			t.Errorf("%q: %q, %t", line, got, changed)
		}
	}
}

// FuzzRoute: what is stripped has no route any more and keeps the session, and nothing but routes is left out.
func FuzzRoute(f *testing.F) {
	for _, target := range []string{"/app/p;jsessionid=abc:R2?x=1", "/;jsessionid=:;jsessionid=a:b:c/;jsessionid=", "http://h:80/;jsessionid=a:R", "/?;jsessionid=a:b"} {
		f.Add([]byte(target))
	}
	p := ParameterOf("JSESSIONID")
	f.Fuzz(func(t *testing.T, target []byte) {
		out, changed := p.AppendStripped(nil, target)
		lost := 0
		for s, ok := p.Next(target, 0); ok; s, ok = p.Next(target, s.End) {
			if s.Mark >= s.Start || s.Start > s.End || s.End > len(target) || bytes.ContainsAny(s.Route, ":;/?") {
				t.Fatalf("%q: %+v", target, s)
			}
			lost += s.End - s.Start
		}
		if changed != (lost > 0) || changed && len(out) != len(target)-lost {
			t.Fatalf("%q became %q, without %d", target, out, lost)
		}
		_, _ = NewContexts([]string{"/app"}).Of(p.Page(target))
	})
}

// FuzzUnlinked: only what is said is cut, and no other byte changes.
func FuzzUnlinked(f *testing.F) {
	f.Add([]byte("a=1; R=x.y;R=z.;\tR\t=\t..;"), []byte("R"))
	f.Fuzz(func(t *testing.T, line, name []byte) {
		n := cookie.Named(string(name))
		lost := 0
		for value := range cookie.Values(n, line) {
			lost += cutTo(value)
		}
		out, changed := AppendUnlinked(nil, line, n, cutTo)
		if changed != (lost > 0) || changed && len(out) != len(line)-lost {
			t.Fatalf("%q became %q, without %d", line, out, lost)
		}
		for value := range cookie.Values(n, out) {
			if changed && cutTo(value) != 0 {
				t.Fatalf("%q became %q", line, out)
			}
		}
		SameAttributes(line, name)
		Accompanied(line, n, name)
	})
}
