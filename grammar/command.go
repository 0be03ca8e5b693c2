package grammar

import (
	"slices"
	"strings"
)

// Command is one row of the command table: one way to use a statement word.
type Command struct {
	// Form is what is written; words in capitals stand for something: POOL, VIRTUAL, ... are names of objects, ATTRIBUTES what the
	// attribute table of the kind says, | separates alternatives, [ ] may be left out.
	Form string
	// Filter lists pairs of a word and a value that may follow in any order.
	Filter  []string
	Release Release
	Help    string
	// Example is one that works; "" where the form says it all.
	Example string
}

// Usage is the form with its filter.
func (c *Command) Usage() string {
	var b strings.Builder
	b.WriteString(c.Form)
	for _, pair := range c.Filter {
		b.WriteString(" [" + pair + "]")
	}
	return b.String()
}

// Forms are the words of the form, with each optional part left out and taken.
func (c *Command) Forms() [][]string { return expand(strings.Fields(c.Form)) }

// placeholders maps the words in capitals to the kind of object whose names they stand for.
var placeholders = map[string]Kind{
	"POOL": KindPool, "RULE": KindRule, "VIRTUAL": KindVirtual, "NODE": KindNode, "SERVICE": KindService,
	"VADDRESS": KindVirtualAddress, "INTERFACE": KindInterface, "IPALIAS": KindIpalias, "TRUNK": KindTrunk, "STP": KindStp,
	"VLAN": KindVlan, "VLANGROUP": KindVlangroup, "SELF": KindSelf, "CLASS": KindClass, "AUTHZ": KindAuthz, "MONITOR": KindMonitor,
	"SNAT": KindSnat, "NAT": KindNat, "PROXY": KindProxy, "ALIAS": KindAlias, "ACTIVE": KindActive,
}

var recordFilter = []string{"client ADDRESS", "node NODE", "virtual VIRTUAL", "mode MODE", "older SECONDS"}

// Commands is the command table.
var Commands = slices.Concat(ownCommands, legacyCommands)

