package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	// answerLimit is how much of an answer is looked at, in bytes.
	answerLimit = 64 << 10
	// quiet is after how long without more an answer counts as whole that has no end of its own.
	quiet = time.Second
)

var errEmpty = errors.New("the answer is empty")

// talk sends and looks at what comes back. Without a recv any answer will do.
func (a *active) talk(ctx context.Context) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer closing(ctx, c)()
	if len(a.send) > 0 {
		if _, err := c.Write(a.send); err != nil {
			return err
		}
	}
	return a.expect(ctx, c)
}

// expect reads an answer until it is decided what it says: recv has matched, it has ended, or it is too long.
func (a *active) expect(ctx context.Context, c net.Conn) error {
	answer := make([]byte, 0, 512)
	for {
		answer = answer[:len(answer):cap(answer)]
		if len(answer) == cap(answer) {
			answer = append(answer, make([]byte, len(answer))...)[:len(answer)]
		}
		if a.reversed() && len(answer) > 0 {
			setDeadline(ctx, c, quiet)
		}
		n, err := c.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		if n > 0 && (a.recv == nil || a.recv.Match(answer)) {
			return a.verdict(answer)
		}
		switch {
		case err == nil && len(answer) < answerLimit:
		case err == nil, errors.Is(err, io.EOF), a.reversed() && len(answer) > 0 && ctx.Err() == nil:
			return a.verdict(answer)
		default:
			return err
		}
	}
}

// reversed reports whether a match means that the node is down.
func (a *active) reversed() bool { return a.spec.Reverse && a.recv != nil }

// verdict says what a whole answer means.
func (a *active) verdict(answer []byte) error {
	switch {
	case len(answer) == 0:
		return errEmpty
	case a.recv == nil:
		return nil
	}
	match := a.recv.Match(answer)
	switch {
	case match && a.spec.Reverse:
		return fmt.Errorf("the answer matches %q", a.spec.Recv)
	case !match && !a.spec.Reverse:
		return fmt.Errorf("the answer does not match %q", a.spec.Recv)
	}
	return nil
}

// setDeadline bounds the next read, by the end of the probe at most.
func setDeadline(ctx context.Context, c net.Conn, d time.Duration) {
	at := time.Now().Add(d)
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		at = end
	}
	_ = c.SetReadDeadline(at)
}

// echoText is what an echo check sends.
var echoText = []byte("bigpipe echo\r\n")

// echo sends a text and expects it back.
func (a *active) echo(ctx context.Context) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer closing(ctx, c)()
	if _, err := c.Write(echoText); err != nil {
		return err
	}
	got := make([]byte, len(echoText))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(got, echoText) {
		return errors.New("what came back is not what was sent")
	}
	return nil
}

// datagram sends one datagram. With a recv the answer must match; without one it is enough that nothing says for a second that
// nobody listens.
func (a *active) datagram(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "udp", a.spec.Dial.String())
	if err != nil {
		return err
	}
	defer closing(ctx, c)()
	if _, err := c.Write(a.send); err != nil {
		return err
	}
	if a.recv == nil {
		setDeadline(ctx, c, quiet)
	} else if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetReadDeadline(deadline)
	}
	answer := make([]byte, answerLimit)
	n, err := c.Read(answer)
	var late net.Error
	switch {
	case err == nil && a.recv == nil:
		return nil
	case err == nil:
		if n == 0 {
			return errEmpty
		}
		return a.verdict(answer[:n])
	case a.recv == nil && errors.As(err, &late) && late.Timeout():
		return nil
	}
	return err
}

// unescape reads what a text of the configuration says that is sent: \r, \n, \t, \0, \\ and \xHH.
func unescape(text string) []byte {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b = append(b, text[i])
			continue
		}
		i++
		if at := strings.IndexByte(`rnt0\`, text[i]); at >= 0 {
			b = append(b, "\r\n\t\x00\\"[at])
			continue
		}
		if text[i] == 'x' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, '\\', text[i])
	}
	return b
}

func zone(a netip.Addr) uint32 {
	if a.Zone() == "" {
		return 0
	}
	if i, err := net.InterfaceByName(a.Zone()); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(a.Zone(), 10, 32)
	return uint32(n)
}
