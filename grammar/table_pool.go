package grammar

import pb "bigpipe/proto/bigpipe/v1"

// Pools and Members are the attribute tables of pools and of the members in them (rules B-11 to B-15, C-*, G-*, J-*, A-*).
var Pools, Members *Table

var lbModeAliases = map[string]string{
	"rr": "round_robin", "roundrobin": "round_robin",
	"member_ratio":      "ratio_member",
	"least_connections": "least_conn", "leastconn": "least_conn",
	"member_least_conn": "least_conn_member", "least_connections_member": "least_conn_member", "leastconns": "least_conn_member",
	"member_predictive": "predictive_member", "member_observed": "observed_member", "member_priority": "priority_member",
}

func init() {
	Pools = newTable(KindPool, "pool", &pb.Pool{}, poolRows())
	Members = newTable(KindPool, "member", &pb.Member{}, memberRows())
}

func poolRows() []*Attribute {
	rows := []*Attribute{
		{
			Words: w("lb_mode"), Aliases: [][]string{w("lb_method")}, Release: Legacy, Value: ValueWord, ValueAliases: lbModeAliases,
			Default: "the global lb mode", Field: "lb_mode", Help: "how a member is chosen for new clients", Acts: true,
		},
		{
			Words: w("min_active_members"), Release: Legacy, Value: ValueNumber, Max: 65535, Default: "0", Field: "min_active_members",
			Help: "members that must be available in the highest priority groups before the next one is added", Acts: true,
		},
		{
			Words: w("hash_bits"), Release: Ours, Value: valueForm, Default: "32", Field: "hash_bits", form: hashBitsForm,
			Help: "bits of the client's address that lb_mode hash and minmisses look at: 24 (of IPv6: 64) or 32 (all)", Acts: true,
		},
		{Words: w("forward"), Release: Release4, Value: ValueNone, Field: "forward", Help: "send traffic where it was going; no members"},
		{
			Words: w("fallback"), Release: Release4, Value: ValueText, Field: "fallback",
			Help: "redirect here when no member is available; %h, %p and %u are filled in", Acts: true,
		},
		{Words: w("snat"), Release: Legacy, Value: ValueSwitch, Default: "enable", Field: "snat", Help: "source translation of this pool's connections"},
		{Words: w("nat"), Release: Legacy, Value: ValueSwitch, Default: "enable", Field: "nat", Help: "address translation of this pool's connections"},
		{
			Words: w("header insert"), Aliases: [][]string{w("header_insert")}, Release: Release4, Value: ValueText, Field: "header_insert",
			Help: "add a header NAME:VALUE to requests", Acts: true,
		},
		{Words: w("ip_tos to client"), Release: Release4, Value: ValueNumber, Max: 255, Field: "ip_tos_to_client", Help: "type of service of packets to clients"},
		{Words: w("ip_tos to server"), Release: Release4, Value: ValueNumber, Max: 255, Field: "ip_tos_to_server", Help: "type of service of packets to members"},
		{Words: w("link_qos to client"), Release: Release4, Value: ValueNumber, Max: 7, Field: "link_qos_to_client", Help: "link priority of packets to clients"},
		{Words: w("link_qos to server"), Release: Release4, Value: ValueNumber, Max: 7, Field: "link_qos_to_server", Help: "link priority of packets to members"},
		{
			Words: w("persist ="), Release: Release4, Value: valueForm, Field: "persist_expression", form: expressionForm("persist_expression"),
			Help: "universal persistence expression; kept",
		},
		{
			Words: w("select ="), Release: Release4, Value: valueForm, Field: "select_expression", form: expressionForm("select_expression"),
			Help: "expression that chooses a node; kept",
		},
	}
	rows = append(rows, persistRows()...)
	rows = append(rows, cookieRows()...)
	rows = append(rows, tokenRows()...)
	rows = append(rows, jrouteRows()...)
	return append(rows, limitRows()...)
}

