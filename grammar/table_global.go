package grammar

import pb "bigpipe/proto/bigpipe/v1"

// Globals, Services and Nodes are the attribute tables of the unit, of services and of nodes.
var Globals, Services, Nodes *Table

func init() {
	Globals = newTable(KindGlobal, "global", &pb.Global{}, globalRows())
	Services = newTable(KindService, "service", &pb.Service{}, []*Attribute{
		{Words: w("tcp"), Words3: w("port"), Release: Legacy, Value: ValueSwitch, Default: "enable", Field: "tcp", Help: "allow TCP", Acts: true},
		{Words: w("udp"), Release: Release4, Value: ValueSwitch, Default: "disable", Field: "udp", Help: "allow UDP", Acts: true},
		{Words: w("limit"), Words3: w("port limit"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "limit", Help: "connections at most, of all its virtual servers; 0: no limit", Acts: true},
		{
			Words: w("timeout tcp"), Words3: w("treaper"), Release: Legacy, Value: ValueSeconds, Field: "timeout_tcp",
			Help: "seconds after which an idle TCP connection is ended", Acts: true,
		},
		{
			Words: w("timeout udp"), Words3: w("udp"), Release: Legacy, Value: ValueSeconds, Field: "timeout_udp",
			Help: "seconds after which an idle UDP flow is ended", Acts: true,
		},
		{Words: w("tping_svc"), Words3: w("tping_svc"), Release: Release3, Value: ValueSeconds, Default: "5", Field: "tping", Help: "seconds between checks of the service", Acts: true},
		{
			Words: w("timeout_svc"), Words3: w("timeout_svc"), Release: Release3, Value: ValueSeconds, Default: "16", Field: "tping_timeout",
			Help: "seconds after which a silent service is down", Acts: true,
		},
	})
	Nodes = newTable(KindNode, "node", &pb.Node{}, []*Attribute{
		stateRow("enable", "disable", "enabled", "disable: open connections and persistent clients only", true),
		stateRow("up", "down", "up", "down: nothing new at all", true),
		{Words: w("limit"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "limit", Help: "connections at most; 0: no limit", Acts: true},
		{
			Words: w("ratio"), Words3: w("ratio"), Release: Legacy, Value: ValueNumber, Min: 1, Max: 65535, Default: "1", Field: "ratio",
			Help: "weight in mode ratio", Acts: true,
		},
	})
}

func globalRows() []*Attribute {
	rows := []*Attribute{
		{
			Words: w("lb"), Words3: w("lb"), Release: Legacy, Value: ValueWord, ValueAliases: lbModeAliases, Default: "round_robin", Field: "lb",
			Help: "load-balancing mode of pools that name none", Acts: true,
		},
		{Words: w("mirror"), Words3: w("mirror"), Release: Legacy, Value: ValueSwitch, Default: "disable", Field: "mirror", Help: "mirror to the other unit"},
		{
			Words: w("gateway failsafe"), Words3: w("gateway failsafe"), Release: Legacy, Value: ValueWord, Default: "disarm", Field: "gateway_failsafe",
			Help: "give up when the gateway is silent",
		},
		{Words: w("tping_node"), Words3: w("tping_node"), Release: Legacy, Value: ValueSeconds, Default: "5", Field: "tping_node", Help: "seconds between pings of a node", Acts: true},
		{
			Words: w("timeout_node"), Words3: w("timeout_node"), Release: Legacy, Value: ValueSeconds, Default: "16", Field: "timeout_node",
			Help: "seconds after which a silent node is down", Acts: true,
		},
		{Words: w("maint"), Words3: w("maint"), Release: Legacy, Value: ValueSwitch, Default: "disable", Field: "maint", Help: "maintenance mode: nothing new", Acts: true},
		{Words: w("unit"), Words3: w("unit"), Release: Legacy, Value: ValueNumber, Max: 255, Default: "1", Field: "unit", Help: "the unit's number"},

		{
			Words: w("persist_across_services"), Release: Legacy, Value: ValueSwitch, Default: "disable", Field: "persist_across_services",
			Help: "all services of a virtual address share records", Acts: true,
		},
		{
			Words: w("persist_across_virtuals"), Release: Legacy, Value: ValueSwitch, Default: "disable", Field: "persist_across_virtuals",
			Help: "all virtual servers share records", Acts: true,
		},
		{
			Words: w("persist_across_pools"), Release: Ours, Value: ValueSwitch, Default: "disable", Field: "persist_across_pools",
			Help: "a record's own pool may be used where the virtual server does not name it",
		},
		{
			Words: w("persist timer"), Aliases: [][]string{w("persist_timer")}, Release: Release4, Value: ValueWord, Default: "limit", Field: "persist_timer",
			Help: "limit: idle time, timeout: time since creation", Acts: true,
		},
		{
			Words: w("persist map_proxies"), Aliases: [][]string{w("persist_map_proxies")}, Release: Release4, Value: ValueSwitch, Default: "enable",
			Field: "persist_map_proxies", Help: "clients in the networks of map_proxy count as one, for simple persistence", Acts: true,
		},
		{Words: w("map_proxy"), Release: Ours, Value: valueForm, Field: "map_proxies", form: mapProxyForm, Help: "a network of proxies and the address it counts as, before the mask; repeatable, the longest counts", Acts: true},
		{
			Words: w("persist_table_limit"), Aliases: [][]string{w("persist table limit")}, Release: Ours, Value: ValueNumber, Default: "1000000",
			Field: "persist_table_limit", Help: "records at most", Acts: true,
		},
		{
			Words: w("sticky table limit"), Aliases: [][]string{w("sticky_table_limit")}, Release: Release4, Value: ValueNumber, Field: "sticky_table_limit",
			Help: "sticky records at most",
		},
		{
			Words: w("cookie_key"), Release: Ours, Value: valueForm, Field: "cookie_keys", form: cookieKeyForm,
			Help: "a key for encrypted cookies and its file of 64 hexadecimal digits; repeatable, the first encrypts, all decrypt; to change keys, put the new one first and keep the old one until its cookies are renewed", Acts: true,
		},
	}
	return append(rows, unitRows()...)
}

// unitRows are variables of the old unit; they are kept.
func unitRows() []*Attribute {
	sw := func(words, help string, aliases ...string) *Attribute {
		a := &Attribute{Words: w(words), Release: Release4, Value: ValueSwitch, Help: help}
		a.Field = fieldOf(words)
		for _, alias := range aliases {
			a.Aliases = append(a.Aliases, w(alias))
		}
		return a
	}
	num := func(words string, kind ValueKind, help string, aliases ...string) *Attribute {
		a := sw(words, help, aliases...)
		a.Value = kind
		return a
	}
	// own makes a variable that is written as a statement.
	own := func(a *Attribute, words string) *Attribute {
		a.Statement, a.Release = w(words), Legacy
		return a
	}
	percent := num("memory_reboot_percent", ValueNumber, "memory use at which the old unit restarts")
	percent.Max = 100
	idle := num("fastest_max_idle_time", ValueSeconds, "seconds after which lb_mode fastest and fastest_app_resp try a member again that was slow; 0: 10")
	idle.Acts = true
	return []*Attribute{
		sw("auto_lasthop", "answer through the router that asked"),
		idle,
		num("fastflow_active", ValueWord, "fast path of the old unit"),
		percent,
		num("verbose_log_level", ValuePlain, "what is logged", "verbose log level"),
		sw("watchdog", "hardware watchdog of the old unit"),
		sw("open_3dns_ports", "open the ports of 3-DNS"),
		sw("open_corba_ports", "open the ports of CORBA"),
		sw("open_ftp_ports", "open the ports of FTP"),
		sw("open_rsh_ports", "open the ports of rsh"),
		sw("open_ssh_ports", "open the ports of SSH"),
		sw("open_telnet_port", "open the port of Telnet"),
		sw("open_failover_ports", "open the ports of failover"),
		num("webadmin_port", ValueService, "port of the web utility"),
		num("l2_cache_timeout", ValueSeconds, "seconds that link addresses are remembered", "l2 cache timeout"),
		sw("sslproxy failover", "fail over with the SSL proxy"),
		num("sslproxy serverssl_cache", ValueNumber, "server sessions of the SSL proxy", "sslproxy_serverssl_cache"),
		sw("sslproxy unclean_shutdown", "end SSL without a notice", "sslproxy_unclean_shutdown"),
		sw("sslproxy strict_resume", "refuse to resume sessions that ended uncleanly", "sslproxy_strict_resume"),
		sw("ip_forwarding", "route packets", "ip forwarding"),
		num("self_conn_timeout", ValueSeconds, "idle seconds of connections to the unit", "self conn timeout"),
		sw("net_reboot", "restart over the network"),
		sw("quiet_boot", "no messages at start"),
		own(num("snat_limit", ValueNumber, "connections of source translation at most; 0: no limit", "snat limit"), "snat limit"),
		own(num("snat_timeout_tcp", ValueSeconds, "idle seconds of translated TCP connections", "snat timeout tcp"), "snat timeout tcp"),
		own(num("snat_timeout_udp", ValueSeconds, "idle seconds of translated UDP flows", "snat timeout udp"), "snat timeout udp"),
		{
			Words: w("default_gateway use pool"), Statement: w("default_gateway use pool"), Release: Release4, Value: ValueName, Names: KindPool,
			Field: "default_gateway_pool", Help: "pool of routers that the unit uses itself",
		},
		{Words: w("sysctl"), Release: Release3, Value: valueForm, Field: "sysctls", form: sysctlForm, Help: "system control variables that have no meaning here"},
	}
}

func fieldOf(words string) string {
	b := []byte(words)
	for i := range b {
		if b[i] == ' ' {
			b[i] = '_'
		}
	}
	return string(b)
}
