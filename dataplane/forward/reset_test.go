package forward

import (
	"strings"
	"testing"

	"bigpipe/dataplane/pool"
)

// TestReset: pain 48: what is open to a member that is down ends, at both sides; the rest goes on.
func TestReset(t *testing.T) {
	of := func(addr string) func(*pool.Member) bool {
		return func(m *pool.Member) bool { return m.Addr.String() == addr }
	}
	t.Run("UDP", func(t *testing.T) {
		origins := threeUDP(t)
		b := udpLabOf(t, origins...)
		c := b.dial("")
		if got := c.ask("x"); got != "s1" {
			t.Fatalf("answered by %q", got)
		}
		if n := b.table.Reset(of(origins[1].addr.String())); n != 0 {
			t.Errorf("%d flows of another member end", n)
		}
		if n := b.table.Reset(of(origins[0].addr.String())); n != 1 {
			t.Errorf("%d flows end", n)
		}
		if got := c.ask("x"); got != "s2" {
			t.Errorf("then answered by %q", got)
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		begun, goOn := make(chan bool), make(chan bool)
		o := newOrigin(t, "s1", "127.0.0.11:0", func(o *origin, p *peer) {
			if o.read(p) != "" {
				close(begun)
				<-goOn
			}
		})
		defer close(goOn)
		b := newLab(t, Settings{HTTP: true, Pools: []*pool.Pool{compilePool(t, webPool(o), nil)}})
		c := b.dial()
		c.send(get())
		<-begun
		if n := b.table.Reset(of(o.addr.String())); n != 1 {
			t.Errorf("%d connections end", n)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset by peer") {
			t.Errorf("the client is told %v", err)
		}
	})
	t.Run("spares", func(t *testing.T) {
		o := newOrigin(t, "s1", "127.0.0.11:0", nil)
		b := sharing(t, webPool(o), nil)
		expect(t, b.ask(get()), "s1", o)
		if n := b.table.Spares(); n != 1 {
			t.Fatalf("%d spare connections", n)
		}
		b.table.Reset(of("127.0.0.12:80"))
		if n := b.table.Spares(); n != 1 {
			t.Errorf("%d spare connections of another member are left", n)
		}
		b.table.Reset(of(o.addr.String()))
		if n := b.table.Spares(); n != 0 {
			t.Errorf("%d spare connections are left", n)
		}
	})
}
