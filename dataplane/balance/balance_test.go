package balance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// pool makes members a, b, c, ... of the given weights; their addresses differ.
func pool(weights ...uint32) []Member {
	members := make([]Member, len(weights))
	for i, w := range weights {
		members[i] = Member{Name: name(i), Weight: w}
	}
	return members
}

func name(i int) string { return fmt.Sprint("m", i) }

// named makes members whose addresses follow their letters, so that they can be recognised in another order.
func named(letters string, weights ...uint32) []Member {
	members := make([]Member, len(letters))
	for i := range letters {
		members[i] = Member{Name: name(int(letters[i] - 'a'))}
		if len(weights) > 0 {
			members[i].Weight = weights[i]
		}
	}
	return members
}

func except(down ...int) func(int) bool {
	return func(i int) bool { return !slices.Contains(down, i) }
}

// take picks n times and spells the members as letters, "-" for none.
func take(p Picker, n int, ask Ask) string {
	var b strings.Builder
	for range n {
		i, ok := p.Pick(ask)
		switch {
		case ok:
			b.WriteByte(byte('a' + i))
		case i == -1:
			b.WriteByte('-')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("picked %s, want %s", got, want)
	}
}

func TestMode(t *testing.T) {
	t.Run("M-1_round_robin_is_the_default", func(t *testing.T) {
		var zero Mode
		check(t, zero.String(), "round_robin")
	})
	for _, m := range []Mode{RoundRobin, Ratio, RatioMember} {
		if back, err := ParseMode(m.String()); err != nil || back != m {
			t.Errorf("ParseMode(%q) = %v, %v", m, back, err)
		}
	}
	if _, err := ParseMode("roundabout"); err == nil {
		t.Error("an unknown word was accepted")
	}
	check(t, Mode(200).String(), "mode(200)")
}

func TestRoundRobin(t *testing.T) {
	t.Run("M-2_first_configured_first_each_in_turn", func(t *testing.T) {
		check(t, take(New(RoundRobin, pool(1, 1, 1), nil), 7, Ask{}), "abcabca")
	})
	t.Run("weights_are_ignored", func(t *testing.T) {
		check(t, take(New(RoundRobin, pool(5, 1), nil), 6, Ask{}), "ababab")
	})
	t.Run("unusable_members_share_is_divided_evenly", func(t *testing.T) {
		p := New(RoundRobin, pool(1, 1, 1, 1), nil)
		check(t, take(p, 6, Ask{Usable: except(1)}), "acdacd")
		check(t, take(p, 5, Ask{}), "abcda")
	})
	t.Run("tried_members_are_passed_over", func(t *testing.T) {
		p := New(RoundRobin, pool(1, 1, 1), nil)
		var tried Set
		tried.Add(0)
		check(t, take(p, 3, Ask{Tried: tried}), "bcb")
		check(t, take(p, 1, Ask{Usable: except(1, 2), Tried: tried}), "-")
	})
}

func TestRatio(t *testing.T) {
	tests := []struct {
		name    string
		weights []uint32
		want    string
	}{
		{"M-2_weights_1_3_5_exact_over_9", []uint32{1, 3, 5}, "cbcabccbccbcabccbc"},
		{"M-2_weights_5_1_1_do_not_form_blocks", []uint32{5, 1, 1}, "abaaacaabaaaca"},
		{"M-2_equal_weights_alternate", []uint32{7, 7, 7}, "abcabcabc"},
		{"4.2_a_weight_that_was_not_given_is_1", []uint32{0, 0, 2}, "acbcacbc"},
		{"J-3_weights_100_and_400_are_20_and_80_percent", []uint32{100, 400}, strings.Repeat("bbabb", 100)},
		{"one_member", []uint32{3}, "aaaa"},
	}
	for _, mode := range []Mode{Ratio, RatioMember} {
		for _, tt := range tests {
			t.Run(mode.String()+"/"+tt.name, func(t *testing.T) {
				check(t, take(New(mode, pool(tt.weights...), nil), len(tt.want), Ask{}), tt.want)
			})
		}
	}
}

func TestRatioUnusable(t *testing.T) {
	p := New(RatioMember, pool(1, 3, 5), nil)
	windowsExact(t, take(p, 30, Ask{Usable: except(1)}), map[byte]int{'a': 1, 'c': 5})
	windowsExact(t, take(p, 40, Ask{}), map[byte]int{'a': 1, 'b': 3, 'c': 5})
	windowsExact(t, take(p, 20, Ask{Usable: except(2)}), map[byte]int{'a': 1, 'b': 3})
	check(t, take(p, 3, Ask{Usable: except(1, 2)}), "aaa")
	windowsExact(t, take(p, 40, Ask{}), map[byte]int{'a': 1, 'b': 3, 'c': 5})
}

// windowsExact checks that every run of picks as long as one cycle holds each member as often as its weight says.
func windowsExact(t interface {
	Helper()
	Fatalf(string, ...any)
}, got string, want map[byte]int,
) {
	t.Helper()
	cycle := 0
	for _, n := range want {
		cycle += n
	}
	for start := 0; start+cycle <= len(got); start++ {
		window := got[start : start+cycle]
		for member, n := range want {
			if strings.Count(window, string(member)) != n {
				t.Fatalf("%q at %d of %q: member %c not %d times", window, start, got, member, n)
			}
		}
	}
}

func TestRatioHugeWeights(t *testing.T) {
	const top = 1<<32 - 1
	p := New(Ratio, pool(top, 1, top), nil)
	got := take(p, 2000, Ask{})
	if a, c := strings.Count(got, "a"), strings.Count(got, "c"); a < 999 || c < 999 {
		t.Errorf("a %d and c %d times, want half each", a, c)
	}
	// The lone small member passes through cycle after cycle; the big ones then return without a burst.
	check(t, take(p, 5*era, Ask{Usable: except(0, 2)}), strings.Repeat("b", 5*era))
	got = take(p, 2000, Ask{})
	if a, c := strings.Count(got, "a"), strings.Count(got, "c"); a < 999 || c < 999 {
		t.Errorf("afterwards a %d and c %d times, want half each", a, c)
	}
}

// TestRatioEras: the shares stay exact, and a parked member keeps its place in the cycle, when time starts anew.
func TestRatioEras(t *testing.T) {
	p := New(RatioMember, pool(1, 3, 5), nil)
	cycle := take(p, 9, Ask{})
	check(t, take(p, 9*3*era, Ask{}), strings.Repeat(cycle, 3*era))
	windowsExact(t, take(p, 6*3*era, Ask{Usable: except(1)}), map[byte]int{'a': 1, 'c': 5})
	windowsExact(t, take(p, 9*3, Ask{}), map[byte]int{'a': 1, 'b': 3, 'c': 5})
	next := take(p, 18, Ask{})
	if !strings.Contains(cycle+cycle+cycle, next) {
		t.Errorf("the order %s is not that of %s", next, cycle)
	}
}

// TestRatioManyDown: recovery is noticed soon, and at once when nobody else is left.
func TestRatioManyDown(t *testing.T) {
	const members = 1000
	weights := make([]uint32, members)
	for i := range weights {
		weights[i] = uint32(1 + i%48)
	}
	for back := range members - 1 {
		p := New(Ratio, pool(weights...), nil)
		only := func(up ...int) Ask { return Ask{Usable: func(i int) bool { return slices.Contains(up, i) }} }
		if i, ok := p.Pick(only(members - 1)); !ok || i != members-1 {
			t.Fatalf("picked %d, %v", i, ok)
		}
		if back%100 == 0 {
			if i, ok := p.Pick(only(back)); !ok || i != back {
				t.Fatalf("picked %d, %v, only %d is usable", i, ok, back)
			}
			continue
		}
		limit := members/glance + 1 + 48 // until it is seen, and then until its turn comes
		for n := 0; ; n++ {
			if i, _ := p.Pick(only(back, members-1)); i == back {
				break
			}
			if n > limit {
				t.Fatalf("member %d has recovered and was not picked", back)
			}
		}
	}
}

// TestRatioProperty: whatever the weights and whoever is usable, every cycle is exact among the usable members, also
// after changes.
func TestRatioProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32Range(1, 12), 1, 8).Draw(t, "weights")
		p := New(Ratio, pool(weights...), nil)
		for range rapid.IntRange(1, 5).Draw(t, "phases") {
			down := rapid.SliceOfN(rapid.IntRange(0, len(weights)-1), 0, len(weights)).Draw(t, "down")
			want, sum := map[byte]int{}, 0
			for i, w := range weights {
				if !slices.Contains(down, i) {
					want[byte('a'+i)] = int(w)
					sum += int(w)
				}
			}
			got := take(p, 2*sum+rapid.IntRange(0, 9).Draw(t, "more"), Ask{Usable: except(down...)})
			if sum == 0 && strings.Trim(got, "-") != "" {
				t.Fatalf("nobody is usable, but %s were picked", got)
			} else if sum > 0 {
				windowsExact(t, got, want)
			}
		}
	})
}

