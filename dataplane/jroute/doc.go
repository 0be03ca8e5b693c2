// Package jroute is what persist_mode jroute reads and writes (seed 004): the route, which names a member, in cookies and in the
// paths of requests, and what responses carry of it. It knows no pools and does no I/O.
package jroute
