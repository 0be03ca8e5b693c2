package dataplane

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"bigpipe/dataplane/openssl"
	pb "bigpipe/proto/bigpipe/v1"
)

// opensslSite has openssl's servers as members, and its clients.
type opensslSite struct {
	*site
	peer    *openssl.Peer
	servers []string // addresses
}

// newOpenSSL starts servers behind the virtual server web.
func newOpenSSL(t *testing.T, servers int, change func(*pb.Pool), options ...string) *opensslSite {
	t.Helper()
	o := &opensslSite{peer: openssl.New(t), site: newSite(t, "", mapped)}
	for range servers {
		o.servers = append(o.servers, unusedAddress(t))
	}
	o.peer.Serve(o.servers, options...)
	p := plainPool("p", o.servers...)
	p.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_SSL.Enum()
	if change != nil {
		change(p.GetPool())
	}
	o.apply(p, virtualServer(web, "p"))
	return o
}

// unusedAddress is one that nobody listens on.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// connect runs a client from an address, and returns how its connections began; see [openssl.Session].
func (o *opensslSite) connect(client string, page bool, options ...string) string {
	o.t.Helper()
	addr, ok := o.engine.Bound(web)
	if !ok {
		o.t.Fatal("nobody listens")
	}
	return o.peer.Connect(openssl.Client{From: client, To: addr.String(), Page: page}, options...).Began
}

// totals prints how many connections each member has had.
func (o *opensslSite) totals() string {
	var list []string
	for _, m := range o.statistics("p").GetPools()[0].GetMembers() {
		list = append(list, fmt.Sprint(m.GetConnections().GetTotal()))
	}
	return strings.Join(list, " ")
}

// TestOpenSSL: rules with openssl as client and server.
func TestOpenSSL(t *testing.T) {
	const first, again = "127.0.0.1", "127.0.0.9"
	t.Run("A-T1_A-T2_session_IDs", func(t *testing.T) {
		o := newOpenSSL(t, 3, nil, "-tls1_2", "-no_ticket")
		for i := range 3 {
			want(t, o.connect(first, false, "-tls1_2", "-no_ticket", "-sess_out", fmt.Sprintf("s%d", i)), "New")
		}
		want(t, o.totals(), "1 1 1")
		for range 2 { // six connections each
			for i := range 3 {
				for _, client := range []string{first, again} {
					want(t, o.connect(client, false, "-tls1_2", "-no_ticket", "-reconnect", "-sess_in", fmt.Sprintf("s%d", i)), openssl.Reused(6))
				}
			}
		}
		want(t, o.totals(), "25 25 25")
	})
	t.Run("A-4_TLS_1.3_client_of_TLS_1.2_servers", func(t *testing.T) { // its invented IDs are none
		o := newOpenSSL(t, 3, nil, "-tls1_2", "-no_ticket")
		want(t, o.connect(first, true, "-sess_out", "s"), "New")
		for range 4 {
			want(t, o.connect(again, true, "-sess_in", "s"), "Reused")
		}
		if n := strings.Count(o.dump(), "\n"); n != 1 {
			t.Errorf("%d records:\n%s", n, o.dump())
		}
	})
	t.Run("A-T16_TLS_1.3", func(t *testing.T) { // pain 88
		o := newOpenSSL(t, 3, nil, "-tls1_3")
		want(t, o.connect(first, true, "-sess_out", "s"), "New")
		want(t, o.connect(first, true, "-sess_in", "s"), "New")
		want(t, o.connect(first, true, "-sess_in", "s"), "New")
		want(t, o.totals(), "1 1 1")
		want(t, o.dump(), "")
	})
	t.Run("pain_88_fallback", func(t *testing.T) {
		o := newOpenSSL(t, 3, func(p *pb.Pool) { p.SslFallback = pb.SslFallback_SSL_FALLBACK_SIMPLE.Enum() }, "-tls1_3")
		want(t, o.connect(first, true, "-sess_out", "s"), "New")
		for range 5 {
			want(t, o.connect(first, true, "-sess_in", "s", "-sess_out", "s"), "Reused")
		}
		want(t, o.totals(), "6 0 0")
		want(t, o.dump(), fmt.Sprintf("simple %s %s %s\n", first, web, o.servers[0]))
	})
	t.Run("A-T17_pain_89_tickets", func(t *testing.T) {
		o := newOpenSSL(t, 3, nil, "-tls1_2")
		want(t, o.connect(again, true, "-tls1_2", "-sess_out", "other"), "New")
		want(t, o.connect(first, true, "-tls1_2", "-sess_out", "s"), "New")
		for range 5 {
			want(t, o.connect(again, true, "-tls1_2", "-sess_in", "s", "-sess_out", "s"), "Reused")
		}
		want(t, o.connect(first, false, "-tls1_2", "-reconnect", "-sess_in", "s"), openssl.Reused(6))
		want(t, o.totals(), "1 12 0")
	})
	t.Run("A-T17_tickets_ignored", func(t *testing.T) {
		o := newOpenSSL(t, 3, func(p *pb.Pool) { p.SslTickets = pb.SslTickets_SSL_TICKETS_IGNORE.Enum() }, "-tls1_2")
		want(t, o.connect(first, true, "-tls1_2", "-sess_out", "s"), "New")
		want(t, o.connect(first, true, "-tls1_2", "-sess_in", "s"), "New")
		want(t, o.connect(first, true, "-tls1_2", "-sess_in", "s"), "New")
		want(t, o.totals(), "1 1 1")
		want(t, o.dump(), "")
	})
}
