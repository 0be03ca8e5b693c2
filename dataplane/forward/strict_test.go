package forward

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigpipe/dataplane/internal/edges"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
)

// strictLab is a virtual server in front of three origins that record every byte.
type strictLab struct {
	*lab
	manner
	origins []*origin
}

// manner is how a virtual server comes to its decisions and keeps connections to members.
type manner struct {
	name string
	set  Settings
}

var manners = []manner{
	{"connection", Settings{HTTP: true}},
	{"request", Settings{HTTP: true, PerRequest: true}},
	{"oneconnect", Settings{HTTP: true, PerRequest: true, OneConnect: shareAll()}},
}

// lab is a virtual server of this manner.
func (m manner) lab(t testing.TB, p *pb.Pool) *lab {
	m.set.Pools = []*pool.Pool{compilePool(t, p, nil)}
	return newLab(t, m.set)
}

// toMember is a request as a member gets it whose connection does not end with the client's, given what it else gets.
func (m manner) toMember(request string) string {
	const shut = "Connection: close\r\n"
	if m.set.OneConnect == nil {
		return request
	}
	if strings.Contains(request, " HTTP/1.0\r\n") {
		return strings.Replace(request, shut, "Connection: keep-alive\r\n", 1)
	}
	return strings.Replace(request, shut, "", 1)
}

func newStrictLab(t testing.TB, m manner) *strictLab {
	o := three(t, nil)
	return &strictLab{m.lab(t, webPool(o...)), m, o}
}

// deliver sends segments on a new connection and returns all that is answered until the connection ends.
func (b *strictLab) deliver(t testing.TB, pause time.Duration, segments ...string) string {
	c := b.dial()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer c.Close()
	sending.Go(func() {
		for i, s := range segments {
			if i > 0 {
				time.Sleep(pause)
			}
			if _, err := io.WriteString(c, s); err != nil {
				return // it was answered before
			}
		}
	})
	text, err := c.rest()
	if err != nil {
		t.Errorf("the connection ends with %v behind %.300q", err, text)
	}
	return text
}

// received waits until the members have no connection but those that are kept, and returns what each got, in one piece, since
// the last call.
func (b *strictLab) received(t testing.TB) []string {
	for _, o := range b.origins {
		o.pass(t)
	}
	eventually(t, "nothing is in transit", func() bool {
		open := 0
		for _, o := range b.origins {
			o.mu.Lock()
			open += o.conns - o.closed
			o.mu.Unlock()
		}
		return b.table.Len() == 0 && int64(open) == b.l.spares.n.Load()
	})
	var got []string
	for _, o := range b.origins {
		o.mu.Lock()
		got = append(got, strings.Join(o.requests, ""))
		o.requests = nil
		o.mu.Unlock()
	}
	return got
}

// pass connects to the origin and returns when it was accepted; so was then everyone who connected before.
func (o *origin) pass(t testing.TB) {
	c, err := net.Dial("tcp", o.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).CloseWrite()
	newPeer(t, c).closed()
}

// last is the request behind one that is accepted: its answer ends the connection.
var last = edges.Message("GET /last HTTP/1.1", "Host: h", "Connection: close")

// delivery is how a row is sent and what is expected.
type delivery struct {
	row    edges.Request
	member int // that gets what is forwarded; any if it is negative
	whole  bool
}

// bytes are what is sent: the row and the request behind it.
func (d *delivery) bytes() string {
	if d.row.Status != 0 {
		return d.row.In + edges.Smuggled
	}
	return d.row.In + last
}

// check compares the answer and what the origins got with the row.
func (d *delivery) check(t testing.TB, b *strictLab, answer string) {
	got := b.received(t)
	all := strings.Join(got, "")
	if strings.Contains(all, "GET /smuggled") && !strings.Contains(d.row.In, "GET /smuggled") {
		t.Errorf("smuggled: the members got %q", got)
	}
	if d.row.Status != 0 {
		d.checkRefused(t, answer, all)
		return
	}
	closing, want := d.row.Closing()
	want, last := b.toMember(want), b.toMember(last)
	answers := 1
	if !closing {
		answers = 2
		if strings.Count(all, last) != 1 {
			t.Errorf("the request behind it: the members got %.600q", got)
		}
	}
	if n := strings.Count(answer, "HTTP/1.1 200 OK\r\n"); n != answers || strings.Count(answer, "HTTP/1.") != answers {
		t.Errorf("%d answers, want %d: %.300q", n, answers, answer)
	}
	for i, text := range got {
		own := strings.TrimSuffix(text, last) // it may go to another member
		switch {
		case own == "" && i != d.member:
		case own != want:
			t.Errorf("%s got\n%.600q, want\n%.600q", b.origins[i].name, own, want)
		default:
			want = ""
		}
	}
	if want != "" {
		t.Errorf("nobody got %.600q", want)
	}
}

// checkRefused: one answer with the status, the close, no cookie, and nothing forwarded but the beginning of a body whose
// fault came later.
func (d *delivery) checkRefused(t testing.TB, answer, forwarded string) {
	head, _, _ := strings.Cut(answer, "\r\n\r\n")
	if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", d.row.Status)) || !strings.Contains(head, "\r\nConnection: close") ||
		strings.Count(answer, "HTTP/1.1 ") != 1 || strings.Contains(answer, "Set-Cookie") {
		t.Errorf("answer %.300q", answer)
	}
	switch {
	case forwarded == "":
	case !d.row.Late || d.whole:
		t.Errorf("a member got %.600q", forwarded)
	case !strings.HasPrefix(plainSizes(d.row.In), forwarded) || strings.HasSuffix(forwarded, "\r\n0\r\n\r\n"):
		t.Errorf("a member got %.600q of %.600q", forwarded, d.row.In)
	}
}

