package forward

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
	pb "bigpipe/proto/bigpipe/v1"
)

// script is an origin that reads a request and sends a text, each time.
func script(text string) func(*origin, *peer) {
	return func(o *origin, p *peer) {
		for o.read(p) != "" {
			p.send(text)
		}
	}
}

// plain is a pool without persistence.
func plain(origins ...*origin) *pb.Pool {
	p := webPool(origins...)
	p.PersistMode, p.CookieMode = nil, nil
	return p
}

func TestBytes(t *testing.T) {
	response := "HTTP/1.1 200 Fine\r\nx-LOWER: a  b\r\nSet-Cookie: z=1\r\nset-COOKIE: y=\"2\"; Path=/x\r\n" +
		"Content-Length: 5\r\nX-Server: s\r\n\r\nhello"
	o := newOrigin(t, "s", "127.0.0.11:0", script(response))
	c := httpLab(t, plain(o)).dial()
	request := "POST /a%20b?c=%zz HTTP/1.1\r\nhOST: h:99\r\nX-b: 1\r\nX-a:  two  \r\nX-b: 2\r\nCookie: a=1; b=\"2\"\r\nContent-Length: 4\r\n\r\nbody"
	for range 2 {
		c.send(request)
		if got := c.response(); got != response {
			t.Errorf("response %q", got)
		}
	}
	conns, seen := o.seen()
	if conns != 1 || len(seen) != 2 || seen[0] != request || seen[1] != request {
		t.Errorf("%d connections, requests %q", conns, seen)
	}
}

func TestPipelinedWithBodies(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	c := httpLab(t, plain(o)).dial()
	chunked := "POST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	c.send("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" + chunked + get() + "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + get())
	for range 4 {
		expect(t, c.response(), "s", nil)
	}
	c.closed()
	_, seen := o.seen()
	if len(seen) != 4 || seen[1] != chunked || !strings.HasPrefix(seen[3], "GET /last") {
		t.Errorf("the member got %q", seen)
	}
}

