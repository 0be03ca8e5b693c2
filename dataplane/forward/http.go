package forward

import (
	"bytes"
	"errors"
	"net/netip"
	"sync"
	"time"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
)

// exchange is a request and its response. What it needs is kept for the next one, of any flow.
type exchange struct {
	f        *flow
	request  http1.Request
	response http1.Response
	asked    http1.Asked // valid once the request's head is complete
	up, down http1.Body
	out      []byte // what is written next; empty between two writes

	view      requestView
	ruleInput rule.Input
	poolInput pool.Input
	returning returning
	page      page
	hostAsked []byte // the request's host, once an upload has begun

	head    int    // bytes of the request's head
	used    int    // bytes of flow.in that belong to the request
	upload  upload // of the body, where not all of it came with the head
	answers int    // interim responses that were forwarded

	// redialled is the member that this request was connected to anew, because its connection had ended.
	redialled        netip.AddrPort
	repeated, probed bool // the request was sent again; it was asked whether its member is gone

	sent      bool   // what of the request was there has been sent
	detached  bool   // the member's connection was given up when its response was complete
	owes      bool   // our cookie stays due after this response
	edits     []byte // what replaces cookies in a head that is written
	forwarded []byte // the value of X-Forwarded-For; empty: a line of its own
}

var exchanges = sync.Pool{New: func() any {
	x := &exchange{out: make([]byte, 0, bufferSize/2)}
	x.view.q = &x.request
	return x
}}

// outcome says what becomes of the client's connection after an exchange.
type outcome uint8

const (
	closing outcome = iota
	keeping
	tunneling
	incomplete // the rest of the request's head is to be waited for
)

// errGone means that the client is not to be answered.
var errGone = errors.New("no answer")

// The answers that the proxy gives itself, besides those to faults of the message.
var (
	errStray      = &http1.Error{Status: 400, Reason: "carriage return without line feed"}
	errHeaderTime = &http1.Error{Status: 408, Reason: "the request's head did not arrive in time"}
	errBodyTime   = &http1.Error{Status: 408, Reason: "the request's body did not arrive in time"}
	errNoPool     = &http1.Error{Status: 503, Reason: "no pool is chosen"}
	errNoMember   = &http1.Error{Status: 503, Reason: "no member is available"}
	errNoSocket   = &http1.Error{Status: 503, Reason: "out of sockets"}
	errBadMember  = &http1.Error{Status: 502, Reason: "the member closed its connection"}
	errTooLate    = &http1.Error{Status: 504, Reason: "the member did not answer in time"}
)

// errRedirect is an answer 302.
type errRedirect struct{ location *rule.Location }

func (errRedirect) Error() string { return "redirected" }

// errElsewhere is an answer 302 to the page that stands for errors, as it is written.
type errElsewhere string

func (errElsewhere) Error() string { return "redirected to the page for errors" }

// errorPage is what the client is told of an error of the members: the pool may have a page for that (rule J-15).
func (x *exchange) errorPage(err error) error {
	p := x.f.decision.Pool()
	fault, ok := errors.AsType[*http1.Error](err)
	if p == nil || p.ErrorURL == "" || !ok || fault.Status < 500 {
		return err
	}
	return errElsewhere(p.ErrorURL)
}

// beginHTTP waits for the first request. The flow is no longer the caller's.
func (f *flow) beginHTTP() {
	f.client.until(&f.client.reader, f.settings.HeaderTimeout)
	f.idle.Store(true)
	if f.client.watch(watchIn) != nil || !f.client.reader.park(f) {
		f.listener.table.workers.serve(f)
	}
}

// serveHTTP serves one request after the other, in order, until the client has sent no more.
func (f *flow) serveHTTP() {
	for {
		switch f.awaitRequest() {
		case arrivalLater:
			return
		case arrivalNever:
			f.end()
			return
		}
		x := exchanges.Get().(*exchange)
		x.f = f
		next := x.run()
		x.reset()
		exchanges.Put(x)
		if next == incomplete {
			f.partial = true
			continue
		}
		f.partial, f.parsed = false, 0
		f.count(1)
		switch next {
		case closing:
			f.end()
			return
		case tunneling:
			f.beginTunnel()
			return
		}
	}
}

// reset makes x ready for another flow.
func (x *exchange) reset() {
	x.request.Reset()
	x.response.Reset(http1.Asked{})
	x.f, x.asked, x.out = nil, http1.Asked{}, x.out[:0]
	x.ruleInput, x.poolInput, x.returning = rule.Input{}, pool.Input{}, returning{}
	x.head, x.used, x.answers = 0, 0, 0
	x.redialled, x.repeated, x.probed = netip.AddrPort{}, false, false
	x.sent, x.detached, x.owes, x.forwarded = false, false, false, x.forwarded[:0]
	x.upload.reset()
	if x.page.active {
		x.page.reset()
	}
}

// arrival says whether a request has come.
type arrival uint8

