package dataplane

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
)

const (
	web    = "10.0.0.1:80"
	shop   = "10.0.0.1:443"
	other  = "10.0.0.2:80"
	mapped = web + "=127.0.0.1:0," + shop + "=127.0.0.1:0," + other + "=127.0.0.1:0"
)

func TestTraffic(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	t.Run("simple", func(t *testing.T) {
		s := newSite(t, "", mapped)
		want(t, reasons(s.apply(simplePool("p", 60, a.addr(), b.addr()), virtualServer(web, "p"))), "")
		first := s.who(web)
		for range 4 {
			want(t, s.who(web), first)
		}
	})
	t.Run("B-2_B-6_across_services", func(t *testing.T) {
		s := newSite(t, "", mapped)
		s.apply(object(&pb.Global{PersistAcrossServices: new(true)}),
			simplePool("one", 60, a.addr(), b.addr()), simplePool("two", 60, b.addr(), a.addr()),
			virtualServer(web, "one"), virtualServer(shop, "two"), virtualServer(other, "two"))
		want(t, s.who(web), "a")
		want(t, s.who(shop), "a")  // the record of the address
		want(t, s.who(other), "b") // a record of its own
		s.apply(object(&pb.Global{}))
		want(t, s.who(shop), "a") // its own choice now: the rotation of two goes on
		want(t, s.who(web), "b")
	})
	t.Run("rule", func(t *testing.T) {
		s := newSite(t, "", mapped)
		vs := object(&pb.VirtualServer{Address: web, Rule: new("r")})
		use := func(pool string) *pb.RuleStatement {
			return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: pool}}}}}
		}
		s.apply(plainPool("one", a.addr()), plainPool("two", b.addr()), object(&pb.Rule{Name: "r", Statement: use("one")}), vs)
		want(t, s.who(web), "a")
		s.apply(object(&pb.Rule{Name: "r", Statement: use("two")}))
		want(t, s.who(web), "b")
		s.apply(plainPool("two", a.addr()))
		want(t, s.who(web), "a")
	})
	t.Run("split_goes_on", func(t *testing.T) {
		s := newSite(t, "", mapped)
		s.apply(plainPool("one", a.addr()), plainPool("two", b.addr()),
			object(&pb.VirtualServer{Address: web, Pools: []*pb.WeightedPool{{Pool: "one"}, {Pool: "two"}}}))
		for i := range 6 {
			want(t, s.who(web), []string{"a", "b"}[i%2])
			changed := plainPool("one", a.addr())
			changed.GetPool().ResponseTimeout = new(uint32(i + 1))
			s.apply(changed)
		}
	})
	t.Run("no_member", func(t *testing.T) {
		s := newSite(t, "", mapped)
		s.apply(plainPool("p", a.addr()), object(&pb.Node{Address: a.addr(), Up: new(false)}), virtualServer(web, "p"))
		want(t, s.who(web), "nobody")
		s.apply(object(&pb.Node{Address: a.addr(), Up: new(true)}))
		want(t, s.who(web), "a")
		s.apply(object(&pb.Global{Maint: new(true)}))
		want(t, s.who(web), "nobody")
		stats := s.statistics("")
		for _, state := range []pb.MemberState{stats.GetPools()[0].GetMembers()[0].GetState(), stats.GetNodes()[0].GetState()} {
			if state != pb.MemberState_MEMBER_STATE_MAINTENANCE {
				t.Errorf("state %s in maintenance", pb.EnumWord(state))
			}
		}
	})
}

