package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"bigpipe/cmd/internal/build"
	"bigpipe/grammar"
)

// The file has the size that the goals speak of and no fault.
func TestScaleConfig(t *testing.T) {
	text := scaleConfig(scaleSize)
	if n := len(text); n < 2_900_000 || n > 3_500_000 {
		t.Errorf("%d bytes: want about 3 MB", n)
	}
	statements, faults := grammar.Parse("bigip.conf", text)
	if len(faults) > 0 {
		t.Errorf("%d faults, the first: %v", len(faults), faults[0])
	}
	if len(statements) != 2*scaleSize {
		t.Errorf("%d statements, want %d", len(statements), 2*scaleSize)
	}
	if n := bytes.Count(text, []byte("   member ")); n != 4*scaleSize {
		t.Errorf("%d members, want %d", n, 4*scaleSize)
	}
}

// Addresses of virtual servers and members differ and are those that the map leads to.
func TestScaleAddresses(t *testing.T) {
	seen := map[string]bool{}
	for i := range scaleSize {
		for _, a := range append(defaultBlock.scaleMembers(i), defaultBlock.scaleVirtual(i)) {
			if seen[a.String()] || !a.Addr().IsLoopback() {
				t.Fatalf("%v is used twice or is not on loopback", a)
			}
			seen[a.String()] = true
		}
	}
	want := "10.3.0.0/16=127.78.0.0/16,10.16.0.0/16=127.79.0.0/16,10.17.0.0/16=127.80.0.0/16,10.18.0.0/16=127.81.0.0/16,10.19.0.0/16=127.82.0.0/16"
	if got := defaultBlock.scaleMap(); got != want {
		t.Errorf("map %s, want %s", got, want)
	}
	if got := defaultBlock.scaleVirtual(9999).String(); got != "127.78.39.250:8080" {
		t.Errorf("the last virtual server is at %s", got)
	}
}

// TestScaleMeasuresEverything runs the real programs on a small configuration.
func TestScaleMeasuresEverything(t *testing.T) {
	rig, _ := testRig(t, io.Discard)
	rig.options.bin, rig.options.rounds = t.TempDir(), 1
	if err := build.Programs(rig.options.bin); err != nil {
		t.Fatal(err)
	}
	rep := &report{}
	rig.measureScale(t.Context(), 30, rep)
	if len(rep.missing) > 0 {
		t.Errorf("missing: %v", rep.missing)
	}
	for _, g := range rep.panels[0].gauges {
		want := 1
		if g.name == commandTime || g.name == completionTime {
			want = scaleRepeats
		}
		if len(g.values) != want {
			t.Errorf("%s: %d values, want %d", g.name, len(g.values), want)
		}
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestScaleNamesWhatIsMissing(t *testing.T) {
	rig, _ := testRig(t, io.Discard)
	rig.options.bin = t.TempDir()
	rep := &report{}
	rig.measureScale(t.Context(), 30, rep)
	rig.descriptors = 400
	rig.measureScale(t.Context(), 30, rep)
	if len(rep.missing) != 2 || !strings.Contains(rep.missing[0].why, "make build") || !strings.Contains(rep.missing[1].why, "descriptors") {
		t.Errorf("missing %v: want the programs, then descriptors", rep.missing)
	}
}
