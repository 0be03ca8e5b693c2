package http1

// Request is the head of a request. The zero value is ready for the first.
type Request struct {
	Head
	phase     phase
	asked     Asked
	method    span   // the method
	target    span   // the target as received
	authority span   // the host in an absolute target; from == to without one
	path      []byte // forwarded instead of the target; nil: the target
	expect    bool
}

type phase uint8

const (
	phaseStart phase = iota
	phaseMethod
	phaseTarget
	phaseVersion
	phaseFields
)

// span is a part of the buffer.
type span struct{ from, to int }

// Reset makes q ready for the next request. It also lets go of the buffer.
func (q *Request) Reset() {
	q.reset()
	q.phase, q.asked = phaseStart, Asked{}
	q.method, q.target, q.authority = span{}, span{}, span{}
	q.path, q.expect = nil, false
}

// Parse reads a head at the beginning of buf. It returns its size when it is complete, and 0 while more bytes are needed: call
// it again with the same bytes and more behind them. How the bytes are split makes no difference to the result. An error is
// an *Error and final. An empty line before the head is skipped and belongs to its size.
func (q *Request) Parse(buf []byte) (n int, err error) {
	if q.err != nil {
		return 0, q.err
	}
	q.buf = buf
	if q.size > 0 {
		return q.size, nil
	}
	complete, err := q.read(buf)
	if err != nil {
		q.err = err
		return 0, err
	}
	if !complete {
		return 0, nil
	}
	return q.size, nil
}

// read goes on from where it stopped and reports whether the head is complete.
func (q *Request) read(buf []byte) (bool, error) {
	for q.phase < phaseFields {
		var more bool
		var err error
		switch q.phase {
		case phaseStart:
			more, err = q.readEmptyLine(buf)
		case phaseMethod:
			more, err = q.readMethod(buf)
		case phaseTarget:
			more, err = q.readTarget(buf)
		case phaseVersion:
			more, err = q.readVersion(buf)
		}
		if more || err != nil {
			return false, err
		}
		q.phase++
	}
	complete, err := q.readFields(buf)
	if complete {
		err = q.finish()
		if err != nil {
			q.size = 0
		}
	}
	return complete, err
}

// SkippedEmptyLine says, before the first Parse, that the caller has taken an empty line off: another one is a fault.
func (q *Request) SkippedEmptyLine() { q.phase = phaseMethod }

// readEmptyLine skips one empty line.
func (q *Request) readEmptyLine(buf []byte) (more bool, err error) {
	switch {
	case len(buf) == 0:
		return true, nil
	case buf[0] == '\n':
		return false, errBareLF
	case buf[0] != '\r':
		return false, nil
	case len(buf) == 1:
		return true, nil
	case buf[1] != '\n':
		return false, errBareCR
	case len(buf) == 2:
		return true, nil
	case buf[2] == '\r' || buf[2] == '\n':
		return false, errEmptyLine
	}
	q.scan, q.method.from = 2, 2
	return false, nil
}

func (q *Request) readMethod(buf []byte) (more bool, err error) {
	from := q.method.from
	i := classEnd(buf, q.scan, isToken)
	q.scan = i
	switch {
	case i-from > MaxMethod:
		return false, errMethod
	case i == len(buf):
		return true, nil
	case buf[i] != ' ' || i == from:
		return false, errMethod
	}
	q.method.to = i
	q.target.from = i + 1
	q.scan = i + 1
	return false, nil
}

func (q *Request) readTarget(buf []byte) (more bool, err error) {
	from := q.target.from
	w := buf[:min(len(buf), from+MaxTarget+1)]
	i := classEnd(w, q.scan, isTarget)
	q.scan = i
	switch {
	case i-from > MaxTarget:
		return false, errTargetLong
	case i == len(w):
		return true, nil
	case w[i] == '\r' || w[i] == '\n' || w[i] == '\t' || i == from:
		return false, errRequestLine
	case w[i] != ' ':
		return false, errTarget
	}
	q.target.to = i
	q.scan = i + 1
	return false, nil
}

