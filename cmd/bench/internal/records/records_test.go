package records

import "testing"

func TestMeasure(t *testing.T) {
	r, err := Measure(20_000, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Threads) != 2 || r.Longest <= 0 || r.Idle <= 0 || r.Bytes <= 0 {
		t.Errorf("%+v", r)
	}
	for _, x := range r.Threads {
		if x.Lookup <= 0 || x.Visit <= 0 || x.Bind <= 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestFill(t *testing.T) {
	if r := Fill(20_000); r.Wait <= 0 || r.Control <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestAttack(t *testing.T) {
	r, err := Attack(50_000, 5_000, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	if r.Wait <= 0 || r.Control <= 0 || r.Lost > 0 || r.Over > 0 || r.Bytes > 200 {
		t.Errorf("%+v", r)
	}
}
