package pool

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

func hashing(name string, members ...string) *pb.Pool {
	c := mode(inserting(name, members...), pb.CookieMode_COOKIE_MODE_HASH)
	c.CookieHashName = proto.String("Apache")
	return c
}

func TestHash(t *testing.T) {
	const s3 = "127.0.0.3:18003"
	session := func(n int) string { return fmt.Sprintf("Apache=session%d", n) }
	t.Run("C-11_always_the_same_and_never_a_cookie", func(t *testing.T) {
		b := newBench(t)
		p := b.set(hashing("web", s1, s2, s3))
		share := map[string]int{}
		for n := range 3000 {
			got := ask(t, p, request(session(n)))
			share[got]++
			b.want(ask(t, p, request("x=y; "+session(n))), got)
		}
		for _, m := range []string{s1, s2, s3} {
			if share[m] < 900 || share[m] > 1100 {
				t.Errorf("shares %v", share)
			}
		}
		if out := p.Outcomes(); out.GetValid() != 6000 {
			t.Errorf("outcomes %v", out)
		}
	})
	t.Run("C-11_another_unit_and_another_order", func(t *testing.T) {
		a, b := newBench(t), newBench(t)
		p, q := a.set(hashing("web", s1, s2, s3)), b.set(hashing("web", s3, s1, s2))
		for n := range 100 {
			b.want(ask(t, q, request(session(n))), ask(t, p, request(session(n))))
		}
	})
	t.Run("C-11_offset_and_length", func(t *testing.T) {
		b := newBench(t)
		c := hashing("web", s1, s2, s3)
		c.CookieHashOffset, c.CookieHashLength = proto.Uint32(2), proto.Uint32(4)
		p := b.set(c)
		for n := range 50 {
			b.want(ask(t, p, request(fmt.Sprintf("Apache=xx%04dyy", n))), ask(t, p, request(fmt.Sprintf("Apache=%02d%04d", n, n))))
		}
		for _, tt := range []struct{ cookie, found string }{{"", "none"}, {"Apache=12345", "malformed"}, {"Apache=", "malformed"}, {"apache=12345678", "none"}} {
			if d := choose(t, p, asking(tt.cookie)); d.outcome.String() != tt.found || d.SetCookie() {
				t.Errorf("%q: %s, cookie %t", tt.cookie, d.outcome, d.SetCookie())
			}
		}
		first, second := ask(t, p, request("Apache=12; Apache=123456")), ask(t, p, request("Apache=123456"))
		b.want(first, second)
	})
	t.Run("C-11_absence_moves_the_absent_members_clients_alone", func(t *testing.T) {
		b := newBench(t)
		p := b.set(hashing("web", s1, s2, s3))
		home := map[int]string{}
		for n := range 200 {
			home[n] = ask(t, p, request(session(n)))
		}
		b.nodes[s2] = &pb.Node{Up: no()}
		b.again()
		away := map[string]int{}
		for n := range 200 {
			got := ask(t, b.pools["web"], request(session(n)))
			switch home[n] {
			case s2:
				away[got]++
				b.want(ask(t, b.pools["web"], request(session(n))), got)
			default:
				b.want(got, home[n])
			}
		}
		if len(away) != 2 || away[s2] > 0 {
			t.Errorf("clients of the absent member went to %v", away)
		}
		delete(b.nodes, s2)
		b.again()
		for n := range 200 {
			b.want(ask(t, b.pools["web"], request(session(n))), home[n])
		}
	})
	t.Run("disabled_is_honoured", func(t *testing.T) {
		b := newBench(t)
		p := b.set(hashing("web", s1, s2, s3))
		home := ask(t, p, request(session(1)))
		b.nodes[home] = &pb.Node{Enabled: no()}
		b.again()
		d := choose(t, b.pools["web"], asking(session(1)))
		b.want(d.Member.Addr.String()+" "+d.outcome.String(), home+" disabled_honoured")
	})
	t.Run("refused_goes_on_to_the_next_and_back", func(t *testing.T) {
		b := newBench(t)
		p := b.set(hashing("web", s1, s2, s3))
		visited := func() (list string) {
			d := Decision{}
			err := p.Choose(&d, asking(session(7)))
			for ; err == nil; err = d.Refused() {
				list += d.Member.Addr.String() + " "
			}
			d.Release()
			return list
		}
		first := visited()
		if len(first) != 3*len(s1+" ") {
			t.Errorf("visited %q", first)
		}
		b.want(visited(), first)
	})
	t.Run("B-23_wide_scope_chooses_by_the_node", func(t *testing.T) {
		b := newBench(t)
		b.global.PersistAcrossServices = proto.Bool(true)
		http, ssl := hashing("http", n1+":8080", n2+":8080", "127.0.1.3:8080"), hashing("ssl", "127.0.1.3:8443", n2+":9443", n2+":8443", n1+":8443")
		b.set(http)
		b.set(ssl)
		for n := range 100 {
			one, two := in(client, v1+":8080"), in(client, v1+":8443")
			one.Request, two.Request = request(session(n)), request(session(n))
			d, e := choose(t, b.pools["http"], one), choose(t, b.pools["ssl"], two)
			if d.Member.Addr.Addr() != e.Member.Addr.Addr() || e.Member.Addr.Port() != 8443 {
				t.Errorf("%s and %s", d.Member.Addr, e.Member.Addr)
			}
		}
	})
	t.Run("B-10_a_narrow_scope_hashes_members", func(t *testing.T) {
		b := newBench(t)
		p, q := b.set(hashing("http", n1+":80", n2+":80")), b.set(hashing("ssl", n1+":443", n2+":443"))
		same := 0
		for n := range 200 {
			if choose(t, p, asking(session(n))).Member.Addr.Addr() == choose(t, q, asking(session(n))).Member.Addr.Addr() {
				same++
			}
		}
		if same < 60 || same > 140 {
			t.Errorf("%d of 200 equal", same)
		}
	})
}
