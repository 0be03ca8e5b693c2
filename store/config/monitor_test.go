package config

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// monitoredSite has monitors that derive from each other, in a circle too, and their uses.
func monitoredSite() View {
	o := NewOverlay(nil)
	monitor := func(m *pb.Monitor) { o.Put(&pb.Object{Kind: &pb.Object_Monitor{Monitor: m}}) }
	use := func(u *pb.MonitorUse) { o.Put(&pb.Object{Kind: &pb.Object_MonitorUse{MonitorUse: u}}) }
	monitor(&pb.Monitor{Name: "shop", Use: "http", Interval: proto.Uint32(10)})
	monitor(&pb.Monitor{Name: "aside", Use: "shop", Dest: proto.String("11.11.11.1:*"), Enabled: proto.Bool(false)})
	monitor(&pb.Monitor{Name: "six", Use: "tcp", Dest: proto.String("[2001:db8::9]:443")})
	monitor(&pb.Monitor{Name: "port", Use: "tcp", Dest: proto.String("*:8080")})
	monitor(&pb.Monitor{Name: "a", Use: "b"})
	monitor(&pb.Monitor{Name: "b", Use: "a"})
	monitor(&pb.Monitor{Name: "self", Use: "self"})
	use(&pb.MonitorUse{Target: "*:80", Monitors: []string{"tcp"}})
	use(&pb.MonitorUse{Target: "10.1.1.1:80", Monitors: []string{"shop", "aside"}})
	use(&pb.MonitorUse{Target: "10.1.1.2:80", Enabled: proto.Bool(false)})
	use(&pb.MonitorUse{Target: "10.1.1.1", Monitors: []string{"icmp"}})
	return o
}

func TestMonitorDestination(t *testing.T) {
	v := monitoredSite()
	for _, test := range []struct{ monitor, node, want string }{
		{"http", "10.1.1.1:80", "10.1.1.1:80"},
		{"http", "10.1.1.1", "10.1.1.1"},
		{"http", "[2001:db8::1]:80", "[2001:db8::1]:80"},
		{"https_443", "10.1.1.1:80", "10.1.1.1:443"},
		{"shop", "10.1.1.1:80", "10.1.1.1:80"},
		{"aside", "10.1.1.1:80", "11.11.11.1:80"},
		{"aside", "10.1.1.1", "11.11.11.1"},
		{"six", "10.1.1.1:80", "[2001:db8::9]:443"},
		{"port", "2001:db8::1", "[2001:db8::1]:8080"},
		{"a", "10.1.1.1:80", "10.1.1.1:80"},
		{"self", "10.1.1.1:80", "10.1.1.1:80"},
		{"nosuch", "10.1.1.1:80", "10.1.1.1:80"},
	} {
		if got := MonitorDestination(v, test.monitor, test.node); got != test.want {
			t.Errorf("%s at %s looks at %s, not %s", test.monitor, test.node, got, test.want)
		}
	}
}

func TestMonitorTimes(t *testing.T) {
	v := monitoredSite()
	for name, want := range map[string][2]uint32{"http": {5, 16}, "shop": {10, 16}, "aside": {10, 16}, "a": {0, 0}} {
		if interval, timeout := MonitorTimes(v, name); interval != want[0] || timeout != want[1] {
			t.Errorf("%s: %d and %d seconds, want %v", name, interval, timeout, want)
		}
	}
}

func TestMonitorsOf(t *testing.T) {
	v := monitoredSite()
	for _, test := range []struct {
		node, want string
		enabled    bool
	}{
		{"10.1.1.1:80", "shop aside", true},
		{"10.1.1.2:80", "tcp", false},
		{"10.1.1.3:80", "tcp", true},
		{"10.1.1.1:443", "", true},
		{"10.1.1.1", "icmp", true},
		{"10.1.1.2", "", true},
	} {
		names, enabled := MonitorsOf(v, test.node)
		if strings.Join(names, " ") != test.want || enabled != test.enabled {
			t.Errorf("%s: %v, enabled %v", test.node, names, enabled)
		}
	}
	for name, want := range map[string]bool{"shop": true, "aside": false, "http": true, "nosuch": false} {
		if MonitorEnabled(v, name) != want {
			t.Errorf("%s: enabled is not %v", name, want)
		}
	}
}

// TestLegacyMonitors: nodes without monitors are checked as 3.x does, where it is configured.
func TestLegacyMonitors(t *testing.T) {
	n := proto.Uint32
	service := func(port uint32, tping, timeout *uint32) *pb.Object {
		return &pb.Object{Kind: &pb.Object_Service{Service: &pb.Service{Port: port, Tping: tping, TpingTimeout: timeout}}}
	}
	global := &pb.Object{Kind: &pb.Object_Global{Global: &pb.Global{TpingNode: n(10), TimeoutNode: n(31)}}}
	v := NewTree(global, service(80, n(61), nil), service(81, nil, n(20)), service(82, n(0), n(16)), service(83, nil, nil))
	for node, want := range map[string]string{
		"10.1.1.1": "tping_node icmp 10 31", "10.1.1.1:80": "tping_svc 80 tcp 61 184", "10.1.1.1:81": "tping_svc 81 tcp 5 20",
		"10.1.1.1:82": "", "10.1.1.1:83": "", "10.1.1.1:84": "",
	} {
		names, enabled := MonitorsOf(v, node)
		got := ""
		for _, name := range names {
			m, template := MonitorSettings(v, name)
			got = fmt.Sprintln(name, template, m.GetInterval(), m.GetTimeout())
		}
		if strings.TrimSpace(got) != want || !enabled {
			t.Errorf("%s: %q, enabled %t, want %q", node, got, enabled, want)
		}
	}
}

