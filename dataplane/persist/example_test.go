package persist_test

import (
	"fmt"
	"net/netip"
	"time"

	"bigpipe/dataplane/persist"
)

// A client connects twice; in between its member goes down.
func Example() {
	virtual := netip.MustParseAddrPort("192.0.2.1:80")
	first, second := netip.MustParseAddrPort("10.1.1.1:80"), netip.MustParseAddrPort("10.1.1.2:80")
	web := persist.PoolIDOf("web")

	table := persist.New(persist.Options{Limit: persist.DefaultLimit})
	policy := persist.Policy{Pool: web, Timeout: 5 * time.Minute}
	key := persist.AddrKey(persist.Simple, persist.ScopeOf(persist.Globals{}, virtual, web), persist.Mask{}, netip.MustParseAddr("198.51.100.7"))

	connect := func(up ...netip.AddrPort) {
		next := 0
		choose := func() (netip.AddrPort, bool) {
			if next == len(up) {
				return netip.AddrPort{}, false
			}
			next++
			return up[next-1], true
		}
		b := table.Bind(key, policy, choose)
		defer table.Release(&b.Handle)
		for !isUp(b.Node, up) {
			if !table.Rebind(key, policy, &b, choose) {
				fmt.Println("no member")
				return
			}
		}
		table.Accepted(&b.Handle)
		fmt.Println(b.Node, b.Outcome)
	}
	connect(first, second)
	connect(first, second)
	connect(second)
	connect(first, second)
	for r := range table.List(persist.Filter{Pool: web}) {
		fmt.Println(r.Key, r.Key.Scope().Virtual(), r.Node, r.Open)
	}
	// Output:
	// 10.1.1.1:80 bound
	// 10.1.1.1:80 found
	// 10.1.1.2:80 moved
	// 10.1.1.2:80 found
	// 198.51.100.7 192.0.2.1:80 10.1.1.2:80 0
}

func isUp(node netip.AddrPort, up []netip.AddrPort) bool {
	for _, u := range up {
		if u == node {
			return true
		}
	}
	return false
}
