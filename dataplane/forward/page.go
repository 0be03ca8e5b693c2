package forward

import (
	"bytes"

	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/jroute"
)

// page is a response's body whose links get the member's route (rule J-23).
type page struct {
	rewriter jroute.Rewriter
	active   bool
	chunks   bool   // goes to the client in chunks
	out      []byte // what is written next: a piece of the page, with the end of its chunk
}

const (
	// pageStep is how much of a page is looked at for one write.
	pageStep = 16 << 10
	// pageKept is how much memory is kept for the next page.
	pageKept = 2 * pageStep
)

func (p *page) reset() {
	*p = page{out: p.out[:0]}
	if cap(p.out) > pageKept {
		p.out = nil
	}
}

// editLinks gives the links in the response's head the route, and decides what happens to its body. A page that is here as a
// whole keeps its head if it has no such link, and gets a new Content-Length if it has; any other is sent in chunks, or to its
// close.
func (x *exchange) editLinks(l *jroute.Links) {
	r := &x.response
	if r.Status() < 200 {
		return
	}
	x.edits = l.EditHead(&r.Head, x.host(), x.edits)
	if !l.Body || !x.isPage() {
		return
	}
	framing, length := r.Framing()
	if framing == http1.FramingNone {
		if x.asked.Head || r.Status() == 304 {
			r.ChangeBody(http1.Unknown) // as the page itself has it
		}
		return
	}
	x.page.rewriter.Start(l)
	if whole := x.f.from.bytes()[r.Size():]; framing == http1.FramingLength && length <= int64(len(whole)) {
		grown := x.page.rewriter.Growth(whole[:length])
		if grown == 0 {
			return
		}
		r.ChangeBody(length + int64(grown))
	} else {
		r.ChangeBody(http1.Unknown)
	}
	x.page.active, x.page.chunks = true, r.Chunks()
}

// host is what the Host field of the request said.
func (x *exchange) host() []byte {
	if x.upload.started { // which uses the memory of the head
		return x.hostAsked
	}
	return x.request.Host()
}

// isPage reports whether the links in the response's body can be found: it is HTML, in an encoding that contains ASCII, not
// compressed, and not a part of a page. A page that is compressed is counted.
func (x *exchange) isPage() bool {
	r := &x.response
	if r.Status() == 206 {
		return false
	}
	switch i := r.Lookup("content-type", 0); {
	case i < 0:
		return r.Status() == 304
	case r.Lookup("content-type", i+1) >= 0 || !isHTML(r.Value(i)):
		return false
	}
	for i := r.Lookup("content-encoding", 0); i >= 0; i = r.Lookup("content-encoding", i+1) {
		if coding := r.Value(i); len(coding) > 0 && !bytes.EqualFold(coding, identity) {
			x.f.decision.Compressed()
			return false
		}
	}
	return true
}

var (
	identity   = []byte("identity")
	textHTML   = []byte("text/html")
	utf16UTF32 = [...][]byte{[]byte("utf-16"), []byte("utf-32")}
)

// isHTML reports whether a Content-Type is that of HTML in an encoding that contains ASCII.
func isHTML(value []byte) bool {
	media, parameters, _ := bytes.Cut(value, []byte(";"))
	if !bytes.EqualFold(bytes.TrimRight(media, " \t"), textHTML) {
		return false
	}
	parameters = bytes.ToLower(parameters)
	for _, wide := range utf16UTF32 {
		if bytes.Contains(parameters, wide) {
			return false
		}
	}
	return true
}

// forwardPage is forwardBody for a page: it writes the head that is in x.out, and what the page becomes.
func (x *exchange) forwardPage() error {
	f := x.f
	f.client.within(&f.client.writer, f.settings.IdleTimeout)
	f.server.within(&f.server.reader, f.settings.IdleTimeout)
	for {
		for f.from.len() > 0 && !x.down.Done() {
			if err := x.nextPiece(); err != nil {
				return err
			}
			if x.down.Done() {
				x.detach()
			}
			if err := x.writePage(x.down.Done()); err != nil {
				return err
			}
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
		if err := f.server.fill(&f.from); err != nil {
			if err := x.bodyEnd(err); err != nil {
				return err
			}
			return x.writePage(true)
		}
		f.touch()
	}
}

// nextPiece makes page.out of what is here of the page, so much as one write should have.
func (x *exchange) nextPiece() error {
	f, p := x.f, &x.page
	for f.from.len() > 0 && !x.down.Done() && len(p.out) < pageStep {
		in := f.from.bytes()
		n, emit, err := x.down.Next(in[:min(len(in), pageStep-len(p.out))])
		switch {
		case err != nil && len(x.out) > 0:
			return err
		case err != nil:
			return errCut
		}
		p.out = p.rewriter.Append(p.out, emit)
		f.from.discard(n)
	}
	return nil
}

// writePage writes the piece of a page that is in page.out, in a chunk if it goes out in chunks; with its end, if it is the last.
func (x *exchange) writePage(last bool) error {
	p := &x.page
	if last {
		p.out = p.rewriter.End(p.out)
	}
	if p.chunks && len(p.out) > 0 {
		x.out = http1.AppendChunkSize(x.out, len(p.out))
		p.out = append(p.out, "\r\n"...)
	}
	if p.chunks && last {
		p.out = append(p.out, x.down.Ending()...)
	}
	err := x.writeOut(p.out)
	p.out = p.out[:0]
	if err != nil {
		return errAborted
	}
	return nil
}
