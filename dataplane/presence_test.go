package dataplane

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"bigpipe/dataplane/namespace"
	pb "bigpipe/proto/bigpipe/v1"
)

const (
	floating  = "10.9.0.1:80"
	floating6 = "[2001:db8::9]:80"
)

// assigningSite is a site that assigns addresses to a device; nothing is mapped.
func assigningSite(t *testing.T, dir, device string) *site {
	t.Helper()
	e, err := NewEngine(EngineOptions{StateDir: dir, AssignDevice: device, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, engine: e, objects: map[string]*pb.Object{}}
	t.Cleanup(s.close)
	return s
}

func (s *site) awaitReasons(text string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("not in effect: %q", text), func() bool {
		return reasons(s.engine.Status().GetNotInEffect()) == text
	})
}

// A virtual server is bound when its address appears. While the address is away it is not in effect; its socket and its
// connections wait, and go on when the address is back.
func TestAddressComesAndGoes(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "one", "two")
	s := newSite(t, "", "")
	if !s.engine.presence.watch.Works() {
		t.Fatal("changes of addresses are not noticed")
	}
	a := newMember(t, "a", false)
	for virtual, prefix := range map[string]string{floating: "10.9.0.1/24", floating6: "2001:db8::9/64"} {
		missing := "virtual/" + virtual + ": address not available"
		want(t, reasons(s.apply(plainPool("p", a.addr()), virtualServer(virtual, "p"))), missing)
		namespace.Give(t, "one", prefix)
		s.awaitReasons("")
		name, open := s.visit(virtual)
		want(t, name, "a")
		namespace.Take(t, "one", prefix)
		s.awaitReasons(missing)
		want(t, reasons(s.apply(plainPool("p", a.addr(), "127.0.0.1:1"))), missing)
		s.apply(plainPool("p", a.addr()))
		namespace.Give(t, "one", prefix)
		s.awaitReasons("")
		echo(t, open, "still there")
		want(t, s.who(virtual), "a")
		s.update(nil, []string{"virtual/" + virtual})
	}
}

// Addresses are assigned with the configuration that names them. One goes when the last connection to it has ended.
func TestAssignAddresses(t *testing.T) {
	if !namespace.Enter(t) {
		return
	}
	namespace.Pair(t, "one", "two")
	namespace.Give(t, "two", "10.9.0.7/24")
	has := func(list ...string) func() bool {
		return func() bool {
			got := namespace.Addresses(t, "one")
			slices.Sort(got)
			return strings.Join(got, " ") == strings.Join(list, " ")
		}
	}
	dir := t.TempDir()
	s := assigningSite(t, dir, "one")
	a := newMember(t, "a", false)
	missing := s.apply(plainPool("p", a.addr()), virtualServer(floating, "p"), virtualServer("10.9.0.1:81", "p"),
		virtualServer(floating6, "p"), virtualServer("10.9.0.7:80", "p"), virtualServer("127.0.0.9:8080", "p"))
	want(t, reasons(missing), "")
	eventually(t, "the addresses that were missing are added", has("10.9.0.1/32", "2001:db8::9/128"))
	name, open := s.visit(floating)
	want(t, name, "a")
	want(t, s.who(floating6), "a")
	s.update(nil, []string{"virtual/" + floating, "virtual/" + floating6})
	eventually(t, "what nobody needs is removed", has("10.9.0.1/32"))
	s.update([]*pb.Object{virtualServer(floating6, "p")}, []string{"virtual/10.9.0.1:81"})
	eventually(t, "an address with a connection stays", has("10.9.0.1/32", "2001:db8::9/128"))
	echo(t, open, "still open")
	open.Close()
	eventually(t, "it goes with the last connection", has("2001:db8::9/128"))
	namespace.Take(t, "one", "2001:db8::9/128")
	eventually(t, "what was lost is added again", has("2001:db8::9/128"))
	s.awaitReasons("")

	disabled := virtualServer(floating6, "p")
	disabled.GetVirtual().Enabled = new(false)
	s.apply(disabled)
	eventually(t, "a disabled virtual server needs none", has())
	s.apply(virtualServer(floating6, "p"))
	s.close()
	eventually(t, "nothing is left at the end", has())
}
