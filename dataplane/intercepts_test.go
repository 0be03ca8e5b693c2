package dataplane

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"bigpipe/dataplane/intercept"
	"bigpipe/dataplane/namespace"
	pb "bigpipe/proto/bigpipe/v1"
)

// crossing is a router with a client on one side and three caches on the other.
type crossing struct {
	t      *testing.T
	client *namespace.Host
	caches []*namespace.Host
}

// newCrossing gives cache n the address 10.2.n.9, and fd02:n::9.
func newCrossing(t *testing.T) *crossing {
	x := &crossing{t: t, client: namespace.Neighbour(t, "client", "10.1.0.", "fd01::")}
	for n := 1; n <= 3; n++ {
		x.caches = append(x.caches, namespace.Neighbour(t, fmt.Sprint("cache", n), fmt.Sprintf("10.2.%d.", n), fmt.Sprintf("fd02:%d::", n)))
	}
	return x
}

func cacheAddr(n int, port uint16) string { return fmt.Sprintf("10.2.%d.9:%d", n, port) }

// serve makes each cache answer at an address with its number, over TCP and UDP.
func (x *crossing) serve(addr func(n int) string) {
	for i, h := range x.caches {
		h.Do(func() {
			l, err := net.Listen("tcp", addr(i+1))
			if err != nil {
				x.t.Error(err)
				return
			}
			x.t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					fmt.Fprint(c, i+1)
					c.Close()
				}
			}()
			u, err := net.ListenPacket("udp", addr(i+1))
			if err != nil {
				x.t.Error(err)
				return
			}
			x.t.Cleanup(func() { u.Close() })
			go func() {
				b := make([]byte, 100)
				for {
					_, from, err := u.ReadFrom(b)
					if err != nil {
						return
					}
					u.WriteTo([]byte(fmt.Sprint(i+1)), from)
				}
			}()
		})
	}
}

// ask has the client connect to an address, and returns which cache answered.
func (x *crossing) ask(network, addr string) (answer string) {
	x.client.Do(func() {
		c, err := net.DialTimeout(network, addr, patience)
		if err != nil {
			answer = err.Error()
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if network == "udp" {
			io.WriteString(c, "?")
		}
		b := make([]byte, 10)
		n, err := c.Read(b)
		if answer = string(b[:n]); n == 0 {
			answer = fmt.Sprint(err)
		}
	})
	return answer
}

// reaches reports whether anybody accepts the client's connection; where nobody does nothing is heard.
func (x *crossing) reaches(addr string) (accepted bool) {
	x.client.Do(func() {
		c, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
		if accepted = err == nil; accepted {
			c.Close()
		}
	})
	return accepted
}

func stickyPool(members ...string) *pb.Object {
	o := plainPool("caches", members...)
	o.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_STICKY.Enum()
	return o
}

func threeCaches(port uint16) []string {
	return []string{cacheAddr(1, port), cacheAddr(2, port), cacheAddr(3, port)}
}

// ours lists what of the kernel's rules is ours.
func ours(t *testing.T) (list []string) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		list = append(list, "table "+table.Name)
	}
	rules, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if r.Mark != 0 {
			list = append(list, r.String())
		}
	}
	return list
}

