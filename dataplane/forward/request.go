package forward

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"bigpipe/dataplane/cookie"
	"bigpipe/dataplane/http1"
)

// requestView shows a request to a rule.
type requestView struct{ q *http1.Request }

var versions = [2][]byte{[]byte("HTTP/1.0"), []byte("HTTP/1.1")}

func (v *requestView) Method() []byte  { return v.q.Method() }
func (v *requestView) URI() []byte     { return v.q.Path() }
func (v *requestView) Version() []byte { return versions[v.q.Minor()&1] }
func (v *requestView) Host() []byte    { return v.q.Host() }

func (v *requestView) Header(name string) ([]byte, bool) {
	if i := v.q.Lookup(name, 0); i >= 0 {
		return v.q.Value(i), true
	}
	return nil, false
}

func (v *requestView) Cookie(name string) ([]byte, bool) {
	for i := v.q.Next(http1.KindCookie, 0); i >= 0; i = v.q.Next(http1.KindCookie, i+1) {
		for value := range cookie.Values(cookie.Named(name), v.q.Value(i)) {
			return value, true
		}
	}
	return nil, false
}

// send writes the request's head and what of the body is there, in one piece if it fits. A failure shows when the answer is
// read: the member may have answered before it closed. If the body goes on, it is uploaded from now on.
func (x *exchange) send() {
	f := x.f
	limit := x.responseTimeout()
	f.server.within(&f.server.writer, limit)
	f.server.until(&f.server.reader, limit)
	after := http1.Close
	if x.asked.KeepAlive || f.settings.OneConnect != nil {
		after = http1.KeepAlive
	}
	x.markForwarded()
	x.edits = f.decision.EditRequest(&x.request, x.edits[:0])
	out := x.appendForwarded(x.request.AppendHead(x.out[:0], after))
	out = f.decision.AppendRequestFields(out)
	if name, value, _ := strings.Cut(f.decision.Pool().Config.GetHeaderInsert(), ":"); name != "" {
		out = http1.AppendField(out, name, value)
	}
	out = http1.AppendEnd(out)

	x.request.StartBody(&x.up)
	x.used = x.head
	rest := f.in.bytes()[x.head:]
	var err error
	for len(rest) > 0 && !x.up.Done() && err == nil {
		n, emit, bad := x.up.Next(rest)
		if bad != nil {
			break // Check has found no fault
		}
		rest = rest[n:]
		x.used += n
		if len(out)+len(emit) <= cap(out) {
			out = append(out, emit...)
			continue
		}
		err = f.server.writeTwo(out, emit)
		out = out[:0]
	}
	if len(out) > 0 && err == nil {
		err = f.server.write(out)
	}
	x.out = out[:0]
	x.sent = err == nil
	if err == nil && !x.up.Done() {
		x.startUpload()
	}
}

// upload is a request's body on its way while the answer is waited for.
type upload struct {
	goroutine sync.WaitGroup
	started   bool
	stop      atomic.Bool                 // asks it to end
	waiting   atomic.Bool                 // for the client
	began     atomic.Int64                // instant from which the client has to send; 0: it waits for 100
	read      atomic.Bool                 // the client sent the whole body
	sent      atomic.Bool                 // the member got the whole body
	fault     atomic.Pointer[http1.Error] // why it ended early; not set when the member is to blame
}

func (u *upload) reset() {
	u.started = false
	u.stop.Store(false)
	u.waiting.Store(false)
	u.began.Store(0)
	u.read.Store(false)
	u.sent.Store(false)
	u.fault.Store(nil)
}

// complete reports whether nothing of the request is still to come from the client.
func (u *upload) complete() bool { return !u.started || u.read.Load() }

// late reports whether it is the client who is waited for, and not the member.
func (u *upload) late() bool { return u.waiting.Load() && u.began.Load() != 0 }

// delivered reports whether the member got the whole request. The upload must have ended.
func (x *exchange) delivered() bool { return x.sent && (!x.upload.started || x.upload.sent.Load()) }

