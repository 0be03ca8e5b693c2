package balance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// gauge is a meter that the test sets.
type gauge struct {
	open, octets uint64
	took         time.Duration
}

func (g *gauge) Open() uint64        { return g.open }
func (g *gauge) Took() time.Duration { return g.took }
func (g *gauge) Octets() uint64      { return g.octets }

// metered makes members with gauges and addresses 10.0.X.Y:80.
func metered(weights ...uint32) ([]Member, []*gauge) {
	members, gauges := pool(weights...), make([]*gauge, len(weights))
	for i := range members {
		gauges[i] = &gauge{}
		members[i].Meter = gauges[i]
		members[i].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80)
	}
	return members, gauges
}

var allModes = func() (modes []Mode) {
	for m := range modeWords {
		modes = append(modes, Mode(m))
	}
	return modes
}()

func client(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)})
}

func TestLeastConn(t *testing.T) {
	t.Run("A-T19_weights_10_1_and_110_held_connections", func(t *testing.T) {
		for _, mode := range []Mode{LeastConn, LeastConnMember} {
			members, gauges := metered(10, 1)
			p := New(mode, members, nil)
			for range 110 {
				i, _ := p.Pick(Ask{})
				gauges[i].open++
			}
			if gauges[0].open != 100 || gauges[1].open != 10 {
				t.Errorf("%v: %d and %d connections, want 100 and 10", mode, gauges[0].open, gauges[1].open)
			}
		}
	})
	t.Run("M-3_ties_by_rotation", func(t *testing.T) {
		members, _ := metered(1, 1, 1)
		check(t, take(New(LeastConn, members, nil), 7, Ask{}), "abcabca")
	})
	t.Run("the_rotation_outlives_the_picker", func(t *testing.T) {
		members, _ := metered(1, 1, 1)
		p := New(LeastConn, members, nil)
		check(t, take(p, 2, Ask{}), "ab")
		check(t, take(New(LeastConn, members, p), 3, Ask{}), "cab")
	})
}

// TestLeastModel: least chooses as one would who looks at all members.
func TestLeastModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{LeastConn, LeastConnMember, Fastest, FastestAppResp}).Draw(t, "mode")
		members, gauges := metered(rapid.SliceOfN(rapid.Uint32Range(0, 48), 1, glance).Draw(t, "weights")...)
		turns := make([]int, len(members))
		p := New(mode, members, nil)
		for turn := 1; turn < 60; turn++ {
			g := gauges[rapid.IntRange(0, len(gauges)-1).Draw(t, "member")]
			g.open, g.took = rapid.Uint64Range(0, 5).Draw(t, "open"), time.Duration(rapid.IntRange(0, 3).Draw(t, "took"))
			down := rapid.SliceOfN(rapid.IntRange(0, len(members)-1), 0, len(members)).Draw(t, "down")
			var tried Set
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(members)-1), 0, 3).Draw(t, "tried") {
				tried.Add(i)
			}
			want := -1
			load := func(i int) float64 {
				if mode == LeastConn || mode == LeastConnMember {
					return float64(gauges[i].open) / float64(max(members[i].Weight, 1))
				}
				return float64(gauges[i].took) * float64(gauges[i].open+1)
			}
			for i := range members {
				if slices.Contains(down, i) || tried.Has(i) {
					continue
				}
				if want < 0 || load(i) < load(want) || load(i) == load(want) && turns[i] < turns[want] {
					want = i
				}
			}
			got, ok := p.Pick(Ask{Usable: except(down...), Tried: tried})
			if got != want || ok != (want >= 0) {
				t.Fatalf("picked %d, %v, want %d", got, ok, want)
			}
			if ok {
				turns[got] = turn
			}
			if rapid.IntRange(0, 9).Draw(t, "reload") == 0 {
				p = New(mode, members, p)
			}
		}
	})
}

