package http1

import (
	"errors"
	"fmt"
	"testing"

	"bigpipe/dataplane/internal/edges"
)

// relay does what a forwarder does with one connection: bytes go in as they come, what is forwarded comes out. It moves its
// buffer at each segment and spoils the old one.
type relay struct {
	buf    []byte
	out    []byte // forwarded
	heads  int    // messages begun
	done   int    // messages complete
	inBody bool
	body   Body
	asked  []Asked
	err    error
}

func (r *relay) feed(segment []byte) {
	moved := append(append([]byte(nil), r.buf...), segment...)
	for i := range r.buf {
		r.buf[i] = 0
	}
	r.buf = moved
}

// emit forwards what there is of the body. It reports whether the body is complete.
func (r *relay) emit() bool {
	for !r.body.Done() && len(r.buf) > 0 {
		n, emit, err := r.body.Next(r.buf)
		if err != nil {
			r.err = err
			return false
		}
		r.out = append(r.out, emit...)
		r.buf = r.buf[n:]
	}
	if !r.body.Done() {
		return false
	}
	r.inBody = false
	r.done++
	return true
}

// requests relays the requests in the segments.
func requests(segments ...[]byte) *relay {
	r := &relay{}
	var q Request
	for _, segment := range segments {
		r.feed(segment)
		for r.err == nil {
			if !r.inBody {
				n, err := q.Parse(r.buf)
				if err != nil {
					r.err = err
					break
				}
				if n == 0 {
					break
				}
				q.StartBody(&r.body)
				if r.err = r.body.Check(r.buf[n:]); r.err != nil {
					break
				}
				r.out = AppendEnd(q.AppendHead(r.out, KeepAlive))
				r.asked = append(r.asked, q.Asked())
				r.heads++
				r.inBody = true
				r.buf = r.buf[n:]
				q.Reset()
			}
			if !r.emit() {
				break
			}
		}
	}
	return r
}

// responses relays the responses in the segments, one for each request.
func responses(asked []Asked, segments ...[]byte) *relay {
	r := &relay{}
	var p Response
	if len(asked) > 0 {
		p.Reset(asked[0])
	}
	for _, segment := range segments {
		r.feed(segment)
		for r.err == nil && (r.inBody || r.done < len(asked)) {
			if !r.inBody {
				n, err := p.Parse(r.buf)
				if err != nil {
					r.err = err
					break
				}
				if n == 0 {
					break
				}
				r.out = AppendEnd(p.AppendHead(r.out, KeepAlive))
				r.buf = r.buf[n:]
				if p.Interim() {
					continue
				}
				p.StartBody(&r.body)
				r.heads++
				r.inBody = true
				if r.heads < len(asked) {
					p.Reset(asked[r.heads])
				}
			}
			if !r.emit() {
				break
			}
		}
	}
	return r
}

// status returns what the client is answered, 0 if nothing was refused.
func (r *relay) status() int {
	var e *Error
	if errors.As(r.err, &e) {
		return e.Status
	}
	return 0
}

// everySplit runs check with the input cut in every way that the tests know: whole, in two at each position, byte by byte.
func everySplit(in string, check func(how string, segments ...[]byte)) {
	b := []byte(in)
	check("whole", b)
	step := max(1, len(b)/300)
	for i := 1; i < len(b); i += step {
		check(fmt.Sprintf("cut at %d", i), b[:i], b[i:])
	}
	single := make([][]byte, len(b))
	for i := range b {
		single[i] = b[i : i+1]
	}
	if len(b) <= 4096 {
		check("byte by byte", single...)
	}
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// The messages of the tests.
var get, post, message, ok = edges.Get, edges.Post, edges.Message, edges.OK

const chunkedLine = edges.Chunked
