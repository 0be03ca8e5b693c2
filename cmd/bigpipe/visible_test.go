package main

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"pool web {\n\tmember 10.1.1.1:80\n}\n": "pool web {\n\tmember 10.1.1.1:80\n}\n",
		"# \x1b]0;title\x07 \x1b[2J":            "# \ufffd]0;title\ufffd \ufffd[2J",
		"a\rb\bc\x7f":                           "a\ufffdb\ufffdc\ufffd",
		"\u009b31m \u202e":                      "\ufffd31m \ufffd",
		"\x9b31m":                               "\ufffd31m",
		"grün 文 \xe6":                           "grün 文 \ufffd",
	} {
		for size := 1; size <= len(text); size++ {
			var out bytes.Buffer
			v := &visible{to: &out}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := v.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
					t.Fatal(n, err)
				}
			}
			if err := v.flush(); err != nil || out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, out.String(), want)
			}
		}
	}
}

// TestVisible_any: text without control characters passes untouched, and no escape of any text does.
func TestVisible_any(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		var out bytes.Buffer
		v := &visible{to: &out}
		for _, part := range [][]byte{text[:cut], text[cut:]} {
			if _, err := v.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.flush(); err != nil || strings.ContainsAny(out.String(), "\x1b\x07\u009b\r") {
			t.Fatalf("%q, %v", out.String(), err)
		}
		if want := bytes.Map(seen, text); out.String() != string(want) {
			t.Fatalf("%q, want %q", out.String(), want)
		}
	})
}
