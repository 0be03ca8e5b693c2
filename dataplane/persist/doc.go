// Package persist holds the records that keep clients on their members.
//
// A Table serves all recorded methods. It knows nothing of pools and members beyond their names: which member is chosen
// and whether one may be used is the caller's business.
//
// # The life of a connection
//
// The key says what is persisted on; its scope comes from ScopeOf alone. The policy is the pool's.
//
//	key := persist.AddrKey(persist.Simple, persist.ScopeOf(globals, virtual, pool), mask, client)
//	policy := persist.Policy{Pool: pool, Timeout: simpleTimeout, Timer: timer}
//
//	b := table.Bind(key, policy, choose) // the record's node, or a new one that is recorded at once
//	defer func() { table.Release(&b.Handle) }()
//	for !usable(b.Node) || dial(b.Node) != nil {
//		if !table.Rebind(key, policy, &b, chooseOther) {
//			return errNoMember
//		}
//	}
//	table.Accepted(&b.Handle) // the record lasts from here; failed attempts never refresh it
//
// Simultaneous first connections get one node. If it refuses, the first of them moves the record and the others follow:
// Rebind replaces b.Node only while the record still names it, and returns the record's node otherwise. So choose must
// not offer a node that was tried already, and the caller bounds its tries.
//
// A record lives while connections hold it and for its timeout after the last (timer Idle), or for its timeout from its
// creation, whatever happens (timer Fixed; connections that are open then go on, and new ones choose anew).
//
// # The three answers
//
// Usable: b.Node is in this pool (address and port if b.Pool is this pool, else the address: rule B-5) and up or
// disabled. Dial it.
//
// Down: Rebind and dial the new node. A shared record moves for everybody (rule B-8).
//
// Not in this pool: only a shared record of another pool can say so. It is left alone, and this virtual server keeps its
// own choice in a narrow record (rule B-7):
//
//	table.Release(&b.Handle)
//	key = persist.AddrKey(persist.Simple, persist.ScopeOf(persist.Globals{}, virtual, pool), mask, client)
//	b = table.Bind(key, policy, choose)
//
// Methods that learn their key later (SSL session IDs) ask with Acquire, which never makes a record, and record the
// answer with Bind and a choose that returns the node at hand.
//
// # Limits
//
// The table and each pool can have a limit. Where it is reached, the idle record that was used least recently goes; if
// all have open connections, Bind returns the chosen node with the Outcome Full and nothing is recorded. A record is 72
// bytes (88 with an ID of more than 16) and 5 to 16 more in the index.
//
// # Mirrors
//
// A Publisher hands records to a Mirror, such as Local: first all, then what changes. On the other side a Follower takes
// them into its table.
package persist