// startUpload lets the body follow. The request's head is given up: its memory is used for the body.
func (x *exchange) startUpload() {
	x.upload.started = true
	x.hostAsked = append(x.hostAsked[:0], x.request.Host()...)
	x.f.moving.Store(x.f.target)
	if !x.request.Expects100() || x.used > x.head {
		x.upload.began.Store(int64(x.f.client.clock.now()))
	}
	x.f.in.discard(x.used)
	x.upload.goroutine.Go(x.copyBody)
}

// stopUpload ends the upload and waits for it.
func (x *exchange) stopUpload() {
	if !x.upload.started || x.upload.stop.Load() {
		return
	}
	x.upload.stop.Store(true)
	x.f.client.end(&x.f.client.reader)
	x.f.server.end(&x.f.server.writer)
	x.upload.goroutine.Wait()
}

// copyBody sends the rest of the body as it comes.
func (x *exchange) copyBody() {
	f, u := x.f, &x.upload
	pace := pace{settings: f.settings, received: int64(x.used - x.head)}
	for !u.read.Load() {
		if f.in.len() == 0 {
			if err := x.awaitBody(&pace); err != nil {
				if !u.stop.Load() {
					x.endUpload(x.bodyFault(err))
				}
				return
			}
			pace.received += int64(f.in.len())
			f.touch()
		}
		n, emit, err := x.up.Next(f.in.bytes())
		if err != nil {
			x.endUpload(err)
			return
		}
		// Said before the last bytes go out: the answer may come sooner than this goroutine goes on.
		u.read.Store(x.up.Done())
		f.server.reader.move(f.client.clock.after(x.responseTimeout()))
		if len(emit) > 0 && f.server.write(emit) != nil {
			return // what the member has to say is read by the other goroutine
		}
		f.in.discard(n)
	}
	f.in.release()
	u.sent.Store(true)
}

// awaitBody waits for bytes of the body. A client that waits for 100 is not hurried before it has it: until then it is the
// member's time that runs (pain 93), afterwards the client's.
func (x *exchange) awaitBody(p *pace) error {
	f, u := x.f, &x.upload
	u.waiting.Store(true)
	defer u.waiting.Store(false)
	for {
		now := f.client.clock.now()
		p.began = instant(u.began.Load())
		limit := now + instant(f.settings.HeaderTimeout) // not before it can be known whose time runs
		if p.began != 0 {
			limit = p.deadline(now)
		}
		f.client.reader.set(limit, 0)
		if u.stop.Load() {
			return errTimeout
		}
		err := f.client.fill(&f.in)
		if err == nil {
			u.began.CompareAndSwap(0, int64(f.client.clock.now()))
			f.server.reader.move(f.client.clock.after(x.responseTimeout()))
		}
		if !errors.Is(err, errTimeout) || p.began != 0 || u.stop.Load() {
			return err
		}
	}
}

// bodyFault says how a body that ended early is answered.
func (x *exchange) bodyFault(err error) error {
	switch {
	case errors.Is(err, errTimeout):
		return errBodyTime
	case errors.Is(err, io.EOF):
		return x.up.Closed()
	}
	return errGone
}

// endUpload tells the goroutine that waits for the answer.
func (x *exchange) endUpload(err error) {
	fault, ok := errors.AsType[*http1.Error](err)
	if !ok {
		fault = &http1.Error{}
	}
	x.upload.fault.Store(fault)
	x.f.server.end(&x.f.server.reader)
}

// pace is how fast a body has to come.
type pace struct {
	began    instant // from when on the client had to send
	received int64
	settings *Settings
}

// deadline is when the next bytes must be there: within the idle timeout, and soon enough for the minimum rate.
func (p *pace) deadline(now instant) instant {
	d := now + instant(p.settings.IdleTimeout)
	if rate := int64(p.settings.BodyMinRate); rate > 0 {
		seconds := min(p.received/rate, 1<<31) // of credit
		d = min(d, p.began+instant(p.settings.HeaderTimeout)+instant(seconds*1e9))
	}
	return d
}