// TestLeastMany: with more members than a pick looks at, one that is emptied is found soon, and one that filled up is passed over.
func TestLeastMany(t *testing.T) {
	const n = 1000
	members, gauges := metered(make([]uint32, n)...)
	p := New(LeastConn, members, nil)
	for range 3 * n {
		i, _ := p.Pick(Ask{})
		gauges[i].open++
	}
	for i, g := range gauges {
		if g.open != 3 {
			t.Fatalf("member %d has %d connections, want 3", i, g.open)
		}
	}
	gauges[777].open = 0
	for picks := 0; ; picks++ {
		if i, _ := p.Pick(Ask{}); i == 777 {
			break
		}
		if picks > n/glance+1 {
			t.Fatal("the emptied member is not found")
		}
	}
	if i, ok := p.Pick(Ask{Usable: func(i int) bool { return i == 500 }}); i != 500 || !ok {
		t.Errorf("picked %d, the only one that may be is 500", i)
	}
	if i, ok := p.Pick(Ask{}); i < 0 || !ok {
		t.Errorf("picked %d", i)
	}
}

func TestFastest(t *testing.T) {
	for _, mode := range []Mode{Fastest, FastestAppResp} {
		members, gauges := metered(1, 1, 1)
		p := New(mode, members, nil)
		check(t, take(p, 3, Ask{}), "abc") // nothing is known: each is tried
		gauges[0].took, gauges[1].took, gauges[2].took = 30, 10, 20
		check(t, take(p, 2, Ask{}), "bb")
		gauges[1].open = 2
		check(t, take(p, 2, Ask{}), "cc")
		gauges[2].open, gauges[0].took = 1, 0
		check(t, take(p, 2, Ask{}), "aa") // not measured lately
	}
}

// shares counts picks by member.
func shares(p Picker, n, members int) []int {
	counts := make([]int, members)
	for range n {
		if i, ok := p.Pick(Ask{}); ok {
			counts[i]++
		}
	}
	return counts
}

func TestAdaptive(t *testing.T) {
	tests := []struct {
		name  string
		mode  Mode
		set   func(g []*gauge)
		picks int
		want  []int
	}{
		{"A-T21_response_times_20_and_40_ms", Response, func(g []*gauge) { g[0].took, g[1].took = 20*time.Millisecond, 40*time.Millisecond }, 300, []int{200, 100}},
		{"A-T22_bandwidth_2_MB_and_1_MB", Bandwidth, func(g []*gauge) { g[0].octets, g[1].octets = 2<<20, 1<<20 }, 300, []int{100, 200}},
		{"M-7_the_weights_are_48_to_1_at_most", Bandwidth, func(g []*gauge) { g[0].octets = 1 << 30 }, 490, []int{10, 480}},
		{"M-6_who_was_not_measured_counts_as_quick", Response, func(g []*gauge) { g[0].took = time.Second }, 100, []int{50, 50}},
		{"observed", Observed, func(g []*gauge) { g[0].open, g[1].open = 5, 2 }, 72, []int{24, 48}},
		{"observed_member", ObservedMember, func(g []*gauge) { g[0].open, g[1].open = 0, 3 }, 60, []int{48, 12}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				members, gauges := metered(48, 1) // the weights of the configuration do not count
				p := New(tt.mode, members, nil)
				if got := shares(p, 100, 2); got[0] != 50 {
					t.Errorf("before anything is measured: %v", got)
				}
				tt.set(gauges)
				time.Sleep(3 * time.Second)
				if got := shares(p, tt.picks, 2); !slices.Equal(got, tt.want) {
					t.Errorf("shares %v, want %v", got, tt.want)
				}
				// A new picker goes on with what was measured.
				if got := shares(New(tt.mode, members, p), tt.picks, 2); !slices.Equal(got, tt.want) {
					t.Errorf("shares after a reload %v, want %v", got, tt.want)
				}
			})
		})
	}
	t.Run("predictive_adds_the_trend", func(t *testing.T) {
		for _, mode := range []Mode{Predictive, PredictiveMember} {
			synctest.Test(t, func(t *testing.T) {
				members, gauges := metered(1, 1)
				p := New(mode, members, nil)
				gauges[0].open, gauges[1].open = 4, 8
				take(p, 1, Ask{})
				time.Sleep(time.Second)
				gauges[0].open, gauges[1].open = 5, 6 // next: 6 and 4, of which 7 and 5 are the burdens with the new one
				take(p, 1, Ask{})
				if got := shares(p, 34+48, 2); got[0] != 34 {
					t.Errorf("%v: shares %v, want 34 and 48", mode, got)
				}
			})
		}
	})
	t.Run("who_is_down_does_not_set_the_scale", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			members, gauges := metered(1, 1, 1)
			p := New(Bandwidth, members, nil)
			gauges[0].octets, gauges[1].octets = 2000, 1000
			time.Sleep(3 * time.Second)
			got := take(p, 72, Ask{Usable: except(2)})
			if a := strings.Count(got, "a"); a != 24 {
				t.Errorf("%d of 72, want 24", a)
			}
		})
	})
}

