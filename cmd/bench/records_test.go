package main

import (
	"io"
	"os/exec"
	"testing"
)

// TestRecordsMeasuresEverything measures small tables, and HAProxy's if it is there.
func TestRecordsMeasuresEverything(t *testing.T) {
	rig, _ := testRig(t, io.Discard)
	rig.options.rounds = 1
	small := recordsSizes{tables: []int{1_000, 20_000}, threads: []int{1, 2}, fill: 20_000, peer: 1_000, attack: attackSize{20_000, 2_000, 200}}
	rep := &report{}
	rig.measureRecords(t.Context(), small, rep)
	_, err := exec.LookPath("haproxy")
	if missing := len(rep.missing); err == nil && missing > 0 || missing > 1 {
		t.Errorf("missing: %v", rep.missing)
	}
	for _, g := range rep.panels[0].gauges {
		if len(g.values) != 1 && (g.name != peerBytes || err == nil) {
			t.Errorf("%s: %d values", g.name, len(g.values))
		}
		if (g.name == attackLost || g.name == attackOver) && g.values[0] != 0 {
			t.Errorf("%s: %v", g.name, g.values)
		}
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}