// Edge table 5a as far as the forwarder is concerned: the answer, the close, and nothing at the member.
func TestRefusedRequests(t *testing.T) {
	long := strings.Repeat("a", 8192)
	tests := []struct {
		name, request string
		status        int
	}{
		{"5a-1", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"5a-3", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", 400},
		{"5a-7", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
		{"5a-7_unknown", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		{"5a-9_pain_95", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\nZ\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"5a-13", "GET / HTTP/1.1\nHost: h\n\n", 400},
		{"5a-19", "GET / HTTP/1.1\r\n\r\n", 400},
		{"5a-22", "GET /\r\n\r\n", 400},
		{"version", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
		{"J-20", "GET /" + long + " HTTP/1.1\r\nHost: h\r\n\r\n", 414},
		{"many_headers", get(strings.Split(strings.Repeat("A: b\n", 101), "\n")...), 431},
		{"large_headers", get("A: " + strings.Repeat("b", 70000)), 431},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", nil)
			c := httpLab(t, webPool(o)).dial()
			c.send(tt.request)
			text, err := c.rest()
			if err != nil || !strings.HasPrefix(text, fmt.Sprintf("HTTP/1.1 %d ", tt.status)) ||
				!strings.Contains(text, "\r\nConnection: close\r\n") || strings.Count(text, "HTTP/1.1 ") != 1 || strings.Contains(text, "Set-Cookie") {
				t.Errorf("answer %.300q, %v", text, err)
			}
			if _, seen := o.seen(); len(seen) > 0 {
				t.Errorf("the member got %q", seen)
			}
		})
	}
}

func TestLargestHead(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 200 OK\r\nB: "+strings.Repeat("c", 60000)+"\r\nX-Server: s\r\nContent-Length: 3\r\n\r\nok\n"))
	c := httpLab(t, plain(o)).dial()
	request := get("A: " + strings.Repeat("b", 60000))
	for range 2 {
		c.send(request)
		if r := c.response(); len(r) < 60000 || !strings.HasSuffix(r, "ok\n") {
			t.Errorf("response of %d bytes", len(r))
		}
	}
	if _, seen := o.seen(); len(seen) != 2 || seen[1] != request {
		t.Errorf("%d requests", len(seen))
	}
}

// Pain 94: Connection must not remove fields that matter.
func TestConnectionNamesFields(t *testing.T) {
	t.Run("pain_94_Cookie_and_Host", func(t *testing.T) {
		o := three(t, nil)
		b := httpLab(t, webPool(o...))
		expect(t, b.ask(get("Connection: close, Cookie, Host", "Cookie: app=1; BIGipServerweb_pool="+value(o[1]))), "s2", nil)
		if _, seen := o[1].seen(); !strings.Contains(seen[0], "Cookie: app=1; ") || !strings.Contains(seen[0], "Host: h\r\n") {
			t.Errorf("the member got %q", seen)
		}
	})
	for name, body := range map[string]string{
		"Content-Length": "Content-Length: 3\r\n\r\nabc", "Transfer-Encoding": "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		t.Run("pain_94_"+name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", nil)
			c := sharing(t, plain(o), nil).dial()
			for range 2 {
				c.send("POST / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, " + name + "\r\n" + body)
				expect(t, c.response(), "s", nil)
			}
			want := "POST / HTTP/1.1\r\nHost: h\r\n" + body
			if conns, seen := o.seen(); conns != 1 || len(seen) != 2 || seen[0] != want || seen[1] != want {
				t.Errorf("the member got %q on %d connections", seen, conns)
			}
		})
	}
	t.Run("pain_94_response", func(t *testing.T) {
		kept := "Set-Cookie: app=1\r\nContent-Length: 3\r\n"
		o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 200 OK\r\nX-Server: s\r\nConnection: keep-alive, Set-Cookie, Content-Length\r\n"+kept+"\r\nok\n"))
		c := sharing(t, plain(o), nil).dial()
		for range 2 {
			c.send(get())
			if r := c.response(); r != "HTTP/1.1 200 OK\r\nX-Server: s\r\n"+kept+"\r\nok\n" {
				t.Errorf("response %q", r)
			}
		}
		connections(t, o, 1)
	})
}

func TestNoMember(t *testing.T) {
	t.Run("empty_pool", func(t *testing.T) {
		b := httpLab(t, webPool())
		c := b.dial()
		for range 2 {
			c.send(get())
			if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 503 ") || strings.Contains(r, "Set-Cookie") {
				t.Errorf("answer %q", r)
			}
		}
	})
	t.Run("fallback", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", nil)
		o.stop()
		p := webPool(o)
		url := "https://%h/sorry%u"
		p.Fallback = &url
		r := httpLab(t, p).ask("GET /a?b HTTP/1.1\r\nHost: shop:81\r\n\r\n")
		if !strings.HasPrefix(r, "HTTP/1.1 302 Found\r\n") || !strings.Contains(r, "\r\nLocation: https://shop/sorry/a?b\r\n") || strings.Contains(r, "Set-Cookie") {
			t.Errorf("answer %q", r)
		}
	})
	t.Run("body_is_taken", func(t *testing.T) {
		c := httpLab(t, webPool()).dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" + get())
		for range 2 {
			if r := c.response(); !strings.HasPrefix(r, "HTTP/1.1 503 ") {
				t.Errorf("answer %q", r)
			}
		}
	})
}

