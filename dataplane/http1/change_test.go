package http1

import (
	"strings"
	"testing"
)

// Rule J-23: what becomes of a head whose body is replaced by another one.
func TestChangeBody(t *testing.T) {
	const unknown = Unknown
	for name, c := range map[string]struct {
		asked         Asked
		in            string
		length        int64
		out           string
		chunks, close bool
	}{
		"length_known":         {plain, ok("Content-Length: 5", "A: b"), 50, ok("Content-Length: 50", "A: b"), false, false},
		"length_unknown":       {plain, ok("Content-Length: 5", "A: b"), unknown, ok("A: b", "Transfer-Encoding: chunked"), true, false},
		"length_to_HTTP10":     {client, ok("Content-Length: 5"), unknown, ok("Connection: close"), false, true},
		"known_to_HTTP10":      {client, ok("Content-Length: 5"), 50, ok("Content-Length: 50", "Connection: keep-alive"), false, false},
		"length_from_HTTP10":   {plain, message("HTTP/1.0 200 OK", "Content-Length: 5"), unknown, message("HTTP/1.0 200 OK", "Connection: close"), false, true},
		"chunked":              {plain, ok("A: b", chunkedLine, "Trailer: x"), unknown, ok("A: b", chunkedLine, "Trailer: x"), true, false},
		"chunked_to_HTTP10":    {client, ok("A: b", chunkedLine), unknown, ok("A: b", "Connection: close"), false, true},
		"until_close":          {plain, ok("A: b"), unknown, ok("A: b", "Connection: close"), false, true},
		"head":                 {head, ok("Content-Length: 5", "ETag: \"x\""), unknown, ok("ETag: W/\"x\""), false, false},
		"head_chunked":         {head, ok(chunkedLine), unknown, ok(chunkedLine), false, false},
		"304":                  {plain, message("HTTP/1.1 304 Not Modified", "ETag: \"x\"", "Content-Length: 5"), unknown, message("HTTP/1.1 304 Not Modified", "ETag: W/\"x\""), false, false},
		"strong_tag":           {plain, ok("etag:  \"x\" ", "Content-Length: 5"), 6, ok("etag:  W/\"x\" ", "Content-Length: 6"), false, false},
		"weak_tag":             {plain, ok("ETag: W/\"x\"", "Content-Length: 5"), 6, ok("ETag: W/\"x\"", "Content-Length: 6"), false, false},
		"tag_without_a_value":  {plain, ok("ETag:", "Content-Length: 5"), 6, ok("ETag:", "Content-Length: 6"), false, false},
		"digests_and_ranges":   {plain, ok("Content-MD5: a", "Digest: a", "content-digest: a", "Repr-Digest: a", "Accept-Ranges: bytes", "Digests: a", "Content-Length: 5"), 6, ok("Digests: a", "Content-Length: 6"), false, false},
		"date_of_modification": {plain, ok("Last-Modified: Tue, 01 Dec 2026 00:00:00 GMT", "Content-Length: 5"), 6, ok("Content-Length: 6"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var r Response
			for range 2 { // nothing is left over
				r.Reset(c.asked)
				if n, err := r.Parse([]byte(c.in)); n != len(c.in) || err != nil {
					t.Fatal(n, err)
				}
				r.ChangeBody(c.length)
				equal(t, "head", string(AppendEnd(r.AppendHead(nil, KeepAlive))), c.out)
				if got := r.After() == Close; got != c.close || r.EndsByClose() != got {
					t.Errorf("close %v, ends by it %v", got, r.EndsByClose())
				}
				if !c.asked.Head && r.Chunks() != c.chunks {
					t.Errorf("chunks %v", r.Chunks())
				}
			}
			r.Reset(plain)
			if _, err := r.Parse([]byte(ok("Content-Length: 5", "ETag: \"x\""))); err != nil {
				t.Fatal(err)
			}
			equal(t, "next", string(AppendEnd(r.AppendHead(nil, KeepAlive))), ok("Content-Length: 5", "ETag: \"x\""))
		})
	}
}

// A body for which another is forwarded comes without its framing; its trailers come at the end, but for those that say something
// of its bytes.
func TestChangedChunks(t *testing.T) {
	for name, c := range map[string]struct{ in, data, ending string }{
		"plain":      {"5;x=y\r\nhello\r\n01\r\n!\r\n0\r\n\r\n", "hello!", "0\r\n\r\n"},
		"trailers":   {"2\r\nab\r\n0\r\nSum: 1\r\nCookie: a\r\nServer-Timing: x\r\n\r\n", "ab", "0\r\nSum: 1\r\nServer-Timing: x\r\n\r\n"},
		"of_bytes":   {"2\r\nab\r\n0\r\nContent-Digest: a\r\nETag: \"x\"\r\nA: b\r\nDigest: c\r\n\r\n", "ab", "0\r\nA: b\r\n\r\n"},
		"only_those": {"2\r\nab\r\n0\r\nRepr-Digest: a\r\n\r\n", "ab", "0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			head := ok(chunkedLine)
			everySplit(c.in, func(how string, segments ...[]byte) {
				var r Response
				var b Body
				r.Reset(plain)
				if _, err := r.Parse([]byte(head)); err != nil {
					t.Fatal(err)
				}
				r.ChangeBody(Unknown)
				r.StartBody(&b)
				var data strings.Builder
				for _, segment := range segments {
					for len(segment) > 0 {
						n, emit, err := b.Next(segment)
						if err != nil {
							t.Fatal(how, err)
						}
						data.Write(emit)
						segment = segment[n:]
					}
				}
				if !b.Done() {
					t.Error(how, "not done")
				}
				equal(t, how, data.String(), c.data)
				equal(t, how, string(b.Ending()), c.ending)
			})
		})
	}
}
