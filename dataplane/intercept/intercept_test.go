package intercept

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bigpipe/dataplane/namespace"
)

// listen opens a socket for intercepted connections and answers each with a name and the address that it was meant for.
func listen(t *testing.T, name, addr string) uint16 {
	t.Helper()
	level, option := unix.IPPROTO_IP, unix.IP_TRANSPARENT
	if strings.HasPrefix(addr, "[") {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }); e != nil {
			return e
		}
		return err
	}}
	network := "tcp4"
	if option == unix.IPV6_TRANSPARENT {
		network = "tcp6"
	}
	l, err := config.Listen(context.Background(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s", name, c.LocalAddr())
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

func ask(t *testing.T, h *namespace.Host, addr string) string {
	t.Helper()
	answer := "error"
	h.Do(func() {
		c, err := net.DialTimeout("tcp", addr, 2*time.Second)
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		b := make([]byte, 100)
		n, _ := c.Read(b)
		answer = string(b[:n])
	})
	return answer
}

// state prints all that the kernel has that could be ours or another's.
func state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			fmt.Fprintln(&b, family, r.String(), r.Mark, r.Protocol)
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes {
			fmt.Fprintln(&b, r)
		}
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		fmt.Fprintln(&b, table.Name, table.Family)
	}
	return b.String()
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// A client behind this router reaches addresses that nobody has: the narrowest target answers, and what is no target is not touched.
func TestIntercept(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	client := namespace.Neighbour(t, "client", "10.1.0.", "fd01::")

	// Others' rules, which must stay: one with our mark's bits, one in our routing table, a table of nftables.
	foreign := netlink.NewRule()
	foreign.Family, foreign.Table, foreign.Mark, foreign.Priority = unix.AF_INET, routingTable, 7, 100
	if err := netlink.RuleAdd(foreign); err != nil {
		t.Fatal(err)
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	c.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	before := state(t)

	any4, any6 := listen(t, "any", "0.0.0.0:0"), listen(t, "any", "[::]:0")
	web, narrow := listen(t, "web", "0.0.0.0:0"), listen(t, "narrow", "0.0.0.0:0")
	own := listen(t, "own", "10.1.0.1:0")
	targets := []Target{
		{Network: prefix("0.0.0.0/0"), Local: any4},
		{Network: prefix("::/0"), Local: any6},
		{Network: prefix("0.0.0.0/0"), Port: 80, Local: web},
		{Network: prefix("192.0.2.0/24"), Local: narrow},
	}
	var x Interceptor
	for range 2 { // setting the same twice changes nothing
		if err := x.Set(targets); err != nil {
			t.Fatal(err)
		}
	}
	for addr, want := range map[string]string{
		"198.51.100.7:8080":                         "any 198.51.100.7:8080",
		"198.51.100.7:80":                           "web 198.51.100.7:80",
		"192.0.2.200:80":                            "narrow 192.0.2.200:80",
		"[2001:db8::7]:443":                         "any [2001:db8::7]:443",
		fmt.Sprintf("10.1.0.1:%d", own):             fmt.Sprintf("own 10.1.0.1:%d", own),
		fmt.Sprintf("10.1.0.1:%d", own+1|1):         "error", // the host's own address is not intercepted
		fmt.Sprintf("[fd01::1]:%d", 1+(any6+1)%100): "error",
	} {
		if got := ask(t, client, addr); got != want {
			t.Errorf("%s: answered by %q, want %q", addr, got, want)
		}
	}
	if err := x.Set(targets[3:]); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, client, "192.0.2.1:1"); got != "narrow 192.0.2.1:1" {
		t.Errorf("after the others were taken away: %q", got)
	}
	if got := ask(t, client, "198.51.100.7:80"); got != "error" {
		t.Errorf("what is no target any more: %q", got)
	}

	// What the process before was killed with is taken over or removed; the one that hands over removes nothing.
	var next Interceptor
	if err := next.Set(targets); err != nil {
		t.Fatal(err)
	}
	x.Leave()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, client, "198.51.100.7:80"); got != "web 198.51.100.7:80" {
		t.Errorf("after a hand-over: %q", got)
	}
	for range 2 { // there is nothing the second time
		if err := Clean(); err != nil {
			t.Fatal(err)
		}
		if after := state(t); after != before {
			t.Errorf("left behind or taken away:\n%s\nwas\n%s", after, before)
		}
	}
	if _, err := exec.LookPath("nft"); err == nil {
		out, _ := exec.Command("nft", "list", "tables").CombinedOutput()
		if strings.Contains(string(out), tableName) {
			t.Errorf("nft lists %s", out)
		}
	}
}

