package forward

import (
	"fmt"
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// oddLines are Set-Cookie lines and their like that are nobody's business: they pass byte for byte, in their order.
var oddLines = []string{
	"Set-Cookie:a=1", "SET-COOKIE: \tb = \"2\" ;  Path=/x;;HttpOnly ", "Set-Cookie2: " + name + "=zz", "Set-Cookie: ", "Set-Cookie: c",
	"Set-Cookie: =d; " + name + "=e", "set-cookie: bigipserverweb_pool=f", "Set-Cookie: " + name + "2=g", "Cookie: " + name + "=h",
	"X-Set-Cookie: " + name + "=i", "Set-Cookie: j=1, " + name + "=2", "Set-Cookie: k=\xff\x80", "Set-Cookie: " + strings.Repeat("l", 3000) + "=" + strings.Repeat("m", 3000),
}

// withLines is the order of lines, with more after the first n.
func withLines(n int, more ...string) []string {
	return append(append(append([]string(nil), oddLines[:n]...), more...), oddLines[n:]...)
}

// Rule C-10, O-T20 and pain 4: a blank cookie becomes ours, and every other byte of the response stays, however it arrives.
func TestRewriteBytes(t *testing.T) {
	const end = "; expires=Mon, 30-Nov-2026 19:00:00 GMT; path=/"
	ours := "Set-Cookie: " + name + "=" + c1
	for _, tt := range []struct {
		name, in, out string
		byRule        bool
	}{
		{"pain_4_1_zero", blank(1), blank(1), false},
		{"pain_4_75_zeros", blank(75), ours + end, false},
		{"pain_4_119_zeros", blank(119), blank(119), false},
		{"pain_4_120_zeros", blank(120), ours + end, false},
		{"pain_4_121_zeros", blank(121), blank(121), false},
		{"pain_4_4000_zeros", blank(4000), blank(4000), false},
		{"O-T20_75_zeros_by_rule", blank(75), blank(75), true},
		{"O-T20_120_zeros_by_rule", blank(120), ours + end, true},
		{"O-T20_abc", "Set-Cookie: BIGipCookie=abc", "Set-Cookie: BIGipCookie=abc", false},
		{"C-10_other_name", strings.Replace(blank(120), "BIGip", "BIGIP", 1), strings.Replace(blank(120), "BIGip", "BIGIP", 1), false},
		{"C-10_attributes", blank(120) + " ;Path=/app;  HttpOnly;Expires=x ; X=\"y\";Secure", ours + end + ";  HttpOnly; X=\"y\";Secure", false},
		{"C-10_blanks", "Set-cookie: \t BIGipCookie =\t" + strings.Repeat("0", 120) + " \t", "Set-cookie: \t " + name + "=" + c1 + end + " \t", false},
	} {
		for _, how := range []string{"whole", "bytes"} {
			for _, mode := range []string{"L", "R"} {
				t.Run(tt.name+"/"+how+"_"+mode, func(t *testing.T) {
					in := answered("s1", append(withLines(4, tt.in), "X-After: ok")...)
					x := newFixture(t, mode, rewriting, func(o *origin, p *peer) {
						for o.read(p) != "" {
							if how == "whole" {
								p.send(in)
								continue
							}
							for i := range len(in) {
								p.send(in[i : i+1])
							}
						}
					})
					if tt.byRule {
						x.set.ByRule = true
						x.l.Set(x.set)
					}
					want := answered("s1", append(withLines(4, tt.out), "X-After: ok")...)
					c := x.dial()
					for range 2 { // each response of a connection
						c.send(get(line(c1)))
						same(t, "response", c.response(), want)
					}
				})
			}
		}
	}
	// The value names the member that answers, the first time too.
	x := newFixture(t, "R", rewriting, says(blank(120)))
	c := x.dial()
	for i, want := range []string{set1, set2, set3} {
		c.send(get())
		same(t, "response", c.response(), answered(fmt.Sprintf("s%d", i+1), want))
	}
}

// Pain 2, edge table 3c: the server's cookie of our name is dropped, ours comes once; all other lines pass byte for byte.
func TestInsertBytes(t *testing.T) {
	for _, mode := range []string{"L", "R"} {
		x := newFixture(t, mode, nil, says(withLines(3, "Set-Cookie: "+name+"=zz; path=/", "set-cookie:"+name+" = 2")...))
		c := x.dial()
		c.send(get())
		same(t, "first", c.response(), answered("s1", append(oddLines[:len(oddLines):len(oddLines)], set1)...))
		c.send(get(line(c1)))
		same(t, "second", c.response(), answered("s1", oddLines...))
	}
}

// oddCookies are Cookie lines with everything that a client may send; %s is where ours stands.
const oddCookies = "Cookie:  a=\"1\" ;;b = 2,c=3; %s;\td=\xff ;e;=f; bigipserverweb_pool=g "

// Rule O-4: what the client sends reaches the member byte for byte, whatever the mode; cookie_strip takes out ours alone.
func TestCookieBytesAtMember(t *testing.T) {
	both := []string{"cookie: x=1", fmt.Sprintf(oddCookies, name+"="+c2), "COOKIE:", "Cookie: " + name + "=" + c1, "Cookie: y=1"}
	stripped := []string{"cookie: x=1", strings.Replace(fmt.Sprintf(oddCookies, ""), " ;\td", "\td", 1), "COOKIE:", "Cookie: y=1"}
	for _, tt := range []struct {
		name   string
		change func(*pb.Pool)
		want   []string
	}{
		{"insert", nil, both},
		{"rewrite", rewriting, both},
		{"passive", func(p *pb.Pool) { p.CookieMode = pb.CookieMode_COOKIE_MODE_PASSIVE.Enum() }, both},
		{"strip", func(p *pb.Pool) { p.CookieStrip = new(true) }, stripped},
		{"strip_rewrite", func(p *pb.Pool) { rewriting(p); p.CookieStrip = new(true) }, stripped},
	} {
		for _, mode := range []string{"L", "R"} {
			t.Run(tt.name+"_"+mode, func(t *testing.T) {
				x := newFixture(t, mode, tt.change, nil)
				c := x.dial()
				for range 2 {
					c.send(get(both...))
					same(t, "response", c.response(), answered("s2"))
				}
				_, seen := x.origins[1].seen()
				for _, request := range seen {
					same(t, "request", request, get(tt.want...))
				}
				if len(seen) != 2 {
					t.Errorf("%d requests at the member", len(seen))
				}
			})
		}
	}
}

// Pain 14: with cookie_only_when our cookie comes only with the one that the server sets itself.
func TestOnlyWhen(t *testing.T) {
	const session = "Set-Cookie: JSESSIONID=1; Path=/"
	login := func(o *origin, p *peer) {
		for {
			request := o.read(p)
			switch {
			case request == "":
				return
			case strings.HasPrefix(request, "GET /login "):
				p.send(answered(o.name, session))
			default:
				p.send(answered(o.name, "Set-Cookie: XJSESSIONID=1", "Set-Cookie: jsessionid=JSESSIONID=1"))
			}
		}
	}
	for _, mode := range []string{"L", "R"} {
		t.Run("pain_14_"+mode, func(t *testing.T) {
			x := newFixture(t, mode, func(p *pb.Pool) { p.CookieOnlyWhen = new("JSESSIONID"); p.Members = p.Members[:1] }, login)
			c := x.dial()
			for _, path := range []string{"/", "/robots.txt", "/login", "/"} {
				c.send(strings.Replace(get(), "GET / ", "GET "+path+" ", 1))
				want := answered("s1", "Set-Cookie: XJSESSIONID=1", "Set-Cookie: jsessionid=JSESSIONID=1")
				if path == "/login" {
					want = answered("s1", session, set1)
				}
				same(t, path, c.response(), want)
			}
			// Who has the cookie gets no other at the next login.
			c.send(strings.Replace(get(line(c1)), "GET / ", "GET /login ", 1))
			same(t, "login again", c.response(), answered("s1", session))
		})
	}
}
