package bigpipev1

import (
	"errors"
	"testing"
)

func TestMaskBits(t *testing.T) {
	for bits := range 33 {
		if got, err := MaskBits(MaskText(bits)); got != bits || err != nil {
			t.Errorf("%s has %d bits, %v", MaskText(bits), got, err)
		}
	}
	for mask, hole := range map[string]bool{
		"255.0.255.0": true, "0.255.255.255": true, "255.255.255.1": true, "": false, "none": false, "/24": false, "24": false, "ffff::": false,
		"::ffff:255.255.255.0": false,
	} {
		if _, err := MaskBits(mask); err == nil || errors.Is(err, ErrMaskHole) != hole {
			t.Errorf("%q: %v", mask, err)
		}
	}
	if MaskText(0) != "0.0.0.0" || MaskText(23) != "255.255.254.0" || MaskText(32) != "255.255.255.255" {
		t.Errorf("%s %s %s", MaskText(0), MaskText(23), MaskText(32))
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		limit int
		want  int
	}{
		{"", "", 3, 0},
		{"pool", "pool", 0, 0},
		{"poool", "pool", 3, 1},
		{"pol", "pool", 3, 1},
		{"popl", "pool", 3, 1},
		{"opol", "pool", 3, 1},
		{"kitten", "sitting", 9, 3},
		{"größe", "grosse", 3, 3},
		{"ab", "ba", 3, 1},
		{"abcd", "badc", 3, 2},
	} {
		if got := EditDistance(tt.a, tt.b, tt.limit); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := EditDistance(tt.b, tt.a, tt.limit); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
	if got := EditDistance("web", "websomething", 3); got <= 3 {
		t.Errorf("far words: %d", got)
	}
}
