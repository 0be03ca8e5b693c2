// Package monitor checks nodes and says what state they are in.
//
// A [Set] is told which nodes are to be checked, and by what: an address or an address with a port, each with one or more
// monitors that must all succeed. Monitors that look at the same place share one check. A node is checking until the first
// result of each of its checks, which decides: nothing speaks for a node that never answered. Afterwards it is down when a check
// has had no success for the monitor's timeout, and up with the next success.
//
// Checks begin spread over the interval. Nothing runs for a check that waits for its next turn, and plain TCP checks have no
// goroutine while they are in progress either.
package monitor