func persistRows() []*Attribute {
	return []*Attribute{
		{
			Words: w("persist_mode"), Release: Legacy | Ours, Value: valueForm, Default: "none", Field: "persist_mode", form: persistModeForm,
			Help: "how returning clients are recognised", Acts: true,
		},
		{
			Words: w("simple_timeout"), Release: Legacy, Value: ValueSeconds, Default: "0", Field: "simple_timeout",
			Help: "seconds that a record of simple persistence lives; 0 is off", Acts: true,
		},
		{
			Words: w("simple_mask"), Release: Legacy, Value: ValueMask, Default: "none", Field: "simple_mask",
			Help: "client addresses that are equal under this mask count as one", Acts: true,
		},
		{
			Words: w("simple_mask6"), Release: Ours, Value: ValueNumber, Max: 128, Default: "128", Field: "simple_mask6",
			Help: "the same for IPv6, a prefix length", Acts: true,
		},
		{
			Words: w("ssl_timeout"), Release: Legacy, Value: ValueSeconds, Default: "600", Field: "ssl_timeout",
			Help: "seconds that a record of an SSL session lives", Acts: true,
		},
		{
			Words: w("ssl_tickets"), Release: Ours, Value: ValueWord, Default: "learn", Field: "ssl_tickets",
			Help: "learn session tickets too", Acts: true,
		},
		{
			Words: w("ssl_fallback"), Release: Ours, Value: ValueWord, Default: "none", Field: "ssl_fallback",
			Help: "what identifies clients without a known session; the time is simple_timeout, or ssl_timeout where that is 0", Acts: true,
		},
		{
			Words: w("ssl_hello_timeout"), Release: Ours, Value: ValueSeconds, Default: "5", Field: "ssl_hello_timeout",
			Help: "seconds to wait for a client's first message", Acts: true,
		},
		{
			Words: w("sticky_mask"), Release: Legacy, Value: ValueMask, Default: "none", Field: "sticky_mask",
			Help: "destination addresses that are equal under this mask count as one", Acts: true,
		},
		{
			Words: w("sticky_mask6"), Release: Ours, Value: ValueNumber, Max: 128, Default: "128", Field: "sticky_mask6",
			Help: "the same for IPv6, a prefix length", Acts: true,
		},
		{
			Words: w("sticky_timeout"), Release: Ours, Value: ValueSeconds, Default: "never", Field: "sticky_timeout",
			Help: "seconds that a sticky record lives", Acts: true,
		},
		{
			Words: w("sip_timeout"), Release: Release4, Value: ValueSeconds, Default: "32", Field: "sip_timeout",
			Help: "seconds that a record of a SIP call lives", Acts: true,
		},
		{
			Words: w("msrdp_timeout"), Release: Ours, Value: ValueSeconds, Default: "300", Field: "msrdp_timeout",
			Help: "seconds that a record of a terminal session lives", Acts: true,
		},
	}
}

