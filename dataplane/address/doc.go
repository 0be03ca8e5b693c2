// Package address is about the addresses that the host has: it tells when they come and go, and adds those of virtual servers to
// a device and announces them.
package address