func TestRules(t *testing.T) {
	o := three(t, nil)
	uri := func(prefix string, then *pb.RuleStatement, otherwise *pb.RuleStatement) *pb.RuleStatement {
		v := &pb.RuleVariable{Name: pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_URI}
		cmp := &pb.RuleComparison{Variable: v, Operator: pb.RuleOperator_RULE_OPERATOR_STARTS_WITH, Value: &pb.RuleComparison_Text{Text: prefix}}
		return &pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{
			Condition: &pb.RuleExpression{Kind: &pb.RuleExpression_Comparison{Comparison: cmp}}, Then: then, Else: otherwise,
		}}}
	}
	use := func(p string) *pb.RuleStatement {
		return &pb.RuleStatement{Kind: &pb.RuleStatement_Use{Use: &pb.RuleUse{Pools: []*pb.WeightedPool{{Pool: p}}}}}
	}
	cookieName := "app"
	exists := &pb.RuleExpression{Kind: &pb.RuleExpression_Exists{Exists: &pb.RuleVariable{
		Name: pb.RuleVariableName_RULE_VARIABLE_NAME_HTTP_COOKIE, Argument: &cookieName,
	}}}
	r, err := rule.Compile(&pb.Rule{Name: "r", Statement: uri("/two", use("two"),
		uri("/gone", &pb.RuleStatement{Kind: &pb.RuleStatement_Discard{Discard: &pb.RuleDiscard{}}},
			uri("/away", &pb.RuleStatement{Kind: &pb.RuleStatement_Redirect{Redirect: &pb.RuleRedirect{Url: "https://%h:%p%u"}}},
				uri("/none", use("missing"),
					&pb.RuleStatement{Kind: &pb.RuleStatement_If{If: &pb.RuleIf{Condition: exists, Then: use("app"), Else: use("one")}}}))))}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pools := map[string]*pool.Pool{"one": compilePool(t, plain(o[0]), nil), "two": compilePool(t, plain(o[1]), nil), "app": compilePool(t, plain(o[2]), nil)}
	set := Settings{HTTP: true, Rule: r, Virtual: netip.MustParseAddrPort("10.0.0.1:8443")}
	for _, name := range r.Pools() {
		set.Pools = append(set.Pools, pools[name])
	}
	b := newLab(t, set)
	for uri, want := range map[string]string{"/": "s1", "/two": "s2"} {
		expect(t, b.ask("GET "+uri+" HTTP/1.1\r\nHost: h\r\n\r\n"), want, nil)
	}
	expect(t, b.ask(get("Cookie: x=1; app=2")), "s3", nil)
	if got := b.ask("GET /none HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("/none: %q", got)
	}
	if got := b.ask("GET /away?x HTTP/1.1\r\nHost: h:1\r\n\r\n"); !strings.Contains(got, "\r\nLocation: https://h:8443/away?x\r\n") {
		t.Errorf("/away: %q", got)
	}
	c := b.dial()
	c.send("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n")
	c.closed()
	b.set.Pools = nil // one of them is nil
}

// echo answers with the body that it got, framed by chunks of odd sizes or by length.
func echo(chunked bool) func(*origin, *peer) {
	return func(o *origin, p *peer) {
		for {
			r := o.read(p)
			if r == "" {
				return
			}
			_, body, _ := strings.Cut(r, "\r\n\r\n")
			if !chunked {
				p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				continue
			}
			p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for size := 1; len(body) > 0; size = size*3 + 1 {
				n := min(size, len(body))
				p.send(fmt.Sprintf("%x\r\n%s\r\n", n, body[:n]))
				body = body[n:]
			}
			p.send("0\r\n\r\n")
		}
	}
}

func TestLargeBodies(t *testing.T) {
	body := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
	for name, chunked := range map[string]bool{"length": false, "chunked": true} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", echo(chunked))
			c := httpLab(t, plain(o)).dial()
			for range 3 {
				go c.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				head := c.head()
				var got string
				if chunked {
					got = c.chunks()
				} else {
					got = c.bytes(len(body))
				}
				if got != body {
					t.Fatalf("%d bytes came back\n%s", len(got), head)
				}
			}
			if conns, _ := o.seen(); conns != 1 {
				t.Errorf("%d connections at the member", conns)
			}
		})
	}
}

// chunks reads a chunked body.
func (p *peer) chunks() string {
	var b strings.Builder
	for {
		line, err := p.r.ReadString('\n')
		var n int
		if _, e := fmt.Sscanf(line, "%x\r\n", &n); e != nil || err != nil {
			p.t.Errorf("chunk size %q", line)
			return b.String()
		}
		b.WriteString(p.bytes(n))
		p.bytes(2)
		if n == 0 {
			return b.String()
		}
	}
}