const (
	arrivalNow   arrival = iota
	arrivalLater         // the flow waits without a goroutine, and is no longer the caller's
	arrivalNever
)

// awaitRequest waits until bytes of a request are there. The first must come within the time for a head, which goes on
// running; a connection that never sends any is closed without a word. An empty line, which some clients send after a body, is
// taken and begins nothing. While the flow is idle awaitRequest goes on where it was.
func (f *flow) awaitRequest() arrival {
	if f.partial {
		return f.awaitRest()
	}
	if !f.idle.Load() {
		f.lead = leadNone
		f.skipEmptyLine()
		if f.in.len() == 0 {
			f.client.until(&f.client.reader, f.settings.IdleTimeout)
			f.idle.Store(true)
		}
	}
	for f.in.len() == 0 {
		f.in.release()
		if f.asked && f.listener.idleOver(f.client.clock.now()) {
			f.idle.Store(false)
			return arrivalNever
		}
		switch parked, err := f.client.fillOrPark(&f.in, f); {
		case parked:
			return arrivalLater
		case err != nil:
			f.idle.Store(false)
			return arrivalNever
		}
		f.touch()
		f.skipEmptyLine()
	}
	f.idle.Store(false)
	if f.asked {
		f.client.until(&f.client.reader, f.settings.HeaderTimeout)
	}
	f.asked = true
	return arrivalNow
}

// parseStep is how many bytes of a head are looked at again at the latest, though no line has ended.
const parseStep = 1024

// awaitRest waits for more of a request's head, until there is something new to be judged: the end of a line, or many bytes. So
// neither memory nor a goroutine nor much work is spent on a client that sends a byte now and then.
func (f *flow) awaitRest() arrival {
	for {
		switch parked, err := f.client.fillOrPark(&f.in, f); {
		case parked:
			return arrivalLater
		case err != nil:
			f.fault = err
			return arrivalNow
		}
		f.touch()
		news := f.in.bytes()[f.parsed:]
		if len(news) >= parseStep || bytes.IndexByte(news, '\n') >= 0 {
			return arrivalNow
		}
	}
}

// lead is what came before a request.
type lead uint8

const (
	leadNone  lead = iota
	leadHalf       // the first byte of an empty line
	leadLine       // an empty line; another one is a fault
	leadStray      // a fault: half of an empty line
)

// skipEmptyLine takes an empty line at the beginning of what the client sent, or the part of it that is there.
func (f *flow) skipEmptyLine() {
	if b := f.in.bytes(); f.lead == leadNone && len(b) > 0 && b[0] == '\r' {
		f.in.discard(1)
		f.lead = leadHalf
	}
	b := f.in.bytes()
	switch {
	case f.lead != leadHalf || len(b) == 0:
	case b[0] == '\n':
		f.in.discard(1)
		f.lead = leadLine
	default:
		f.lead = leadStray
	}
}

// wakeIdle ends the flow if it waits for a request.
func (f *flow) wakeIdle() {
	if f.idle.Load() {
		f.client.end(&f.client.reader)
	}
}

// run serves one request, unless the rest of its head is still to come. Its first bytes are in flow.in.
func (x *exchange) run() outcome {
	complete, err := x.readHead()
	switch {
	case err != nil:
		return x.fail(err)
	case !complete:
		return incomplete
	}
	if err := x.arrange(); err != nil {
		return x.fail(err)
	}
	x.credentials()
	for {
		start := x.f.decision.Start()
		x.send()
		err := x.awaitHead()
		if err == nil {
			x.f.decision.Took(start)
			x.f.decision.Answered()
			return x.respond()
		}
		if errors.Is(err, errTooLate) || errors.Is(err, errBadMember) && !x.f.reused {
			x.f.decision.Silent()
		}
		switch {
		case errors.Is(err, errBadMember) && x.mayRepeat():
			err = x.again()
		case x.mayReplay(err):
			err = x.replay()
		}
		if err != nil {
			return x.fail(x.errorPage(err))
		}
	}
}

// readHead reads the request's head, and judges what of the body came with it.
func (x *exchange) readHead() (complete bool, err error) {
	f := x.f
	switch f.lead {
	case leadLine:
		x.request.SkippedEmptyLine()
	case leadStray:
		return false, errStray
	}
	n, err := x.request.Parse(f.in.bytes())
	switch {
	case err != nil:
		if fault, ok := errors.AsType[*http1.Error](err); ok && fault.Status == 414 {
			f.listener.table.longTargets.Add(1)
		}
		return false, err
	case n > 0:
		x.head, x.used, x.asked = n, n, x.request.Asked()
		x.request.StartBody(&x.up)
		return true, x.up.Check(f.in.bytes()[n:])
	case errors.Is(f.fault, errTimeout) && !f.listener.idleOver(f.client.clock.now()):
		return false, errHeaderTime
	case f.fault != nil:
		return false, errGone
	}
	f.parsed = f.in.len()
	return false, nil
}