func TestCookieTraffic(t *testing.T) {
	a, b := newMember(t, "a", true), newMember(t, "b", true)
	s := newSite(t, "", mapped)
	s.apply(cookiePool("web", a.addr(), b.addr()), virtualServer(web, "web"))
	get := func(cookie string) (string, string) {
		addr, _ := s.engine.Bound(web)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String()+"/", nil)
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		tr := &http.Transport{DisableKeepAlives: true}
		defer tr.CloseIdleConnections()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body := make([]byte, 8)
		n, _ := resp.Body.Read(body)
		return string(body[:n]), resp.Header.Get("Set-Cookie")
	}
	name, set := get("")
	if !strings.HasPrefix(set, "BIGipServerweb=") || !strings.HasSuffix(set, ".0000; path=/") {
		t.Fatalf("Set-Cookie: %q", set)
	}
	cookie, _, _ := strings.Cut(set, ";")
	for range 3 {
		got, again := get(cookie)
		want(t, got, name)
		want(t, again, "")
	}
	s.apply(object(&pb.Node{Address: "127.0.0.1", Enabled: new(false)}))
	got, again := get(cookie)
	want(t, got+again, name)
}

func TestNotInEffect(t *testing.T) {
	a := newMember(t, "a", false)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := newSite(t, "", mapped+",10.0.0.9:80="+taken.Addr().String())
	sealed := plainPool("j", a.addr())
	sealed.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_COOKIE.Enum()
	sealed.GetPool().CookieEncryption = pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED.Enum()
	missing := s.apply(sealed, plainPool("p", a.addr()),
		virtualServer("external", "p"), virtualServer("10.0.0.9:80", "p"),
		virtualServer("192.0.2.77:80", "p"), virtualServer(web, "p"),
		object(&pb.VirtualServer{Address: shop}),
		object(&pb.VirtualServer{Address: other, Pools: []*pb.WeightedPool{{Pool: "p"}}, Enabled: new(false)}))
	want(t, reasons(missing), strings.Join([]string{
		"pool/j: persist_mode cookie with cookie_encryption required: there is no cookie_key",
		"virtual/10.0.0.1:443: it uses no pool",
		"virtual/10.0.0.9:80: address in use",
		"virtual/192.0.2.77:80: address not available",
		"virtual/external: virtual servers of a VLAN are not supported",
	}, "\n"))
	want(t, s.who(web), "a")
	if _, ok := s.engine.Bound(other); ok {
		t.Error("a disabled virtual server listens")
	}

	taken.Close()
	eventually(t, "the address is bound once it is free", func() bool {
		_, ok := s.engine.Bound("10.0.0.9:80")
		return ok && !strings.Contains(reasons(s.engine.Status().GetNotInEffect()), "10.0.0.9")
	})
	want(t, s.who("10.0.0.9:80"), "a")
	if missing := s.update(nil, []string{"virtual/192.0.2.77:80", "virtual/external", "virtual/0.0.0.0:0", "pool/j", "virtual/" + shop, "virtual/" + web}); len(missing) > 0 {
		t.Errorf("still not in effect: %s", reasons(missing))
	}
}

func TestMapOnly(t *testing.T) {
	a := newMember(t, "a", false)
	s := newSite(t, "", web+"=127.0.0.1:0,10.1.1.1:80="+a.addr())
	s.engine.addresses.Only = true
	missing := s.apply(plainPool("p", "10.1.1.1:80", "10.1.1.2:80"), virtualServer(web, "p"), virtualServer(other, "p"))
	want(t, reasons(missing), "pool/p: member 10.1.1.2:80: the address is not mapped\nvirtual/"+other+": the address is not mapped")
	for range 3 {
		want(t, s.who(web), "a")
	}
	_, c := s.visit(web)
	eventually(t, "the connection is listed with the real addresses", func() bool {
		list, err := s.engine.Connections(&pb.ListConnectionsRequest{Node: new("10.1.1.1")})
		if err != nil {
			t.Fatal(err)
		}
		for m := range list {
			return m.GetVirtual() == web && m.GetNode() == "10.1.1.1:80" && m.GetClient() == c.LocalAddr().String()
		}
		return false
	})
}

