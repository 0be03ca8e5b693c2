package monitor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
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

// page asks for a page. With a recv the head and the body decide; without one the status does: 200 to 399 is a success.
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
	var head bytes.Buffer
	r := bufio.NewReader(io.TeeReader(io.LimitReader(c, answerLimit), &head))
	method, _, _ := strings.Cut(string(a.send), " ")
	reply, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		if ctx.Err() == nil && head.Len() > 0 && !isTimeout(err) {
			return fmt.Errorf("the answer is not HTTP: %w", err)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && head.Len() == 0 {
			return errEmpty
		}
		return err
	}
	defer reply.Body.Close()
	if a.recv == nil {
		if reply.StatusCode < 200 || reply.StatusCode > 399 {
			return fmt.Errorf("status %d", reply.StatusCode)
		}
		return nil
	}
	text := head.Bytes()
	if end := bytes.Index(text, []byte("\r\n\r\n")); end >= 0 {
		text = text[:end+4]
	}
	return a.search(ctx, c, bytes.Clone(text), reply.Body)
}

// search reads a body behind its head until recv matches both, or it has ended.
func (a *active) search(ctx context.Context, c net.Conn, text []byte, body io.Reader) error {
	piece := make([]byte, 4096)
	for {
		if a.recv.Match(text) {
			return a.verdict(text)
		}
		if a.reversed() {
			setDeadline(ctx, c, quiet)
		}
		n, err := body.Read(piece)
		text = append(text, piece[:n]...)
		switch {
		case n > 0 || err == nil:
		case !errors.Is(err, io.EOF) && isTimeout(err) && !a.reversed():
			return err
		default: // it has ended, was cut short, or is too long
			return a.verdict(text)
		}
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}
