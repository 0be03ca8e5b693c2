package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// monitorDepth is how many monitors may derive from each other before it counts as a circle.
const monitorDepth = 32

// Monitors that stand for the checks of 3.x: the ping of each node address, the simple check of each member on a port, whose name is
// followed by the port, and the check by a line of bigd.conf, followed by what that line is of: PORT or ADDRESS:PORT.
const (
	PingMonitor    = "tping_node"
	ServiceMonitor = "tping_svc"
	ActiveMonitor  = "active"
)

// FindMonitor returns a monitor, or the template of that name; nil if there is none. It is not to be changed.
func FindMonitor(v View, name string) *pb.Monitor {
	if m := v.Get("monitor/" + name).GetMonitor(); m != nil {
		return m
	}
	if m := templateMonitors[name]; m != nil {
		return m
	}
	return legacyMonitor(v, name)
}

var templateMonitors = func() map[string]*pb.Monitor {
	byName := map[string]*pb.Monitor{}
	for _, m := range pb.MonitorTemplates() {
		byName[m.GetName()] = m
	}
	return byName
}()

// legacyMonitor is the check that tping_node and timeout_node, tping_svc and timeout_svc of a port, or a line of bigd.conf ask for;
// nil where they do not. Without a timeout it is three intervals and a second, without an interval the usual one.
func legacyMonitor(v View, name string) *pb.Monitor {
	word, of, _ := strings.Cut(name, " ")
	var interval, timeout *uint32
	var m *pb.Monitor
	switch word {
	case PingMonitor:
		g := Globals(v)
		if interval, timeout = g.TpingNode, g.TimeoutNode; interval != nil || timeout != nil {
			m = &pb.Monitor{Use: "icmp"}
		}
	case ServiceMonitor:
		s := v.Get("service/" + of).GetService()
		if interval, timeout = serviceTimes(s); interval != nil || timeout != nil {
			m = &pb.Monitor{Use: "tcp"}
		}
	case ActiveMonitor:
		target := activeTarget(of)
		if a := v.Get("active/" + target).GetActive(); a != nil {
			m = activeMonitor(a)
			_, port, _ := SplitAddress(target)
			interval, timeout = serviceTimes(v.Get("service/" + strconv.Itoa(int(port))).GetService())
		}
	}
	if m == nil || interval != nil && *interval == 0 {
		return nil
	}
	m.Name, m.Interval, m.Timeout = name, interval, timeout
	if interval != nil && timeout == nil {
		m.Timeout = proto.Uint32(3**interval + 1)
	}
	return m
}

func serviceTimes(s *pb.Service) (interval, timeout *uint32) {
	if s == nil {
		return nil, nil
	}
	return s.Tping, s.TpingTimeout
}

// activeMonitor is the check that a line of bigd.conf asks for: of an answer that matches, or any; without a text to send, of a
// connection. A text that begins as a request of HTTP does is completed to one.
func activeMonitor(a *pb.Active) *pb.Monitor {
	m := &pb.Monitor{Use: "tcp", Send: a.Send, Recv: a.Recv}
	if method, _, ok := strings.Cut(a.GetSend(), " "); ok && (method == "GET" || method == "HEAD" || method == "POST") {
		m.Use = "http"
		if a.GetRecv() == "" {
			m.Recv = proto.String(".")
		}
	}
	return m
}

// activeTarget is the target of the line of bigd.conf for PORT or ADDRESS:PORT, activeName the monitor of one with a target.
func activeTarget(of string) string {
	if strings.Contains(of, ":") {
		return of
	}
	return "*:" + of
}

func activeName(target string) string {
	return ActiveMonitor + " " + strings.TrimPrefix(target, "*:")
}

// MonitorObject is the key of the object by which a monitor is configured: checks of 3.x have no monitor of their own.
func MonitorObject(name string) string {
	word, of, _ := strings.Cut(name, " ")
	switch word {
	case PingMonitor:
		return "global"
	case ServiceMonitor:
		return "service/" + of
	case ActiveMonitor:
		return "active/" + activeTarget(of)
	}
	return "monitor/" + name
}

// MonitorSettings joins a monitor with those that it is derived from: what is said closest to it counts. Template is the name of
// the template at the end of the line; "" if it does not lead to one.
func MonitorSettings(v View, name string) (m *pb.Monitor, template string) {
	m = &pb.Monitor{}
	for _, part := range slices.Backward(monitorLine(v, name)) {
		if part.Args != nil { // not added to each other
			m.Args = nil
		}
		proto.Merge(m, &pb.Monitor{
			Name: part.Name, Interval: part.Interval, Timeout: part.Timeout, Dest: part.Dest, Send: part.Send, Recv: part.Recv,
			Username: part.Username, Password: part.Password, Url: part.Url, Transparent: part.Transparent, Reverse: part.Reverse,
			Run: part.Run, Args: part.Args, ActiveHealthcheck: part.ActiveHealthcheck, HealthcheckRetries: part.HealthcheckRetries,
		})
		if templateMonitors[part.GetName()] == part && part.GetUse() == "" {
			template = part.GetName()
		}
	}
	return m, template
}

