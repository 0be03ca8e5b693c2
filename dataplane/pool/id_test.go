package pool

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// byID is a pool that persists by what the client's bytes name.
func byID(mode pb.PersistMode, members ...string) *pb.Pool {
	return withMembers(&pb.Pool{Name: "p", PersistMode: mode.Enum()}, members...)
}

// visitAs makes a connection that names a session or a member.
func (b *bench) visitAs(p *Pool, from string, change func(*Input)) string {
	b.t.Helper()
	i := in(from, v1+":80")
	change(i)
	var d Decision
	if err := p.Choose(&d, i); err != nil {
		return err.Error()
	}
	defer d.Release()
	d.Accepted()
	return d.Member.Addr.String()
}

func TestSessionIDs(t *testing.T) {
	members := []string{n1 + ":80", n2 + ":80"}
	named := func(id string) func(*Input) { return func(i *Input) { i.ID = []byte(id) } }
	for mode, timeout := range map[pb.PersistMode]time.Duration{
		pb.PersistMode_PERSIST_MODE_SIP: 32 * time.Second, pb.PersistMode_PERSIST_MODE_MSRDP: 300 * time.Second,
	} {
		t.Run(strings.ToLower(mode.String()), func(t *testing.T) {
			b := newBench(t)
			p := b.set(byID(mode, members...))
			long := strings.Repeat("x", 100)
			first, second := b.visitAs(p, client, named("one")), b.visitAs(p, client, named(long))
			if first == second {
				t.Fatalf("two sessions of one client are not balanced: both at %s", first)
			}
			for range 3 { // whoever asks, and whatever the rotation is at
				b.want(b.visitAs(p, "127.0.9.9", named("one")), first)
				b.want(b.visitAs(p, "127.0.9.8", named(long)), second)
				b.visitAs(p, client, named(""))
			}
			if b.records() != 2 {
				t.Errorf("%d records: connections without a session have some, too", b.records())
			}
			b.pass(timeout - time.Second)
			b.want(b.visitAs(p, client, named("one")), first)
			b.pass(2 * time.Second)
			b.visitAs(p, client, named("one"))
			b.visitAs(p, client, named(long))
			if n := p.Outcomes().GetBound(); n != 3 {
				t.Errorf("bound %d times: only the session that was silent for %v is to be", n, timeout)
			}
			if _, text := explained(p.Explain(in(client, v1+":80"))); !strings.Contains(text, "is known that the client's bytes would name") {
				t.Errorf("explained as %s", text)
			}
		})
	}
}

// The member that a session directory names is used without a record.
func TestNamedMember(t *testing.T) {
	b := newBench(t)
	p := b.set(byID(pb.PersistMode_PERSIST_MODE_MSRDP, n1+":80", n2+":80"))
	named := func(addr string) func(*Input) {
		return func(i *Input) { i.Named = netip.MustParseAddrPort(addr) }
	}
	for range 3 {
		b.want(b.visitAs(p, client, named(n2+":80")), n2+":80")
	}
	for _, stranger := range []string{"127.0.1.99:80", n2 + ":81"} {
		if got := b.visitAs(p, client, named(stranger)); got != n1+":80" && got != n2+":80" {
			t.Errorf("%s: sent to %s", stranger, got)
		}
	}
	if b.records() != 0 {
		t.Errorf("%d records", b.records())
	}
	if out := p.Outcomes(); out.GetValid() != 3 || out.GetUnknownMember() != 2 {
		t.Errorf("outcomes %v", out)
	}
	c := byID(pb.PersistMode_PERSIST_MODE_MSRDP, n1+":80")
	c.PersistUnknown = pb.Unavailable_UNAVAILABLE_REFUSE.Enum()
	p = b.set(c)
	i := in(client, v1+":80")
	i.Named = netip.MustParseAddrPort(n2 + ":80")
	if err := p.Choose(&Decision{}, i); !errors.Is(err, ErrRefused) {
		t.Errorf("a member that is none with persist_unknown refuse: %v", err)
	}
}
