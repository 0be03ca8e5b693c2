package balance

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// picks counts how often each member is chosen. Where connections are held, they stay open.
func picks(t *testing.T, p Picker, n int, gauges []*gauge) []int {
	t.Helper()
	counts := make([]int, len(gauges))
	for range n {
		i, ok := p.Pick(Ask{})
		if !ok {
			t.Fatal("nobody is chosen")
		}
		counts[i]++
		gauges[i].open++
	}
	return counts
}

// TestSlowStart: a member that counts with a part of its weight gets that part of its share, in every mode with weights.
func TestSlowStart(t *testing.T) {
	for _, mode := range allModes {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				members, gauges := metered(1, 1, 1)
				warmth := uint32(25)
				members[2].Live = &Live{Warmth: func() uint32 { return warmth }}
				for _, g := range gauges {
					g.took = time.Millisecond
				}
				p := New(mode, members, nil)
				if mode.Keyed() {
					q := New(mode, slices.Clone(members[:3:3]), nil)
					for i := range 100 {
						a, _ := p.Pick(Ask{Key: client(i)})
						warmth = 100
						b, _ := q.Pick(Ask{Key: client(i)})
						if warmth = 1; a != b {
							t.Fatalf("client %d reaches %d, and %d once it is warm", i, a, b)
						}
					}
					return
				}
				got := picks(t, p, 900, gauges)
				// Of 9 turns a quarter of 4, 4 and 4: 4, 4 and 1. Fastest counts the connection to come, too.
				want, off := []int{400, 400, 100}, 1
				if mode == Fastest || mode == FastestAppResp {
					off = 4
				}
				for i := range want {
					if got[i] < want[i]-off || got[i] > want[i]+off {
						t.Fatalf("shares %v, want %v", got, want)
					}
				}
				for _, g := range gauges {
					g.open = 0
				}
				warmth = 100
				time.Sleep(10 * time.Second)
				got = picks(t, p, 900, gauges)
				for i := range got {
					if got[i] < 297 || got[i] > 303 {
						t.Fatalf("shares %v once it is warm, want 300 each", got)
					}
				}
			})
		})
	}
}

// TestSlowStartAfterDown: a member that becomes usable counts with its part from its first turn on, whatever was known of it.
func TestSlowStartAfterDown(t *testing.T) {
	for _, mode := range []Mode{RoundRobin, RatioMember, LeastConnMember} {
		synctest.Test(t, func(t *testing.T) {
			members, gauges := metered(1, 1, 1)
			warmth, down := uint32(100), true
			members[2].Live = &Live{Warmth: func() uint32 { return warmth }}
			p := New(mode, members, nil)
			ask := Ask{Usable: func(i int) bool { return i != 2 || !down }}
			for range 100 {
				i, _ := p.Pick(ask)
				gauges[i].open++
			}
			down, warmth = false, 10
			counts := [3]int{}
			for range 42 {
				i, _ := p.Pick(ask)
				counts[i]++
				gauges[i].open++
			}
			// A tenth of one share in 2.1 of 42 turns is 2; of 142 connections in least_conn, 6.8.
			want := 2
			if mode == LeastConnMember {
				want = 6
			}
			if n := counts[2]; n < want-1 || n > want+1 {
				t.Errorf("%v: %d of 42 connections, want %d", mode, n, want)
			}
		})
	}
}

// TestLiveWeights: a weight from outside counts where ratios do, and not elsewhere.
func TestLiveWeights(t *testing.T) {
	for mode, want := range map[Mode][]int{DynamicRatio: {100, 300, 500}, RatioMember: {100, 300, 500}, RoundRobin: {300, 300, 300}} {
		synctest.Test(t, func(t *testing.T) {
			members, gauges := metered(1, 1, 1)
			weights := []uint32{1, 1, 1}
			for i := range members {
				members[i].Live = &Live{Weight: func() uint32 { return weights[i] }}
			}
			p := New(mode, members, nil)
			if got := picks(t, p, 300, gauges); !slices.Equal(got, []int{100, 100, 100}) {
				t.Errorf("%v: shares %v of equal weights", mode, got)
			}
			weights = []uint32{1, 3, 5}
			time.Sleep(following)
			picks(t, p, 9, gauges)
			if got := picks(t, p, 900, gauges); !slices.Equal(got, want) {
				t.Errorf("%v: shares %v, want %v", mode, got, want)
			}
		})
	}
}

// TestReplies: rule M-6: who replies in half the time has twice the weight, which multiplies into that of the pool's mode.
func TestReplies(t *testing.T) {
	for mode, want := range map[Mode][]int{
		RoundRobin: {200, 200, 100}, RatioMember: {200, 600, 100}, Ratio: {200, 600, 100},
		LeastConnMember: {200, 600, 100}, LeastConn: {200, 600, 100}, Priority: {200, 200, 100},
	} {
		t.Run(fmt.Sprintf("M-6_%v", mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				members, gauges := metered(1, 3, 1)
				for i, took := range []time.Duration{10 * time.Millisecond, 0, 20 * time.Millisecond} { // 0: as the quickest
					members[i].Live = &Live{Replies: func() time.Duration { return took }}
				}
				n := want[0] + want[1] + want[2]
				got := picks(t, New(mode, members, nil), n, gauges)
				for i := range want {
					if got[i] < want[i]-1 || got[i] > want[i]+1 {
						t.Fatalf("shares %v, want %v", got, want)
					}
				}
			})
		})
	}
}
