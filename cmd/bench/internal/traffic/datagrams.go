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

const (
	// window is how many datagrams of a client are under way at a time.
	window = 2
	// lostAfter is when datagrams of a client count as lost and others are sent in their place.
	lostAfter = 200 * time.Millisecond
)

// Datagrams sends datagrams to the target from load.Parallel sockets and counts those that come back: each socket has
// window of them under way. One that is lost counts as an error.
func Datagrams(ctx context.Context, load Load) (Result, error) {
	if load.Threads < 1 || load.Parallel < load.Threads {
		return Result{}, fmt.Errorf("%d sockets on %d threads: at least 1 each", load.Parallel, load.Threads)
	}
	group, ctx := errgroup.WithContext(ctx)
	clients := make([]*datagramClient, load.Threads)
	for i := range clients {
		clients[i] = &datagramClient{load: load, first: i}
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

// datagramClient is one thread of Datagrams: it has every Threads-th socket.
type datagramClient struct {
	load   Load
	first  int
	poller *poller
	batch  *batch
	begin  time.Time
	flows  map[int]*datagramFlow
	times  []time.Duration
	result Result
}

type datagramFlow struct {
	generation uint32 // of the datagrams that count; older ones are lost
	waiting    int    // how many are under way
	heard      time.Time
}

func (c *datagramClient) run(ctx context.Context) error {
	var err error
	if c.poller, err = newPoller(); err != nil {
		return err
	}
	defer c.poller.close()
	c.batch, c.begin, c.flows = newBatch(false), time.Now(), map[int]*datagramFlow{}
	defer func() {
		for fd := range c.flows {
			closeFD(fd)
		}
	}()
	for i := c.first; i < c.load.Parallel; i += c.load.Threads {
		if err := c.open(i); err != nil {
			return err
		}
	}
	swept := c.begin
	for ctx.Err() == nil && time.Since(c.begin) < c.load.Duration {
		events, err := c.poller.wait()
		if err != nil {
			return err
		}
		now := time.Now()
		for _, e := range events {
			if err := c.step(int(e.Fd), now); err != nil {
				return err
			}
		}
		if now.Sub(swept) > lostAfter/4 {
			swept = now
			c.sweep(now)
		}
	}
	c.result.Seconds = time.Since(c.begin).Seconds()
	return ctx.Err()
}

func (c *datagramClient) open(i int) error {
	var local netip.AddrPort
	if n := len(c.load.Sources); n > 0 {
		local = netipPort(c.load.Sources[i%n])
	}
	fd, err := datagramSocket(local, c.load.Target)
	if err != nil {
		return err
	}
	f := &datagramFlow{heard: time.Now()}
	c.flows[fd] = f
	if err := c.poller.add(fd, unix.EPOLLIN); err != nil {
		return fmt.Errorf("watch datagrams: %w", err)
	}
	c.send(fd, f, window)
	return nil
}

// send sends n more; what the system refuses is found lost later.
func (c *datagramClient) send(fd int, f *datagramFlow, n int) {
	sent := int64(time.Since(c.begin))
	for i := range n {
		c.batch.stamp(i, sent, f.generation)
	}
	f.waiting += n
	_, _ = c.batch.send(fd, n)
}

// step takes what has come back and sends as many again. A port that nobody listens on is an error of the load.
func (c *datagramClient) step(fd int, now time.Time) error {
	f := c.flows[fd]
	n, err := c.batch.receive(fd)
	switch {
	case again(err):
		return nil
	case errors.Is(err, unix.ECONNREFUSED):
		c.result.fail(err)
		if c.result.Errors >= maxErrors {
			return fmt.Errorf("%d datagrams failed, the first: %s", c.result.Errors, c.result.FirstError)
		}
		return nil
	case err != nil:
		return fmt.Errorf("receive datagrams: %w", err)
	}
	f.heard = now
	since, good := now.Sub(c.begin), 0
	for i := range n {
		sent, generation, ok := c.batch.stamped(i)
		if !ok || generation != f.generation {
			continue
		}
		good++
		c.times = append(c.times, since-time.Duration(sent))
	}
	c.result.Operations += int64(good)
	c.result.Bytes += int64(good) * MessageSize
	f.waiting -= good
	if good > 0 {
		c.send(fd, f, good)
	}
	return nil
}

// sweep counts as lost what has not come back for too long, and begins anew.
func (c *datagramClient) sweep(now time.Time) {
	for fd, f := range c.flows {
		if f.waiting == 0 || now.Sub(f.heard) < lostAfter {
			continue
		}
		for range f.waiting {
			c.result.fail(fmt.Errorf("no answer within %v", lostAfter))
		}
		f.generation++
		f.waiting, f.heard = 0, now
		c.send(fd, f, window)
	}
}
