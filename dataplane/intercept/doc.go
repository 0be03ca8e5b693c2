// Package intercept has packets delivered to sockets of this process whose destination is no address of this host (TPROXY): wildcard
// and network virtual servers serve traffic that only passes through. It keeps
//
//   - a table "bigpipe" of nftables, of family inet, with one chain that says which packets these are. They get a mark;
//   - a routing rule and a routing table in each family that deliver marked packets locally;
//   - the same for each gateway: what this process sends to it with its mark leaves through it, whatever the destination.
//
// The nftables table has our name, the rules and routes have our protocol number: nothing else is ever read as ours, changed or
// removed. What a process that was killed has left is removed by the next one, with Clean or with its first Set.
package intercept

// The names under which the kernel keeps what is ours. The mark of intercepted packets is one bit, whose others stay as they are;
// the gateways' are numbers in further bits. Each gateway has the routing table after the one before it.
const (
	tableName    = "bigpipe"
	mark         = 1 << 20
	gatewayShift = 21
	mostGateways = 1023
	routingTable = 2816
	rulePriority = 2816
	protocol     = 177
)