func TestHash(t *testing.T) {
	const clients = 1000
	where := func(p Picker, ask Ask) []int {
		list := make([]int, clients)
		for c := range list {
			ask.Key = client(c)
			list[c], _ = p.Pick(ask)
		}
		return list
	}
	moved := func(a, b []int) (n int) {
		for c := range a {
			if a[c] != b[c] {
				n++
			}
		}
		return n
	}
	for _, mode := range []Mode{Hash, MinMisses} {
		t.Run("A-T20_weights_do_not_count/"+mode.String(), func(t *testing.T) {
			one, _ := metered(1, 1)
			other, _ := metered(48, 1)
			if n := moved(where(New(mode, one, nil), Ask{}), where(New(mode, other, nil), Ask{})); n != 0 {
				t.Errorf("%d clients go elsewhere", n)
			}
		})
		t.Run("each_gets_its_share/"+mode.String(), func(t *testing.T) {
			members, _ := metered(1, 1, 1, 1, 1)
			var counts [5]int
			for _, i := range where(New(mode, members, nil), Ask{}) {
				counts[i]++
			}
			for i, n := range counts { // the deviation of 1000 trials at 1/5 is 12.7; five of them
				if n < 200-64 || n > 200+64 {
					t.Errorf("member %d has %d of 1000", i, n)
				}
			}
		})
		t.Run("a_refused_client_goes_elsewhere/"+mode.String(), func(t *testing.T) {
			members, _ := metered(1, 1, 1)
			p := New(mode, members, nil)
			first, _ := p.Pick(Ask{Key: client(1)})
			var tried Set
			tried.Add(first)
			second, ok := p.Pick(Ask{Key: client(1), Tried: tried})
			if !ok || second == first {
				t.Errorf("picked %d after %d", second, first)
			}
			tried.Add(second)
			tried.Add(3 - first - second)
			if i, ok := p.Pick(Ask{Key: client(1), Tried: tried}); ok || i != -1 {
				t.Errorf("picked %d, all were tried", i)
			}
			if again, _ := p.Pick(Ask{Key: client(1)}); again != first {
				t.Errorf("then picked %d, not %d", again, first)
			}
		})
	}
	t.Run("A-T18_minmisses_moves_only_the_clients_of_who_leaves", func(t *testing.T) {
		members, _ := metered(1, 1, 1, 1, 1)
		p := New(MinMisses, members, nil)
		before := where(p, Ask{})
		for gone := range members {
			after := where(p, Ask{Usable: except(gone)})
			without := where(New(MinMisses, slices.Delete(slices.Clone(members), gone, gone+1), nil), Ask{})
			for c := range before {
				if back := without[c]; back >= gone {
					without[c]++
				}
				if before[c] != gone && (after[c] != before[c] || without[c] != before[c]) {
					t.Fatalf("client %d was at %d and moved to %d when %d went", c, before[c], after[c], gone)
				}
				if after[c] != without[c] || after[c] == gone {
					t.Fatalf("client %d is at %d, and at %d when the member is not configured", c, after[c], without[c])
				}
			}
		}
	})
	t.Run("A-T18_hash_moves_four_of_five", func(t *testing.T) {
		members, _ := metered(1, 1, 1, 1, 1)
		p := New(Hash, members, nil)
		// A client stays with probability 1/5: 800 move, the deviation is 12.7; five of them.
		if n := moved(where(p, Ask{}), where(p, Ask{Usable: except(2)})); n < 800-64 || n > 800+64 {
			t.Errorf("%d of 1000 moved", n)
		}
	})
	t.Run("the_hash_is_as_documented", func(t *testing.T) {
		// FNV-1a of nothing is its basis; of "a" it is published.
		if h := fnv(fnvBasis, []byte("a")); h != 0xaf63dc4c8601ec8c {
			t.Errorf("%x", h)
		}
		if keyHash(netip.MustParseAddr("10.0.0.1")) != keyHash(netip.MustParseAddr("::ffff:10.0.0.1")) {
			t.Error("the mapped form has another hash")
		}
	})
}