// Pain 93: the member answers early, or the client waits for 100.
func TestExpect(t *testing.T) {
	expectation := "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1048576\r\n\r\n"
	body := strings.Repeat("x", 1<<20)
	t.Run("pain_93_waits", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
			for p.head() != "" {
				p.send("HTTP/1.1 100 Continue\r\n\r\n")
				if got := p.bytes(1 << 20); got == body {
					p.send(ok("s"))
				}
			}
		})
		c := httpLab(t, webPool(o)).dial()
		for i := range 2 {
			c.send(expectation)
			if h := c.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
				t.Errorf("interim %q", h)
			}
			c.send(body)
			want := o
			if i > 0 {
				want = nil
			}
			expect(t, c.response(), "s", want)
		}
	})
	for name, answer := range map[string]string{"417": "HTTP/1.1 417 No\r\nX-Server: s\r\nContent-Length: 0\r\n\r\n", "200": ok("s")} {
		t.Run("pain_93_"+name+"_without_reading", func(t *testing.T) {
			o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
				if p.head() != "" {
					p.send(answer)
					p.rest()
				}
			})
			b := httpLab(t, webPool(o))
			c := b.dial()
			c.send(expectation)
			expect(t, c.response(), "s", o)
			c.closed()
			c = b.dial() // the same without waiting
			go c.send(expectation + body)
			expect(t, c.response(), "s", o)
		})
	}
	t.Run("pain_93_409_stops_reading_and_closes", func(t *testing.T) {
		o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
			p.head()
			p.send("HTTP/1.1 409 Conflict\r\nX-Server: s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			p.Conn.(*net.TCPConn).CloseWrite()
			p.rest()
		})
		c := httpLab(t, webPool(o)).dial()
		go c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n" + body)
		expect(t, c.response(), "s", o)
	})
}

func TestRequestBodyCut(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	b := httpLab(t, webPool(o))
	c := b.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	eventually(t, "the member gets the beginning", func() bool { n, _ := o.seen(); return n == 1 })
	c.send("zz\r\n")
	if r, _ := c.rest(); !strings.HasPrefix(r, "HTTP/1.1 400 ") {
		t.Errorf("bad chunk: %q", r)
	}
	c = b.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
	c.Conn.(*net.TCPConn).CloseWrite()
	if r, _ := c.rest(); !strings.HasPrefix(r, "HTTP/1.1 400 ") {
		t.Errorf("cut body: %q", r)
	}
	eventually(t, "the member sees both requests end", func() bool {
		_, seen := o.seen()
		return len(seen) == 2 && strings.HasSuffix(seen[0], "abc\r\n") && strings.HasSuffix(seen[1], "abc")
	})
}

func TestVersion10(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", script("HTTP/1.1 200 OK\r\nX-Server: s\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	b := httpLab(t, webPool(o))
	c := b.dial()
	c.send("GET / HTTP/1.0\r\n\r\n")
	expect(t, c.head(), "s", o)
	if r, err := c.rest(); r != "hello" || err != nil {
		t.Errorf("body %q, %v", r, err)
	}
	o2 := newOrigin(t, "s", "127.0.0.12:0", nil)
	c = httpLab(t, webPool(o2)).dial()
	for range 2 {
		c.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		if r := c.response(); !strings.Contains(r, "Connection: keep-alive\r\n") {
			t.Errorf("response %q", r)
		}
	}
}

func TestForwardedHeaders(t *testing.T) {
	o := newOrigin(t, "s", "127.0.0.11:0", nil)
	p := plain(o)
	insert := "X-Via:bigpipe"
	p.HeaderInsert = &insert
	b := newLab(t, Settings{HTTP: true, XForwardedFor: true, Pools: []*pool.Pool{compilePool(t, p, nil)}})
	b.ask(get("X-Forwarded-For: 1.2.3.4"))
	_, seen := o.seen()
	if want := get("X-Forwarded-For: 127.0.0.1", "X-Via: bigpipe"); len(seen) != 1 || seen[0] != want {
		t.Errorf("the member got %q", seen)
	}
}
