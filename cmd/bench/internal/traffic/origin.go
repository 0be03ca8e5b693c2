package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Origin answers Exchange, Stream, Get and Hello on its addresses, and sends datagrams back.
type Origin struct {
	loops []*originLoop
}

// Listen opens the addresses, each once for every thread. A port must be given: the threads share it.
func Listen(addrs []netip.AddrPort, threads int) (*Origin, error) {
	if threads < 1 {
		return nil, fmt.Errorf("%d threads: at least 1", threads)
	}
	o := &Origin{}
	for range threads {
		loop, err := newOriginLoop(addrs)
		if err != nil {
			o.Close()
			return nil, err
		}
		o.loops = append(o.loops, loop)
	}
	return o, nil
}

// Serve answers until ctx ends, then closes everything.
func (o *Origin) Serve(ctx context.Context) error {
	defer o.Close()
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range o.loops {
		group.Go(func() error { return loop.run(ctx) })
	}
	return group.Wait()
}

// Close closes the listeners and all connections. Not while Serve runs.
func (o *Origin) Close() {
	for _, loop := range o.loops {
		loop.close()
	}
	o.loops = nil
}

// originLoop is one thread: its listeners and the connections that it accepted.
type originLoop struct {
	*poller
	listeners map[int]bool
	datagrams map[int]bool   // sockets for datagrams
	open      map[int]state  // the accepted connections
	rests     map[int][]byte // by connection: the beginning of a request's head
	batch     *batch
	buffer    []byte // what is sent; its contents do not matter
	scratch   []byte // what was received
}

// state is what a connection waits for.
type state int

const (
	accepted  state = iota // its request may be there already
	requested              // watched until its request comes
	streaming              // watched until it takes more bytes
)

func newOriginLoop(addrs []netip.AddrPort) (*originLoop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &originLoop{
		poller: p, listeners: map[int]bool{}, datagrams: map[int]bool{}, open: map[int]state{}, rests: map[int][]byte{}, batch: newBatch(true),
		buffer: make([]byte, streamChunk), scratch: make([]byte, 4096),
	}
	for _, a := range addrs {
		fd, err := listen(a)
		if err != nil {
			l.close()
			return nil, err
		}
		l.listeners[fd] = true
		if err := l.add(fd, unix.EPOLLIN); err != nil {
			l.close()
			return nil, fmt.Errorf("watch %v: %w", a, err)
		}
		if fd, err = datagramSocket(a, netip.AddrPort{}); err != nil {
			l.close()
			return nil, err
		}
		l.datagrams[fd] = true
		if err := l.add(fd, unix.EPOLLIN); err != nil {
			l.close()
			return nil, fmt.Errorf("watch datagrams of %v: %w", a, err)
		}
	}
	return l, nil
}

func (l *originLoop) close() {
	for fd := range l.listeners {
		closeFD(fd)
	}
	for fd := range l.datagrams {
		closeFD(fd)
	}
	for fd := range l.open {
		closeFD(fd)
	}
	l.poller.close()
}

func (l *originLoop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		events, err := l.wait()
		if err != nil {
			return err
		}
		for _, e := range events {
			switch fd := int(e.Fd); {
			case l.listeners[fd]:
				if err := l.accept(fd); err != nil {
					return err
				}
			case l.datagrams[fd]:
				l.batch.echo(fd)
			default:
				l.serve(fd)
			}
		}
	}
	return nil
}

// accept takes what waits, at most 64 connections so that the open ones are not kept waiting.
func (l *originLoop) accept(listener int) error {
	for range 64 {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case again(err):
			return nil
		case errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		l.open[fd] = accepted
		l.serve(fd)
	}
	return nil
}

func (l *originLoop) drop(fd int) {
	delete(l.open, fd)
	delete(l.rests, fd)
	closeFD(fd)
}

// serve does what a connection's readiness allows; a connection that is done or broken is dropped.
func (l *originLoop) serve(fd int) {
	if l.open[fd] == streaming {
		l.stream(fd)
		return
	}
	n, err := unix.Read(fd, l.scratch)
	switch {
	case again(err):
		l.await(fd, requested, unix.EPOLLIN)
	case err == nil && n > 0 && (l.scratch[0] == Get || l.rests[fd] != nil):
		l.answer(fd, l.scratch[:n])
	case err != nil || n < MessageSize:
		l.drop(fd)
	case l.scratch[0] == Hello && n >= sessionStart+sessionSize:
		_, _ = unix.Write(fd, serverHello([sessionSize]byte(l.scratch[sessionStart:])))
		l.drop(fd)
	case l.scratch[0] == Stream:
		l.await(fd, streaming, unix.EPOLLOUT)
	default:
		// The message is small enough for an empty socket buffer.
		_, _ = unix.Write(fd, l.buffer[:MessageSize])
		l.drop(fd)
	}
}

// answer answers each GET whose head is complete, and closes where one asks for it.
func (l *originLoop) answer(fd int, data []byte) {
	if rest := l.rests[fd]; rest != nil {
		data = append(rest, data...)
		delete(l.rests, fd)
	}
	for {
		end := bytes.Index(data, headEnd)
		if end < 0 {
			break
		}
		answer, closing := keepingAnswer, bytes.Contains(data[:end], closeOption)
		if closing {
			answer = closingAnswer
		}
		data = data[end+len(headEnd):]
		// An answer is small enough for an empty socket buffer.
		if _, err := unix.Write(fd, answer); err != nil || closing {
			l.drop(fd)
			return
		}
	}
	if len(data) > 0 {
		l.rests[fd] = bytes.Clone(data)
	}
	l.await(fd, requested, unix.EPOLLIN)
}

// await watches a connection for what its next state waits for.
func (l *originLoop) await(fd int, next state, events uint32) {
	var err error
	switch l.open[fd] {
	case next:
		return
	case accepted:
		err = l.add(fd, events)
	default:
		err = l.change(fd, events)
	}
	l.open[fd] = next
	if err != nil {
		l.drop(fd)
	}
}

// stream writes one chunk, so that streams share the thread evenly.
func (l *originLoop) stream(fd int) {
	if _, err := unix.Write(fd, l.buffer); err != nil && !again(err) {
		l.drop(fd)
	}
}
