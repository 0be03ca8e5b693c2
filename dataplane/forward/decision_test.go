package forward

import (
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// Rules O-T1 to O-T3: one decision for a connection, a cookie in its first response only.
func TestPerConnection(t *testing.T) {
	t.Run("O-T1_two_requests", func(t *testing.T) {
		o := three(t, nil)
		c := httpLab(t, webPool(o...)).dial()
		c.send(get())
		expect(t, c.response(), "s1", o[0])
		c.send(get())
		expect(t, c.response(), "s1", nil)
	})
	t.Run("O-T2_second_with_another_cookie", func(t *testing.T) {
		o := three(t, nil)
		c := httpLab(t, webPool(o...)).dial()
		c.send(get())
		expect(t, c.response(), "s1", o[0])
		c.send(get(cookieOf(o[1])))
		expect(t, c.response(), "s1", nil)
	})
	t.Run("O-T3_cookie_first", func(t *testing.T) {
		o := three(t, nil)
		c := httpLab(t, webPool(o...)).dial()
		for _, r := range []string{get(cookieOf(o[1])), get(cookieOf(o[0])), get()} {
			c.send(r)
			expect(t, c.response(), "s2", nil)
		}
		if conns, _ := o[1].seen(); conns != 1 {
			t.Errorf("%d connections at the member", conns)
		}
	})
	t.Run("pipelined", func(t *testing.T) {
		o := three(t, nil)
		c := httpLab(t, webPool(o...)).dial()
		c.send(get(cookieOf(o[1])) + get(cookieOf(o[0])) + get(cookieOf(o[2])))
		for range 3 {
			expect(t, c.response(), "s2", nil)
		}
	})
}

func TestCookieValues(t *testing.T) {
	for _, v := range []string{"999.80.0000", "abc", "4294967296.1.0000", "vi00.1", "", "151587082.5632.0000"} {
		t.Run("O-T15_"+v, func(t *testing.T) {
			o := three(t, nil)
			expect(t, httpLab(t, webPool(o...)).ask(get("Cookie: BIGipServerweb_pool="+v)), "s1", o[0])
		})
	}
	t.Run("O-T16_second_is_used", func(t *testing.T) {
		o := three(t, nil)
		line := "Cookie: BIGipServerweb_pool=broken; BIGipServerweb_pool=" + value(o[1])
		expect(t, httpLab(t, webPool(o...)).ask(get(line)), "s2", nil)
	})
	t.Run("two_lines", func(t *testing.T) {
		o := three(t, nil)
		expect(t, httpLab(t, webPool(o...)).ask(get("Cookie: a=1", cookieOf(o[2]))), "s3", nil)
		if _, seen := o[2].seen(); seen[0] != get("Cookie: a=1", cookieOf(o[2])) {
			t.Errorf("the member got %q", seen[0])
		}
	})
}

func TestMemberStates(t *testing.T) {
	down, disabled := &pb.Node{}, &pb.Node{}
	no := false
	down.Up, disabled.Enabled = &no, &no
	t.Run("C-7_down", func(t *testing.T) {
		o := three(t, nil)
		down.Address = o[1].addr.String()
		b := httpLab(t, webPool(o...), down)
		expect(t, b.ask(get(cookieOf(o[1]))), "s1", o[0])
	})
	t.Run("C-7_disabled", func(t *testing.T) {
		o := three(t, nil)
		disabled.Address = o[1].addr.String()
		b := httpLab(t, webPool(o...), disabled)
		expect(t, b.ask(get(cookieOf(o[1]))), "s2", nil)
		expect(t, b.ask(get()), "s1", o[0])
		expect(t, b.ask(get()), "s3", o[2])
	})
}