var sizeLine = regexp.MustCompile(`(?m)^(\d);e+\r\n`)

// plainSizes takes long extensions off, which the rows about limits have in good chunks.
func plainSizes(text string) string { return sizeLine.ReplaceAllString(text, "$1\r\n") }

// TestStrict sends each row in one piece and byte by byte, with and without a cookie, to a virtual server of each manner
// (pain 96).
func TestStrict(t *testing.T) {
	rows := slices.Concat(edges.Requests, edges.Mutations, edges.Limits)
	for _, m := range manners {
		b := newStrictLab(t, m)
		failed := 0
		for _, row := range rows {
			passed := t.Run(m.name+"/"+row.Name, func(t *testing.T) {
				cookied := row.With(cookieOf(b.origins[1]))
				deliveries := []delivery{{row, -1, true}}
				if !slices.ContainsFunc(edges.Limits, func(r edges.Request) bool { return r.Name == row.Name }) {
					deliveries = append(deliveries, delivery{cookied, 1, true})
				}
				for _, d := range deliveries {
					if t.Failed() {
						return // each failure may take its time
					}
					text := d.bytes()
					d.whole = len(text) <= bufferSize
					d.check(t, b, b.deliver(t, 0, text))
					if len(text) <= 1024 {
						d.whole = false
						d.check(t, b, b.deliver(t, 0, strings.Split(text, "")...))
					}
				}
			})
			if !passed {
				failed++
			}
			if failed == 5 {
				t.Fatal("no more rows are sent")
			}
		}
	}
}

// TestStrictSplits: however a row is cut into segments, the origin gets the same bytes and the client the same answer.
func TestStrictSplits(t *testing.T) {
	rows := slices.Concat(edges.Requests, edges.Mutations, edges.Limits)
	var labs []*strictLab
	for _, m := range manners {
		labs = append(labs, newStrictLab(t, m))
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SampledFrom(labs).Draw(rt, "manner")
		d := delivery{rapid.SampledFrom(rows).Draw(rt, "row"), -1, false}
		text := d.bytes()
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(text)), 0, 8).Draw(rt, "cuts")
		pause := rapid.SampledFrom([]time.Duration{0, 50 * time.Microsecond, time.Millisecond}).Draw(rt, "pause")
		slices.Sort(cuts)
		var segments []string
		begin := 0
		for _, cut := range cuts {
			segments = append(segments, text[begin:cut])
			begin = cut
		}
		segments = append(segments, text[begin:])
		failed := &failures{TB: t}
		d.check(failed, b, b.deliver(failed, pause, segments...))
		if failed.text.Len() > 0 {
			rt.Fatalf("%s in %q: %s", d.row.Name, segments, failed.text.String())
		}
	})
}

// failures collects what a check says, so that the case can be made smaller.
type failures struct {
	testing.TB
	text bytes.Buffer
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) { fmt.Fprintf(&f.text, format+"\n", args...) }

// TestStrictResponses answers a request with each row, in one piece and byte by byte. The request carries the member's
// cookie, so that nothing is added.
func TestStrictResponses(t *testing.T) {
	for _, row := range edges.Responses {
		for how, segments := range map[string][]string{"whole": {row.In}, "bytes": strings.Split(row.In, "")} {
			if len(row.In) > 1024 && how == "bytes" {
				continue
			}
			t.Run(row.Name+"/"+how, func(t *testing.T) {
				o := newOrigin(t, "s", "127.0.0.11:0", func(o *origin, p *peer) {
					if o.read(p) == "" {
						return
					}
					for _, s := range segments {
						p.send(s)
					}
				})
				c := httpLab(t, webPool(o)).dial()
				c.send(edges.Request{In: row.Request}.With(cookieOf(o)).In)
				c.Conn.(*net.TCPConn).CloseWrite()
				answer, _ := c.rest()
				checkResponse(t, row, answer)
				if conns, seen := o.seen(); conns != 1 || len(seen) != 1 {
					t.Errorf("%d connections, %d requests", conns, len(seen))
				}
			})
		}
	}
}

const badGateway = "HTTP/1.1 502 Bad Gateway\r\n"

func checkResponse(t *testing.T, row edges.Response, answer string) {
	t.Helper()
	if !row.Bad {
		if answer != row.Out {
			t.Errorf("the client got\n%.600q, want\n%.600q", answer, row.Out)
		}
		return
	}
	before, after, answered := strings.Cut(answer, badGateway)
	switch {
	case strings.Contains(answer, "Set-Cookie"):
		t.Errorf("a cookie: %.600q", answer)
	case answered && strings.Contains(after, "\nHTTP/1."):
		t.Errorf("something behind the answer: %.600q", answer)
	case answered && before != "" && before != row.Out:
		t.Errorf("before the answer: %.600q", answer)
	case !answered && (row.Out == "" || !strings.HasPrefix(answer, row.Out) || strings.HasSuffix(answer, "\r\n0\r\n\r\n")):
		t.Errorf("the client got %.600q", answer)
	}
}
