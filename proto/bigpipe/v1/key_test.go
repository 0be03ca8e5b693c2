package bigpipev1

import (
	"strings"
	"testing"
)

// The key of a kept statement fits a store however long the statement is, and two statements have two keys.
func TestKey_kept(t *testing.T) {
	key := func(text string) string {
		return (&Object{Kind: &Object_Kept{Kept: &Kept{Text: text}}}).Key()
	}
	if got := key("b  x\n y"); got != "kept/b x y" {
		t.Errorf("the key of a short statement is %q", got)
	}
	long := strings.Repeat("é", 1<<20)
	one, two := key("interface "+long+" a"), key("interface "+long+" b")
	for _, k := range []string{one, two} {
		if len(k) > longestKept || !strings.HasPrefix(k, "kept/interface é") || strings.ToValidUTF8(k, "") != k {
			t.Errorf("a key of %d bytes: %.40q", len(k), k)
		}
	}
	if one == two || key("interface  "+long+"\na") != one {
		t.Error("other statements must have other keys, other blanks must not")
	}
}
