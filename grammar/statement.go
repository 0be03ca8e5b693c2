package grammar

import (
	pb "bigpipe/proto/bigpipe/v1"
)

// Action says what a statement does.
type Action int

const (
	// ActionDefine creates Statement.Object or replaces it whole: pool p { ... }, rule r { ... }, vip A:P { ... }.
	ActionDefine Action = iota + 1
	// ActionModify changes what Object names and Cleared lists; the object must exist: pool p modify { ... }.
	ActionModify
	// ActionSet changes what Object names and Cleared lists, and creates the object if there is none: the short forms
	// (vip A:P use pool p, node A disable, global ..., sysctl -w ..., port 80 enable).
	ActionSet
	// ActionAdd adds the members of Object to the pool that it names: pool p add { member ... }.
	ActionAdd
	// ActionRemove removes the members of Object from the pool that it names: pool p delete { member ... }; of other kinds the
	// elements of lists: vlan v interfaces delete 1.1.
	ActionRemove
	// ActionDelete deletes the object Key: pool p delete.
	ActionDelete
	// ActionKeep keeps Object, a Kept statement, whole and not in effect.
	ActionKeep

	// ActionShow prints configuration and statistics of the object Key, or of all of Kind when Key is "". Of kept statements it prints
	// those that begin with Words[0]; all behind monitor means the templates too.
	ActionShow
	// ActionList prints configuration text: list, -s. Kind and Key may narrow it.
	ActionList
	// ActionLBModeShow prints the load-balancing mode of a pool: pool p lb_mode show.
	ActionLBModeShow
	// ActionSysctlShow prints one variable (Words[0], without "bigip.") or all: sysctl -a.
	ActionSysctlShow
	// ActionGlobalShow prints one global variable (Words) or all.
	ActionGlobalShow

	// ActionPersistShow prints persistence configuration and records of the pool Key, or of all pools.
	ActionPersistShow
	// ActionPersistDump prints the records that Filter chooses.
	ActionPersistDump
	// ActionPersistClear deletes the records that Filter chooses.
	ActionPersistClear
	// ActionStickyClear deletes the sticky records of the pool Key (rule B-22).
	ActionStickyClear
	// ActionPersistExplain asks which member a connection would get: Explain.
	ActionPersistExplain
	// ActionPersistForecast asks who is bound to the node Words[0].
	ActionPersistForecast

	// ActionPortPersist sets the volatile persistence timeout of port Port to Seconds (rule B-19).
	ActionPortPersist
	// ActionPortPersistShow is the refused query persist PORT show (rule B-20).
	ActionPortPersistShow

	// ActionVirtualPersist is vip A:P persist SECONDS (rule B-20): Key names the virtual server, Seconds the value.
	ActionVirtualPersist
	// ActionVirtualPersistMask is vip A:P persist mask M: Words[0] is the mask or "none".
	ActionVirtualPersistMask
	// ActionVirtualSticky is vip A:P sticky enable|disable|clear: Words[0].
	ActionVirtualSticky
	// ActionVirtualStickyMask is vip A:P sticky mask M: Words[0] is the mask or "none".
	ActionVirtualStickyMask
	// ActionVirtualMirrorPersist is vip A:P mirror persist enable|disable: Words[0].
	ActionVirtualMirrorPersist
	// ActionVirtualQuery is a refused query of a virtual server (rule B-20): Words are those after the address, such as
	// "persist", "mask", "show".
	ActionVirtualQuery

	// ActionStatsReset sets counters of the object Key (or of everything) to zero: stats reset.
	ActionStatsReset
	// ActionConnDump prints the connections that Connections chooses.
	ActionConnDump

	// ActionReset clears configuration and counters: -r, reset.
	ActionReset
	// ActionLoad, ActionMerge, ActionSave, ActionVerifyLoad name a file in Words[0] (absent or "": the default); who reads the
	// file acts on them. The other words are options, each followed by its value: --dry-run, --confirm-within D, --dialect N; Seconds is
	// the time to confirm within, 0 for none.
	ActionLoad
	ActionMerge
	ActionSave
	ActionVerifyLoad
	// ActionHistory prints the revisions; ActionRollback goes back to Seconds as a revision number (0: one back);
	// ActionConfirm keeps a load that was to be confirmed.
	ActionHistory
	ActionRollback
	ActionConfirm

	// ActionToggle switches the global variable Words[0] over: maint.
	ActionToggle
	// ActionMonitorDump prints monitors with their instances: monitor dump, of one where Key is set.
	ActionMonitorDump
	// ActionNodeMonitorShow prints the nodes with their monitors: node monitor show.
	ActionNodeMonitorShow
	// ActionFailover is failover: Words[0] is active, standby or show.
	ActionFailover
	// ActionConfigSync is config sync and configsync: the configuration is saved, there is no other unit to send it to.
	ActionConfigSync
	// ActionMakeCookie prints the value of a BIGipServer cookie that names Words[0], "ADDRESS:PORT" (rule C-1).
	ActionMakeCookie

	// ActionVersion, ActionSummary and ActionHelp print about the program; Words of help name a command.
	ActionVersion
	ActionSummary
	ActionHelp
)

