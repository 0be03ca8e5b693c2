// Package forward carries connections between clients and pool members: TCP byte for byte, HTTP/1.x message by message.
//
// A [Table] holds all open connections of the process and ends what waits too long; a [Listener] accepts the connections of
// one virtual server and treats them by its [Settings], which can be replaced at any time. A [UDPListener] does the same for
// datagrams: what a client sends to a virtual server is a flow, which is decided like a TCP connection and ends when it is idle.
//
// # Settings and open connections
//
// Replacing the settings closes nothing. A connection uses the settings of its last decision: TCP decides once; HTTP decides on
// the first request of a connection and again only when the member that it has cannot be reached any more (rules O-1, O-15), or
// for each request where Settings.PerRequest says so.
//
// # Connections to members
//
// Settings.OneConnect leaves a connection, as soon as the response on it was read, to whoever needs one to that member next:
// the table keeps such spares, without a goroutine, and closes them when the member says anything, when they are too old, or
// when what they were kept for is no more. Whatever is in doubt is closed.
//
// # Input and output
//
// A goroutine serves an HTTP connection while a request is in transit, a second one only while bytes can come from both sides;
// an idle connection has none. TCP connections have none at all: who learns that something happened does what follows from it.
// System calls are tried directly on the non-blocking sockets; a socket is watched from when it has to wait for the first time,
// by epoll descriptors of the table that the runtime's poller waits on. A
// connection holds buffers only while it has bytes in them. Deadlines are numbers in the connection: one sweep each 100 ms
// wakes those that have passed, so a limit is kept within about 100 ms and no timer is set on the way.
//
// UDP has a worker for each processor, a goroutine with an epoll descriptor of its own. A listener and its flows belong to one
// of them, so datagrams keep their order, and one virtual server uses one processor. Many datagrams are received and sent with
// one system call; each flow has a socket that is connected to its member.
package forward
