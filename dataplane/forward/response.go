package forward

import (
	"errors"
	"io"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/pool"
)

// awaitHead reads heads until the final one, and forwards those before it.
func (x *exchange) awaitHead() error {
	f, r := x.f, &x.response
	r.Reset(x.asked)
	f.server.short, f.large = f.large, false
	f.wait()
	defer f.waiting.Store(0)
	for {
		n, err := r.Parse(f.from.bytes())
		switch {
		case err != nil:
			return err
		case n == 0:
			err := f.server.fill(&f.from)
			switch {
			case err == nil:
				f.touch()
			case errors.Is(err, errTimeout) && x.upload.fault.Load() == nil && x.upload.late():
				f.server.reader.move(f.server.clock.after(x.responseTimeout()))
			default:
				return x.lost(err)
			}
			continue
		case !r.Interim():
			return nil
		}
		if err := x.forwardInterim(); err != nil {
			return err
		}
		f.from.discard(n)
		f.server.reader.move(f.server.clock.after(x.responseTimeout()))
	}
}

// forwardInterim forwards a 1xx head; HTTP/1.0 knows none.
func (x *exchange) forwardInterim() error {
	x.answers++
	if x.asked.HTTP10 {
		return nil
	}
	f := x.f
	f.client.within(&f.client.writer, f.settings.IdleTimeout)
	x.out = http1.AppendEnd(x.response.AppendHead(x.out[:0], http1.KeepAlive))
	if f.client.write(x.out) != nil {
		return errGone
	}
	if x.response.Status() == 100 {
		x.upload.began.CompareAndSwap(0, int64(f.client.clock.now()))
	}
	return nil
}

// lost says how the loss of the member, before its answer, is answered.
func (x *exchange) lost(err error) error {
	if f := x.upload.fault.Load(); f != nil {
		if f.Status == 0 {
			return errGone
		}
		return f
	}
	switch {
	case errors.Is(err, errKilled):
		return errGone
	case errors.Is(err, errTimeout):
		return errTooLate
	}
	return errBadMember
}

// respond forwards the final head, with our cookie if it is due, and the body.
func (x *exchange) respond() outcome {
	f, r := x.f, &x.response
	f.server.short = false
	var cookies pool.Edited
	cookies, x.edits = f.decision.EditResponse(&r.Head, f.cookieDue, x.edits[:0])
	x.owes = f.cookieDue && !cookies.Set
	if links := f.decision.Links(); links != nil {
		x.editLinks(links)
	}
	after := http1.KeepAlive
	if !x.upload.complete() || f.listener.draining.Load() {
		after = http1.Close
	}
	x.out = http1.AppendEnd(append(r.AppendHead(x.out[:0], after), cookies.Lines...))
	f.from.discard(r.Size())
	r.StartBody(&x.down)
	if framing, _ := r.Framing(); framing == http1.FramingTunnel {
		return x.tunnel()
	}
	var err error
	if x.page.active {
		err = x.forwardPage()
	} else {
		err = x.forwardBody()
	}
	if err != nil {
		return x.cut(err)
	}
	x.stopUpload()
	if !x.detached && !x.reusable() {
		if x.settled() {
			f.server.reset()
		}
		f.server.close()
		f.from.drop()
	}
	f.from.release()
	f.touch()
	if !x.upload.started {
		f.in.discard(x.used)
	}
	if after == http1.KeepAlive && r.After() == http1.KeepAlive {
		return keeping
	}
	f.client.silent = x.silent()
	return closing
}

// settled reports whether the member knows that its connection is over, and neither side has anything to say. Such a connection
// ends with a reset: a close in due form would keep our port for a minute, so that a member could be connected to only some
// hundred times a second, and is 3 % of the work of a connection for one request.
func (x *exchange) settled() bool {
	framing, _ := x.response.Framing()
	return (!x.asked.KeepAlive || !x.response.KeepAlive()) && framing != http1.FramingClose && x.delivered() && x.f.from.len() == 0
}

