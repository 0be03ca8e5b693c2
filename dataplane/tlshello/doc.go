// Package tlshello reads what TLS says in the clear about sessions: the session ID and the ticket that a client brings in its
// hello, and those that a server gives in its answer (rules A-P1 to A-P9). It changes nothing and does no input or output.
//
// A [Client] and a [Server] are fed the first bytes of a connection, in pieces of any size; how the bytes are cut never changes
// what is found. They keep a few facts and no bytes, so their memory does not grow with what they are fed.
//
//	for client.Feed(piece) == tlshello.Pending { ... }     // then choose the member
//	if server.Feed(piece)&tlshello.NewSession != 0 { ... } // before the piece is written to the client
package tlshello
