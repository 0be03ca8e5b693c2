package config

import (
	"slices"
	"strconv"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// monitorDepth is how many monitors may derive from each other before it counts as a circle.
const monitorDepth = 32

// FindMonitor returns a monitor, or the template of that name; nil if there is none.
func FindMonitor(v View, name string) *pb.Monitor {
	if m := v.Get("monitor/" + name).GetMonitor(); m != nil {
		return m
	}
	for _, m := range pb.MonitorTemplates() {
		if m.GetName() == name {
			return m
		}
	}
	return nil
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

// MonitorDestination returns where a monitor of a node, ADDRESS or ADDRESS:PORT, looks: its dest, with the node's own where that
// says *. Without a port on either side it is an address.
func MonitorDestination(v View, name, node string) string {
	line := monitorLine(v, name)
	i := slices.IndexFunc(line, func(m *pb.Monitor) bool { return m.Dest != nil })
	if i < 0 {
		return node
	}
	address, port, hasPort := SplitAddress(node)
	host, service, hasService := line[i].GetDest(), uint16(0), false
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

// MonitorsOf returns the monitors of a node, ADDRESS or ADDRESS:PORT, and whether they are enabled for it. A node without
// monitors of its own has those of its port (*:PORT); an address has its own alone.
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
	return names, enabled
}

// MonitorEnabled reports whether a monitor is switched on; the one that it is derived from does not matter.
func MonitorEnabled(v View, name string) bool {
	m := FindMonitor(v, name)
	return m != nil && (m.Enabled == nil || m.GetEnabled())
}