func TestChangesDisturbNobody(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	s := newSite(t, "", mapped)
	s.apply(plainPool("p", a.addr()), plainPool("q", b.addr()), virtualServer(web, "p"), virtualServer(other, "q"))
	bound, _ := s.engine.Bound(web)
	_, one := s.visit(web)
	_, two := s.visit(other)
	s.apply(plainPool("q", a.addr(), b.addr()))
	s.apply(plainPool("p", b.addr()))
	want(t, s.who(web), "b")
	echo(t, one, "one")
	echo(t, two, "two")
	if now, _ := s.engine.Bound(web); now != bound {
		t.Errorf("listens on %s now, on %s before", now, bound)
	}
	s.apply(object(&pb.VirtualServer{Address: web, Pools: []*pb.WeightedPool{{Pool: "p"}}, Enabled: new(false)}))
	s.update(nil, []string{"virtual/" + other})
	for _, addr := range []string{bound.String()} {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Error("a disabled virtual server accepts")
		}
	}
	echo(t, one, "still one")
	echo(t, two, "still two")
	s.apply(virtualServer(web, "p"))
	want(t, s.who(web), "b")
	echo(t, one, "one at last")
	stats := s.statistics("")
	if n := stats.GetUnit().GetConnections(); n.GetTotal() != 4 || n.GetCurrent() < 2 {
		t.Errorf("connections of the unit: %v", n)
	}
}

// The most connections at a time are those that were open, however short.
func TestMostConnections(t *testing.T) {
	a := newMember(t, "a", false)
	s := newSite(t, "", mapped)
	s.apply(plainPool("p", a.addr()), virtualServer(web, "p"))
	peak := func() uint64 {
		return s.statistics("").GetUnit().GetConnections().GetMax()
	}
	_, one := s.visit(web)
	_, two := s.visit(web)
	one.Close()
	two.Close()
	eventually(t, "both connections ended", func() bool { return s.engine.connections.Len() == 0 })
	if n := peak(); n != 2 {
		t.Errorf("most %d, want 2", n)
	}
	if err := s.engine.ResetStatistics(&pb.ResetStatisticsRequest{}); err != nil {
		t.Fatal(err)
	}
	if n := peak(); n != 0 {
		t.Errorf("most after a reset %d", n)
	}
	s.who(web)
	if n := peak(); n != 1 {
		t.Errorf("most after one visit %d", n)
	}
}

func TestServicesAndAddresses(t *testing.T) {
	a := newMember(t, "a", false)
	s := newSite(t, "", mapped)
	s.apply(plainPool("p", a.addr()), virtualServer(web, "p"), virtualServer(shop, "p"), virtualServer(other, "p"))
	listening := func() string {
		var list []string
		for _, v := range []string{web, shop, other} {
			if _, ok := s.engine.Bound(v); ok {
				list = append(list, v)
			}
		}
		return strings.Join(list, " ")
	}
	s.apply(object(&pb.Service{Port: 80, Tcp: new(false)}))
	want(t, listening(), shop)
	s.apply(object(&pb.Service{Port: 80, Tcp: new(true)}), object(&pb.VirtualAddress{Address: "10.0.0.1", Enabled: new(false)}))
	want(t, listening(), other)
	missing := s.update([]*pb.Object{object(&pb.Service{Port: 80, Tcp: new(true), Udp: new(true)})}, []string{"virtual_address/10.0.0.1"})
	want(t, listening(), web+" "+shop+" "+other)
	want(t, reasons(missing), "")

	_, port, _ := net.SplitHostPort(a.addr())
	var n uint32
	fmt.Sscan(port, &n)
	s.apply(object(&pb.Service{Port: n, Tcp: new(false)}))
	state := s.statistics("p").GetPools()[0].GetMembers()[0].GetState()
	if state != pb.MemberState_MEMBER_STATE_PORT_DISABLED {
		t.Errorf("the member is %s", state)
	}
}

