package bigpipev1

import "google.golang.org/protobuf/proto"

// monitorTemplate makes a template: a monitor checks each 5 seconds, gives up after 16, and looks where its node is.
func monitorTemplate(name string, set func(m *Monitor)) *Monitor {
	m := &Monitor{Name: name, Interval: proto.Uint32(5), Timeout: proto.Uint32(16), Dest: proto.String("*:*")}
	if set != nil {
		set(m)
	}
	return m
}

// contents makes a template that sends a text and looks for another.
func contents(name, send string) *Monitor {
	return monitorTemplate(name, func(m *Monitor) {
		m.Send, m.Recv = proto.String(send), proto.String("")
		m.Transparent, m.Reverse = proto.Bool(false), proto.Bool(false)
	})
}

// login makes a template that logs in.
func login(name string) *Monitor {
	return monitorTemplate(name, func(m *Monitor) { m.Username, m.Password = proto.String(""), proto.String("") })
}

// MonitorTemplates returns the monitors that exist without a definition, with their defaults. The list is the caller's.
func MonitorTemplates() []*Monitor {
	web := func(name string) *Monitor {
		m := contents(name, "GET /")
		m.Username, m.Password = proto.String(""), proto.String("")
		return m
	}
	https443 := monitorTemplate("https_443", func(m *Monitor) { m.Use, m.Dest = "https", proto.String("*:443") })
	healthChecker := monitorTemplate("health_checker", func(m *Monitor) {
		m.Interval, m.Timeout, m.Url = proto.Uint32(30), proto.Uint32(10), proto.String("/")
		m.ActiveHealthcheck, m.HealthcheckRetries = proto.Bool(false), proto.Uint32(3)
	})
	echo := monitorTemplate("tcp_echo", func(m *Monitor) { m.Transparent = proto.Bool(false) })
	return []*Monitor{
		monitorTemplate("icmp", nil), echo, contents("tcp", ""), monitorTemplate("external", nil), web("http"), web("https"), https443,
		login("ftp"), login("pop3"), monitorTemplate("smtp", nil), login("nntp"), login("sql"), monitorTemplate("gateway", nil),
		login("imap"), login("radius"), login("ldap"), monitorTemplate("wmi", nil), monitorTemplate("snmp_dca", nil),
		monitorTemplate("snmp_dca_base", nil), monitorTemplate("real_server", nil), monitorTemplate("udp", nil),
		healthChecker,
	}
}

// MonitorTemplateNames returns the names of MonitorTemplates, in their order. The list is the caller's.
func MonitorTemplateNames() []string {
	var names []string
	for _, m := range MonitorTemplates() {
		names = append(names, m.GetName())
	}
	return names
}
