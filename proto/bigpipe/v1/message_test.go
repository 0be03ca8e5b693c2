package bigpipev1

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMessage(t *testing.T) {
	if got := Message("unknown %s %q", "word", "blue"); got != `unknown word "blue"` {
		t.Errorf("a short message became %q", got)
	}
	for _, word := range []string{strings.Repeat("x", 5<<20), strings.Repeat("é", 1<<20), "a" + strings.Repeat("é", 1<<20)} {
		got := Message("member: %s is no address", word)
		switch {
		case len(got) > longestMessage+len(" ... "):
			t.Errorf("%d bytes are left of a message of %d", len(got), len(word))
		case !strings.HasPrefix(got, "member: "+word[:100]), !strings.HasSuffix(got, " is no address"):
			t.Errorf("%.40q ... %q lacks the beginning or the end", got, got[len(got)-40:])
		case !utf8.ValidString(got):
			t.Error("a character is cut through")
		}
	}
}