func TestPickFindsNobody(t *testing.T) {
	nobody := Ask{Usable: func(int) bool { return false }}
	for _, mode := range []Mode{RoundRobin, Ratio} {
		t.Run("J-2_the_rotation_stays/"+mode.String(), func(t *testing.T) {
			for k := range 9 {
				p, q := New(mode, pool(1, 3, 5), nil), New(mode, pool(1, 3, 5), nil)
				check(t, take(p, k, Ask{}), take(q, k, Ask{}))
				check(t, take(p, 3, nobody), "---")
				check(t, take(p, 9, Ask{}), take(q, 9, Ask{}))
			}
		})
		t.Run("no_members/"+mode.String(), func(t *testing.T) {
			check(t, take(New(mode, nil, nil), 2, Ask{}), "--")
		})
	}
}

func TestResume(t *testing.T) {
	t.Run("same_members_go_on_exactly", func(t *testing.T) {
		for _, mode := range []Mode{RoundRobin, Ratio} {
			for k := range 10 {
				p, q := New(mode, pool(1, 3, 5), nil), New(mode, pool(1, 3, 5), nil)
				check(t, take(p, k, Ask{}), take(q, k, Ask{}))
				check(t, take(New(mode, pool(1, 3, 5), p), 12, Ask{}), take(q, 12, Ask{}))
			}
		}
	})
	t.Run("round_robin_by_address", func(t *testing.T) {
		p := New(RoundRobin, named("abcd"), nil)
		check(t, take(p, 2, Ask{}), "ab") // c is next
		// Members are spelled by their place in the new order.
		check(t, take(New(RoundRobin, named("xcab"), p), 4, Ask{}), "bcda")
		check(t, take(New(RoundRobin, named("abd"), p), 3, Ask{}), "cab")
		check(t, take(New(RoundRobin, named("xyz"), p), 3, Ask{}), "abc")
		check(t, take(New(RoundRobin, nil, p), 1, Ask{}), "-")
		check(t, take(New(RoundRobin, named("ab"), New(RoundRobin, nil, nil)), 2, Ask{}), "ab")
	})
	t.Run("ratio_with_other_members_and_weights", func(t *testing.T) {
		for k := range 20 {
			p := New(Ratio, named("abc", 1, 3, 5), nil)
			take(p, k, Ask{Usable: except(k % 3)})
			p = New(Ratio, named("cxa", 2, 4, 1), p)
			take(p, 3, Ask{}) // turns at one point may be given in the old order
			got := take(p, 30, Ask{})
			windowsExact(t, got, map[byte]int{'a': 2, 'b': 4, 'c': 1})
		}
	})
	t.Run("another_mode_starts_anew", func(t *testing.T) {
		p := New(RoundRobin, pool(1, 1, 1), nil)
		take(p, 1, Ask{})
		check(t, take(New(Ratio, pool(1, 1, 1), p), 3, Ask{}), "abc")
	})
	t.Run("a_reload_for_every_pick_starves_nobody", func(t *testing.T) {
		for _, mode := range []Mode{RoundRobin, Ratio} {
			var got string
			p := New(mode, pool(1, 1, 1), nil)
			for range 9 {
				p = New(mode, pool(1, 1, 1), p)
				got += take(p, 1, Ask{})
			}
			check(t, got, "abcabcabc")
		}
	})
}

