package http1

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bigpipe/dataplane/internal/edges"
)

func TestRequestHead(t *testing.T) {
	for _, row := range slices.Concat(edges.Requests, edges.Mutations) {
		t.Run(row.Name, func(t *testing.T) {
			want := ""
			if row.Status == 0 {
				want = row.Out + edges.Smuggled
			}
			everySplit(row.In+edges.Smuggled, func(how string, segments ...[]byte) {
				r := requests(segments...)
				if r.status() != row.Status {
					t.Fatalf("%s: status %d (%v), want %d", how, r.status(), r.err, row.Status)
				}
				got := string(r.out)
				if row.Status == 0 || how == "whole" {
					equal(t, how, got, want)
				}
				if row.Status != 0 && (r.done > 0 || strings.Contains(got, "smuggled")) {
					t.Errorf("%s: a message after the fault was forwarded: %q", how, got)
				}
			})
		})
	}
}

// A head that comes a byte at a time is not read again from its beginning: bytes that were looked at may change.
func TestRequestHead_5a_26_slow_bytes_are_read_once(t *testing.T) {
	in := []byte(message("GET /"+strings.Repeat("p", 100)+" HTTP/1.1", "Host: h", "A: "+strings.Repeat("x", 1000), "B: c"))
	value := strings.Index(string(in), "xxx")
	target := strings.Index(string(in), "ppp")
	var q Request
	for i := 1; i < len(in); i++ {
		if n, err := q.Parse(in[:i]); n != 0 || err != nil {
			t.Fatalf("after %d bytes: %d, %v", i, n, err)
		}
		if i > value && i <= value+1000 || i > target && i <= target+100 {
			in[i-1] = 0
		}
	}
	if n, err := q.Parse(in); n != len(in) || err != nil {
		t.Errorf("complete: %d, %v", n, err)
	}
}

func TestRequestLimits(t *testing.T) {
	for _, row := range edges.Limits {
		t.Run(row.Name, func(t *testing.T) {
			everySplit(row.In, func(how string, segments ...[]byte) {
				r := requests(segments...)
				if r.status() != row.Status || row.Status == 0 && (r.done != 1 || string(r.out) != row.Out) {
					t.Fatalf("%s: status %d, %d complete (%v), want %d", how, r.status(), r.done, r.err, row.Status)
				}
			})
		})
		if row.Name == "everything_at_its_limit" && len(row.In) != MaxHead {
			t.Errorf("the largest head has %d bytes, MaxHead is %d", len(row.In), MaxHead)
		}
	}
}

// facts is what a caller can learn of a request.
type facts struct {
	method, target, path, host string
	minor                      int
	framing                    Framing
	length                     int64
	asked                      Asked
	expects100, idempotent     bool
}

func factsOf(q *Request) facts {
	framing, length := q.Framing()
	return facts{
		string(q.Method()), string(q.Target()), string(q.Path()), string(q.Host()),
		q.Minor(), framing, length, q.Asked(), q.Expects100(), q.Idempotent(),
	}
}