func TestApplyErrors(t *testing.T) {
	s := newSite(t, "", mapped)
	s.apply(plainPool("p", "127.0.0.1:1"))
	header := func(change func(*pb.ApplyHeader)) *pb.ApplyHeader {
		h := &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, BaseRevision: 1, Revision: 2}
		change(h)
		return h
	}
	tests := []struct {
		name   string
		update Update
		want   error
	}{
		{"protocol", Update{Header: header(func(h *pb.ApplyHeader) { h.Protocol = 2 })}, ErrProtocol},
		{"foreign", Update{Header: header(func(h *pb.ApplyHeader) { h.StoreId = "x"; h.Full = true })}, ErrForeignStore},
		{"revision", Update{Header: header(func(h *pb.ApplyHeader) { h.BaseRevision = 7 })}, ErrBase},
		{"sequence", Update{Header: header(func(h *pb.ApplyHeader) { h.BaseSequence = 7 })}, ErrBase},
		{"no_header", Update{}, ErrMalformed},
		{"no_store", Update{Header: header(func(h *pb.ApplyHeader) { h.StoreId = "" })}, ErrMalformed},
		{"no_kind", Update{Header: header(func(*pb.ApplyHeader) {}), Changed: []*pb.Object{{}}}, ErrMalformed},
		{"full_deletes", Update{Header: header(func(h *pb.ApplyHeader) { h.Full = true }), Deleted: []string{"pool/p"}}, ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.engine.Apply(&tt.update); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if got := s.engine.Status(); got.GetRevision() != 1 {
				t.Errorf("applied revision %d", got.GetRevision())
			}
		})
	}
	whole := Update{Header: header(func(h *pb.ApplyHeader) { h.Full, h.BaseRevision = true, 0 }), Changed: []*pb.Object{plainPool("q", "127.0.0.1:1")}}
	if _, err := s.engine.Apply(&whole); err != nil {
		t.Fatal(err)
	}
	if pools := s.statistics("").GetPools(); len(pools) != 1 || pools[0].GetName() != "q" {
		t.Errorf("after a whole configuration: %v", pools)
	}
}

func TestRecordsFollowTheirPools(t *testing.T) {
	a := newMember(t, "a", false)
	records := func(s *site) string {
		list, err := s.engine.Records(nil)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for r := range list {
			lines = append(lines, fmt.Sprintf("%s %s %t", r.GetPool(), pb.EnumWord(r.GetMode()), r.GetExpiresInSeconds() > 100))
		}
		return strings.Join(lines, "\n")
	}
	start := func(t *testing.T) *site {
		s := newSite(t, "", mapped)
		s.apply(simplePool("p", 60, a.addr()), virtualServer(web, "p"))
		s.who(web)
		want(t, records(s), "p simple false")
		return s
	}
	cleared := func(t *testing.T, s *site) {
		t.Helper()
		if st := s.engine.records.Stats(); st.Records != 0 || st.Cleared != 1 || st.Expired != 0 {
			t.Errorf("the table: %+v", st)
		}
	}
	t.Run("timeout_changed", func(t *testing.T) {
		s := start(t)
		s.apply(simplePool("p", 600, a.addr()))
		want(t, records(s), "p simple true")
	})
	t.Run("mode_changed", func(t *testing.T) {
		s := start(t)
		s.apply(plainPool("p", a.addr()))
		want(t, records(s), "")
		cleared(t, s)
	})
	t.Run("pool_gone", func(t *testing.T) {
		s := start(t)
		s.update(nil, []string{"pool/p", "virtual/" + web})
		want(t, records(s), "")
		cleared(t, s)
	})
	t.Run("member_added", func(t *testing.T) {
		s := start(t)
		s.apply(simplePool("p", 60, "127.0.0.1:1", a.addr()))
		want(t, records(s), "p simple false")
		want(t, s.who(web), "a")
	})
	t.Run("persist_table_limit", func(t *testing.T) {
		s := start(t)
		s.apply(object(&pb.Global{PersistTableLimit: new(uint32(7))}))
		if n := s.engine.records.Stats().Limit; n != 7 {
			t.Errorf("limit %d", n)
		}
		s.update(nil, []string{"global"})
		if n := s.engine.records.Stats().Limit; n != persist.DefaultLimit {
			t.Errorf("limit %d", n)
		}
	})
}
