package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Streams keeps load.Parallel streams from the origin running and counts their bytes. It throws them away without copying
// them, so that the load costs little beside the proxy. A stream that ends early is an error: none is made anew. While no
// byte has come it goes on after its time, up to stallAfter.
func Streams(ctx context.Context, load Load) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var total atomic.Int64
	var result Result
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for i := range load.Parallel {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		if n := len(load.Sources); n > 0 {
			dialer.LocalAddr = net.TCPAddrFromAddrPort(netipPort(load.Sources[i%n]))
		}
		group.Go(func() error { return stream(ctx, dialer, load.Target.String(), &total) })
	}
	group.Go(func() error {
		defer cancel()
		awaitEnd(ctx, load.Duration, &total)
		return nil
	})
	err := group.Wait()
	result.Seconds = time.Since(begin).Seconds()
	result.Bytes = total.Load()
	if err != nil {
		result.fail(err)
	}
	return result, err
}

// awaitEnd returns after duration if bytes have come, else when some come, after stallAfter, or with ctx.
func awaitEnd(ctx context.Context, duration time.Duration, total *atomic.Int64) {
	begin := time.Now()
	for wait := duration; ; wait = pollWait * time.Millisecond {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if total.Load() > 0 || time.Since(begin) >= stallAfter {
			return
		}
	}
}

// stream is one of them; it ends without an error when ctx does.
func stream(ctx context.Context, dialer net.Dialer, target string, total *atomic.Int64) error {
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	message := make([]byte, MessageSize)
	message[0] = Stream
	if _, err := conn.Write(message); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	buffer := make([]byte, streamChunk)
	for {
		var n int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			// MSG_TRUNC: TCP counts the bytes and drops them.
			n, _, readErr = unix.Recvfrom(int(fd), buffer, unix.MSG_TRUNC)
			return !errors.Is(readErr, unix.EAGAIN)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("stream: %w", err)
		case errors.Is(readErr, unix.EINTR):
		case readErr != nil:
			return fmt.Errorf("stream: %w", readErr)
		case n <= 0:
			return fmt.Errorf("stream: the proxy closed it after %d bytes", total.Load())
		default:
			total.Add(int64(n))
		}
	}
}