// silent reports whether the client promised to send nothing after this request, and is likely to keep that: after a body some
// send an empty line. The connection is then closed without waiting for its end, which costs a tenth of all its work.
func (x *exchange) silent() bool {
	framing, _ := x.request.Framing()
	return !x.asked.KeepAlive && framing == http1.FramingNone && x.f.in.len() == 0 && x.f.client.pushed.Load() <= leavingLittle
}

// errCut means that a response ended before its end. A fault of the member before anything was forwarded is an *http1.Error.
var errCut = errors.New("response cut short")

// errAborted is errCut where the client could not be written to.
var errAborted = errors.New("response aborted")

// forwardBody writes the head that is in x.out, and the body as it comes.
func (x *exchange) forwardBody() error {
	f := x.f
	f.client.within(&f.client.writer, f.settings.IdleTimeout)
	f.server.within(&f.server.reader, f.settings.IdleTimeout)
	for {
		for f.from.len() > 0 && !x.down.Done() {
			n, emit, err := x.down.Next(f.from.bytes())
			if err != nil && len(x.out) > 0 {
				return err
			}
			if err != nil {
				return errCut
			}
			f.from.discard(n)
			if x.down.Done() {
				x.detach()
			}
			if x.writeOut(emit) != nil {
				return errAborted
			}
		}
		if x.down.Done() {
			x.detach()
		}
		if x.writeOut(nil) != nil {
			return errAborted
		}
		if x.down.Done() {
			return nil
		}
		if x.upload.fault.Load() != nil {
			return errCut
		}
		if f.moving.Load() == nil {
			f.moving.Store(f.target)
		}
		if x.down.Direct() >= spliceLeast {
			f.large = true
			switch could, err := x.spliceBody(); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case could:
				continue
			}
		}
		if err := f.server.fill(&f.from); err != nil {
			return x.bodyEnd(err)
		}
		f.touch()
	}
}

// copyMost is how many bytes are rather copied behind a head than sent with it from where they are: sendmsg with two pieces
// takes 0.7 microseconds longer than sendto.
const copyMost = 4 << 10

// writeOut writes what is in x.out, and b.
func (x *exchange) writeOut(b []byte) error {
	if len(x.out)+len(b) == 0 {
		return nil
	}
	if len(x.out) > 0 && len(b) <= copyMost && len(x.out)+len(b) <= cap(x.out) {
		x.out, b = append(x.out, b...), nil
	}
	x.f.cookieDue = x.owes
	err := x.f.client.writeTwo(x.out, b)
	x.out = x.out[:0]
	return err
}

// bodyEnd judges the end of a member's connection within a body.
func (x *exchange) bodyEnd(err error) error {
	if errors.Is(err, io.EOF) && x.down.Closed() == nil {
		return nil
	}
	return errCut
}

// cut ends an exchange in the middle of its response: nothing is added to what the client has (pain 99). A body whose end is
// that of the connection would look whole: then only a reset can tell the client.
func (x *exchange) cut(err error) outcome {
	f := x.f
	if _, ok := errors.AsType[*http1.Error](err); ok {
		return x.fail(err)
	}
	x.stopUpload()
	f.server.close()
	if x.response.EndsByClose() || x.asked.HTTP10 || errors.Is(err, errAborted) {
		f.client.reset()
	}
	return closing
}

// tunnel forwards a 101 response; from then on bytes pass untouched.
func (x *exchange) tunnel() outcome {
	f := x.f
	if !x.upload.complete() {
		return x.cut(errCut)
	}
	x.stopUpload()
	f.client.within(&f.client.writer, f.settings.IdleTimeout)
	if !x.delivered() || x.writeOut(nil) != nil {
		return x.cut(errCut)
	}
	if !x.upload.started {
		f.in.discard(x.used)
	}
	return tunneling
}