// Kind names what an object is; its text is the first part of the object's key.
type Kind string

// The kinds of objects, in the order in which a file is written.
const (
	KindInterface      Kind = "interface"
	KindIpalias        Kind = "ipalias"
	KindTrunk          Kind = "trunk"
	KindStp            Kind = "stp"
	KindVlan           Kind = "vlan"
	KindVlangroup      Kind = "vlangroup"
	KindSelf           Kind = "self"
	KindGlobal         Kind = "global"
	KindService        Kind = "service"
	KindClass          Kind = "class"
	KindAuthz          Kind = "authz"
	KindMonitor        Kind = "monitor"
	KindPool           Kind = "pool"
	KindRule           Kind = "rule"
	KindVirtualAddress Kind = "virtual_address"
	KindVirtual        Kind = "virtual"
	KindNode           Kind = "node"
	KindMonitorUse     Kind = "monitor_use"
	KindSnat           Kind = "snat"
	KindNat            Kind = "nat"
	KindProxy          Kind = "proxy"
	KindAlias          Kind = "alias"
	KindActive         Kind = "active"
	KindKept           Kind = "kept"
)

// Statement is one statement of a file, or one command. What it says is checked word by word against the attribute and the
// command table; whether it fits the rest of the configuration is for package eval.
type Statement struct {
	// Position of the first word; End is one past the last character.
	Position *pb.Position
	End      *pb.Position
	// Text is the statement as it was written.
	Text   string
	Action Action
	// Faulty is set when the text has faults: Object holds what could be read, at least the name. Such a statement keeps its
	// object from being missed by others and is never carried out.
	Faulty bool
	// Kind and Key name the object that the statement is about; Key is complete ("pool/web", "virtual/10.0.0.1:80"). "" where there is none.
	Kind Kind
	Key  string
	// KeyPosition is where the object's name stands; KeyLength counts its characters.
	KeyPosition *pb.Position
	KeyLength   uint32
	// Object holds what the statement names, presence included; its Meta holds positions and comments. Nil where Action needs none.
	// Services are numbers. A host name stands where the text gave one: an address (before the last colon of ADDRESS:PORT) that
	// netip does not parse, in Key as well. A virtual server without a port is a wildcard of the VLAN that its address names.
	Object *pb.Object
	// Cleared lists proto field names that the statement sets back to absent (simple_mask none).
	Cleared []string
	// NodeList holds the nodes of a node-list virtual server (rule B-18) with its special words as a Pool without a name:
	// lb_mode, persistence and members. Nil otherwise. Object is then the virtual server without a pool.
	NodeList *pb.Pool

	Words       []string
	Port        uint32
	Seconds     uint64
	Filter      *pb.RecordFilter
	Explain     *pb.ExplainRequest
	Connections *pb.ListConnectionsRequest
	// StickyDisable is set when the text said persist_mode sticky disable (rule B-22): Object then carries mode none.
	StickyDisable bool
	// NewEpoch lists the addresses of the members whose text said epoch new: their epoch is to rise by one.
	NewEpoch []string
}
