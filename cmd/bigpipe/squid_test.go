package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bigpipe/cmd/bigpipe/internal/e2e"
	"bigpipe/dataplane/namespace"
)

// othersRules are a firewall's, which nobody may touch.
const othersRules = `table inet firewall {
  chain look {
    type filter hook prerouting priority mangle
    tcp dport 12345 meta mark set 0x7 accept
  }
}
table ip bigpipe { }
`

// caches is the configuration: caches that pass on what is not for them are gateways, and the way to where clients want to go. What
// is sent to port 8000 is given to them as to web servers.
const caches = `pool caches { persist_mode sticky member 10.2.1.9:0 member 10.2.2.9:0 member 10.2.3.9:0 }
pool accelerators { persist_mode sticky member 10.2.1.9:3130 member 10.2.2.9:3130 member 10.2.3.9:3130 }
virtual 0.0.0.0:0 { use pool caches translate addr disable translate port disable }
virtual 0.0.0.0:8000 { use pool accelerators }
`

// TestSquid: rule B-12 with caches that are real, on a router between them and their clients. Each of 200 destinations is on one cache,
// whoever asks, so that the origin is asked once; clearing moves them, a mask makes groups of them. A dataplane that was killed leaves
// its rules to the next one, which renews or removes them. Nothing of others is touched.
func TestSquid(t *testing.T) {
	peerProgram(t, named("squid"), "squid")
	peerProgram(t, named("nft"), "nftables")
	if os.Getuid() != 0 { // Squid changes its user, which a namespace of one user does not have
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal("it needs root")
		}
		t.Skip("it needs root")
	}
	if !namespace.Enter(t) {
		return
	}
	in := newInternet(t)
	in.nft(othersRules, "-f", "-")
	foreign := netlink.NewRule()
	foreign.Family, foreign.Table, foreign.Mark, foreign.Priority = unix.AF_INET, unix.RT_TABLE_MAIN, 7, 100
	if err := netlink.RuleAdd(foreign); err != nil {
		t.Fatal(err)
	}
	_, others := in.rules()

	site := newSite(t, "")
	site.Unmapped = true
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, caches)
	in.keepTheirCaches(site)
	in.survives(site, others)
	if err := site.StopDaemon("dataplane"); err != nil {
		t.Error(err)
	}
	in.wantRules("the end", "", others)
}

// wantRules checks the rules of others, and that there are rules of ours, or none.
func (in *internet) wantRules(when, wantOurs, wantOthers string) {
	in.Helper()
	ours, others := in.rules()
	if others != wantOthers {
		in.Errorf("%s: rules of others are\n%s\nwere\n%s", when, others, wantOthers)
	}
	if ours != wantOurs {
		in.Errorf("%s: rules of ours are\n%s\nwant\n%s", when, ours, wantOurs)
	}
}

// destination is the address of one of 200.
func destination(i int) string { return fmt.Sprintf("198.51.%d.%d:80", i/100, i%100+1) }