// B-12: destinations keep their cache, whoever asks; the mask makes groups of them; clearing lets them move. Traffic for this host
// is not touched, a process that is killed leaves nothing to the next one, and a hand-over keeps everything.
func TestWildcard(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	x := newCrossing(t)
	x.serve(func(n int) string { return cacheAddr(n, 3128) })
	dir := t.TempDir()
	s := newSite(t, dir, "")
	udp := object(&pb.Service{Port: 0, Udp: new(true)})
	if missing := s.apply(stickyPool(threeCaches(3128)...), virtualServer("0.0.0.0:0", "caches"), udp); len(missing) > 0 {
		t.Fatal(reasons(missing))
	}

	at := map[string]string{}
	seen := map[string]int{}
	for i := range 200 {
		addr := fmt.Sprintf("198.51.%d.%d:80", i/100, i%100+1)
		at[addr] = x.ask("tcp", addr)
		seen[at[addr]]++
	}
	if seen["1"] < 66 || seen["2"] < 66 || seen["3"] < 66 {
		t.Fatalf("200 destinations are spread as %v", seen)
	}
	for addr, cache := range at {
		host, _, _ := net.SplitHostPort(addr)
		if got := x.ask("tcp", net.JoinHostPort(host, "443")); got != cache { // the port is no part of the key
			t.Errorf("%s port 443 is at %s, port 80 was at %s", host, got, cache)
		}
	}
	some := []string{"198.51.0.1:53", "198.51.0.2:5000", "198.51.1.3:53"}
	for _, addr := range some {
		host, _, _ := net.SplitHostPort(addr)
		if got := x.ask("udp", addr); got != at[host+":80"] {
			t.Errorf("datagrams to %s go to %s, connections to %s", addr, got, at[host+":80"])
		}
	}
	if got := x.ask("tcp", "10.1.0.1:80"); !strings.Contains(got, "refused") {
		t.Errorf("this host's own address: %q", got)
	}

	if n, err := s.engine.ClearRecords(&pb.RecordFilter{}); err != nil || n != 200 {
		t.Errorf("cleared %d, %v", n, err)
	}
	moved := 0
	for i := range 100 {
		addr := fmt.Sprintf("198.51.0.%d:80", i+1)
		if x.ask("tcp", addr) != at[addr] {
			moved++
		}
	}
	if moved == 0 {
		t.Error("sticky clear moved nothing")
	}

	masked := stickyPool(threeCaches(3128)...)
	masked.GetPool().StickyMask = new("255.255.255.0")
	s.apply(masked)
	for network := range 4 {
		first := x.ask("tcp", fmt.Sprintf("203.0.%d.1:80", network))
		for host := 2; host < 20; host++ {
			if got := x.ask("tcp", fmt.Sprintf("203.0.%d.%d:80", network, host)); got != first {
				t.Errorf("203.0.%d.%d is at %s, its network at %s", network, host, got, first)
			}
		}
	}

	// A narrower virtual server takes its network away from the wildcard; another port is the wildcard's.
	s.apply(plainPool("third", cacheAddr(3, 3128)), object(&pb.VirtualServer{
		Address: "192.0.2.0:80", Netmask: new("255.255.255.0"), Pools: []*pb.WeightedPool{{Pool: "third"}},
	}))
	for host := range 6 {
		if got := x.ask("tcp", fmt.Sprintf("192.0.2.%d:80", host+1)); got != "3" {
			t.Errorf("192.0.2.%d is at %q", host+1, got)
		}
	}

	// A removed virtual server intercepts nothing more.
	s.update(nil, []string{"virtual/0.0.0.0:0"})
	if x.reaches("198.51.0.1:80") {
		t.Error("somebody answers after the virtual server was removed")
	}
	if len(ours(t)) != 2 {
		t.Errorf("rules %q", ours(t))
	}

	// As after kill -9: the state directory, the lock apart, and the kernel's rules are as they were.
	after := t.TempDir()
	if err := os.WriteFile(filepath.Join(after, interceptMarker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := newSite(t, after, "")
	if left := ours(t); len(left) != 0 {
		t.Errorf("the next process left %q", left)
	}
	next.close()
	s.close()
	if left := ours(t); len(left) != 0 {
		t.Errorf("the end left %q", left)
	}
	if _, err := os.Stat(filepath.Join(dir, interceptMarker)); !os.IsNotExist(err) {
		t.Errorf("the marker is still there: %v", err)
	}
}

// Both families, and a virtual server for one port.
func TestWildcardIPv6(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	x := newCrossing(t)
	x.serve(func(n int) string { return fmt.Sprintf("[fd02:%d::9]:3128", n) })
	s := newSite(t, "", "")
	pool := stickyPool("[fd02:1::9]:3128", "[fd02:2::9]:3128", "[fd02:3::9]:3128")
	if missing := s.apply(pool, virtualServer("[::]:80", "caches"), object(&pb.Service{Port: 80, Udp: new(true)})); len(missing) > 0 {
		t.Fatal(reasons(missing))
	}
	seen := map[string]bool{}
	for i := range 9 {
		addr := fmt.Sprintf("[2001:db8::%d]:80", i+1)
		first := x.ask("tcp", addr)
		seen[first] = true
		for _, network := range []string{"tcp", "udp"} {
			if got := x.ask(network, addr); got != first {
				t.Errorf("%s over %s is at %s, was at %s", addr, network, got, first)
			}
		}
	}
	if !seen["1"] || !seen["2"] || !seen["3"] || len(seen) != 3 {
		t.Errorf("answers of %v", seen)
	}
	if got := x.ask("tcp", "[fd01::1]:80"); got != "1" && got != "2" && got != "3" { // the host's own address, at that port
		t.Errorf("the host's own address: %q", got)
	}
	if x.reaches("[2001:db8::1]:81") {
		t.Error("another port is served")
	}
}

// translate addr disable: the member is the way to where the client wanted to go, not where it wanted to go.
func TestTranslateDisabled(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	x := newCrossing(t)
	for _, h := range x.caches { // each takes what is for 198.51.100.7
		h.Do(func() { namespace.Give(t, "lo", "198.51.100.7/32") })
	}
	x.serve(func(int) string { return "198.51.100.7:8080" })
	s := newSite(t, "", "")
	vs := object(&pb.VirtualServer{
		Address: "0.0.0.0:0", Pools: []*pb.WeightedPool{{Pool: "caches"}}, TranslateAddr: new(false), TranslatePort: new(false),
	})
	if missing := s.apply(plainPool("caches", threeCaches(0)...), vs, object(&pb.Service{Port: 0, Udp: new(true)})); len(missing) > 0 {
		t.Fatal(reasons(missing))
	}
	for _, network := range []string{"tcp", "udp"} {
		var answers []string
		for range 3 {
			answers = append(answers, x.ask(network, "198.51.100.7:8080"))
		}
		slices.Sort(answers)
		if got := strings.Join(answers, " "); got != "1 2 3" {
			t.Errorf("%s: answers of %s, want each cache's", network, got)
		}
	}
	if got := s.engine.intercepts.kernel.Mark(netip.MustParseAddr("10.2.1.9")); got == 0 {
		t.Error("a member is no gateway")
	}
	s.close()
	if left := ours(t); len(left) != 0 {
		t.Errorf("the end left %q", left)
	}
}

// What cannot be intercepted is not in effect, and is as soon as it can.
func TestInterceptionComesBack(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	dir := t.TempDir()
	s := newSite(t, dir, "")
	marker := filepath.Join(dir, interceptMarker)
	if err := os.Mkdir(marker, 0o700); err != nil { // so that it cannot be noted that there are rules
		t.Fatal(err)
	}
	missing := s.apply(stickyPool("10.2.1.9:3128"), virtualServer("0.0.0.0:0", "caches"))
	if got := reasons(missing); !strings.Contains(got, "packets are not intercepted") || len(ours(t)) != 0 {
		t.Fatalf("%s, rules %q", got, ours(t))
	}
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	s.engine.mu.Lock()
	s.engine.intercepts.retryAt = time.Now()
	s.engine.mu.Unlock()
	eventually(t, "it is in effect", func() bool { return len(s.engine.Status().GetNotInEffect()) == 0 })
	if len(ours(t)) == 0 {
		t.Error("the kernel has no rules")
	}
	// A firewall that is loaded anew takes all rules away.
	if err := intercept.Clean(); err != nil {
		t.Fatal(err)
	}
	s.engine.mu.Lock()
	s.engine.intercepts.looked = time.Time{}
	s.engine.mu.Unlock()
	eventually(t, "the rules are there again", func() bool { return len(ours(t)) > 0 })
}