// TestConcurrent: callers together see one rotation, so the shares are exact whoever picks.
func TestConcurrent(t *testing.T) {
	const callers, each = 8, 9 * 250
	for _, mode := range []Mode{RoundRobin, Ratio} {
		t.Run(mode.String(), func(t *testing.T) {
			p := New(mode, pool(1, 3, 5), nil)
			counts := make([][3]int, callers)
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for range each {
						i, ok := p.Pick(Ask{})
						if !ok {
							t.Error("nobody was picked")
							return
						}
						counts[c][i]++
					}
				})
			}
			wg.Wait()
			var sum [3]int
			for _, c := range counts {
				for i, n := range c {
					sum[i] += n
				}
			}
			want := [3]int{callers * each / 9, callers * each / 3, callers * each / 9 * 5}
			if mode == RoundRobin {
				want = [3]int{callers * each / 3, callers * each / 3, callers * each / 3}
			}
			if sum != want {
				t.Errorf("shares %v, want %v", sum, want)
			}
		})
	}
}

// TestConcurrentReload swaps pickers under traffic, with a member that flaps; only usable members may be picked.
func TestConcurrentReload(t *testing.T) {
	for _, mode := range []Mode{RoundRobin, Ratio} {
		t.Run(mode.String(), func(t *testing.T) {
			var mu sync.RWMutex
			current := New(mode, pool(1, 3, 5), nil)
			var wg sync.WaitGroup
			for c := range 4 {
				wg.Go(func() {
					for k := range 2000 {
						mu.RLock()
						p := current
						mu.RUnlock()
						down := (c + k) % 3
						if i, ok := p.Pick(Ask{Usable: except(down)}); !ok || i == down {
							t.Errorf("picked %d, %v with %d down", i, ok, down)
							return
						}
					}
				})
			}
			for range 200 {
				p := New(mode, pool(1, 3, 5), current)
				mu.Lock()
				current = p
				mu.Unlock()
			}
			wg.Wait()
		})
	}
}

