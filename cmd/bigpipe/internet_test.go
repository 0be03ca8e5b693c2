package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bigpipe/dataplane/namespace"
)

// internet is a router that runs our programs in the test's namespace, with clients on one side and three Squids on the other. The
// Squids alone reach the origin, which has every address of 198.51.0.0/16 and 203.0.0.0/16.
type internet struct {
	*testing.T
	client *namespace.Host

	mu      sync.Mutex
	fetched map[string]int // how often the origin was asked, by address
}

// squidConfig is that of one cache: %[1]s is its name, %[2]s its folder. It takes what is sent to others, and what is sent to
// itself for others.
const squidConfig = `visible_hostname %[1]s
http_port 3128
http_port 3129 intercept
http_port 3130 accel vhost allow-direct
http_access allow all
always_direct allow all
cache_mem 8 MB
max_filedescriptors 1024
dns_nameservers 127.0.0.1
pid_filename none
access_log none
cache_log %[2]s/cache.log
coredump_dir %[2]s
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
`

// squidRules have a cache take what it would pass on.
const squidRules = `table ip cache {
  chain take {
    type nat hook prerouting priority dstnat
    iifname "%s" ip daddr { 198.51.0.0/16, 203.0.0.0/16 } tcp dport 80 redirect to :3129
  }
}
`

func newInternet(t *testing.T) *internet {
	in := &internet{T: t, client: namespace.Neighbour(t, "client", "10.1.0.", "fd01::"), fetched: map[string]int{}}
	in.client.Do(func() { namespace.Give(t, "client", "10.1.0.10/24") })
	var origin *namespace.Host
	for n := 1; n <= 3; n++ {
		name, way, end := fmt.Sprint("cache", n), fmt.Sprint("way", n), fmt.Sprint("origin", n)
		cache := namespace.Neighbour(t, name, fmt.Sprintf("10.2.%d.", n), fmt.Sprintf("fd02:%d::", n))
		namespace.Pair(t, way, end)
		out := cache.Move(t, way, fmt.Sprintf("10.3.%d.9/24", n))
		if origin == nil {
			origin = namespace.NewHost(t, end, nil, "10.3.1.1/24")
		} else {
			origin.Move(t, end, fmt.Sprintf("10.3.%d.1/24", n))
		}
		cache.Do(func() {
			for _, network := range []string{"198.51.0.0/16", "203.0.0.0/16"} {
				in.route(netlink.Route{LinkIndex: out.Attrs().Index, Gw: net.IPv4(10, 3, byte(n), 1)}, network)
			}
		})
		in.startSquid(cache, name)
	}
	in.startOrigin(origin)
	return in
}

func (in *internet) route(r netlink.Route, network string) {
	in.Helper()
	var err error
	if r.Dst, err = netlink.ParseIPNet(network); err == nil {
		err = netlink.RouteAdd(&r)
	}
	if err != nil {
		in.Error(err)
	}
}

func (in *internet) startSquid(at *namespace.Host, name string) {
	in.Helper()
	dir, err := os.MkdirTemp("", "bigpipe-squid-")
	if err != nil {
		in.Fatal(err)
	}
	in.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // it is written by another user
		in.Fatal(err)
	}
	config := filepath.Join(dir, "squid.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, squidConfig, name, dir), 0o644); err != nil {
		in.Fatal(err)
	}
	at.Do(func() { in.nft(fmt.Sprintf(squidRules, name), "-f", "-") })
	program := exec.Command("squid", "-N", "-f", config)
	log, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		in.Fatal(err)
	}
	defer log.Close()
	program.Stdout, program.Stderr = log, log
	at.Start(in.T, program)
	for end := time.Now().Add(20 * time.Second); err == nil; time.Sleep(20 * time.Millisecond) {
		var c net.Conn
		at.Do(func() { c, err = net.Dial("tcp", "127.0.0.1:3130") })
		if err == nil {
			c.Close()
			return
		}
		if time.Now().Before(end) {
			err = nil
		}
	}
	output, _ := os.ReadFile(log.Name())
	in.Fatalf("squid does not listen: %v\n%s", err, output)
}

// startOrigin starts a web server at every address that the host has no route to. It says which cache asks.
func (in *internet) startOrigin(at *namespace.Host) {
	at.Do(func() {
		for _, network := range []string{"198.51.0.0/16", "203.0.0.0/16"} {
			in.route(netlink.Route{LinkIndex: 1, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Table: unix.RT_TABLE_LOCAL}, network)
		}
		for _, addr := range []string{"0.0.0.0:80", "0.0.0.0:8000"} {
			l, err := net.Listen("tcp4", addr)
			if err != nil {
				in.Error(err)
				return
			}
			server := &http.Server{Handler: http.HandlerFunc(in.answer)}
			in.Cleanup(func() { _ = server.Close() })
			go func() { _ = server.Serve(l) }()
		}
	})
}

func (in *internet) answer(w http.ResponseWriter, r *http.Request) {
	at := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
	in.mu.Lock()
	in.fetched[at]++
	in.mu.Unlock()
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = fmt.Fprintf(w, "%s by %s", at, r.Header.Get("Via"))
}

// fetches returns how often the origin was asked for each address.
func (in *internet) fetches() map[string]int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.fetched)
}

// ask has a client ask an address for its page, and returns which cache answers. The page must be that of the address.
func (in *internet) ask(from, addr string) (cache string) {
	in.Helper()
	var conn net.Conn
	var err error
	in.client.Do(func() {
		d := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err = d.Dial("tcp", addr)
	})
	if err != nil {
		in.Fatalf("%s: %v", addr, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		in.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", strings.TrimSuffix(addr, ":80"))
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		in.Fatalf("%s: %v", addr, err)
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), addr+" by ") {
		in.Fatalf("%s: status %d, %v: %.300s", addr, reply.StatusCode, err, body)
	}
	_, cache, _ = strings.Cut(reply.Header.Get("X-Cache"), " from ")
	if !strings.Contains(string(body), " "+cache+" ") { // it is its own copy
		in.Errorf("%s: %s answers with what was fetched for %s", addr, cache, body)
	}
	return cache
}

// nft runs the program, with text as its input.
func (in *internet) nft(text string, args ...string) string {
	cmd := exec.Command("nft", args...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		in.Errorf("nft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rules returns what this host does with packets: what is ours of nftables' tables, of routing rules and of routes, and all else.
func (in *internet) rules() (ours, others string) {
	in.Helper()
	sort := func(isOurs bool, text string) {
		if isOurs {
			ours += text
		} else {
			others += text
		}
	}
	inOurs := false
	for line := range strings.Lines(in.nft("", "list", "ruleset")) {
		if strings.HasPrefix(line, "table ") {
			inOurs = strings.HasPrefix(line, "table inet bigpipe ")
		}
		sort(inOurs, line)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			in.Fatal(err)
		}
		for _, r := range rules {
			sort(r.Protocol == ourProtocol, fmt.Sprintln(r.String(), r.Mark))
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			in.Fatal(err)
		}
		for _, r := range routes {
			if family == unix.AF_INET6 && r.Protocol != ourProtocol {
				continue // the kernel's come some moments after the devices
			}
			sort(r.Protocol == ourProtocol, fmt.Sprintln(r.String()))
		}
	}
	return ours, others
}

// ourProtocol marks routing rules and routes as the dataplane's.
const ourProtocol = 177
