package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"

	"bigpipe/dataplane/internal/edges"
)

// cutAt returns data whole, in two, and byte by byte.
func cutAt(data []byte, cut uint) [][][]byte {
	ways := [][][]byte{{data}}
	if len(data) > 0 {
		i := int(cut % uint(len(data)))
		ways = append(ways, [][]byte{data[:i], data[i:]})
	}
	if len(data) <= 2048 {
		var single [][]byte
		for i := range data {
			single = append(single, data[i:i+1])
		}
		ways = append(ways, single)
	}
	return ways
}

// readRequest parses a head that comes in segments. The buffer moves at each.
func readRequest(segments [][]byte) (q *Request, n int, err error) {
	q = &Request{}
	var buf []byte
	for _, segment := range segments {
		buf = append(bytes.Clone(buf), segment...)
		if n, err = q.Parse(buf); n > 0 || err != nil {
			break
		}
	}
	return q, n, err
}

func FuzzRequestHead(f *testing.F) {
	for _, row := range slices.Concat(edges.Requests, edges.Mutations) {
		f.Add([]byte(row.In), uint(len(row.In)/2))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		q, n, err := readRequest([][]byte{data})
		var out []byte
		if n > 0 {
			out = AppendEnd(q.AppendHead(nil, KeepAlive))
		}
		for _, segments := range cutAt(data, cut) {
			q2, n2, err2 := readRequest(segments)
			if n2 != n || !errors.Is(err2, err) {
				t.Fatalf("%d segments: %d, %v; whole: %d, %v", len(segments), n2, err2, n, err)
			}
			if n > 0 && factsOf(q2) != factsOf(q) {
				t.Fatalf("%d segments: %+v; whole: %+v", len(segments), factsOf(q2), factsOf(q))
			}
			if n > 0 && !bytes.Equal(AppendEnd(q2.AppendHead(nil, KeepAlive)), out) {
				t.Fatalf("%d segments: another head is forwarded", len(segments))
			}
		}
		if n == 0 {
			return
		}
		checkForwardedRequest(t, q, out)
	})
}

// checkForwardedRequest reads what is forwarded as a member would: it must mean the same.
func checkForwardedRequest(t *testing.T, q *Request, out []byte) {
	again, n, err := readRequest([][]byte{out})
	if err != nil || n != len(out) {
		t.Fatalf("forwarded %q: %d, %v", out, n, err)
	}
	want, got := factsOf(q), factsOf(again)
	want.target = want.path
	want.asked.KeepAlive = true
	if got != want {
		t.Fatalf("forwarded %q: %+v, received %+v", out, got, want)
	}
	if twice := AppendEnd(again.AppendHead(nil, KeepAlive)); !bytes.Equal(twice, out) {
		t.Fatalf("forwarded %q, then %q", out, twice)
	}
	for i, j := q.Next(KindCookie, 0), again.Next(KindCookie, 0); i >= 0 || j >= 0; i, j = q.Next(KindCookie, i+1), again.Next(KindCookie, j+1) {
		if i < 0 || j < 0 || !bytes.Equal(q.Line(i), again.Line(j)) {
			t.Fatalf("forwarded %q: other cookies", out)
		}
	}
	// A reader of another make either refuses it or sees the same body.
	theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
	if err != nil {
		return
	}
	framing, length := q.Framing()
	if framing == FramingChunked && len(theirs.TransferEncoding) != 1 || framing != FramingChunked && theirs.ContentLength != length {
		t.Fatalf("forwarded %q: length %d, coding %v", out, theirs.ContentLength, theirs.TransferEncoding)
	}
	if theirs.Method != want.method || theirs.RequestURI != want.path || theirs.Host != want.host {
		t.Fatalf("forwarded %q: others read %q %q for %q", out, theirs.Method, theirs.RequestURI, theirs.Host)
	}
	checkOthersFields(t, &again.Head, theirs.Header)
}

