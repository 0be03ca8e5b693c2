// Package traffic makes TCP and UDP load and answers it, with so few system calls that one core can fill a proxy on another.
//
// A client's first byte says what it wants of the origin: Exchange, Stream, Get or Hello.
package traffic

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// What a client asks of the origin with its first byte, of a message of MessageSize bytes or of HTTP requests.
const (
	// Exchange asks for one message of MessageSize bytes, after which the origin closes. That the origin closes first keeps
	// the client's and the proxy's ports out of TIME_WAIT, so that thousands of connections a second do not run out of them.
	Exchange = 'x'
	// Stream asks for bytes until the client leaves.
	Stream = 's'
	// Get is the first byte of HTTP requests: heads alone, each answered with AnswerSize bytes of body whatever it asks for.
	Get = 'G'
)

// AnswerSize is the length of the body of an answer to Get, in bytes.
const AnswerSize = 3

// answerHead has the fields that servers usually send.
const answerHead = "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Mon, 30 Nov 2026 12:34:56 GMT\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"

// The answers to Get.
var (
	keepingAnswer = []byte(answerHead + "Connection: keep-alive\r\n\r\nok\n")
	closingAnswer = []byte(answerHead + "Connection: close\r\n\r\nok\n")
)

// headEnd ends a request's head; closeOption, without the first letter's case, asks the origin to close.
var (
	headEnd     = []byte("\r\n\r\n")
	closeOption = []byte("onnection: close")
)

// MessageSize is the length of a request and of an answer to Exchange, in bytes.
const MessageSize = 64

// streamChunk is what is written or read at once while streaming, in bytes.
const streamChunk = 256 << 10

// maxErrors ends a load: something is broken, and the figures would say nothing.
const maxErrors = 1000

// Result is what a load saw.
type Result struct {
	Operations int64   `json:"operations"` // exchanges that were answered in full, datagrams that came back
	Bytes      int64   `json:"bytes"`      // received
	Errors     int64   `json:"errors"`     // datagrams lost; connections that failed, or waited over stallAfter when the time was up
	Seconds    float64 `json:"seconds"`    // from the first connection to the end
	P50        float64 `json:"p50_us"`     // of an exchange, from connect to the end of the answer, in microseconds
	P99        float64 `json:"p99_us"`
	FirstError string  `json:"first_error,omitempty"`
}

// Write prints r as one line of JSON.
func (r Result) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(r)
}

// ReadResult reads what Write printed.
func ReadResult(text []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("load's result %q: %w", text, err)
	}
	return r, nil
}

// fail counts an error and keeps the first one's text.
func (r *Result) fail(err error) {
	r.Errors++
	if r.FirstError == "" {
		r.FirstError = err.Error()
	}
}

// add takes over what another thread saw in the same time.
func (r *Result) add(other Result) {
	r.Operations += other.Operations
	r.Bytes += other.Bytes
	r.Errors += other.Errors
	r.Seconds = max(r.Seconds, other.Seconds)
	if r.FirstError == "" {
		r.FirstError = other.FirstError
	}
}

// percentiles sets P50 and P99 from the times of all exchanges; it sorts them in place.
func (r *Result) percentiles(times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[int(share*float64(len(times)-1))]) / float64(time.Microsecond)
	}
	r.P50, r.P99 = at(0.50), at(0.99)
}
