// Package handover connects a dataplane with the process that takes its place on the same machine: messages and descriptors over
// a unix socket in the state directory, between processes of one user that are who they say.
//
// What is said, in which order, is the dataplane's business. [Sockets] are the listening sockets that a process was given when it
// began, by its predecessor or by the service manager.
package handover
