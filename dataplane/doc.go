// Package dataplane forwards traffic as the configuration says that mgmtd pushes.
//
// [Engine] holds the configuration that is wanted and makes it the running one: it compiles pools, rules and virtual
// servers, opens and closes listeners, and goes on trying what cannot be in effect yet. The Dataplane service makes it
// available to mgmtd; [Run] is a whole dataplane, for the program of that name and for a mgmtd that embeds one.
package dataplane
