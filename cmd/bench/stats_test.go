package main

import (
	"slices"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{3}, spread{3, 3, 3, 1}},
		{[]float64{4, 1}, spread{2.5, 1, 4, 2}},
		{[]float64{9, 1, 5}, spread{5, 1, 9, 3}},
		{[]float64{2, 8, 4, 6}, spread{5, 2, 8, 4}},
	} {
		before := slices.Clone(c.values)
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("the order changed to %v", c.values)
		}
	}
}

func TestSpreadText(t *testing.T) {
	for want, s := range map[string]spread{
		"-":                   {},
		"1.50":                {1.5, 1.5, 1.5, 1},
		"2.00 (1.00 to 3.25)": {2, 1, 3.25, 3},
	} {
		if got := s.text(printRatio); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// The machine gets slower from round to round; the ratio stays.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	m := requestRate.name
	o := outcome{samples: map[string][]sample{
		"a": {{m: 200}, {m: 100}, nil, {m: 50}, {m: 7}},
		"b": {{m: 100}, {m: 50}, {m: 40}, {m: 25}, {m: 0}},
	}}
	if got, want := o.ratios("a", "b", requestRate), (spread{2, 2, 2, 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := o.ratios("a", "c", requestRate); got.count != 0 {
		t.Errorf("%+v against a side without rounds", got)
	}
	if got, want := o.figures("a", requestRate), (spread{75, 7, 200, 4}); got != want {
		t.Errorf("figures %+v, want %+v", got, want)
	}
}

func TestPrintRate(t *testing.T) {
	for want, v := range map[string]float64{"73.7 k": 73655, "10.0 k": 9999.6, "9999": 9999.4, "12": 12.3} {
		if got := printRate(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