// readVersion reads the rest of the request line and judges the line.
func (q *Request) readVersion(buf []byte) (more bool, err error) {
	from := q.target.to + 1
	if len(buf)-from >= 10 && string(buf[from:from+10]) == "HTTP/1.1\r\n" {
		q.minor = 1
		return false, q.endLine(buf, from+10)
	}
	const longest = 20
	i := from
	for i < len(buf) && i-from <= longest && (class[buf[i]]&isToken != 0 || buf[i] == '/') {
		i++
	}
	switch {
	case i-from > longest:
		return false, errRequestLine
	case i == len(buf):
		return true, nil
	case buf[i] == '\n':
		return false, errBareLF
	case buf[i] != '\r':
		return false, errRequestLine
	case i+1 == len(buf):
		return true, nil
	case buf[i+1] != '\n':
		return false, errBareCR
	}
	switch version := buf[from:i]; {
	case string(version) == "HTTP/1.1":
		q.minor = 1
	case string(version) == "HTTP/1.0":
		q.minor = 0
	case isVersion(version):
		return false, errVersion
	default:
		return false, errRequestLine
	}
	return false, q.endLine(buf, i+2)
}

// isVersion reports whether b looks like the version of some HTTP.
func isVersion(b []byte) bool {
	if len(b) < 6 || string(b[:5]) != "HTTP/" || class[b[5]]&isDigit == 0 {
		return false
	}
	for _, c := range b[5:] {
		if class[c]&isDigit == 0 && c != '.' {
			return false
		}
	}
	return true
}

// endLine judges the request line as a whole. The header lines begin at next.
func (q *Request) endLine(buf []byte, next int) error {
	q.section, q.start, q.scan = next, next, next
	if string(buf[q.method.from:q.method.to]) == "CONNECT" {
		return errConnect
	}
	if buf[q.target.from] == '/' {
		return nil
	}
	return q.readOtherTarget(buf)
}

// readOtherTarget reads a target that is not a path: "*" with OPTIONS, or an absolute one.
func (q *Request) readOtherTarget(buf []byte) error {
	target := buf[q.target.from:q.target.to]
	if string(target) == "*" {
		if string(buf[q.method.from:q.method.to]) != "OPTIONS" {
			return errTarget
		}
		return nil
	}
	scheme := len("http://")
	if len(target) > scheme && lower[target[4]] == 's' {
		scheme = len("https://")
	}
	if len(target) < scheme ||
		!equalFold(target[:scheme], "http://") && !equalFold(target[:scheme], "https://") {
		return errTarget
	}
	end := classEnd(target, scheme, isHost)
	if end < len(target) && target[end] != '/' && target[end] != '?' ||
		end == scheme || target[scheme] == ':' || !validHost(target[scheme:end]) {
		return errTarget
	}
	q.authority = span{q.target.from + scheme, q.target.from + end}
	return nil
}

// finish judges the complete head and decides what changes in what is forwarded.
func (q *Request) finish() error {
	if err := q.readFraming(); err != nil {
		return err
	}
	if err := q.readConnection(); err != nil {
		return err
	}
	if err := q.readHost(); err != nil {
		return err
	}
	if q.options&optUpgrade != 0 && q.has(KindUpgrade) && q.minor == 1 && !q.offersH2C() {
		if q.names("websocket") && !q.one("sec-websocket-key") {
			return errWebSocketKey
		}
		q.asked.Upgrade = q.keepUpgrade()
	}
	if i := q.Next(KindExpect, 0); i >= 0 && q.minor == 1 {
		q.expect = equalFold(q.Value(i), "100-continue")
	}
	q.asked.Head = string(q.Method()) == "HEAD"
	q.asked.HTTP10 = q.minor == 0
	q.asked.KeepAlive = q.KeepAlive()
	return nil
}

