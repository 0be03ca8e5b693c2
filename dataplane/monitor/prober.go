package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prober probes the network.
type prober struct {
	connects *connects
	ctx      context.Context //nolint:containedctx // it ends what is in progress
	cancel   context.CancelFunc
	running  sync.WaitGroup
	icmp     func() error // why nothing can be pinged; nil: it can
	through  func(node netip.Addr) (mark uint32)
}

// NewProber returns the prober of the network. Through tells the mark that sends packets through a node (see package intercept); zero
// while none does. Nil is for those that look through none. The error says that this machine has no descriptors left.
func NewProber(through func(node netip.Addr) (mark uint32)) (Prober, error) {
	c, err := newConnects()
	if err != nil {
		return nil, fmt.Errorf("monitors: %w", err)
	}
	p := &prober{connects: c, icmp: sync.OnceValue(pings), through: through}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Close implements Prober.
func (p *prober) Close() {
	p.cancel()
	p.running.Wait()
	p.connects.close()
}

// Prepare implements Prober.
func (p *prober) Prepare(spec *Spec) (Probe, error) {
	a := &active{prober: p, spec: *spec}
	if spec.Recv != "" {
		var err error
		if a.recv, err = regexp.Compile("(?s)" + spec.Recv); err != nil {
			return nil, fmt.Errorf("recv: %w", err)
		}
	}
	if spec.Via.IsValid() {
		if err := routes(); err != nil {
			return nil, fmt.Errorf("transparent needs the capability CAP_NET_ADMIN: %w", err)
		}
	}
	a.send = unescape(spec.Send)
	switch spec.Kind {
	case ICMP:
		if err := p.icmp(); err != nil {
			return nil, fmt.Errorf("icmp needs the capability CAP_NET_RAW, or a group in net.ipv4.ping_group_range: %w", err)
		}
		a.run = a.ping
	case TCP:
		if len(a.send) == 0 && a.recv == nil && spec.Via.IsValid() {
			a.run = a.connect
			break
		}
		if len(a.send) == 0 && a.recv == nil {
			return &connectProbe{connects: p.connects, to: spec.Dial}, nil
		}
		a.run = a.talk
	case Echo:
		a.run = a.echo
	case UDP:
		a.run = a.datagram
	case HTTP, HTTPS, Healer:
		a.send = request(spec)
		a.run = a.page
	case External:
		a.run = a.program
	}
	return a, nil
}

// active is a probe that has a goroutine while it is in progress.
type active struct {
	prober *prober
	spec   Spec
	send   []byte
	recv   *regexp.Regexp
	run    func(ctx context.Context) error
	said   atomic.Uint32 // see Weigher
}

// Weight implements [Weigher].
func (a *active) Weight() uint32 { return a.said.Load() }

// Start implements Probe.
func (a *active) Start(deadline time.Time, done func(error)) {
	a.prober.running.Go(func() {
		ctx, cancel := context.WithDeadline(a.prober.ctx, deadline)
		defer cancel()
		err := a.run(ctx)
		if errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) {
			err = context.Cause(ctx)
		}
		done(plain(err))
	})
}

// plain says shortly what went wrong.
func plain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return errLate
	}
	for _, local := range [...]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		if errors.Is(err, local) {
			return fmt.Errorf("%w: %w", ErrLocal, err)
		}
	}
	var number unix.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

var errLate = errors.New("no answer in time")

// dial connects over TCP.
func (a *active) dial(ctx context.Context) (*net.TCPConn, error) {
	var d net.Dialer
	if a.spec.Via.IsValid() {
		mark, err := a.way(ctx)
		if err != nil {
			return nil, err
		}
		d.Control = func(_, _ string, raw syscall.RawConn) error {
			fault := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark)) })
			return errors.Join(fault, err)
		}
	}
	c, err := d.DialContext(ctx, "tcp", a.spec.Dial.String())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	tcp := c.(*net.TCPConn)
	_ = tcp.SetLinger(0) // a check leaves nothing behind
	return tcp, nil
}

// routes returns why this process may send nothing through nodes; nil: it may.
func routes() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1)
}

// ready is how long a check waits for the way through a node, which is made after the check.
const ready = time.Second

// way returns the mark of what goes through the node.
func (a *active) way(ctx context.Context) (mark uint32, err error) {
	for tries := ready / beat; tries > 0; tries-- {
		if a.prober.through != nil {
			mark = a.prober.through(a.spec.Via)
		}
		if mark != 0 {
			return mark, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(beat):
		}
	}
	return 0, fmt.Errorf("nothing can be sent through %s", a.spec.Via)
}

// connect only connects.
func (a *active) connect(ctx context.Context) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}

// closing closes c when ctx ends, or at the returned function.
func closing(ctx context.Context, c interface{ Close() error }) (stop func()) {
	cancel := context.AfterFunc(ctx, func() { _ = c.Close() })
	return func() {
		cancel()
		_ = c.Close()
	}
}
