package pool

import (
	"net/netip"
	"testing"
	"time"
)

// TestRemoved: rule G-12 in a process that has never had the member: an earlier one told of it.
func TestRemoved(t *testing.T) {
	first := newTokens(t)
	m, line := first.begin(first.set(tokenPool(nil, s1, s2)))
	kept := first.set(tokenPool(nil, s2)).Removed()
	if len(kept) != 1 || kept[0].Addr.String() != m || !kept[0].Since.Equal(first.clock) || first.set(tokenPool(nil, s1, s2)).Removed() != nil {
		t.Fatalf("it keeps %v", kept)
	}
	for name, tt := range map[string]struct {
		passed time.Duration // since it was removed, by the wall clock
		known  []Removed
		stays  bool
	}{
		"in_time":             {599 * time.Second, kept, true},
		"too_late":            {600 * time.Second, kept, false},
		"the_clock_went_back": {-time.Hour, kept, true},
		"another_machine":     {0, []Removed{{Addr: kept[0].Addr, Epoch: 9, Since: kept[0].Since}}, false},
		"another_member":      {0, []Removed{{Addr: netip.MustParseAddrPort("10.9.9.9:1"), Since: kept[0].Since}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTokens(t)
			b.clock = first.clock.Add(tt.passed)
			b.env.Removed = map[string][]Removed{"web": tt.known}
			p := b.set(tokenPool(nil, s2))
			if !tt.stays {
				b.moves(p, line)
				return
			}
			b.stays(p, line, m)
			b.clock = b.clock.Add(601 * time.Second)
			b.moves(p, line)
		})
	}
}
