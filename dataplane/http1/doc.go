// Package http1 reads and writes HTTP/1.0 and HTTP/1.1 messages on byte slices. It does no I/O and starts nothing.
//
// A message that two parsers could read in two ways is refused, never repaired. What is accepted goes on with the order,
// case and bytes of its header lines; only these change: fields that belong to one connection are removed, Content-Length
// and Transfer-Encoding are written plainly, chunks are framed anew without extensions, and the host of an absolute target
// replaces the Host field.
//
// # One exchange
//
//	n, err := request.Parse(buf)          // again with more bytes while n == 0 and err == nil
//	request.StartBody(&up)
//	err = up.Check(buf[n:])               // what came with the head is refused before anything is forwarded
//	out = request.AppendHead(out, http1.KeepAlive)
//	out = http1.AppendField(out, "X-Forwarded-For", client)
//	out = http1.AppendEnd(out)
//	n, emit, err := up.Next(buf)          // forward emit, drop n bytes of buf, until up.Done()
//
//	response.Reset(request.Asked())
//	n, err = response.Parse(buf)          // again after an interim response, until !response.Interim()
//	response.StartBody(&down)
//	out = response.AppendHead(out, response.After())
//
// # Ownership
//
// Every returned slice points into the buffer of the last Parse, or into the Body, and is good until that buffer changes or
// the next Reset, Parse or Next. While a head is incomplete the buffer may be moved and may grow, but it must go on to begin
// with the same bytes. A Request, Response or Body serves one goroutine, must not be copied once used, and is meant to be
// kept for the next message: then nothing is allocated per message.
package http1

// Limits of a head. What is at the limit is accepted.
const (
	MaxTarget     = 8192      // bytes of the request target as received, path and query; more is answered 414 (rule J-20)
	MaxMethod     = 64        // bytes of a method
	MaxFieldBytes = 64 * 1024 // bytes of all header lines with their line ends, start line excluded; more is answered 431
	MaxFields     = 100       // header lines; more is answered 431
	MaxStatusLine = 8192      // bytes of a status line without its line end
	MaxInterim    = 8         // interim (1xx) responses before the final one
	MaxOptions    = 100       // options in all Connection fields of a message

	// MaxHead bounds the buffer that a head can need: an empty line, the start line, the header lines, an empty line.
	MaxHead = 2 + MaxMethod + 1 + MaxTarget + 1 + len("HTTP/1.1\r\n") + MaxFieldBytes + 2
)

// Limits of a chunked body.
const (
	MaxExtension = 4096 // bytes of the extensions of one chunk
	MaxTrailer   = 8192 // bytes of the trailer section
)

// After says what happens to a connection after a message.
type After uint8

// What happens to a connection.
const (
	Close     After = iota // the connection is closed
	KeepAlive              // another message may follow
)

// Framing says how the end of a body is known.
type Framing uint8

// How bodies end.
const (
	FramingNone    Framing = iota // no body
	FramingLength                 // a number of bytes
	FramingChunked                // chunks
	FramingClose                  // all that comes until the sender closes; responses only
	FramingTunnel                 // after a 101 response: not HTTP any more, both ways until closed
)

// Asked is what has to be remembered of a request to read its response and to answer it. The zero value is an
// HTTP/1.1 client that wants its connection closed.
type Asked struct {
	Head      bool // the method is HEAD: the response has no body
	Upgrade   bool // an upgrade was forwarded: a 101 response is allowed
	HTTP10    bool // the client speaks HTTP/1.0: no chunks, no interim responses
	KeepAlive bool // the client wants to go on using its connection
}