func TestRequestFacts(t *testing.T) {
	tests := []struct {
		name, in string
		want     facts
	}{
		{"plain", get(), facts{"GET", "/", "/", "h", 1, FramingNone, 0, Asked{KeepAlive: true}, false, true}},
		{"close", get("Connection: foo , Close"), facts{"GET", "/", "/", "h", 1, FramingNone, 0, Asked{}, false, true}},
		{"HTTP10", message("GET / HTTP/1.0"), facts{"GET", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true}, false, true}},
		{"HTTP10_keep_alive", message("GET / HTTP/1.0", "Connection: Keep-Alive"), facts{"GET", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true, KeepAlive: true}, false, true}},
		{"HTTP10_both", message("GET / HTTP/1.0", "Connection: keep-alive", "Connection: close"), facts{"GET", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true}, false, true}},
		{"head", message("HEAD /x HTTP/1.1", "Host: h:1"), facts{"HEAD", "/x", "/x", "h:1", 1, FramingNone, 0, Asked{Head: true, KeepAlive: true}, false, true}},
		{"length", post("Content-Length: 007", "expect: 100-Continue"), facts{"POST", "/", "/", "h", 1, FramingLength, 7, Asked{KeepAlive: true}, true, false}},
		{"length_zero", post("Content-Length: 0"), facts{"POST", "/", "/", "h", 1, FramingNone, 0, Asked{KeepAlive: true}, false, false}},
		{"length_largest", post("Content-Length: 9223372036854775807"), facts{"POST", "/", "/", "h", 1, FramingLength, 9223372036854775807, Asked{KeepAlive: true}, false, false}},
		{"chunked", post(chunkedLine), facts{"POST", "/", "/", "h", 1, FramingChunked, 0, Asked{KeepAlive: true}, false, false}},
		{"expect_HTTP10", message("PUT / HTTP/1.0", "Expect: 100-continue"), facts{"PUT", "/", "/", "", 0, FramingNone, 0, Asked{HTTP10: true}, false, true}},
		{"upgrade", get("Upgrade: a", "Connection: upgrade"), facts{"GET", "/", "/", "h", 1, FramingNone, 0, Asked{KeepAlive: true, Upgrade: true}, false, true}},
		{"absolute", message("GET http://o:1?q HTTP/1.1", "Host: h"), facts{"GET", "http://o:1?q", "/?q", "o:1", 1, FramingNone, 0, Asked{KeepAlive: true}, false, true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q Request
			if n, err := q.Parse([]byte(test.in)); n != len(test.in) || err != nil || q.Size() != n {
				t.Fatalf("Parse: %d, %v, Size %d", n, err, q.Size())
			}
			if got := factsOf(&q); got != test.want {
				t.Errorf("\n got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestRequestFields(t *testing.T) {
	in := get("COOKIE: a=1 ", "X:", "Cookie:b=2", "A:\t1")
	var q Request
	if n, err := q.Parse([]byte(in)); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
	var got []string
	for i := range q.Len() {
		got = append(got, string(q.Name(i))+"|"+string(q.Value(i))+"|"+string(q.Line(i)))
	}
	equal(t, "fields", strings.Join(got, " "), "Host|h|Host: h\r\n COOKIE|a=1|COOKIE: a=1 \r\n X||X:\r\n Cookie|b=2|Cookie:b=2\r\n A|1|A:\t1\r\n")

	var cookies []int
	for i := q.Next(KindCookie, 0); i >= 0; i = q.Next(KindCookie, i+1) {
		cookies = append(cookies, i)
	}
	if len(cookies) != 2 || cookies[0] != 1 || cookies[1] != 3 || q.Kind(3) != KindCookie {
		t.Errorf("cookie lines %v", cookies)
	}
	if q.Next(KindUpgrade, 0) != -1 || q.Lookup("x", 0) != 2 || q.Lookup("x", 3) != -1 || q.Lookup("cookie", 2) != 3 {
		t.Error("a line is not where it is")
	}
}

func TestRequestEdits(t *testing.T) {
	in := message("GET /a;jroute=R1?x HTTP/1.1", "Host: h", "Proxy-jroute: forged", "Cookie: a=1", "X-Forwarded-For: 1.1.1.1", "B: 2")
	var q Request
	if _, err := q.Parse([]byte(in)); err != nil {
		t.Fatal(err)
	}
	q.Drop(q.Lookup("proxy-jroute", 0))
	q.SetValue(q.Lookup("x-forwarded-for", 0), []byte("lost"))
	q.SetValue(q.Lookup("x-forwarded-for", 0), []byte("1.1.1.1, 127.0.0.1"))
	q.SetPath([]byte("/a?x"))
	out := q.AppendHead([]byte("before|"), Close)
	out = AppendField(out, "Proxy-jroute", "R2")
	out = AppendField(out, "X-N", []byte("3"))
	equal(t, "edited", string(AppendEnd(out)), "before|"+message("GET /a?x HTTP/1.1", "Host: h", "Cookie: a=1",
		"X-Forwarded-For: 1.1.1.1, 127.0.0.1", "B: 2", "Connection: close", "Proxy-jroute: R2", "X-N: 3"))
	equal(t, "input", string(q.buf), in)

	q.Reset()
	if len(q.edits) != 0 || q.edits[:1][0].value != nil || q.buf != nil || q.path != nil {
		t.Error("Reset holds on to the last message")
	}
	if _, err := q.Parse([]byte(get("B: 2"))); err != nil {
		t.Fatal(err)
	}
	equal(t, "next message", string(AppendEnd(q.AppendHead(nil, KeepAlive))), get("B: 2"))
}

func TestRequestConnectionToMember(t *testing.T) {
	for _, test := range []struct {
		name, in string
		after    After
		want     string
	}{
		{"HTTP11_keep", get("Connection: close"), KeepAlive, get()},
		{"HTTP11_close", get("Connection: keep-alive"), Close, get("Connection: close")},
		{"HTTP10_keep", message("GET / HTTP/1.0"), KeepAlive, message("GET / HTTP/1.0", "Connection: keep-alive")},
		{"HTTP10_close", message("GET / HTTP/1.0"), Close, message("GET / HTTP/1.0", "Connection: close")},
		{"upgrade", get("Connection: upgrade", "Upgrade: x"), Close, get("Connection: upgrade", "Upgrade: x")},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q Request
			if _, err := q.Parse([]byte(test.in)); err != nil {
				t.Fatal(err)
			}
			equal(t, "forwarded", string(AppendEnd(q.AppendHead(nil, test.after))), test.want)
		})
	}
}

// The log and the client are told what is wrong.
func TestRequestReasons(t *testing.T) {
	for in, want := range map[string]string{
		"\r\n\r\n":                          "more than one empty line before the request",
		"GET / HTTP/1.1\r\n A: b\r\n":       "folded header line",
		"GET / HTTP/1.1\r\nA: b\n":          "line ended by LF alone",
		"GET / HTTP/1.1\r\n\n":              "line ended by LF alone",
		"GET / HTTP/1.1\r\nA: b\rc":         "CR without LF",
		"GET / HTTP/1.1\r\nA: \x07":         "control byte in a header",
		"GET / HTTP/1.1\r\nA\r\n":           "header line without a colon",
		"GET / HTTP/1.1\r\nA B: c\r\n":      "bad header name",
		"GET /\r\n":                         "bad request line",
		"GET / HTTP/3.0\r\n":                "HTTP version is not 1.0 or 1.1",
		get("Content-Length: 1", "Host: h"): "more than one Host",
	} {
		if r := requests([]byte(in)); r.err == nil || r.err.Error() != want {
			t.Errorf("%q: %v, want %s", in, r.err, want)
		}
	}
}

// An error stays, and so does a complete head, whatever is parsed after it.
func TestRequestParseAgain(t *testing.T) {
	var q Request
	_, err := q.Parse([]byte("GET  "))
	if _, again := q.Parse([]byte(get())); err == nil || !errors.Is(again, err) {
		t.Errorf("%v, then %v", err, again)
	}
	q.Reset()
	in := []byte(get() + edges.Smuggled)
	for range 2 {
		if n, err := q.Parse(in); n != len(get()) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
}