func cookieRows() []*Attribute {
	ours := func(field, help string, acts bool) *Attribute {
		return &Attribute{Words: []string{field}, Release: Ours, Value: ValueSwitch, Default: "disable", Field: field, Help: help, Acts: acts}
	}
	return []*Attribute{
		{
			Words: w("cookie_mode"), Release: Legacy, Value: ValueWord, Default: "insert", Field: "cookie_mode",
			Help: "who makes the cookie", Acts: true,
		},
		{
			Words: w("cookie_expiration"), Release: Legacy, Value: ValueExpiration, Default: "until the browser ends", Field: "cookie_expiration",
			Help: "how long the browser keeps the cookie", Acts: true,
		},
		{Words: w("cookie_hash_name"), Release: Legacy, Value: ValuePlain, Field: "cookie_hash_name", Help: "the site's cookie that hash mode looks at", Acts: true},
		{
			Words: w("cookie_hash_offset"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "cookie_hash_offset",
			Help: "bytes of the cookie to skip", Acts: true,
		},
		{
			Words: w("cookie_hash_length"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "cookie_hash_length",
			Help: "bytes of the cookie to hash; 0: to its end", Acts: true,
		},
		{Words: w("cookie_name"), Release: Ours, Value: ValuePlain, Default: "BIGipServer and the pool's name", Field: "cookie_name", Help: "name of the cookie", Acts: true},
		{Words: w("cookie_path"), Release: Ours, Value: ValuePlain, Default: "/", Field: "cookie_path", Help: "path of the cookie", Acts: true},
		{Words: w("cookie_domain"), Release: Ours, Value: ValuePlain, Field: "cookie_domain", Help: "domain of the cookie", Acts: true},
		ours("cookie_secure", "send the cookie over TLS only", true),
		ours("cookie_httponly", "hide the cookie from scripts", true),
		{Words: w("cookie_samesite"), Release: Ours, Value: ValueWord, Field: "cookie_samesite", Help: "the SameSite attribute of the cookie", Acts: true},
		{Words: w("cookie_lifetime"), Release: Ours, Value: ValueWord, Default: "browser", Field: "cookie_lifetime", Help: "who ends the cookie's life; server needs cookie_encryption", Acts: true},
		{Words: w("cookie_encryption"), Release: Ours, Value: ValueWord, Default: "disabled", Field: "cookie_encryption", Help: "encrypt the cookie's value; preferred reads clear ones too", Acts: true},
		{Words: w("cookie_only_when"), Release: Ours, Value: ValuePlain, Field: "cookie_only_when", Help: "insert only when the response sets this cookie", Acts: true},
		ours("cookie_always_send", "send the cookie with every response", true),
		ours("cookie_strip", "hide the cookie from members", true),
		ours("cookie_reserve", "first requests of one client address within two seconds reach one member", true),
		ours("cookie_across_services", "follow the cookies of other pools that say so too, by the node's address", true),
		ours("cache_private", "mark responses that set the cookie as private", true),
	}
}

func tokenRows() []*Attribute {
	return []*Attribute{
		{Words: w("token_type"), Release: Ours, Value: ValueWord, Default: "cookie", Field: "token_type", Help: "where the token travels", Acts: true},
		{Words: w("token_name"), Release: Ours, Value: ValuePlain, Field: "token_name", Help: "name of the cookie or header", Acts: true},
		{Words: w("token_path"), Release: Ours, Value: ValuePlain, Default: "/", Field: "token_path", Help: "path of the cookie", Acts: true},
		{Words: w("token_lifetime"), Release: Ours, Value: ValueWord, Default: "session", Field: "token_lifetime", Help: "until the browser ends, or permanent", Acts: true},
		{Words: w("token_timeout"), Release: Ours, Value: ValueDuration, Field: "token_timeout_ms", Help: "how long a token is valid", Acts: true},
		{
			Words: w("token_retain"), Release: Ours, Value: ValueSeconds, Default: "600", Field: "token_retain",
			Help: "seconds that tokens of a removed member are honoured", Acts: true,
		},
		{Words: w("token_on_conflict"), Release: Ours, Value: ValueWord, Default: "ours", Field: "token_on_conflict", Help: "whose cookie wins when a member sets the same", Acts: true},
		{Words: w("token_httponly"), Release: Ours, Value: ValueSwitch, Default: "enable", Field: "token_httponly", Help: "hide the cookie from scripts", Acts: true},
		{Words: w("token_samesite"), Release: Ours, Value: ValueWord, Default: "strict", Field: "token_samesite", Help: "the SameSite attribute of the cookie", Acts: true},
		{Words: w("token_secure"), Release: Ours, Value: ValueWord, Default: "auto", Field: "token_secure", Help: "send the cookie over TLS only; auto: when the client side is TLS", Acts: true},
	}
}

func jrouteRows() []*Attribute {
	return []*Attribute{
		{Words: w("jroute_cookie"), Release: Ours, Value: ValuePlain, Default: "JROUTE", Field: "jroute_cookie", Help: "name of the route cookie", Acts: true},
		{Words: w("jroute_session_cookie"), Release: Ours, Value: ValuePlain, Default: "JSESSIONID", Field: "jroute_session_cookie", Help: "name of the session cookie", Acts: true},
		{Words: w("jroute_strip"), Release: Ours, Value: ValueSwitch, Default: "enable", Field: "jroute_strip", Help: "hide the route from members", Acts: true},
		{Words: w("jroute_rewrite"), Release: Ours, Value: ValueWord, Default: "body", Field: "jroute_rewrite", Help: "where links get the route for clients without cookies", Acts: true},
		{Words: w("jroute_suffix"), Release: Ours, Value: ValuePlain, Default: ".", Field: "jroute_suffix", Help: "what stands before the route in a session cookie of a member that puts it there itself", Acts: true},
		{
			Words: w("jroute_idempotent"), Release: Ours, Value: valueForm, Field: "jroute_idempotent", form: idempotentForm,
			Help: "paths (* and ?) of requests that may be sent to so many other members when one does not answer; -1: to each; repeatable", Acts: true,
		},
		{Words: w("jroute_error_url"), Release: Ours, Value: ValuePlain, Field: "jroute_error_url", Help: "redirect here when nothing is left", Acts: true},
		{Words: w("jroute_context"), Release: Ours, Value: ValuePlain, Default: "/", Field: "jroute_context", Help: "path of an application, below which the pool persists; repeatable", Acts: true},
	}
}

func limitRows() []*Attribute {
	return []*Attribute{
		{Words: w("persist_limit"), Release: Ours, Value: ValueNumber, Default: "0", Field: "persist_limit", Help: "records of this pool at most; 0: no limit of its own", Acts: true},
		{Words: w("persist_unavailable"), Release: Ours, Value: ValueWord, Default: "rebind", Field: "persist_unavailable", Help: "when the recorded member cannot be used", Acts: true},
		{Words: w("persist_unknown"), Release: Ours, Value: ValueWord, Default: "rebind", Field: "persist_unknown", Help: "when a cookie names no member", Acts: true},
		{Words: w("persist_limit_override"), Release: Ours, Value: ValueSwitch, Default: "disable", Field: "persist_limit_override", Help: "persisted traffic may exceed connection limits", Acts: true},
		{Words: w("persist_lower_priority"), Release: Ours, Value: ValueSwitch, Default: "enable", Field: "persist_lower_priority", Help: "clients stay with members in lower priority groups", Acts: true},
		{Words: w("reselect_tries"), Release: Ours, Value: ValueNumber, Default: "all members", Field: "reselect_tries", Help: "members to try before giving up", Acts: true},
		{Words: w("on_down"), Release: Ours, Value: ValueWord, Default: "keep", Field: "on_down", Help: "open connections of a member that goes down", Acts: true},
		{Words: w("connect_timeout"), Release: Ours, Value: ValueSeconds, Default: "5", Field: "connect_timeout", Help: "seconds to wait for a member to accept", Acts: true},
		{Words: w("response_timeout"), Release: Ours, Value: ValueSeconds, Default: "60", Field: "response_timeout", Help: "seconds to wait for a response", Acts: true},
		{Words: w("slow_start"), Release: Ours, Value: ValueSeconds, Default: "0", Field: "slow_start", Help: "seconds over which a member that comes up, is added or enabled gets its share: its weight grows from 5 % to all of it; not in modes hash and minmisses", Acts: true},
		{Words: w("passive_health"), Release: Ours, Value: ValueSwitch, Default: "disable", Field: "passive_health", Help: "failed traffic marks members down", Acts: true},
		{Words: w("mirror persist"), Release: Legacy, Value: ValueSwitch, Default: "disable", Field: "mirror_persist", Help: "mirror records to the other unit"},
	}
}

func memberRows() []*Attribute {
	return []*Attribute{
		{Words: w("ratio"), Release: Legacy, Value: ValueNumber, Min: 1, Max: 65535, Default: "1", Field: "ratio", Help: "weight in mode ratio_member", Acts: true},
		{Words: w("priority"), Release: Legacy, Value: ValueNumber, Max: 65535, Default: "0", Field: "priority", Help: "priority group; the highest is used first", Acts: true},
		{Words: w("limit"), Release: Legacy, Value: ValueNumber, Default: "0", Field: "limit", Help: "connections at most; 0: no limit", Acts: true},
		{Words: w("route"), Release: Ours, Value: ValuePlain, Field: "route", Default: "made of its address", Help: "the member's name in jroute cookies and paths", Acts: true},
		{Words: w("https"), Release: Ours, Value: ValueService, Field: "https", Help: "port of the member's TLS listener"},
		{Words: w("tmout"), Release: Ours, Value: ValueSeconds, Default: "the pool's ssl_timeout", Field: "tmout", Help: "idle seconds of SSL records bound to this member", Acts: true},
		{Words: w("drain_timeout"), Release: Ours, Value: ValueSeconds, Default: "0", Field: "drain_timeout", Help: "seconds after which a disabled member is down: its connections are reset, its records removed; 0: never", Acts: true},
		{Words: w("epoch"), Release: Ours, Value: valueForm, Field: "epoch", form: epochForm, Help: "new: old encrypted cookies no longer name this member", Acts: true},
		{Words: w("server_ssl"), Release: Ours, Value: ValueSwitch, Default: "disable", Field: "server_ssl", Help: "speak TLS to this member"},
		{Words: w("server_ssl_ca"), Release: Ours, Value: ValuePlain, Field: "server_ssl_ca", Help: "file of the certificate authorities that may sign the member's certificate"},
		{Words: w("server_ssl_name"), Release: Ours, Value: ValuePlain, Field: "server_ssl_name", Help: "server name that is asked for and checked"},
	}
}
