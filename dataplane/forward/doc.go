// Package forward carries connections between clients and pool members: TCP byte for byte, HTTP/1.x message by message.
//
// A [Table] holds all open connections of the process and ends what waits too long; a [Listener] accepts the connections of
// one virtual server and treats them by its [Settings], which can be replaced at any time.
//
// # Settings and open connections
//
// Replacing the settings closes nothing. A connection uses the settings of its last decision: TCP decides once; HTTP decides on
// the first request of a connection and again only when the member that it has cannot be reached any more (rules O-1, O-15), or
// for each request where Settings.PerRequest says so.
//
// # Input and output
//
// A goroutine serves an HTTP connection while a request is in transit, a second one only while bytes can come from both sides;
// an idle connection has none. TCP connections have none at all: who learns that something happened does what follows from it.
// System calls are tried directly on the non-blocking sockets; a socket is watched from when it has to wait for the first time,
// by epoll descriptors of the table that the runtime's poller waits on. A
// connection holds buffers only while it has bytes in them. Deadlines are numbers in the connection: one sweep each 100 ms
// wakes those that have passed, so a limit is kept within about 100 ms and no timer is set on the way.
package forward