func (in *internet) keepTheirCaches(site *e2e.Site) {
	at, members := map[string]string{}, map[string]int{}
	for i := range 200 {
		at[destination(i)] = in.ask("10.1.0.9", destination(i))
		members[at[destination(i)]]++
	}
	if !maps.Equal(members, map[string]int{"cache1": 67, "cache2": 67, "cache3": 66}) {
		in.Fatalf("200 destinations are spread as %v", members)
	}
	for _, client := range []string{"10.1.0.10", "10.1.0.9"} {
		for addr, cache := range at {
			if got := in.ask(client, addr); got != cache {
				in.Errorf("%s is at %s for %s, was at %s", addr, got, client, cache)
			}
		}
	}
	in.fetchedOnce(at, 1)
	dump := output(in.T, site, "pool", "caches", "persist", "dump")
	if !strings.Contains(dump, "198.51.1.100") || strings.Count(dump, "\n") != 201 {
		in.Errorf("the records are\n%s", dump)
	}

	if cleared := output(in.T, site, "pool", "caches", "sticky", "clear"); cleared != "200 cleared\n" {
		in.Errorf("sticky clear says %q", cleared)
	}
	moved := map[string]string{}
	for addr, cache := range at {
		if moved[addr] = in.ask("10.1.0.9", addr); moved[addr] == cache {
			delete(moved, addr)
		}
	}
	if len(moved) == 0 {
		in.Error("sticky clear moves nothing")
	}
	in.fetchedOnce(moved, 2) // by the other cache, too

	output(in.T, site, "pool", "caches", "modify", "{", "sticky_mask", "255.255.255.0", "}")
	groups := map[string]int{}
	for network := range 6 {
		first := in.ask("10.1.0.9", fmt.Sprintf("203.0.%d.1:80", network))
		groups[first]++
		for host := 2; host < 12; host++ {
			if got := in.ask("10.1.0.10", fmt.Sprintf("203.0.%d.%d:80", network, host)); got != first {
				in.Errorf("203.0.%d.%d is at %s, its network at %s", network, host, got, first)
			}
		}
	}
	if !maps.Equal(groups, map[string]int{"cache1": 2, "cache2": 2, "cache3": 2}) {
		in.Errorf("6 networks are spread as %v", groups)
	}

	var turns []string
	for i := range 3 {
		addr := fmt.Sprintf("198.51.9.%d:8000", i+1)
		turns = append(turns, in.ask("10.1.0.9", addr))
		if again := in.ask("10.1.0.10", addr); again != turns[i] {
			in.Errorf("%s is at %s, was at %s", addr, again, turns[i])
		}
	}
	if slices.Sort(turns); strings.Join(turns, " ") != "cache1 cache2 cache3" {
		in.Errorf("three accelerated sites are at %v", turns)
	}
}

// fetchedOnce checks how often the origin was asked.
func (in *internet) fetchedOnce(addrs map[string]string, times int) {
	in.Helper()
	fetches := in.fetches()
	for addr := range addrs {
		if fetches[addr] != times {
			in.Errorf("the origin was asked %d times for %s, want %d", fetches[addr], addr, times)
		}
	}
}

// survives kills the dataplane, whose rules the next one renews, and once more when there is nothing to intercept any more.
func (in *internet) survives(site *e2e.Site, others string) {
	kill := func() {
		in.Helper()
		if err := site.KillDaemon("dataplane"); err != nil {
			in.Fatal(err)
		}
	}
	in.Helper()
	at := in.ask("10.1.0.9", "203.0.0.1:80")
	time.Sleep(time.Second) // records are written four times a second
	kill()
	left, _ := in.rules()
	if !strings.Contains(left, "tproxy") || !strings.Contains(left, fmt.Sprint(0x100000)) {
		in.Fatalf("the killed dataplane had no rules:\n%s", left)
	}
	start(in.T, site, "dataplane")
	in.settled(site)
	ours, _ := in.rules()
	if withoutPorts(ours) != withoutPorts(left) {
		in.Errorf("the rules are\n%s\nthe killed process had\n%s", ours, left)
	}
	in.wantRules("after kill -9", ours, others)
	if got := in.ask("10.1.0.10", "203.0.0.1:80"); got != at {
		in.Errorf("after kill -9 it is at %s, was at %s", got, at)
	}

	loadText(in.T, site, "pool caches { member 10.2.1.9:0 }\n")
	kill()
	left, _ = in.rules()
	if left == "" {
		in.Error("a dataplane that was killed has left nothing to the next one")
	}
	start(in.T, site, "dataplane")
	in.settled(site)
	in.wantRules("after kill -9 of one that intercepts nothing", "", others)
}

// settled waits until what is configured is in effect.
func (in *internet) settled(site *e2e.Site) {
	in.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		show := output(in.T, site, "-o", "json", "virtual", "show")
		if strings.Contains(show, "virtual_servers") && !strings.Contains(show, `"in_effect":false`) {
			return
		}
		if time.Now().After(end) {
			in.Fatal(show)
		}
	}
}

// withoutPorts leaves out the ports of listeners, which each process has of its own.
func withoutPorts(rules string) string { return listenerPort.ReplaceAllString(rules, "$1") }

var listenerPort = regexp.MustCompile(`(tproxy[^\n]* to :)\d+`)
