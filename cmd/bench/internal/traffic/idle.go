package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
)

// openAtOnce is how many idle connections are being opened at a time.
const openAtOnce = 64

// HoldIdle opens load.Parallel connections, sends one keep-alive GET on each and reads its answer. Then it calls ready and
// keeps the connections, silent, until ctx ends.
func HoldIdle(ctx context.Context, load Load, ready func() error) error {
	conns := make([]net.Conn, load.Parallel)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	group, opening := errgroup.WithContext(ctx)
	group.SetLimit(openAtOnce)
	for i := range conns {
		if opening.Err() != nil {
			break
		}
		dialer := net.Dialer{Timeout: 5 * time.Second}
		if n := len(load.Sources); n > 0 {
			dialer.LocalAddr = net.TCPAddrFromAddrPort(netipPort(load.Sources[i%n]))
		}
		group.Go(func() error {
			conn, err := dialer.DialContext(opening, "tcp", load.Target.String())
			if err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
			conns[i] = conn
			if err := get(conn, load.Target); err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// get asks for / and reads the whole answer.
func get(conn net.Conn, host netip.AddrPort) error {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %v\r\n\r\n", host); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || answer.Close {
		return fmt.Errorf("answered %s, close %v", answer.Status, answer.Close)
	}
	return conn.SetDeadline(time.Time{})
}

// netipPort lets the system choose the port of a source address.
func netipPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 0) }
