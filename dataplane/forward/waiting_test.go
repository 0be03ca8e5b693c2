package forward

import (
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
)

// Pain 93: whose time runs while a body is waited for.
func TestExpectTime(t *testing.T) {
	expectation := "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	start := func(t *testing.T, responseTimeout uint32, serve func(*origin, *peer)) *peer {
		p := plain(newOrigin(t, "s", "127.0.0.11:0", serve))
		p.ResponseTimeout = &responseTimeout
		set := Settings{HTTP: true, HeaderTimeout: 300 * time.Millisecond, BodyMinRate: 2, Pools: []*pool.Pool{compilePool(t, p, nil)}}
		return newLab(t, set).dial()
	}
	invite := func(after time.Duration) func(*origin, *peer) {
		return func(_ *origin, p *peer) {
			p.head()
			time.Sleep(after)
			p.send("HTTP/1.1 100 Continue\r\n\r\n")
			if p.bytes(5) == "hello" {
				p.send(ok("s"))
			}
		}
	}
	t.Run("member_is_slow", func(t *testing.T) {
		c := start(t, 60, invite(900*time.Millisecond))
		c.send(expectation)
		if h := c.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("interim %q", h)
		}
		c.send("hello")
		expect(t, c.response(), "s", nil)
	})
	t.Run("member_is_silent", func(t *testing.T) {
		c := start(t, 1, func(_ *origin, p *peer) { p.rest() })
		c.send(expectation)
		if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 504 ") {
			t.Errorf("answer %q", h)
		}
	})
	t.Run("client_is_slow_after_100", func(t *testing.T) {
		c := start(t, 60, invite(0))
		c.send(expectation)
		c.head()
		if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 408 ") {
			t.Errorf("answer %q", h)
		}
	})
	t.Run("client_does_not_wait_and_is_slow", func(t *testing.T) {
		c := start(t, 60, func(_ *origin, p *peer) { p.rest() })
		c.send(expectation + "h")
		if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 408 ") {
			t.Errorf("answer %q", h)
		}
	})
	t.Run("client_rests_longer_than_members_may", func(t *testing.T) {
		c := start(t, 1, func(o *origin, p *peer) {
			if o.read(p) != "" {
				p.send(ok("s"))
			}
		})
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nh")
		c.send("ello wo") // within the credit of that for some seconds
		time.Sleep(1500 * time.Millisecond)
		c.send("r")
		expect(t, c.response(), "s", nil)
	})
}

// An empty line after a body is none of a request: nothing is waited for, and nothing is said.
func TestEmptyLine(t *testing.T) {
	post := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na"
	start := func(t *testing.T, header, idle time.Duration) *peer {
		o := newOrigin(t, "s", "127.0.0.11:0", nil)
		return newLab(t, Settings{HTTP: true, HeaderTimeout: header, IdleTimeout: idle, Pools: []*pool.Pool{compilePool(t, plain(o), nil)}}).dial()
	}
	for name, pieces := range map[string][2]string{"at_once": {"\r\n", ""}, "in_pieces": {"\r", "\n"}, "later": {"", "\r\n"}} {
		t.Run("5a_skipped_"+name, func(t *testing.T) {
			c := start(t, 300*time.Millisecond, time.Minute)
			c.send(post + pieces[0])
			expect(t, c.response(), "s", nil)
			c.send(pieces[1])
			time.Sleep(900 * time.Millisecond)
			c.send(get())
			expect(t, c.response(), "s", nil)
		})
		t.Run("5a_closed_in_silence_"+name, func(t *testing.T) {
			c := start(t, time.Minute, 300*time.Millisecond)
			c.send(post + pieces[0])
			c.response()
			c.send(pieces[1])
			c.closed()
		})
	}
	t.Run("carriage_return_alone", func(t *testing.T) {
		c := start(t, time.Minute, 300*time.Millisecond)
		c.send(post + "\r")
		c.response()
		c.closed()
	})
	t.Run("first", func(t *testing.T) {
		c := start(t, 300*time.Millisecond, time.Minute)
		c.send("\r\n")
		c.closed()
	})
	for name, pieces := range map[string][2]string{
		"at_once": {"\r\n\r\n", ""}, "in_pieces": {"\r\n", "\r\n"}, "stray": {"\r", ""}, "half_twice": {"\r", "\r\n"},
	} {
		t.Run("5a_second_is_a_fault_"+name, func(t *testing.T) {
			c := start(t, time.Minute, time.Minute)
			c.send(post + pieces[0])
			c.response()
			c.send(pieces[1] + get())
			if h := c.head(); !strings.HasPrefix(h, "HTTP/1.1 400 ") {
				t.Errorf("answer %q", h)
			}
		})
	}
}

// A side that was told to end stays so, whatever progress the other goroutine makes.
func TestEndIsFinal(t *testing.T) {
	var c conn
	c.clock = newClock()
	c.within(&c.reader, time.Hour)
	c.progress(&c.reader)
	if c.reader.passed(c.clock.now()) {
		t.Error("it has an hour")
	}
	c.end(&c.reader)
	c.progress(&c.reader)
	c.reader.move(c.clock.after(time.Hour))
	if !c.reader.passed(c.clock.now()) {
		t.Error("it goes on")
	}
	c.within(&c.reader, time.Hour)
	if c.reader.passed(c.clock.now()) {
		t.Error("it cannot begin again")
	}
}