func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		model := map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(-2, 300)).Draw(t, "add") {
			s.Add(i)
			model[i] = i >= 0
		}
		for i := -2; i < 400; i++ {
			if s.Has(i) != model[i] {
				t.Fatalf("Has(%d) = %v", i, s.Has(i))
			}
		}
	})
}

func TestPickDoesNotAllocate(t *testing.T) {
	usable := except(1)
	for _, mode := range []Mode{RoundRobin, Ratio} {
		p := New(mode, pool(1, 3, 5), nil)
		if n := testing.AllocsPerRun(100, func() {
			var tried Set
			for range 3 {
				i, _ := p.Pick(Ask{Usable: usable, Tried: tried})
				tried.Add(i)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", mode, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, mode := range []Mode{RoundRobin, Ratio} {
		for _, n := range []int{4, 1000} {
			for _, down := range []int{0, n / 2} {
				weights := make([]uint32, n)
				for i := range weights {
					weights[i] = uint32(1 + i%48)
				}
				p := New(mode, pool(weights...), nil)
				usable := func(i int) bool { return i >= down }
				b.Run(fmt.Sprintf("%v/members=%d/down=%d", mode, n, down), func(b *testing.B) {
					b.ReportAllocs()
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							p.Pick(Ask{Usable: usable})
						}
					})
				})
			}
		}
	}
}