// readHost requires one valid Host, none at most in HTTP/1.0, and puts the host of an absolute target in its place.
func (q *Request) readHost() error {
	host := q.Next(KindHost, 0)
	switch {
	case q.repeats(KindHost):
		return errTwoHosts
	case host < 0 && q.minor == 1:
		return errNoHost
	case host >= 0 && !validHost(q.Value(host)):
		return errHost
	}
	if !q.absolute() {
		return nil
	}
	rest := q.buf[q.authority.to:q.target.to]
	switch {
	case len(rest) > 0 && rest[0] == '/':
		q.path = rest
	case len(rest) > 0:
		q.path = append([]byte{'/'}, rest...)
	case string(q.Method()) == "OPTIONS":
		q.path = anyTarget
	default:
		q.path = rootTarget
	}
	if host >= 0 && string(q.Value(host)) != string(q.Host()) {
		q.SetValue(host, q.Host())
	}
	return nil
}

var (
	anyTarget  = []byte("*")
	rootTarget = []byte("/")
)

// validHost reports whether host is a name or an address with an optional port. It may be empty.
func validHost(host []byte) bool {
	if classEnd(host, 0, isHost) < len(host) {
		return false
	}
	i := 0
	if len(host) > 0 && host[0] == '[' {
		for i < len(host) && host[i] != ']' {
			i++
		}
		if i == len(host) {
			return false
		}
		i++
	} else {
		for i < len(host) && host[i] != ':' {
			if host[i] == '[' || host[i] == ']' {
				return false
			}
			i++
		}
	}
	if i == len(host) {
		return true
	}
	return host[i] == ':' && classEnd(host, i+1, isDigit) == len(host)
}

// absolute reports whether the target names the host.
func (q *Request) absolute() bool { return q.authority.to > 0 }

// Method returns the method, case as received.
func (q *Request) Method() []byte { return q.buf[q.method.from:q.method.to] }

// Target returns the request target as received.
func (q *Request) Target() []byte { return q.buf[q.target.from:q.target.to] }

// Path returns the target as it will be forwarded: path and query, or "*". Nothing in it is decoded or cleaned.
func (q *Request) Path() []byte {
	if q.path != nil {
		return q.path
	}
	return q.Target()
}

// SetPath forwards another path and query. It is not copied and must stay as it is until the head was appended; it must hold
// no blank and no control byte.
func (q *Request) SetPath(path []byte) { q.path = path }

// Host returns the host with its port as received, from an absolute target if it is one, else from the Host field. It is
// empty if there is none.
func (q *Request) Host() []byte {
	if q.absolute() {
		return q.buf[q.authority.from:q.authority.to]
	}
	if i := q.Next(KindHost, 0); i >= 0 {
		return q.Value(i)
	}
	return nil
}

// Expects100 reports whether the client waits for a 100 response before it sends the body.
func (q *Request) Expects100() bool { return q.expect }

// Asked returns what is needed to read the response.
func (q *Request) Asked() Asked { return q.asked }

// Idempotent reports whether the method promises that sending the request twice does no more than sending it once.
func (q *Request) Idempotent() bool {
	switch string(q.Method()) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// Framing returns how the body ends, and its bytes for FramingLength.
func (q *Request) Framing() (Framing, int64) {
	switch {
	case q.chunked:
		return FramingChunked, 0
	case q.length > 0:
		return FramingLength, q.length
	default:
		return FramingNone, 0
	}
}

// StartBody makes b ready for the body that follows the head.
func (q *Request) StartBody(b *Body) {
	framing, length := q.Framing()
	b.start(framing, length)
}

// AppendHead appends the head to forward, without the empty line that ends it: add lines with AppendField, then call
// AppendEnd. After is what shall happen to the connection that it is sent on; it is ignored where an upgrade is asked for.
func (q *Request) AppendHead(dst []byte, after After) []byte {
	if q.path == nil {
		dst = q.appendFields(dst, q.method.from)
	} else {
		dst = append(dst, q.Method()...)
		dst = append(dst, ' ')
		dst = append(dst, q.path...)
		dst = append(dst, q.buf[q.target.to:q.section]...)
		if q.absolute() && !q.has(KindHost) {
			dst = AppendField(dst, "Host", q.Host())
		}
		dst = q.appendFields(dst, q.section)
	}
	if q.asked.Upgrade {
		return dst
	}
	return appendAfter(dst, after, q.minor == 0)
}