// TestActiveLines: lines of bigd.conf: that of an address and port comes first, then that of the port, then the simple check; a monitor
// comes before all. The times are those of the port.
func TestActiveLines(t *testing.T) {
	n := proto.Uint32
	line := func(target string, texts ...string) *pb.Object {
		a := &pb.Active{Target: target}
		if len(texts) > 0 {
			a.Send = &texts[0]
		}
		if len(texts) > 1 {
			a.Recv = &texts[1]
		}
		return &pb.Object{Kind: &pb.Object_Active{Active: a}}
	}
	service := func(port uint32, tping, timeout *uint32) *pb.Object {
		return &pb.Object{Kind: &pb.Object_Service{Service: &pb.Service{Port: port, Tping: tping, TpingTimeout: timeout}}}
	}
	v := NewTree(
		service(80, n(61), n(129)), service(81, n(10), nil), service(82, n(0), nil), service(83, n(7), nil),
		line("10.1.1.1:80", "GET /one", "ok"), line("*:80", "GET /"), line("*:81", "hello", "^220"), line("*:82"), line("*:84"),
		line("10.1.1.2:85", "HEAD / HTTP/1.0", ""), line("[2001:db8::1]:80", "", "^+OK"),
		&pb.Object{Kind: &pb.Object_MonitorUse{MonitorUse: &pb.MonitorUse{Target: "10.1.1.9:80", Monitors: []string{"tcp"}}}},
	)
	for node, want := range map[string]string{
		"10.1.1.1:80":      `active 10.1.1.1:80 http 61 129 "GET /one" "ok" active/10.1.1.1:80`,
		"10.1.1.2:80":      `active 80 http 61 129 "GET /" "." active/*:80`,
		"10.1.1.1:81":      `active 81 tcp 10 31 "hello" "^220" active/*:81`,
		"10.1.1.1:82":      "", // tping_svc 82 0
		"10.1.1.1:83":      `tping_svc 83 tcp 7 22 "" "" service/83`,
		"10.1.1.1:84":      `active 84 tcp 5 16 "" "" active/*:84`,
		"10.1.1.2:85":      `active 10.1.1.2:85 http 5 16 "HEAD / HTTP/1.0" "." active/10.1.1.2:85`,
		"[2001:db8::1]:80": `active [2001:db8::1]:80 tcp 61 129 "" "^+OK" active/[2001:db8::1]:80`,
		"10.1.1.9:80":      `tcp tcp 5 16 "" "" monitor/tcp`,
		"10.1.1.1":         "",
	} {
		names, enabled := MonitorsOf(v, node)
		got := ""
		for _, name := range names {
			m, template := MonitorSettings(v, name)
			got += fmt.Sprintf("%s %s %d %d %q %q %s\n", name, template, m.GetInterval(), m.GetTimeout(), m.GetSend(), m.GetRecv(), MonitorObject(name))
		}
		if strings.TrimSpace(got) != want || !enabled {
			t.Errorf("%s: %s enabled %t, want %s", node, got, enabled, want)
		}
	}
}

// TestMonitorSettings: what is said closest to a monitor counts.
func TestMonitorSettings(t *testing.T) {
	monitor := func(m *pb.Monitor) *pb.Object { return &pb.Object{Kind: &pb.Object_Monitor{Monitor: m}} }
	v := NewTree(
		monitor(&pb.Monitor{Name: "page", Use: "http", Send: proto.String("GET /a"), Interval: proto.Uint32(7), Args: []string{"x", "y"}}),
		monitor(&pb.Monitor{Name: "other", Use: "page", Send: proto.String("GET /b"), Args: []string{"z"}}),
		monitor(&pb.Monitor{Name: "circle", Use: "circle"}), monitor(&pb.Monitor{Name: "lost", Use: "nothing"}),
	)
	m, template := MonitorSettings(v, "other")
	if template != "http" || m.GetSend() != "GET /b" || m.GetInterval() != 7 || m.GetTimeout() != 16 || strings.Join(m.GetArgs(), " ") != "z" {
		t.Errorf("%s: %v", template, m)
	}
	for _, name := range []string{"circle", "lost", "nothing"} {
		if _, template := MonitorSettings(v, name); template != "" {
			t.Errorf("%s: template %q", name, template)
		}
	}
	if _, template := MonitorSettings(v, "https_443"); template != "https" {
		t.Errorf("https_443: template %q", template)
	}
}