// ownCommands are the forms of pools, rules, virtual servers, nodes, services, records and files.
var ownCommands = []*Command{
	{
		Form: "pool POOL { ATTRIBUTES }", Release: Legacy, Help: "define a pool, or replace it whole",
		Example: "pool web { lb_mode round_robin member 10.1.1.1:80 member 10.1.1.2:80 }",
	},
	{
		Form: "pool POOL modify { ATTRIBUTES }", Release: Legacy, Help: "change only what is named",
		Example: "pool web modify { persist_mode simple simple_timeout 1200 simple_mask 255.255.255.0 }",
	},
	{Form: "pool POOL add { ATTRIBUTES }", Release: Legacy, Help: "add members", Example: "pool web add { member 10.1.1.3:80 ratio 2 }"},
	{Form: "pool POOL delete { ATTRIBUTES }", Release: Legacy, Help: "remove members", Example: "pool web delete { member 10.1.1.3:80 }"},
	{Form: "pool POOL delete", Release: Legacy, Help: "delete a pool and its members"},
	{Form: "pool [POOL] show", Release: Legacy, Help: "states and counters of members"},
	{Form: "pool [POOL] persist show", Release: Legacy, Help: "persistence settings, then the records"},
	{Form: "pool [POOL] persist dump", Filter: recordFilter, Release: Legacy | Ours, Help: "the records", Example: "pool web persist dump client 10.9.0.0/16 older 60"},
	{Form: "pool [POOL] persist clear", Filter: recordFilter, Release: Ours, Help: "delete records"},
	{
		Form: "pool POOL persist explain", Filter: []string{"client ADDRESS", "destination ADDRESS", "cookie TEXT", "session ID", "token TEXT", "path TEXT", "virtual VIRTUAL"}, Release: Ours,
		Help: "which member a client would get now, and why", Example: "pool web persist explain client 10.9.8.7",
	},
	{Form: "pool POOL sticky clear", Release: Legacy, Help: "delete the sticky records"},
	{Form: "pool POOL lb_mode show", Release: Legacy, Help: "the load-balancing mode"},
	{Form: "pool [POOL] stats reset", Release: Legacy, Help: "set counters to zero: of a pool, or of all pools alone"},

	{
		Form: "virtual VIRTUAL { ATTRIBUTES }", Release: Legacy, Help: "define a virtual server, or replace it whole",
		Example: "virtual 10.0.0.1:80 { netmask 255.255.255.0 use pool web }",
	},
	{
		Form: "virtual VIRTUAL define MEMBER", Release: Release3,
		Help: "nodes of its own, one or more, then special cookie MODE LIFETIME or special ssl SECONDS; a pool is made of them", Example: "virtual 10.0.0.1:80 { define 10.1.1.1:80 10.1.1.2:80 special cookie rewrite 10d }",
	},
	{Form: "virtual VIRTUAL ATTRIBUTES", Release: Legacy, Help: "change only what is named; define it if it is new", Example: "virtual 10.0.0.1:80 use pool web"},
	{Form: "virtual VIRTUAL modify { ATTRIBUTES }", Release: Ours, Help: "change only what is named"},
	{Form: "virtual VIRTUAL delete", Release: Legacy, Help: "delete a virtual server"},
	{Form: "virtual [VIRTUAL] show", Release: Legacy, Help: "states and counters"},
	{Form: "virtual [VIRTUAL] stats reset", Release: Legacy, Help: "set counters to zero: of a virtual server, or of all of them alone"},
	{Form: "virtual VIRTUAL persist SECONDS", Release: Release3, Help: "simple persistence of the pool behind; 0 is off"},
	{Form: "virtual VIRTUAL persist mask MASK", Release: Release3, Help: "simple mask of the pool behind, or none"},
	{Form: "virtual VIRTUAL sticky enable|disable|clear", Release: Release3, Help: "sticky persistence of the pool behind"},
	{Form: "virtual VIRTUAL sticky mask MASK", Release: Release3, Help: "sticky mask of the pool behind, or none"},
	{Form: "virtual VIRTUAL mirror persist enable|disable", Release: Release3, Help: "mirroring of the records of the pool behind"},
	{Form: "virtual VADDRESS ATTRIBUTES", Release: Legacy, Help: "what all virtual servers of an address share", Example: "virtual 10.0.0.1 disable"},

	{
		Form: "rule RULE { BODY }", Release: Legacy, Help: "define a rule; on a command line the body may stand in single quotes",
		Example: `rule images { if ( http_uri starts_with "/img" ) { use ( images ) } else { use ( web ) } }`,
	},
	{Form: "rule RULE delete", Release: Legacy, Help: "delete a rule"},
	{Form: "rule [RULE] show", Release: Legacy, Help: "print rules"},

	{Form: "node NODE ATTRIBUTES", Release: Legacy, Help: "set the state of a node, its limit, its weight", Example: "node 10.1.1.1:80 disable"},
	{Form: "node [NODE] show", Release: Legacy, Help: "states and counters"},
	{
		Form: "node NODE monitor use MONITOR", Release: Release4, Help: "check a node, an address or *:SERVICE; several monitors are joined with and",
		Example: "node 10.1.1.1:80 monitor use http and tcp",
	},
	{Form: "node NODE monitor show|delete", Release: Release4, Help: "print or forget the monitors of a node"},
	{Form: "node monitor show", Release: Release4, Help: "print the nodes with their monitors"},
	{Form: "node NODE delete", Release: Ours, Help: "forget the settings of a node"},
	{Form: "node [NODE] stats reset", Release: Legacy, Help: "set counters to zero: of the members at a node, or of all members"},
	{Form: "ratio NODE NUMBER", Release: Release3, Help: "weight of a node address; several stand in braces", Example: "ratio { 10.1.1.1 10.1.1.2 } 3"},

	{Form: "service SERVICE ATTRIBUTES", Release: Release4, Help: "what a service is allowed, its limit and timeouts", Example: "service 80 timeout tcp 300"},
	{Form: "service [SERVICE] show", Release: Legacy, Help: "states and counters"},
	{Form: "port SERVICE enable|disable", Release: Release3, Help: "allow services; several may be named", Example: "port 80 443 22 enable"},
	{Form: "port SERVICE limit NUMBER", Release: Release3, Help: "connections at most"},
	{Form: "treaper SERVICE SECONDS", Release: Release3, Help: "idle seconds of TCP connections", Example: "treaper 80 1005"},
	{Form: "udp SERVICE SECONDS", Release: Release3, Help: "allow UDP, and its idle seconds"},

	{Form: "global ATTRIBUTES", Release: Release4, Help: "set variables of the whole unit", Example: "global persist_across_virtuals enable"},
	{Form: "global show", Release: Release4, Help: "print all variables"},
	{Form: "sysctl -w bigip.NAME=0|1", Release: Release3, Help: "set a variable", Example: "sysctl -w bigip.persist_on_any_vip=1"},
	{Form: "sysctl bigip.NAME", Release: Release3, Help: "print a variable"},
	{Form: "sysctl -a", Release: Release3, Help: "print all variables"},
	{Form: "lb MODE", Release: Release3, Help: "the load-balancing mode of pools that name none", Example: "lb round_robin"},
	{Form: "mirror enable|disable", Release: Release3, Help: "mirror to the other unit"},
	{Form: "gateway failsafe arm|disarm", Release: Release3, Help: "give up when the gateway is silent"},
	{Form: "maint [enable|disable]", Release: Legacy, Help: "maintenance mode; without a word it is switched over"},
	{Form: "unit [NUMBER]", Release: Legacy, Help: "print or set the unit number"},
	{Form: "tping_node SECONDS", Release: Release3, Help: "seconds between pings of a node"},
	{Form: "timeout_node SECONDS", Release: Release3, Help: "seconds after which a silent node is down"},

	{Form: "persist show", Release: Ours, Help: "persistence settings and records of all pools"},
	{Form: "persist dump", Filter: append(recordFilter[:len(recordFilter):len(recordFilter)], "pool POOL"), Release: Ours, Help: "the records of all pools"},
	{Form: "persist clear", Filter: append(recordFilter[:len(recordFilter):len(recordFilter)], "pool POOL"), Release: Ours, Help: "delete records of all pools"},
	{
		Form: "persist explain", Filter: []string{"pool POOL", "client ADDRESS", "destination ADDRESS", "cookie TEXT", "session ID", "token TEXT", "path TEXT", "virtual VIRTUAL"}, Release: Ours,
		Help: "which member a client would get now, and why",
	},
	{Form: "persist forecast node NODE", Release: Ours, Help: "who is still bound to a node, and when it will be empty"},
	{Form: "persist SERVICE SECONDS", Release: Release3, Help: "simple persistence of the pools behind a port; not saved", Example: "persist 80 300"},
	{Form: "conn dump", Filter: []string{"client ADDRESS", "virtual VIRTUAL", "node NODE"}, Release: Legacy, Help: "the connections"},
	{Form: "dt", Release: Release3, Help: "the connections, one a line"},
	{Form: "sip dump", Release: Release4, Help: "the records of SIP persistence"},
	{Form: "stats reset", Release: Ours, Help: "set all counters to zero"},

	{Form: "list [KIND]", Release: Release4, Help: "print the configuration, or the objects of a kind"},
	{Form: "list KIND NAME", Release: Release4, Help: "print one object", Example: "list pool web"},
	{Form: "load [--dry-run] [--confirm-within DURATION] [FILE]", Release: Release4, Help: "reset, then load a file: all of it or nothing"},
	{Form: "merge FILE", Release: Release4, Help: "load a file without a reset"},
	{Form: "save [--dialect 3|4] [FILE]", Release: Release4, Help: "write the configuration"},
	{Form: "verify load [FILE]", Release: Release4, Help: "check a file; change nothing"},
	{Form: "reset", Release: Release4, Help: "clear configuration and counters"},
	{Form: "history", Release: Ours, Help: "the last revisions"},
	{Form: "rollback [REVISION]", Release: Ours, Help: "go back one revision, or to one that is named"},
	{Form: "confirm", Release: Ours, Help: "keep a load that was to be confirmed"},
	{Form: "version", Release: Legacy, Help: "print the version"},
	{Form: "summary", Release: Legacy, Help: "print counters of the unit"},
	{Form: "help [COMMAND]", Release: Legacy, Help: "print help; COMMAND -? does the same"},
}

// sameCommand maps words that are two names for one thing to the name in the table.
var sameCommand = map[string]string{"vip": "virtual"}

// commandsOf returns the rows of a statement word.
func commandsOf(word string) []*Command {
	if same, ok := sameCommand[word]; ok {
		word = same
	}
	var rows []*Command
	for _, c := range Commands {
		first, _, _ := strings.Cut(c.Form, " ")
		if first == word {
			rows = append(rows, c)
		}
	}
	return rows
}

// tableOfWord returns the attributes that stand after a statement word, nil if it has none.
func tableOfWord(word string) *Table {
	switch word {
	case "vip":
		return Virtuals
	case "pool", "virtual", "node", "service", "global":
		return TableOf(statementWords[word].kind)
	}
	if w := statementWords[word]; w != nil && w.legacy {
		return TableOf(w.kind)
	}
	return nil
}
