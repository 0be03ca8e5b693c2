package http1

import "errors"

// Error is why a message is refused. The connection that it came on must be closed: where the next message would begin is
// not known. The text is for the log and for the client, it holds nothing of the message.
type Error struct {
	Status int    // to answer to the client, if no response has begun
	Reason string // a few words
}

func (e *Error) Error() string { return e.Reason }

// Faults of the start line.
var (
	errEmptyLine    = &Error{400, "more than one empty line before the request"}
	errMethod       = &Error{400, "bad method"}
	errTarget       = &Error{400, "bad request target"}
	errTargetLong   = &Error{414, "request target longer than 8192 bytes"}
	errRequestLine  = &Error{400, "bad request line"}
	errVersion      = &Error{505, "HTTP version is not 1.0 or 1.1"}
	errConnect      = &Error{405, "CONNECT is not supported"}
	errStatusLine   = &Error{502, "bad status line"}
	errInterimFlood = &Error{502, "too many interim responses"}
	errUnasked101   = &Error{502, "protocol switched without being asked"}

	errWebSocketAccept = &Error{502, "WebSocket without one acceptance"}
)

// Faults of a header line.
var (
	errBareLF     = &Error{400, "line ended by LF alone"}
	errBareCR     = &Error{400, "CR without LF"}
	errFieldName  = &Error{400, "bad header name"}
	errFold       = &Error{400, "folded header line"}
	errNoColon    = &Error{400, "header line without a colon"}
	errControl    = &Error{400, "control byte in a header"}
	errFieldBytes = &Error{431, "headers larger than 64 KiB"}
	errFieldCount = &Error{431, "more than 100 headers"}
)

// Faults of a whole head.
var (
	errNoHost       = &Error{400, "no Host"}
	errTwoHosts     = &Error{400, "more than one Host"}
	errHost         = &Error{400, "bad Host"}
	errLength       = &Error{400, "bad Content-Length"}
	errTwoLengths   = &Error{400, "more than one Content-Length"}
	errLengthCoding = &Error{400, "Content-Length and Transfer-Encoding together"}
	errCoding       = &Error{400, "bad Transfer-Encoding"}
	errCodingOther  = &Error{501, "transfer coding not supported"}
	errCoding10     = &Error{400, "Transfer-Encoding in HTTP/1.0"}
	errWebSocketKey = &Error{400, "WebSocket without one key"}
	errOptions      = &Error{400, "too many connection options"}
)

// Faults of a body.
var (
	errChunkSize    = &Error{400, "bad chunk size"}
	errChunkLine    = &Error{400, "bad end of a chunk line"}
	errChunkEnd     = &Error{400, "chunk data not followed by CRLF"}
	errExtension    = &Error{400, "bad chunk extension"}
	errTrailer      = &Error{400, "bad trailer line"}
	errTrailerBytes = &Error{431, "trailers larger than 8 KiB"}
	errCut          = &Error{400, "closed before the end of the message"}
)

// asResponse turns a fault of a message into the fault of a response: the client is answered 502.
func asResponse(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Status != 502 {
		return &Error{502, "response: " + e.Reason}
	}
	return err
}
