package dataplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/namespace"
	pb "bigpipe/proto/bigpipe/v1"
)

// TestTransparentMonitors: a monitor with a dest looks at it through each node: two nodes lead to a good answer, a third to another
// one. Nothing listens at the nodes themselves.
func TestTransparentMonitors(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	filters, _ := filepath.Glob("/proc/sys/net/ipv4/conf/*/rp_filter")
	for _, name := range filters { // the answers come from where no route leads
		_ = os.WriteFile(name, []byte("0"), 0o600)
	}
	x := newCrossing(t)
	for _, cache := range x.caches {
		cache.Do(func() {
			namespace.Give(t, "lo", "198.51.100.53/32")
			namespace.Give(t, "lo", "fd53::53/128")
		})
	}
	x.serve(func(int) string { return "[::]:8053" })
	one, two, three := cacheAddr(1, 80), cacheAddr(2, 80), cacheAddr(3, 80)
	monitor := func(name, template, dest, recv string) *pb.Object {
		m := quick(name, template)
		m.GetMonitor().Dest, m.GetMonitor().Transparent = proto.String(dest), proto.Bool(true)
		if recv != "" {
			m.GetMonitor().Recv = proto.String(recv)
		}
		return m
	}
	s := newSite(t, "", "")
	want(t, reasons(s.apply(monitor("through", "tcp", "198.51.100.53:8053", "^[12]$"),
		monitorUse(one, "through"), monitorUse(two, "through"), monitorUse(three, "through"), plainPool("p", one, two, three))), "")
	s.awaitState("p", one, "up")
	s.awaitState("p", two, "up")
	s.awaitState("p", three, "down")

	t.Run("a_connect_alone", func(t *testing.T) {
		s.apply(monitor("connects", "tcp", "198.51.100.53:8053", ""), monitor("refused", "tcp", "198.51.100.53:1", ""),
			monitorUse(one, "refused"), monitorUse(three, "connects"))
		s.awaitState("p", one, "down")
		s.awaitState("p", three, "up")
	})
	t.Run("IPv6", func(t *testing.T) {
		six := "[fd02:1::9]:80"
		s.apply(monitor("six", "tcp", "[fd53::53]:8053", "^1$"), monitorUse(six, "six"), plainPool("q", six))
		s.awaitState("q", six, "up")
	})
	t.Run("not_a_neighbour", func(t *testing.T) {
		far := "203.0.113.9:80"
		s.apply(monitorUse(far, "through"), plainPool("r", far))
		s.awaitState("r", far, "down")
	})
	t.Run("not_permitted", func(t *testing.T) {
		without(t, func() {
			want(t, reasons(s.apply(monitor("late", "http", "198.51.100.53:8053", ""), monitorUse(two, "late"))),
				"monitor/late: transparent needs the capability CAP_NET_ADMIN: operation not permitted (unchecked by it: "+two+")")
		}, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW)
		s.apply(monitorUse(two, "through"))
		s.awaitState("p", two, "up")
	})
	t.Run("not_of_every_template", func(t *testing.T) {
		want(t, reasons(s.apply(monitor("ping", "icmp", "198.51.100.53", ""), monitorUse(two, "ping"))),
			"monitor/ping: transparent: it is for tcp, tcp_echo, http and https (unchecked by it: "+two+")")
	})
	if list := ours(t); len(list) == 0 {
		t.Error("no rules lead through nodes")
	}
	s.close()
	if list := ours(t); len(list) > 0 {
		t.Errorf("left behind: %s", strings.Join(list, ", "))
	}
}
