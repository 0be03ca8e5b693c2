package monitor

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"bigpipe/dataplane/pool"
)

// TestKnown: a set that is told what another one has found begins there; its own checks then decide.
func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newScripted()
		good, bad, fresh, sick := "10.1.1.1:80", "10.1.1.2:80", "10.1.1.3:80", "10.1.1.4:80"
		p.set(at(good), 20*time.Millisecond, nil)
		p.set(at(bad), 0, errRefused)
		p.set(at(fresh), time.Hour, nil)
		p.set(at(sick), 0, errRefused)
		nodes := []Node{checked(good, "tcp"), checked(bad, "tcp"), checked(fresh, "tcp"), healed(sick, false)}
		first, h := newHealedSet(t, p, nodes...)
		time.Sleep(time.Second)
		fails(t, h, sick)
		text, err := json.Marshal(first.Known())
		if err != nil {
			t.Fatal(err)
		}
		var known []Known
		if err := json.Unmarshal(text, &known); err != nil || len(known) != 3 {
			t.Fatalf("%v: %s", err, text)
		}

		for _, node := range []string{good, bad, sick} {
			p.set(at(node), 15*time.Second, nil)
		}
		h = &pool.Healths{}
		next := newTestSet(p, Options{Health: h, Known: known})
		defer next.Close()
		changed := checked(fresh, "other") // of which nothing is known
		next.Apply(append(nodes[:2:2], changed, nodes[3]))
		for range 2 {
			wantState(t, h, good, pool.Up)
			wantState(t, h, bad, pool.Down)
			wantState(t, h, fresh, pool.Checking)
			wantState(t, h, sick, pool.Down)
			time.Sleep(7 * time.Second)
		}
		if took := h.Of(at(good)).Probed(); took != 20*time.Millisecond {
			t.Errorf("answers take %s", took)
		}
		p.set(at(good), 0, errRefused)
		p.set(at(sick), 0, nil)
		p.set(at(bad), 0, nil)
		time.Sleep(40 * time.Second)
		wantState(t, h, good, pool.Down)
		wantState(t, h, bad, pool.Up)
		wantState(t, h, sick, pool.Up)

		next.Apply([]Node{{Addr: at(good)}})
		next.Apply([]Node{checked(good, "tcp")}) // what was known then is forgotten
		wantState(t, h, good, pool.Checking)
	})
}