// checkOthersFields compares the lines that pass as they are with what a reader of another make makes of them.
func checkOthersFields(t *testing.T, h *Head, theirs http.Header) {
	ours := http.Header{}
	for i := range h.Len() {
		if kind := h.Kind(i); kind == KindOther || kind == KindCookie || kind == KindSetCookie {
			ours.Add(string(h.Name(i)), string(h.Value(i)))
		}
	}
	for _, name := range [...]string{"Cache-Control", "Trailer"} { // it adds the one and takes the other away
		ours.Del(name)
	}
	for name, values := range ours {
		if !slices.Equal(values, theirs[name]) {
			t.Fatalf("%s: %q, others read %q", name, values, theirs[name])
		}
	}
}

type responseFacts struct {
	status, interim, size int
	framing               Framing
	length                int64
	reusable              bool
	after                 After
	out                   string
}

// readResponse parses heads that come in segments, up to the final one, and returns what is known of it.
func readResponse(asked Asked, segments [][]byte) (facts responseFacts, err error) {
	var r Response
	r.Reset(asked)
	var buf, out []byte
	for _, segment := range segments {
		buf = append(bytes.Clone(buf), segment...)
		for {
			n, err := r.Parse(buf)
			if err != nil {
				return responseFacts{out: string(out)}, err
			}
			if n == 0 {
				break
			}
			out = AppendEnd(r.AppendHead(out, KeepAlive))
			if !r.Interim() {
				framing, length := r.Framing()
				return responseFacts{r.Status(), r.interim, n, framing, length, r.Reusable(), r.After(), string(out)}, nil
			}
			buf = buf[n:]
		}
	}
	return responseFacts{out: string(out)}, nil
}

func FuzzResponseHead(f *testing.F) {
	for _, seed := range []string{
		ok(), message("HTTP/1.0 200"), message("HTTP/1.1 100 Continue") + message("HTTP/1.1 204 No Content", "Content-Length: 01"),
		message("HTTP/1.1 304 Not Modified", "Set-Cookie: a=b", "Transfer-Encoding: Chunked"),
	} {
		for asked := range uint8(4) {
			f.Add([]byte(seed), asked, uint(len(seed)/2))
		}
	}
	for i, row := range edges.Responses {
		f.Add([]byte(row.In), uint8(i), uint(len(row.In)/2))
	}
	f.Fuzz(func(t *testing.T, data []byte, bits uint8, cut uint) {
		asked := Asked{Head: bits&1 != 0, Upgrade: bits&2 != 0, HTTP10: bits&4 != 0, KeepAlive: bits&8 != 0}
		whole, err := readResponse(asked, [][]byte{data})
		for _, segments := range cutAt(data, cut) {
			facts, err2 := readResponse(asked, segments)
			if facts != whole || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
				t.Fatalf("%d segments: %+v, %v; whole: %+v, %v", len(segments), facts, err2, whole, err)
			}
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Status != 502) {
			t.Fatalf("%#v", err)
		}
		if whole.size == 0 {
			return
		}
		// What the client reads means the same, but for what its version keeps from it. Where its lines are at their limit, ours
		// are too many for a reader like us.
		if bytes.Count(data, []byte("\n")) >= MaxFields || len(data) > MaxFieldBytes-64 {
			return
		}
		again, err := readResponse(asked, [][]byte{[]byte(whole.out)})
		if err != nil || again.status != whole.status || again.length != whole.length {
			t.Fatalf("forwarded %q: %+v, %v", whole.out, again, err)
		}
		if again.framing != whole.framing && (!asked.HTTP10 || whole.framing != FramingChunked || again.framing != FramingClose) {
			t.Fatalf("forwarded %q: framing %d, received %d", whole.out, again.framing, whole.framing)
		}
		if again.out != whole.out {
			t.Fatalf("forwarded %q, then %q", whole.out, again.out)
		}
		checkOthersResponse(t, asked, &again)
	})
}

