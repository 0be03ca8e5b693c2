package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Load describes what a client does.
type Load struct {
	Target   netip.AddrPort
	Sources  []netip.Addr // connections come from these in turn; none: the system chooses
	Sessions int          // so many sessions of TLS are resumed in turn, in place of Exchange
	Parallel int          // connections open at once
	Threads  int
	Duration time.Duration
}

// stallAfter is how long an exchange may take before it counts as an error when the time is up. A busy machine may well
// keep one waiting for a second.
const stallAfter = 5 * time.Second

// errClosed is a connection that ended before its whole answer.
var errClosed = errors.New("closed before the answer was complete")

// Exchanges connects, exchanges one message and lets the origin close, over and over, Parallel at a time. A failed
// connection counts as an error and is made anew; maxErrors of them end the load. While nothing at all has been answered
// it goes on after its time, up to stallAfter.
func Exchanges(ctx context.Context, load Load) (Result, error) {
	if load.Threads < 1 || load.Parallel < load.Threads {
		return Result{}, fmt.Errorf("%d connections on %d threads: at least 1 each", load.Parallel, load.Threads)
	}
	group, ctx := errgroup.WithContext(ctx)
	clients := make([]*client, load.Threads)
	for i := range clients {
		share := load.Parallel / load.Threads
		if i < load.Parallel%load.Threads {
			share++
		}
		clients[i] = &client{load: load, first: i, share: share}
		group.Go(func() error { return clients[i].run(ctx) })
	}
	err := group.Wait()
	var total Result
	var times []time.Duration
	for _, c := range clients {
		total.add(c.result)
		times = append(times, c.times...)
	}
	total.percentiles(times)
	return total, err
}

// client is one thread of Exchanges.
type client struct {
	load    Load
	first   int // the source and session to begin with, so that threads use different ones
	share   int // connections open at once
	poller  *poller
	open    map[int]*exchange
	asks    [][]byte // what is sent, in turn
	answer  int      // the length of what comes back, in bytes
	scratch []byte
	times   []time.Duration
	result  Result
}

type exchange struct {
	started time.Time
	message []byte
	sent    bool
	got     int
}

func (c *client) run(ctx context.Context) error {
	var err error
	if c.poller, err = newPoller(); err != nil {
		return err
	}
	defer c.poller.close()
	c.open = make(map[int]*exchange, c.share)
	defer func() {
		for fd := range c.open {
			closeFD(fd)
		}
	}()
	c.prepare()
	c.scratch = make([]byte, 4096)
	begin := time.Now()
	end := begin.Add(c.load.Duration)
	for ctx.Err() == nil && (time.Now().Before(end) || c.patient(begin)) {
		for len(c.open) < c.share && c.result.Errors < maxErrors {
			c.start()
		}
		if c.result.Errors >= maxErrors {
			return fmt.Errorf("%d connections failed, the first: %s", c.result.Errors, c.result.FirstError)
		}
		events, err := c.poller.wait()
		if err != nil {
			return err
		}
		for _, e := range events {
			c.step(int(e.Fd))
		}
	}
	c.result.Seconds = time.Since(begin).Seconds()
	for _, x := range c.open {
		if time.Since(x.started) > stallAfter {
			c.result.fail(fmt.Errorf("no answer within %v", stallAfter))
		}
	}
	return ctx.Err()
}

// prepare makes what is sent.
func (c *client) prepare() {
	c.asks, c.answer = [][]byte{make([]byte, MessageSize)}, MessageSize
	c.asks[0][0] = Exchange
	if c.load.Sessions > 0 {
		c.asks, c.answer = nil, helloSize
		for i := range c.load.Sessions {
			c.asks = append(c.asks, clientHello(session(i)))
		}
	}
}

// patient says whether to go on after the time is up: nothing has happened yet, and a busy machine may be the reason.
func (c *client) patient(begin time.Time) bool {
	return c.result.Operations == 0 && c.result.Errors == 0 && time.Since(begin) < stallAfter
}

// start opens a connection and sends at once where that works: on loopback it is mostly established already.
func (c *client) start() {
	var source netip.Addr
	if n := len(c.load.Sources); n > 0 {
		source = c.load.Sources[c.first%n]
	}
	message := c.asks[c.first%len(c.asks)]
	c.first += c.load.Threads
	started := time.Now()
	fd, err := connect(c.load.Target, source)
	if err != nil {
		c.result.fail(err)
		return
	}
	x := &exchange{started: started, message: message}
	c.open[fd] = x
	_, err = unix.Write(fd, x.message)
	x.sent = err == nil
	events := uint32(unix.EPOLLIN)
	if !x.sent {
		events = unix.EPOLLOUT
	}
	if err != nil && !again(err) && !errors.Is(err, unix.ENOTCONN) {
		c.drop(fd, err)
	} else if err := c.poller.add(fd, events); err != nil {
		c.drop(fd, err)
	}
}

// drop closes a failed connection.
func (c *client) drop(fd int, err error) {
	c.result.fail(err)
	delete(c.open, fd)
	closeFD(fd)
}

// step goes on with a connection that is ready, until it would wait or is finished.
func (c *client) step(fd int) {
	x := c.open[fd]
	if x == nil {
		return
	}
	if !x.sent {
		if _, err := unix.Write(fd, x.message); err != nil {
			c.drop(fd, err)
			return
		}
		x.sent = true
		if err := c.poller.change(fd, unix.EPOLLIN); err != nil {
			c.drop(fd, err)
		}
		return
	}
	for {
		n, err := unix.Read(fd, c.scratch)
		switch {
		case again(err):
			return
		case err != nil:
			c.drop(fd, err)
			return
		case n > 0:
			x.got += n
			c.result.Bytes += int64(n)
		case x.got != c.answer:
			c.drop(fd, fmt.Errorf("%w: %d of %d bytes", errClosed, x.got, c.answer))
			return
		default:
			c.result.Operations++
			c.times = append(c.times, time.Since(x.started))
			delete(c.open, fd)
			closeFD(fd)
			return
		}
	}
}
