package forward

import (
	"fmt"
	"net/netip"
	"testing"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// Who the client is, behind trusted proxies 10.0.0.0/8 and 2001:db8::/32.
func TestBelieved(t *testing.T) {
	set := &Settings{TrustedProxies: networks("10.0.0.0/8", "2001:db8::/32")}
	for _, c := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"10.0.0.1:5", nil, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 192.0.2.1"}, "192.0.2.1:0"},
		{"10.0.0.1:5", []string{"x-forwarded-FOR:192.0.2.1:77"}, "192.0.2.1:77"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1, 192.0.2.1"}, "192.0.2.1:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 192.0.2.1"}, "192.0.2.1:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1, 192.0.2.1 ,\t10.0.0.2", "X-Forwarded-For: 10.0.0.3"}, "192.0.2.1:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 10.0.0.9, 10.0.0.2"}, "10.0.0.9:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: unknown, 10.0.0.2"}, "10.0.0.2:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 192.0.2.1, unknown"}, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 192.0.2.1,"}, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"X-Forwarded-For:"}, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: fe80::1%eth0"}, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 2001:db9::1"}, "[2001:db9::1]:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: [2001:db9::1]"}, "[2001:db9::1]:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: 192.0.2.1, [2001:db8::1]:99"}, "192.0.2.1:0"},
		{"10.0.0.1:5", []string{"X-Forwarded-For: ::ffff:192.0.2.1"}, "192.0.2.1:0"},
		{"[2001:db8::9]:5", []string{"X-Forwarded-For: 192.0.2.1"}, "192.0.2.1:0"},
		{"192.0.2.9:5", []string{"X-Forwarded-For: 192.0.2.1"}, "192.0.2.9:5"},
	} {
		var q http1.Request
		if n, err := q.Parse([]byte(get(c.lines...))); n == 0 || err != nil {
			t.Fatal(err)
		}
		if got := set.believed(netip.MustParseAddrPort(c.peer), &q.Head); got.String() != c.want {
			t.Errorf("%s and %q: %s, want %s", c.peer, c.lines, got, c.want)
		}
	}
}

// What members are told: a trusted proxy's word and the peer, or the peer alone.
func TestForwardedFor(t *testing.T) {
	trusted := networks("127.0.0.0/30")
	for name, c := range map[string]struct {
		from     string
		tell     bool
		proxies  []netip.Prefix
		in, want []string
	}{
		"off_untouched":       {"127.0.0.1", false, trusted, []string{"X-Forwarded-For: 192.0.2.1"}, []string{"X-Forwarded-For: 192.0.2.1"}},
		"none":                {"127.0.0.1", true, nil, []string{"X-A: b"}, []string{"X-A: b", "X-Forwarded-For: 127.0.0.1"}},
		"nobody_is_trusted":   {"127.0.0.1", true, nil, []string{"X-Forwarded-For: 192.0.2.1", "X-A: b"}, []string{"X-A: b", "X-Forwarded-For: 127.0.0.1"}},
		"peer_is_not":         {"127.0.0.9", true, trusted, []string{"X-Forwarded-For: 1.1.1.1", "x-forwarded-for: 2.2.2.2"}, []string{"X-Forwarded-For: 127.0.0.9"}},
		"trusted":             {"127.0.0.1", true, trusted, []string{"x-Forwarded-For:  192.0.2.1", "X-A: b"}, []string{"x-Forwarded-For: 192.0.2.1, 127.0.0.1", "X-A: b"}},
		"trusted_two_lines":   {"127.0.0.1", true, trusted, []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: x"}, []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: x, 127.0.0.1"}},
		"trusted_empty":       {"127.0.0.1", true, trusted, []string{"X-Forwarded-For:"}, []string{"X-Forwarded-For: 127.0.0.1"}},
		"trusted_says_none":   {"127.0.0.1", true, trusted, nil, []string{"X-Forwarded-For: 127.0.0.1"}},
		"named_by_Connection": {"127.0.0.1", true, trusted, []string{"Connection: X-Forwarded-For", "X-Forwarded-For: 192.0.2.1"}, []string{"X-Forwarded-For: 192.0.2.1, 127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", nil)
			b := newLab(t, Settings{HTTP: true, XForwardedFor: c.tell, TrustedProxies: c.proxies, Pools: []*pool.Pool{compilePool(t, plain(o), nil)}})
			client := b.dialFrom(c.from)
			for range 2 {
				client.send(get(c.in...))
				expect(t, client.response(), "s", nil)
			}
			_, seen := o.seen()
			for _, got := range seen {
				if got != get(c.want...) {
					t.Errorf("the member got %q, want %q", got, get(c.want...))
				}
			}
		})
	}
}

// Pain 83: many clients behind a proxy are many clients where the proxy is trusted, and one where it is not.
func TestClientsBehindAProxy(t *testing.T) {
	simple := func(o ...*origin) *pb.Pool {
		p := plain(o...)
		p.PersistMode, p.SimpleTimeout = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), new(uint32(60))
		return p
	}
	for _, c := range []struct {
		name    string
		proxies []netip.Prefix
		members int
	}{{"not_trusted", nil, 1}, {"trusted", networks("127.0.0.0/8"), 3}} {
		t.Run("pain_83_"+c.name, func(t *testing.T) {
			o := three(t, nil)
			b := sharing(t, simple(o...), func(s *Settings) {
				s.TrustedProxies = c.proxies
				s.OneConnect.SourceMask = persist.Mask{} // shared by who is one client
			})
			proxy := b.dial()
			answered := map[string]string{}
			for round := range 2 {
				for i := range 30 {
					client := fmt.Sprintf("192.0.2.%d", i)
					proxy.send(get("X-Forwarded-For: 203.0.113.7, " + client))
					name, _ := server(t, proxy.response())
					if round > 0 && answered[client] != name {
						t.Errorf("%s goes from %s to %s", client, answered[client], name)
					}
					answered[client] = name
				}
			}
			used, conns := 0, 0
			for _, o := range o {
				n, seen := o.seen()
				if conns += n; len(seen) > 0 {
					used++
				}
			}
			if used != c.members {
				t.Errorf("%d members served", used)
			}
			if want := map[int]int{1: 1, 3: 30}[c.members]; conns != want {
				t.Errorf("%d connections to members, want %d", conns, want)
			}
		})
	}
}
