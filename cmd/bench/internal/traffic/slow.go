package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// SlowResult is what became of slow clients.
type SlowResult struct {
	Clients  int     `json:"clients"`
	TimedOut int     `json:"timed_out"` // answered with 408 and closed
	Dropped  int     `json:"dropped"`   // closed without that answer
	Open     int     `json:"open"`      // not closed when the time was up
	First    float64 `json:"first"`     // when the first and the last was closed, in seconds after its connect
	Last     float64 `json:"last"`
}

// Write prints r as one line of JSON.
func (r SlowResult) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// slowHead is sent a byte at a time; it never ends.
const slowHead = "GET / HTTP/1.1\r\nHost: slow.example\r\nX-Slow: "

// slowPace is the time between two bytes of a client.
const slowPace = time.Second

// timedOut is how an answer begins that ends a slow request.
var timedOut = []byte("HTTP/1.1 408 ")

type slowClient struct {
	fd      int
	started time.Time
	due     time.Time // when the next byte is sent
	sent    int
	answer  []byte
}

// SlowClients opens load.Parallel connections that send a byte of a request head each second. It calls ready when all are
// open, and ends when all are closed, load.Duration after ready, or with ctx.
func SlowClients(ctx context.Context, load Load, ready func() error) (SlowResult, error) {
	result := SlowResult{Clients: load.Parallel}
	p, err := newPoller()
	if err != nil {
		return result, err
	}
	defer p.close()
	open := make(map[int]*slowClient, load.Parallel)
	defer func() {
		for fd := range open {
			closeFD(fd)
		}
	}()
	var queue []*slowClient // by due
	for i := range load.Parallel {
		c, err := newSlowClient(p, load, i)
		if err != nil {
			return result, fmt.Errorf("slow client %d: %w", i+1, err)
		}
		open[c.fd] = c
		queue = append(queue, c)
	}
	if err := ready(); err != nil {
		return result, err
	}
	end := time.Now().Add(load.Duration)
	for len(open) > 0 && ctx.Err() == nil && time.Now().Before(end) {
		now := time.Now()
		for len(queue) > 0 && !queue[0].due.After(now) {
			c := queue[0]
			queue = queue[1:]
			if open[c.fd] == c {
				c.send()
				queue = append(queue, c)
			}
		}
		events, err := p.wait()
		if err != nil {
			return result, err
		}
		for _, e := range events {
			if c := open[int(e.Fd)]; c != nil && c.ended() {
				delete(open, c.fd)
				closeFD(c.fd)
				result.count(c)
			}
		}
	}
	result.Open = len(open)
	return result, ctx.Err()
}

func newSlowClient(p *poller, load Load, i int) (*slowClient, error) {
	var source netip.Addr
	if n := len(load.Sources); n > 0 {
		source = load.Sources[i%n]
	}
	c := &slowClient{started: time.Now()}
	var err error
	if c.fd, err = connect(load.Target, source); err != nil {
		return nil, err
	}
	if err := p.add(c.fd, unix.EPOLLIN|unix.EPOLLRDHUP); err != nil {
		closeFD(c.fd)
		return nil, err
	}
	c.due = c.started
	return c, nil
}

// send sends the next byte; what fails shows when the connection is read.
func (c *slowClient) send() {
	b := byte('a')
	if c.sent < len(slowHead) {
		b = slowHead[c.sent]
	}
	if _, err := unix.Write(c.fd, []byte{b}); err == nil {
		c.sent++
	}
	c.due = c.due.Add(slowPace)
}

// ended reads what came and says whether the connection is over.
func (c *slowClient) ended() bool {
	buffer := make([]byte, 1024)
	for {
		n, err := unix.Read(c.fd, buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			return true
		default:
			c.answer = append(c.answer, buffer[:n]...)
		}
	}
}

// count notes how a client's connection ended.
func (r *SlowResult) count(c *slowClient) {
	after := time.Since(c.started).Seconds()
	if r.TimedOut+r.Dropped == 0 {
		r.First = after
	}
	r.Last = max(r.Last, after)
	if bytes.HasPrefix(c.answer, timedOut) {
		r.TimedOut++
	} else {
		r.Dropped++
	}
}