// arrange connects to the member that answers. Without PerRequest one decision serves the client's whole connection,
// whatever cookies later requests carry (rules O-1, O-2).
func (x *exchange) arrange() error {
	f := x.f
	f.afresh = false
	f.cookieDue = f.cookieDue || f.decision.AlwaysSetCookie()
	if f.decision.Member == nil || f.settings.PerRequest && !f.pinned {
		return x.decide()
	}
	if f.server.isOpen() && x.serverQuiet() {
		f.reused = true
		f.decision.Resume(&x.request)
		return nil
	}
	if f.pinned {
		f.pinned = false
		return x.decide()
	}
	return x.redial()
}

// serverQuiet reports whether the member's connection can be used again. Where a request could be repeated it is enough that
// nothing is known against it, which costs no system call.
func (x *exchange) serverQuiet() bool {
	if x.request.Idempotent() && !x.asked.Upgrade {
		return x.f.server.quietSoFar()
	}
	return x.f.server.quiet()
}

// decide chooses a pool and a member by the settings of this moment.
func (x *exchange) decide() error {
	f := x.f
	set := f.listener.settings.Load()
	f.settings = set
	f.source = set.believed(f.peer, &x.request.Head)
	x.ruleInput = f.ruleInput(set, &x.view)
	if set.SplitSticks {
		x.returning = returning{set.Pools, f.poolInput(set, &choice{})}
		x.returning.in.Request, x.returning.in.Target = &x.request.Head, x.request.Target()
		x.ruleInput.Returning = &x.returning
	}
	c := set.route(&x.ruleInput)
	switch c.action {
	case rule.Redirect:
		return errRedirect{c.location}
	case rule.Discard:
		f.client.reset()
		return errGone
	case rule.Nothing:
		return errNoPool
	}
	x.poolInput = f.poolInput(set, &c)
	x.poolInput.Request, x.poolInput.Target = &x.request.Head, x.request.Target()
	return x.reach(c.pool, c.pool.Choose(&f.decision, &x.poolInput))
}

// reach connects to the member that p has chosen, if the choice has no error, and notes what follows from it.
func (x *exchange) reach(p *pool.Pool, err error) error {
	f := x.f
	if err == nil {
		err = f.reach()
	}
	if err != nil {
		f.decision.Release()
		if page := p.ErrorURL; page != "" {
			if err := answerTo(err); !errors.Is(err, errGone) {
				return errElsewhere(page)
			}
		}
		if errors.Is(err, pool.ErrNoMember) && p.Fallback != "" {
			return errRedirect{rule.NewLocation(p.Fallback)}
		}
		return answerTo(err)
	}
	f.cookieDue = f.decision.SetCookie()
	return nil
}

// answerTo turns an error of choosing and connecting into the answer.
func answerTo(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errKilled):
		return errGone
	case errors.Is(err, errLocal):
		return errNoSocket
	}
	return errNoMember
}

// responseTimeout is how long the member may take.
func (x *exchange) responseTimeout() time.Duration { return x.f.decision.Pool().ResponseTimeout }

// fail ends an exchange whose response has not begun with an answer of our own, which never carries a cookie.
func (x *exchange) fail(err error) outcome {
	f := x.f
	x.stopUpload()
	f.server.close()
	f.from.drop()
	if errors.Is(err, errGone) {
		return closing
	}
	after := http1.Close
	if x.asked.KeepAlive && !f.listener.draining.Load() && x.swallow() {
		after = http1.KeepAlive
	}
	x.appendAnswer(err, after)
	f.client.within(&f.client.writer, f.settings.IdleTimeout)
	if f.client.write(x.out) != nil {
		return closing
	}
	if after == http1.Close {
		return closing
	}
	f.in.discard(x.used)
	return keeping
}

// appendAnswer makes x.out the answer to an error.
func (x *exchange) appendAnswer(err error, after http1.After) {
	if r, ok := errors.AsType[errRedirect](err); ok {
		x.ruleInput = x.f.ruleInput(x.f.settings, &x.view)
		location := r.location.Append(nil, &x.ruleInput)
		x.out = http1.AppendRedirect(x.out[:0], x.asked, string(location), after)
		return
	}
	if page, ok := errors.AsType[errElsewhere](err); ok {
		x.out = http1.AppendRedirect(x.out[:0], x.asked, string(page), after)
		return
	}
	fault, ok := errors.AsType[*http1.Error](err)
	if !ok {
		fault = errBadMember
	}
	x.out = http1.AppendError(x.out[:0], x.asked, fault.Status, fault.Reason, after)
}

// swallow reports whether the whole body of the request is in flow.in, and counts it as used.
func (x *exchange) swallow() bool {
	if x.upload.started {
		return false
	}
	x.request.StartBody(&x.up)
	x.used = x.head
	rest := x.f.in.bytes()[x.head:]
	for len(rest) > 0 && !x.up.Done() {
		n, _, err := x.up.Next(rest)
		if err != nil {
			return false
		}
		rest = rest[n:]
		x.used += n
	}
	return x.up.Done()
}
