package pool

import (
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOver: what the operator said stands above what monitors found, but for a member that is only disabled and dead.
func TestOver(t *testing.T) {
	found := []State{Unchecked, Checking, Up, Down, AddressDown}
	for _, c := range []struct {
		operator State
		want     [5]State
	}{
		{Unchecked, [5]State{Unchecked, Checking, Up, Down, AddressDown}},
		{Disabled, [5]State{Disabled, Disabled, Disabled, Down, AddressDown}},
		{AddressDisabled, [5]State{AddressDisabled, AddressDisabled, AddressDisabled, Down, AddressDown}},
		{PortDisabled, [5]State{PortDisabled, PortDisabled, PortDisabled, Down, AddressDown}},
		{ForcedDown, [5]State{ForcedDown, ForcedDown, ForcedDown, ForcedDown, ForcedDown}},
		{AddressDown, [5]State{AddressDown, AddressDown, AddressDown, AddressDown, AddressDown}},
		{Maintenance, [5]State{Maintenance, Maintenance, Maintenance, Maintenance, Maintenance}},
		{Down, [5]State{Down, Down, Down, Down, Down}}, // cannot be dialled
	} {
		for i, f := range found {
			if got := Over(c.operator, f); got != c.want[i] {
				t.Errorf("%s over %s is %s, want %s", c.operator, f, got, c.want[i])
			}
		}
	}
}

// TestHealths: a member is what its own monitors and those of its address find.
func TestHealths(t *testing.T) {
	var h Healths
	web, other := netip.MustParseAddrPort("10.1.1.1:80"), netip.MustParseAddrPort("10.1.1.1:81")
	beside := h.Of(other)
	for _, c := range []struct{ service, address, want, beside State }{
		{Unchecked, Unchecked, Unchecked, Unchecked},
		{Checking, Unchecked, Checking, Unchecked},
		{Up, Checking, Up, Checking},
		{Unchecked, Checking, Checking, Checking},
		{Unchecked, Up, Unchecked, Unchecked},
		{Down, Up, Down, Unchecked},
		{Up, Down, AddressDown, AddressDown},
		{Down, Down, AddressDown, AddressDown},
	} {
		held := h.SetService(web, c.service)
		h.SetAddress(web.Addr(), c.address)
		if got := held.State(); got != c.want || h.Of(web) != held {
			t.Errorf("service %s at address %s is %s, want %s", c.service, c.address, got, c.want)
		}
		if got := beside.State(); got != c.beside {
			t.Errorf("beside it at address %s: %s, want %s", c.address, got, c.beside)
		}
		if got := h.Address(web.Addr()); got != c.address {
			t.Errorf("the address is %s, want %s", got, c.address)
		}
	}
	if late := h.Of(netip.MustParseAddrPort("10.1.1.1:82")); late.State() != AddressDown {
		t.Errorf("a member that comes later is %s", late.State())
	}
}

// TestHealthsForget: what no pool and no monitor holds is forgotten.
func TestHealthsForget(t *testing.T) {
	var h Healths
	held := h.Of(netip.MustParseAddrPort("10.1.1.1:80"))
	for i := range 1000 {
		h.Of(netip.AddrPortFrom(netip.MustParseAddr("10.1.1.2"), uint16(i)))
	}
	for end := time.Now().Add(20 * time.Second); h.Len() > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d members are known", h.Len())
		}
		runtime.GC()
	}
	if h.Of(netip.MustParseAddrPort("10.1.1.1:80")) != held {
		t.Error("one that is held was forgotten")
	}
	runtime.KeepAlive(held)
}

// TestPassive: connects of traffic that fail one after the other mark a member down for a while; then the first failure does.
func TestPassive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Healths
		var mu sync.Mutex
		var told []bool
		h.Marked = func(_ netip.AddrPort, down bool) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, down)
		}
		health := h.Of(netip.MustParseAddrPort("10.1.1.1:80"))
		m := Member{health: health, passive: true}
		deaf := Member{health: health}
		want := func(s State) {
			t.Helper()
			if got := m.State(); got != s {
				t.Errorf("it is %s, want %s", got, s)
			}
			if got := deaf.State(); got != Unchecked {
				t.Errorf("in a pool that does not ask it is %s", got)
			}
		}
		health.refused(passiveFailures)
		health.refused(passiveFailures)
		health.accepted() // not one after the other
		health.refused(passiveFailures)
		health.refused(passiveFailures)
		want(Unchecked)
		health.refused(passiveFailures)
		want(Down)
		health.refused(passiveFailures)
		time.Sleep(passiveDown - time.Second)
		want(Down)
		time.Sleep(2 * time.Second)
		want(Unchecked)
		health.refused(passiveFailures)
		want(Down)
		health.Retry()
		want(Unchecked)
		health.accepted()
		health.refused(passiveFailures)
		want(Unchecked)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 4 || !told[0] || told[1] || !told[2] || told[3] {
			t.Errorf("told %v", told)
		}
	})
}

// TestGuarded: rules J-14, J-16: where a health checker looks after a member the first failure marks it down, until the checker takes
// the mark away; in pools with passive_health requests without an answer count as connects that fail do.
func TestGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Healths
		health := h.Of(netip.MustParseAddrPort("10.1.1.1:80"))
		d := Decision{Member: &Member{health: health, passive: true}}
		other := Decision{Member: &Member{health: health}}
		want := func(marked bool) {
			t.Helper()
			if health.Marked() != marked || len(h.Marks()) > 0 != marked {
				t.Errorf("marked: %t, marks %v, want %t", health.Marked(), h.Marks(), marked)
			}
		}
		for range 5 {
			other.Silent() // in a pool that does not ask
		}
		d.Silent()
		d.Silent()
		d.Answered()
		d.Silent()
		d.Silent()
		want(false)
		d.Silent()
		want(true)
		time.Sleep(passiveDown + time.Second)
		want(false)
		d.Answered()

		health.Guard()
		other.Silent()
		want(true)
		time.Sleep(time.Hour)
		want(true)
		health.Retry()
		want(false)
		other.Silent()
		want(true)
		health.Unguard()
		want(false)
		other.Silent()
		want(false)
		h.Mark(netip.MustParseAddrPort("10.1.1.1:80"))
		want(true)
		time.Sleep(passiveDown + time.Second)
		want(false)
	})
}
