package pool

import (
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

func TestReserve(t *testing.T) {
	reserving := func(name string, members ...string) *pb.Pool {
		c := inserting(name, members...)
		c.CookieReserve = proto.Bool(true)
		return c
	}
	const s3 = "127.0.0.3:18003"
	t.Run("pain_63_64_parallel_first_requests_meet", func(t *testing.T) {
		b := newBench(t)
		p := b.set(reserving("web", s1, s2, s3))
		var wg sync.WaitGroup
		decisions := make([]Decision, 12)
		for i := range decisions {
			wg.Go(func() {
				if err := p.Choose(&decisions[i], asking()); err != nil {
					t.Error(err)
					return
				}
				decisions[i].Accepted()
			})
		}
		wg.Wait()
		member := decisions[0].Member
		for i := range decisions {
			if decisions[i].Member != member || !decisions[i].SetCookie() {
				t.Errorf("request %d: %s, cookie %t", i, decisions[i].Member.Addr, decisions[i].SetCookie())
			}
			decisions[i].Release()
		}
		other := in("127.0.0.77", web)
		other.Request = request()
		if d := choose(t, p, other); d.Member == p.Member(at(s1)) {
			t.Errorf("another client went to %s", d.Member.Addr)
		}
		if out := p.Outcomes(); out.GetNone() != 13 || out.GetBound() != 0 {
			t.Errorf("outcomes %v", out)
		}
	})
	t.Run("it_ends_although_a_connection_is_open", func(t *testing.T) {
		b := newBench(t)
		p := b.set(reserving("web", s1, s2))
		first := choose(t, p, asking())
		b.pass(reservation / 2)
		b.want(choose(t, p, asking()).Member.Addr.String(), first.Member.Addr.String())
		b.pass(reservation)
		b.want(choose(t, p, asking()).Member.Addr.String(), s2)
	})
	t.Run("a_cookie_stands_above_it", func(t *testing.T) {
		b := newBench(t)
		p := b.set(reserving("web", s1, s2))
		b.want(ask(t, p, request()), set1())
		b.want(ask(t, p, request(cookie2)), s2)
	})
	t.Run("failures_move_together", func(t *testing.T) {
		b := newBench(t)
		p := b.set(reserving("web", s1, s2, s3))
		one, two := choose(t, p, asking()), choose(t, p, asking())
		for _, d := range []*Decision{one, two} {
			if err := d.Refused(); err != nil {
				t.Fatal(err)
			}
		}
		b.want(two.Member.Addr.String(), one.Member.Addr.String())
	})
	t.Run("off_is_balanced", func(t *testing.T) {
		b := newBench(t)
		on := b.set(reserving("web", s1, s2))
		p := b.set(inserting("web", s1, s2))
		if _, keeps := on.PolicyOf(persist.Cookie, at(s1)); !keeps || on.SamePolicies(p) || !on.KeepsRecords() {
			t.Error("reservations are nobody's")
		}
		if _, keeps := p.PolicyOf(persist.Cookie, at(s1)); keeps {
			t.Error("reservations are kept")
		}
		ask(t, p, request())
		b.want(choose(t, p, asking()).Member.Addr.String(), s2)
	})
}

// Pain 82: pools that say cookie_across_services follow each other's cookies.
func TestAcrossServices(t *testing.T) {
	across := func(name string, members ...string) *pb.Pool {
		c := inserting(name, members...)
		c.CookieAcrossServices = proto.Bool(true)
		return c
	}
	a := across("A", "127.0.0.11:8080", "127.0.0.12:8080")
	b := across("B", "127.0.0.11:8443", "127.0.0.12:8443", "127.0.0.12:9443")
	const pair, other = "BIGipServerA=201326719.36895.0000", "BIGipServerB=184549503.64288.0000"
	compile := func(t *testing.T, keys *cookie.Ring, pools ...*pb.Pool) *Pool {
		t.Helper()
		var objects []*pb.Object
		for _, c := range pools {
			objects = append(objects, &pb.Object{Kind: &pb.Object_Pool{Pool: c}})
		}
		env := newBench(t).env
		env.View, env.Keys = config.NewTree(objects...), keys
		p, reasons := Compile(pools[len(pools)-1], &env, nil)
		if len(reasons) > 0 {
			t.Fatal(reasons)
		}
		return p
	}
	visit := func(t *testing.T, p *Pool, cookies ...string) string {
		i := in(client, "127.0.1.1:443")
		i.Request = request(cookies...)
		d := choose(t, p, i)
		got := d.Member.Addr.String()
		if d.SetCookie() {
			got += "\n" + answer(t, d, true)
		}
		return got
	}
	for _, tt := range []struct {
		name    string
		pools   []*pb.Pool
		cookies []string
		want    string
	}{
		{"follows", []*pb.Pool{a, b}, []string{"x=1; " + pair}, "127.0.0.12:8443\nSet-Cookie: BIGipServerB=201326719.64288.0000; path=/"},
		{"own_cookie_first", []*pb.Pool{a, b}, []string{pair, other}, "127.0.0.11:8443"},
		{"own_cookie_of_no_member", []*pb.Pool{a, b}, []string{pair, "BIGipServerB=x"}, "127.0.0.12:8443\nSet-Cookie: BIGipServerB=201326719.64288.0000; path=/"},
		{"node_not_here", []*pb.Pool{a, b}, []string{"BIGipServerA=1660944511.16671.0000"}, "127.0.0.11:8443\nSet-Cookie: BIGipServerB=184549503.64288.0000; path=/"},
		{"the_other_does_not_say_so", []*pb.Pool{inserting("A"), b}, []string{pair}, "127.0.0.11:8443\nSet-Cookie: BIGipServerB=184549503.64288.0000; path=/"},
		{"this_one_does_not_say_so", []*pb.Pool{a, inserting("B", "127.0.0.11:8443", "127.0.0.12:8443")}, []string{pair}, "127.0.0.11:8443\nSet-Cookie: BIGipServerB=184549503.64288.0000; path=/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := visit(t, compile(t, nil, tt.pools...), tt.cookies...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("encrypted", func(t *testing.T) {
		ring := cookie.NewRing(key(1))
		closed := func(c *pb.Pool) *pb.Pool {
			c = proto.CloneOf(c)
			c.CookieEncryption = pb.CookieEncryption_COOKIE_ENCRYPTION_REQUIRED.Enum()
			return c
		}
		one := closed(a)
		one.Members = one.Members[1:]
		text := setCookie(t, compile(t, ring, one))
		p := compile(t, ring, one, closed(b))
		if d := choose(t, p, asking(text)); d.Member.Addr != at("127.0.0.12:8443") || !d.SetCookie() {
			t.Errorf("went to %s", d.Member.Addr)
		}
		if d := choose(t, p, asking(pair)); d.Member.Addr != at("127.0.0.11:8443") {
			t.Errorf("a clear cookie led to %s", d.Member.Addr)
		}
	})
}
