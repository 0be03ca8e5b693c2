package dataplane

import (
	goruntime "runtime"
	"testing"

	"golang.org/x/sys/unix"

	pb "bigpipe/proto/bigpipe/v1"
)

// without runs fn on a thread that lacks capabilities.
func without(t *testing.T, fn func(), capabilities ...uint) {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before, during [2]unix.CapUserData
	if err := unix.Capget(&header, &before[0]); err != nil {
		t.Fatal(err)
	}
	during = before
	for _, c := range capabilities {
		during[c/32].Effective &^= 1 << (c % 32)
	}
	if err := unix.Capset(&header, &during[0]); err != nil {
		t.Fatal(err)
	}
	fn()
	if err := unix.Capset(&header, &before[0]); err != nil {
		t.Fatal(err)
	}
}

// Who may not have the clients' addresses says so, and does not listen: members must not take this host for the client.
func TestTransparentNotAllowed(t *testing.T) {
	a := newMember(t, "a", false)
	s := newSite(t, "", mapped)
	without(t, func() {
		v := virtualServer(web, "p")
		v.GetVirtual().Transparent = new(true)
		missing := s.apply(plainPool("p", a.addr()), v)
		want(t, reasons(missing), "virtual/"+web+": transparent needs the capability CAP_NET_ADMIN or CAP_NET_RAW: setsockopt: operation not permitted")
		if addr, ok := s.engine.Bound(web); ok {
			t.Errorf("it listens at %s", addr)
		}
		v = virtualServer(web, "p")
		v.GetVirtual().ProxyProtocol = pb.ProxyProtocol_PROXY_PROTOCOL_V2.Enum()
		want(t, reasons(s.apply(v)), "")
	}, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW)
}
