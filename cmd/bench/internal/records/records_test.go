package records

import "testing"

func TestMeasure(t *testing.T) {
	r, err := Measure(20_000, 2)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lookup <= 0 || r.Visit <= 0 || r.Bind <= 0 || r.Pause <= 0 || r.Noise <= 0 || r.Bytes <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestAttack(t *testing.T) {
	r, err := Attack(50_000, 5_000, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost > 0 || r.Over > 0 || r.Bytes > 200 {
		t.Errorf("%+v", r)
	}
}