// monitorLine lists a monitor, the one that it is derived from, and so on up to a template.
func monitorLine(v View, name string) []*pb.Monitor {
	var line []*pb.Monitor
	for m := FindMonitor(v, name); m != nil && len(line) < monitorDepth; m = FindMonitor(v, m.GetUse()) {
		line = append(line, m)
		if m.GetUse() == m.GetName() {
			break
		}
	}
	return line
}

// MonitorTimes returns how often a monitor checks, and after how long without an answer a node is down, both in seconds.
func MonitorTimes(v View, name string) (interval, timeout uint32) {
	for _, m := range slices.Backward(monitorLine(v, name)) {
		if m.Interval != nil {
			interval = m.GetInterval()
		}
		if m.Timeout != nil {
			timeout = m.GetTimeout()
		}
	}
	return interval, timeout
}

// MonitorDestination returns where a monitor of a node, ADDRESS or ADDRESS:PORT, looks: its dest, or the address in its url, with
// the node's own where that says *. Without a port on either side it is an address.
func MonitorDestination(v View, name, node string) string {
	dest := ""
	for _, m := range monitorLine(v, name) {
		if dest = m.GetDest(); m.Dest == nil {
			dest = urlDestination(m.GetUrl())
		}
		if dest != "" {
			break
		}
	}
	if dest == "" {
		return node
	}
	address, port, hasPort := SplitAddress(node)
	host, service, hasService := dest, uint16(0), false
	if h, any := strings.CutSuffix(host, ":*"); any {
		host = strings.Trim(h, "[]")
	} else {
		host, service, hasService = SplitAddress(host)
	}
	if host != "*" {
		address = host
	}
	if hasService {
		port, hasPort = service, true
	}
	if !hasPort {
		return address
	}
	return JoinAddress(address, port)
}

// URLDestination is HOST:PORT of a URL, whose host may be a name; "" of a text that is none.
func URLDestination(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err == nil:
	case u.Scheme == "https":
		port = 443
	default:
		port = 80
	}
	return JoinAddress(u.Hostname(), uint16(port))
}

// urlDestination is ADDRESS:PORT of a URL that holds an address; "" of one that holds a name, or is none. Names become a dest when
// they are resolved.
func urlDestination(text string) string {
	to := URLDestination(text)
	if _, err := netip.ParseAddrPort(to); err != nil {
		return ""
	}
	return to
}

// MonitorsOf returns the monitors of a node, ADDRESS or ADDRESS:PORT, and whether they are enabled for it. A node without
// monitors of its own has those of its port (*:PORT); an address has its own alone. Where there are none it is checked as 3.x does,
// if that is configured.
func MonitorsOf(v View, node string) (names []string, enabled bool) {
	enabled = true
	_, port, isMember := SplitAddress(node)
	uses := []*pb.MonitorUse{v.Get("monitor_use/" + node).GetMonitorUse()}
	if isMember {
		uses = append(uses, v.Get("monitor_use/*:"+strconv.Itoa(int(port))).GetMonitorUse())
	}
	for _, use := range slices.Backward(uses) {
		if len(use.GetMonitors()) > 0 {
			names = use.GetMonitors()
		}
		if use != nil && use.Enabled != nil {
			enabled = use.GetEnabled()
		}
	}
	if len(names) == 0 {
		legacy := PingMonitor
		if isMember {
			legacy = legacyService(v, node, strconv.Itoa(int(port)))
		}
		if legacyMonitor(v, legacy) != nil {
			names = []string{legacy}
		}
	}
	return names, enabled
}

// legacyService names the check of a member as 3.x has it: by the line of bigd.conf of its address and port, by that of its port, or
// the simple one.
func legacyService(v View, node, port string) string {
	for _, target := range []string{node, "*:" + port} {
		if v.Get("active/"+target) != nil {
			return activeName(target)
		}
	}
	return ServiceMonitor + " " + port
}

// MonitorEnabled reports whether a monitor is switched on; the one that it is derived from does not matter.
func MonitorEnabled(v View, name string) bool {
	m := FindMonitor(v, name)
	return m != nil && (m.Enabled == nil || m.GetEnabled())
}
