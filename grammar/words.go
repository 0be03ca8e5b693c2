package grammar

// A statement word begins a statement. The splitter knows from this table what may follow on the same line and what begins the next
// statement.
type statementWord struct {
	kind Kind
	// take is how many words after the first belong to the statement whatever they say; need of them may even come from the
	// next line. A negative take is all of the line.
	take, need int
	// follow lists statement words that may stand later in the statement (mirror in vip A:P mirror persist enable).
	follow []string
	// lists is set where a group comes before a value: ratio { A B } 1.
	lists bool
	// legacy is set where words that are not known keep the statement whole instead of being a fault.
	legacy bool
	// kept is set where the statement is read by its shape alone.
	kept bool
	// missing says what takes the place of a command of the old unit that nothing here carries out.
	missing string
	help    string
}

// statementWords holds every word that begins a statement or a command.
var statementWords = map[string]*statementWord{
	"pool":      {kind: KindPool, take: 1, need: 1, follow: []string{"persist", "stats", "reset"}, help: "sets of members with a load-balancing and a persistence mode"},
	"vip":       {kind: KindVirtual, take: 1, need: 1, follow: virtualFollow, help: "virtual servers (3.x word)"},
	"virtual":   {kind: KindVirtual, take: 1, need: 1, follow: virtualFollow, help: "virtual servers"},
	"rule":      {kind: KindRule, take: 1, need: 1, help: "rules that choose a pool by packet or request"},
	"node":      {kind: KindNode, take: 1, need: 1, follow: []string{"ratio", "monitor", "stats", "reset"}, help: "state and settings of nodes"},
	"ratio":     {kind: KindNode, take: 0, need: 0, lists: true, help: "weights of node addresses (3.x word)"},
	"global":    {kind: KindGlobal, take: 1, need: 1, help: "variables of the whole unit"},
	"sysctl":    {kind: KindGlobal, take: 1, need: 1, help: "system control variables (3.x word)"},
	"lb":        {kind: KindGlobal, take: 1, need: 1, help: "the load-balancing mode of pools that name none (3.x word)"},
	"mirror":    {kind: KindGlobal, take: 1, need: 1, help: "mirroring to the other unit (3.x word)"},
	"gateway":   {kind: KindGlobal, take: 2, need: 2, help: "gateway fail-safe (3.x word)"},
	"maint":     {kind: KindGlobal, take: 1, help: "maintenance mode; without a word it is switched over"},
	"unit":      {kind: KindGlobal, take: 1, help: "the unit number"},
	"port":      {kind: KindService, take: 1, need: 1, follow: []string{"sip", "stats", "reset"}, help: "services: what is allowed, limits (3.x word)"},
	"service":   {kind: KindService, take: 1, need: 1, follow: []string{"sip", "udp", "stats", "reset"}, help: "services: what is allowed, limits, timeouts"},
	"treaper":   {kind: KindService, take: 1, need: 1, follow: []string{"sip"}, help: "idle seconds of TCP connections of services (3.x word)"},
	"udp":       {kind: KindService, take: 1, need: 1, follow: []string{"sip"}, help: "UDP and its idle seconds for services (3.x word)"},
	"persist":   {take: 1, need: 1, follow: []string{"node", "virtual", "vip", "pool"}, help: "persistence records; port timeouts"},
	"conn":      {take: 1, follow: []string{"node", "virtual", "vip"}, help: "connections"},
	"dt":        {help: "connections, one a line"},
	"sip":       {take: 1, help: "records of SIP persistence"},
	"stats":     {take: 1, help: "counters"},
	"list":      {take: -1, help: "print configuration"},
	"load":      {take: -1, help: "reset, then load a file"},
	"merge":     {take: -1, help: "load a file without a reset"},
	"save":      {take: -1, help: "write the configuration to a file"},
	"verify":    {take: -1, help: "check a file"},
	"reset":     {help: "clear configuration and counters"},
	"history":   {take: -1, help: "earlier revisions"},
	"rollback":  {take: -1, help: "go back to an earlier revision"},
	"confirm":   {help: "keep a load that was to be confirmed"},
	"version":   {help: "print the version"},
	"summary":   {help: "print a summary of counters"},
	"help":      {take: -1, help: "print help"},
	"interface": {kind: KindInterface, take: 1, need: 1, legacy: true, help: "network interfaces of the old unit"},
	"ipalias":   {kind: KindIpalias, take: 1, need: 1, follow: []string{"unit", "interface"}, legacy: true, help: "shared addresses on interfaces (3.x word)"},
	"trunk":     {kind: KindTrunk, take: 1, need: 1, follow: []string{"interface"}, legacy: true, help: "joined interfaces"},
	"stp":       {kind: KindStp, take: 1, need: 1, follow: []string{"interface"}, legacy: true, help: "spanning tree domains"},
	"vlan":      {kind: KindVlan, take: 1, need: 1, follow: []string{"interface"}, legacy: true, help: "VLANs"},
	"vlangroup": {kind: KindVlangroup, take: 1, need: 1, follow: []string{"vlan"}, legacy: true, help: "groups of VLANs"},
	"self":      {kind: KindSelf, take: 1, need: 1, follow: []string{"unit", "vlan", "snat"}, legacy: true, help: "addresses of the unit"},
	"class":     {kind: KindClass, take: 1, need: 1, legacy: true, help: "lists that rules compare with"},
	"authz":     {kind: KindAuthz, take: 1, need: 1, legacy: true, help: "client authorization of the SSL proxy"},
	"monitor":   {kind: KindMonitor, take: 1, need: 1, legacy: true, help: "health checks"},
	"snat":      {kind: KindSnat, take: 1, need: 1, follow: []string{"udp", "unit", "vlan"}, lists: true, legacy: true, help: "source address translation"},
	"nat":       {kind: KindNat, take: 1, need: 1, follow: []string{"unit", "interface", "vlan"}, legacy: true, help: "address translation both ways"},
	"proxy":     {kind: KindProxy, take: 1, need: 1, follow: []string{"unit", "vip", "virtual"}, legacy: true, help: "SSL and content converting gateways"},
	"alias":     {kind: KindAlias, take: 1, need: 1, follow: []string{"node"}, lists: true, legacy: true, help: "addresses that are pinged on behalf of nodes"},

	"tping_node":      {kind: KindGlobal, take: 1, need: 1, help: "seconds between pings of a node (3.x word)"},
	"timeout_node":    {kind: KindGlobal, take: 1, need: 1, help: "seconds after which a silent node is down (3.x word)"},
	"tping_svc":       {kind: KindService, take: 2, need: 2, help: "seconds between checks of a service (3.x word)"},
	"active":          {kind: KindActive, take: 1, need: 1, legacy: true, help: "checks of services, as bigd.conf holds them (3.x word)"},
	"timeout_svc":     {kind: KindService, take: 2, need: 2, help: "seconds after which a silent service is down (3.x word)"},
	"default_gateway": {kind: KindGlobal, take: 1, need: 1, follow: []string{"pool"}, help: "the pool of default gateways"},
	"verbose":         {kind: KindGlobal, take: -1, help: "what the old unit logs"},
	"power":           {kind: KindKept, take: 1, need: 1, kept: true, help: "power statement of 4.x"},
	"response":        {kind: KindKept, take: 1, need: 1, kept: true, help: "response statement of 4.x"},

	"failover":   {take: -1, help: "the state of the unit: there is one unit, which is active"},
	"config":     {take: -1, help: "save the configuration; there is no other unit to send it to"},
	"configsync": {take: -1, help: "save the configuration; there is no other unit to send it to (3.x word)"},
	"makecookie": {take: -1, help: "print a cookie's value for cookie_mode passive"},
	"base":       {take: -1, missing: "one file holds all: use load, save and list"},
}

// statementNames are the words in order.
var statementNames = sortedKeys(statementWords)

var virtualFollow = []string{"unit", "mirror", "interface", "persist", "stats", "reset"}
