package grammar

import pb "bigpipe/proto/bigpipe/v1"

// Virtuals and VirtualAddresses are the attribute tables of virtual servers and of the addresses that they share.
var Virtuals, VirtualAddresses *Table

func init() {
	Virtuals = newTable(KindVirtual, "virtual", &pb.VirtualServer{}, virtualRows())
	VirtualAddresses = newTable(KindVirtualAddress, "virtual address", &pb.VirtualAddress{}, []*Attribute{
		stateRow("enable", "disable", "enabled", "accept connections to this address", true),
		{Words: w("limit"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "limit", Help: "connections at most, of all its virtual servers; 0: no limit", Acts: true},
		{Words: w("netmask"), Release: Legacy, Value: ValueMask, Field: "netmask", Help: "mask of the address"},
		{Words: w("broadcast"), Release: Legacy, Value: ValueAddress, Field: "broadcast", Help: "broadcast address"},
		{Words: w("unit"), Release: Legacy, Value: ValueNumber, Max: 255, Default: "1", Field: "unit", Help: "unit that owns the address"},
		{Words: w("arp"), Release: Release4, Value: ValueSwitch, Default: "enable", Field: "arp", Help: "answer for the address"},
	})
}

// stateRow is an attribute that two words set: enable and disable, up and down.
func stateRow(on, off, field, help string, acts bool) *Attribute {
	return &Attribute{Words: []string{on}, Opposite: []string{off}, Release: Legacy, Value: ValueNone, Default: on, Field: field, Help: help, Acts: acts}
}

func virtualRows() []*Attribute {
	rows := []*Attribute{
		{Words: w("unit"), Release: Legacy, Value: ValueNumber, Max: 255, Default: "1", Field: "unit", Help: "unit that owns the virtual server"},
		{Words: w("netmask"), Release: Legacy, Value: ValueMask, Field: "netmask", Help: "mask of the address; a network where the host bits are zero", Acts: true},
		{Words: w("broadcast"), Release: Legacy, Value: ValueAddress, Field: "broadcast", Help: "broadcast address"},
		{Words: w("interface"), Release: Release3, Value: ValuePlain, Field: "interface", Help: "interface of the address"},
		stateRow("enable", "disable", "enabled", "accept connections", true),
		{Words: w("limit"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "limit", Help: "connections at most; 0: no limit", Acts: true},
		{Words: w("mirror"), Release: Release4, Value: ValueWord, Default: "none", Field: "mirror", Help: "what is mirrored to the other unit"},
		{Words: w("arp"), Release: Release4, Value: ValueSwitch, Default: "enable", Field: "arp", Help: "answer for the address"},
		{Words: w("lasthop pool"), Release: Release4, Value: ValueName, Names: KindPool, Field: "lasthop_pool", Help: "pool of routers to answer through"},
		{
			Words: w("translate addr"), Release: Legacy | Ours, Value: ValueSwitch, Default: "enable", Field: "translate_addr",
			Help: "send to the member's own address, or leave the destination: the member is the gateway to it", Acts: true,
		},
		{Words: w("translate port"), Release: Legacy, Value: ValueSwitch, Default: "enable", Field: "translate_port", Help: "send to the member's own port, or to that of the destination", Acts: true},
		{Words: w("svcdown_reset"), Release: Release4, Value: ValueSwitch, Default: "disable", Field: "svcdown_reset", Help: "reset connections when no member is left"},
		{Words: w("accelerate"), Release: Release4, Value: ValueSwitch, Default: "enable", Field: "accelerate", Help: "fast path of the old unit"},
		{Words: w("any_ip"), Release: Release4, Value: ValueSwitch, Default: "disable", Field: "any_ip", Help: "other protocols than TCP and UDP"},
		{Words: w("vlans"), Release: Release4, Value: valueForm, Field: "vlans", form: vlansForm, Help: "VLANs where the virtual server is enabled or disabled"},
		{Words: w("clone pool"), Release: Release4, Value: ValueName, Names: KindPool, Field: "clone_pool", Help: "pool that gets a copy of the traffic"},
	}
	rows = append(rows, virtualOurRows()...)
	return append(rows,
		&Attribute{Words: w("forward"), Release: Release4, Value: ValueNone, Field: "forward", Help: "forward to the destination that the client chose"},
		&Attribute{
			Words: w("use pool"), Release: Legacy | Ours, Value: valueForm, Field: "pools", form: usePoolForm, Names: KindPool,
			Help: "pool that gets the traffic; several with weights", Acts: true,
		},
		&Attribute{Words: w("use rule"), Release: Legacy, Value: ValueName, Names: KindRule, Field: "rule", Help: "rule that chooses the pool", Acts: true},
	)
}

func virtualOurRows() []*Attribute {
	ours := func(words string, kind ValueKind, def, help string, acts bool) *Attribute {
		return &Attribute{Words: w(words), Release: Ours, Value: kind, Default: def, Field: words, Help: help, Acts: acts}
	}
	mask := ours("oneconnect_source_mask", ValueMask, "0.0.0.0", "how much of a client's address must be equal to share server connections; none: nothing", true)
	trusted := ours("trusted_proxies", valueForm, "", "addresses and networks whose X-Forwarded-For is believed", true)
	trusted.form = trustedForm
	return []*Attribute{
		ours("oneconnect", ValueSwitch, "disable", "decide per request and reuse server connections", true),
		mask,
		ours("oneconnect_max_size", ValueNumber, "10000", "idle server connections at most; 0 keeps none", true),
		ours("oneconnect_max_age", ValueSeconds, "86400", "seconds after which a server connection is not reused", true),
		ours("oneconnect_max_reuse", ValueNumber, "1000", "how often a server connection is reused at most", true),
		ours("oneconnect_share_pools", ValueSwitch, "disable", "share them with other virtual servers that do", true),
		ours("http", ValueWord, "auto", "read the traffic as HTTP", true),
		ours("transparent", ValueSwitch, "disable", "keep the client's address towards members", true),
		ours("x_forwarded_for", ValueSwitch, "disable", "tell members the client's address in a header", true),
		ours("proxy_protocol", ValueWord, "none", "tell members the client's address before the first byte", true),
		trusted,
		ours("header_timeout", ValueSeconds, "10", "seconds to wait for a request's head", true),
		ours("idle_timeout", ValueSeconds, "300", "seconds after which an idle connection is ended", true),
		ours("source_limit", ValueNumber, "0", "connections of one client address at a time; 0 is no limit", true),
		ours("body_min_rate", ValueNumber, "100", "bytes a second that a client must send", true),
		ours("split_sticks", ValueSwitch, "disable", "a weighted choice is kept for clients that persistence knows", true),
	}
}
