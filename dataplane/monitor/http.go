package monitor

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"bigpipe/dataplane/http1"
)

// request returns the bytes that ask for a page. A send that is a whole request, with an empty line, goes out as it is. Otherwise
// it is the first lines of one: what is missing is added, the version (1.0, so that the answer ends with the connection), Host,
// Authorization, Connection, and the empty line.
func request(spec *Spec) []byte {
	text := unescape(spec.Send)
	if bytes.Contains(text, []byte("\r\n\r\n")) {
		return text
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimRight(string(text), "\r\n"), "\r\n", "\n"), "\n")
	if len(strings.Fields(lines[0])) < 3 {
		lines[0] += " HTTP/1.0"
	}
	has := func(name string) bool {
		for _, line := range lines[1:] {
			if field, _, ok := strings.Cut(line, ":"); ok && strings.EqualFold(field, name) {
				return true
			}
		}
		return false
	}
	add := func(name, value string) {
		if !has(name) {
			lines = append(lines, name+": "+value)
		}
	}
	add("Host", spec.Host)
	if spec.Username != "" || spec.Password != "" {
		add("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(spec.Username+":"+spec.Password)))
	}
	add("Connection", "close")
	return []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")
}

// hostOf is what an HTTP check names as host.
func hostOf(target netip.AddrPort, usual uint16) string {
	if target.Port() != usual {
		return target.String()
	}
	if target.Addr().Is6() {
		return "[" + target.Addr().String() + "]"
	}
	return target.Addr().String()
}

// page asks for a page. With a recv the head and the body decide; without one the status does: 200 to 399 is a success, but see healthy.
func (a *active) page(ctx context.Context) error {
	tcp, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer closing(ctx, tcp)()
	var c net.Conn = tcp
	if a.spec.Kind == HTTPS {
		secure := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10}) //nolint:gosec // who answers is not the question
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		c = secure
	}
	if _, err := c.Write(a.send); err != nil {
		return err
	}
	return a.answered(ctx, c)
}

// answered reads the answer to a request.
func (a *active) answered(ctx context.Context, c net.Conn) error {
	var r http1.Response
	r.Reset(http1.Asked{Head: bytes.HasPrefix(a.send, []byte("HEAD ")), HTTP10: true}) // so that chunks are joined
	var answer []byte
	size := 0
	for {
		n, err := r.Parse(answer)
		switch {
		case err != nil:
			return fmt.Errorf("the answer is not HTTP: %w", err)
		case n > 0 && a.spec.Kind == Healer:
			return healthy(r.Status())
		case n > 0 && r.Interim():
			answer = answer[n:]
			continue
		case n > 0 && a.recv == nil:
			if r.Status() < 200 || r.Status() > 399 {
				return fmt.Errorf("status %d", r.Status())
			}
			return nil
		case n > 0:
			return a.search(ctx, c, &r, answer[:n:n], answer[n:])
		case size >= answerLimit:
			return errors.New("the head of the answer is too long")
		}
		piece := make([]byte, pieceSize)
		n, err = c.Read(piece)
		answer = append(answer, piece[:n]...)
		size += n
		switch {
		case n > 0 || err == nil:
		case errors.Is(err, io.EOF) && size == 0:
			return errEmpty
		case errors.Is(err, io.EOF):
			return errors.New("the answer is not HTTP: it ends within its head")
		default:
			return err
		}
	}
}

// healthy says what a status means to a Healer: 100 to 500 is well (rules J-16, J-T13).
func healthy(status int) error {
	if status > 500 {
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// pieceSize is how much is read at a time.
const pieceSize = 4096

// search reads the body behind a head, whose beginning came with it, until recv matches both or the body has ended.
func (a *active) search(ctx context.Context, c net.Conn, r *http1.Response, text, came []byte) error {
	var body http1.Body
	r.StartBody(&body)
	for {
		for len(came) > 0 && !body.Done() {
			n, data, err := body.Next(came)
			if err != nil {
				return fmt.Errorf("the answer is not HTTP: %w", err)
			}
			text, came = append(text, data...), came[n:]
		}
		if body.Done() || len(text) > answerLimit || a.recv.Match(text) {
			return a.verdict(text)
		}
		if a.reversed() {
			setDeadline(ctx, c, quiet)
		}
		piece := make([]byte, pieceSize)
		n, err := c.Read(piece)
		came = piece[:n]
		switch {
		case n > 0 || err == nil:
		case errors.Is(err, io.EOF), a.reversed() && ctx.Err() == nil: // it has ended, or been cut short
			return a.verdict(text)
		default:
			return err
		}
	}
}