// TestHashModel: both choose as one would who looks at all members.
func TestHashModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, glance).Draw(t, "members")
		members, _ := metered(make([]uint32, n)...)
		for i := range members {
			if rapid.Bool().Draw(t, "six") {
				b := members[i].Addr.Addr().As16()
				b[0] = 0xfd
				members[i].Addr = netip.AddrPortFrom(netip.AddrFrom16(b), 80)
			}
		}
		hash, least := New(Hash, members, nil), New(MinMisses, members, nil)
		for range 20 {
			key := client(rapid.IntRange(0, 1<<16-1).Draw(t, "client"))
			down := rapid.SliceOfN(rapid.IntRange(0, n-1), 0, n).Draw(t, "down")
			wantHash, wantLeast, highest := -1, -1, uint64(0)
			var up []int
			for i := range members {
				if slices.Contains(down, i) {
					continue
				}
				up = append(up, i)
				k, a := key.As16(), members[i].Addr.Addr().As16()
				if score := stir(fnv(fnvBasis, append(k[:], a[:]...))); wantLeast < 0 || score > highest {
					wantLeast, highest = i, score
				}
			}
			if len(up) > 0 {
				k := key.As16()
				wantHash = up[stir(fnv(fnvBasis, k[:]))%uint64(len(up))]
			}
			ask := Ask{Key: key, Usable: except(down...)}
			if i, _ := hash.Pick(ask); i != wantHash {
				t.Fatalf("hash picked %d, want %d", i, wantHash)
			}
			if i, _ := least.Pick(ask); i != wantLeast {
				t.Fatalf("minmisses picked %d, want %d", i, wantLeast)
			}
		}
	})
}

// TestHashMany: with more members than a pick looks at, nobody is picked who may not be, and who is back is found.
func TestHashMany(t *testing.T) {
	const n = 1000
	members, _ := metered(make([]uint32, n)...)
	p := New(Hash, members, nil)
	for c := range 2000 {
		if i, ok := p.Pick(Ask{Key: client(c), Usable: func(i int) bool { return i >= 900 }}); !ok || i < 900 {
			t.Fatalf("picked %d", i)
		}
	}
	for c := range n/glance + 1 {
		p.Pick(Ask{Key: client(c)})
	}
	for c := range 100 {
		k := client(c).As16()
		if i, _ := p.Pick(Ask{Key: client(c)}); i != int(stir(fnv(fnvBasis, k[:]))%n) {
			t.Fatalf("client %d is at %d", c, i)
		}
	}
	if i, ok := p.Pick(Ask{Usable: func(int) bool { return false }}); ok || i != -1 {
		t.Errorf("picked %d, nobody may be", i)
	}
}

// TestModes: what holds in every mode.
func TestModes(t *testing.T) {
	for _, mode := range allModes {
		t.Run(mode.String(), func(t *testing.T) {
			if back, err := ParseMode(mode.String()); err != nil || back != mode {
				t.Errorf("ParseMode = %v, %v", back, err)
			}
			check(t, take(New(mode, nil, nil), 2, Ask{}), "--")
			members, _ := metered(1, 3, 5)
			p := New(mode, members, nil)
			check(t, take(p, 2, Ask{Usable: except(0, 1, 2)}), "--")
			check(t, take(p, 2, Ask{Usable: except(0, 2)}), "bb")
			for _, other := range allModes { // the one before may be of any mode
				q := New(mode, named("cxa", 2, 4, 1), New(other, members, nil))
				if i, ok := q.Pick(Ask{}); !ok || i < 0 || i > 2 {
					t.Errorf("after %v picked %d", other, i)
				}
			}
			if n := testing.AllocsPerRun(100, func() { p.Pick(Ask{Key: client(1), Usable: nobodyDown}) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func nobodyDown(int) bool { return true }

func BenchmarkModes(b *testing.B) {
	for _, mode := range allModes {
		members, gauges := metered(make([]uint32, 1000)...)
		for i := range gauges {
			gauges[i].open, gauges[i].took = uint64(i%7), time.Duration(i%11+1)
		}
		p := New(mode, members, nil)
		b.Run(fmt.Sprintf("%v/members=1000", mode), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for c := 0; pb.Next(); c++ {
					p.Pick(Ask{Usable: nobodyDown, Key: client(c)})
				}
			})
		})
	}
}