// What others take away comes back; what is as it was stays.
func TestRepair(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Neighbour(t, "one", "10.1.0.", "fd01::")
	var x Interceptor
	if missing, err := x.Repair(); missing || err != nil {
		t.Errorf("without anything: %v, %v", missing, err)
	}
	if err := x.Set([]Target{{Network: prefix("192.0.2.0/24"), Local: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := x.SetGateways([]netip.Addr{netip.MustParseAddr("10.1.0.9")}); err != nil {
		t.Fatal(err)
	}
	whole := state(t)
	for name, take := range map[string]func() error{
		"the table":  removeTable,
		"the rules":  func() error { return unroute(func(int) bool { return true }) },
		"everything": Clean,
		"nothing":    func() error { return nil },
	} {
		if err := take(); err != nil {
			t.Fatal(err)
		}
		if missing, err := x.Repair(); err != nil || missing != (name != "nothing") {
			t.Errorf("%s: missing %v, %v", name, missing, err)
		}
		if got := state(t); got != whole {
			t.Errorf("%s was taken away: there is\n%s\nwas\n%s", name, got, whole)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if missing, err := x.Repair(); missing || err != nil {
		t.Errorf("after the end: %v, %v", missing, err)
	}
}

// Targets that the kernel refuses leave the rules as they were.
func TestRefusedTargets(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	var x Interceptor
	good := []Target{{Network: prefix("192.0.2.0/24"), Local: 1}}
	if err := x.Set(good); err != nil {
		t.Fatal(err)
	}
	before := state(t)
	many := make([]Target, 100)
	for i := range many {
		many[i] = Target{Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24), Local: uint16(i + 1)}
	}
	if err := x.Set(many); err != nil || state(t) != before {
		t.Errorf("%v\n%s\nwas\n%s", err, state(t), before)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if s := state(t); strings.Contains(s, tableName) || strings.Contains(s, fmt.Sprint(routingTable)) {
		t.Errorf("left behind:\n%s", s)
	}
}

// What is sent with a gateway's mark leaves through it, whatever its destination.
func TestGateways(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	var hosts []*namespace.Host
	for i, name := range []string{"one", "two"} {
		hosts = append(hosts, namespace.Neighbour(t, name, fmt.Sprintf("10.%d.0.", i+1), fmt.Sprintf("fd0%d::", i+1)))
	}
	for i, h := range hosts { // both have the same addresses, which nobody here knows a way to
		h.Do(func() {
			for _, network := range []string{"192.0.2.80/32", "2001:db8::80/128"} {
				namespace.Give(t, "lo", network)
			}
			for _, addr := range []string{"192.0.2.80:80", "[2001:db8::80]:80"} {
				l, err := net.Listen("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { l.Close() })
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
			}
		})
	}
	before := state(t)
	var x Interceptor
	gateways := []netip.Addr{
		netip.MustParseAddr("10.1.0.9"), netip.MustParseAddr("10.2.0.9"), netip.MustParseAddr("fd01::9"), netip.MustParseAddr("fd02::9"),
	}
	stranger := netip.MustParseAddr("198.51.100.1")
	if err := x.SetGateways(append(gateways, stranger)); err == nil || x.Mark(stranger) != 0 {
		t.Errorf("a gateway that is no neighbour: %v, mark %d", err, x.Mark(stranger))
	}
	ask := func(through netip.Addr) string {
		d := net.Dialer{Timeout: 2 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
			if e := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(x.Mark(through)))
			}); e != nil {
				return e
			}
			return err
		}}
		to := "192.0.2.80:80"
		if through.Is6() {
			to = "[2001:db8::80]:80"
		}
		c, err := d.Dial("tcp", to)
		if err != nil {
			return "error"
		}
		defer c.Close()
		b := make([]byte, 10)
		n, _ := c.Read(b)
		return string(b[:n])
	}
	for i, want := range []string{"1", "2", "1", "2"} {
		if got := ask(gateways[i]); got != want {
			t.Errorf("through %s: %q, want %q", gateways[i], got, want)
		}
	}
	if err := x.SetGateways(gateways[1:2]); err != nil {
		t.Error(err)
	}
	if a, b := ask(gateways[0]), ask(gateways[1]); a != "error" || b != "2" {
		t.Errorf("after one was taken away: %q, %q", a, b)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if after := state(t); after != before {
		t.Errorf("left behind:\n%s\nwas\n%s", after, before)
	}
}