// checkOthersResponse reads what the client gets as a client of another make would: it refuses it or sees the same.
func checkOthersResponse(t *testing.T, asked Asked, facts *responseFacts) {
	method := http.MethodGet
	if asked.Head {
		method = http.MethodHead
	}
	in := bufio.NewReader(bytes.NewReader([]byte(facts.out)))
	var theirs *http.Response
	for interim := -1; interim < facts.interim; interim++ {
		var err error
		if theirs, err = http.ReadResponse(in, &http.Request{Method: method}); err != nil {
			return
		}
		if theirs.StatusCode >= 200 || theirs.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	length := map[Framing]int64{FramingNone: 0, FramingLength: facts.length, FramingChunked: -1, FramingClose: -1}
	want, known := length[facts.framing]
	if theirs.StatusCode != facts.status || known && !asked.Head && theirs.ContentLength != want ||
		(len(theirs.TransferEncoding) > 0) != (facts.framing == FramingChunked) && !asked.Head && facts.status != 304 {
		t.Fatalf("forwarded %q: others read %d, length %d, coding %v; we %+v", facts.out, theirs.StatusCode, theirs.ContentLength, theirs.TransferEncoding, facts)
	}
}

// readChunks returns what is forwarded of a chunked body and the bytes that belong to it.
func readChunks(segments [][]byte, bare bool) (out []byte, n int, done bool, err error) {
	b := chunks()
	b.bare = bare
	for _, segment := range segments {
		for len(segment) > 0 && !b.Done() {
			var took int
			var emit []byte
			took, emit, err = b.Next(segment)
			if err != nil {
				return out, n, false, err
			}
			out = append(out, emit...)
			segment = segment[took:]
			n += took
		}
	}
	return out, n, b.Done(), nil
}

func FuzzChunked(f *testing.F) {
	for _, seed := range []string{
		"0\r\n\r\n", "1\r\na\r\n0\r\n\r\nnext", "A;x=\"y\"\r\n0123456789\r\n00\r\nA: b\r\nCookie: c\r\n\r\n", "0x1\r\n", "1\na\r\n",
		"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "1 \r\na\r\n", "0\r\nA\r\n\r\n", "0\r\n A: b\r\n\r\n",
	} {
		f.Add([]byte(seed), uint(len(seed)/2))
	}
	for _, row := range slices.Concat(edges.Requests, edges.Mutations) {
		if _, body, _ := strings.Cut(row.In, chunkedLine+"\r\n\r\n"); body != "" {
			f.Add([]byte(body), uint(len(body)/2))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		out, n, done, err := readChunks([][]byte{data}, false)
		bare, _, bareDone, bareErr := readChunks([][]byte{data}, true)
		if bareDone != done || !errors.Is(bareErr, err) {
			t.Fatalf("taken off: %v, %v; framed: %v, %v", bareDone, bareErr, done, err)
		}
		if checked := chunks().Check(data); !errors.Is(checked, err) {
			t.Fatalf("Check: %v, Next: %v", checked, err)
		}
		for _, segments := range cutAt(data, cut) {
			out2, n2, done2, err2 := readChunks(segments, false)
			if done2 != done || !errors.Is(err2, err) || err == nil && (n2 != n || !bytes.Equal(out2, out)) {
				t.Fatalf("%d segments: %q %d %v %v; whole: %q %d %v %v", len(segments), out2, n2, done2, err2, out, n, done, err)
			}
			if bare2, _, _, _ := readChunks(segments, true); err == nil && !bytes.Equal(bare2, bare) {
				t.Fatalf("%d segments, taken off: %q; whole: %q", len(segments), bare2, bare)
			}
		}
		if !done {
			return
		}
		twice, n2, done, err := readChunks([][]byte{out}, false)
		if err != nil || !done || n2 != len(out) || !bytes.Equal(twice, out) {
			t.Fatalf("forwarded %q, then %q, %v", out, twice, err)
		}
		// A reader of another make sees the data that we see.
		theirs, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(out)))
		if err != nil || !bytes.Equal(theirs, bare) {
			t.Fatalf("forwarded %q: others read %q, %v", out, theirs, err)
		}
	})
}
