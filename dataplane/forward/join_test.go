package forward

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// deaf is a member that accepts nobody until it is told to: its queue is full, so that connects wait.
type deaf struct {
	fd   int
	addr netip.AddrPort
}

func newDeaf(t *testing.T) *deaf {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{fd: fd}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	d.addr = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*unix.SockaddrInet4).Port))
	for range 3 {
		c, err := net.DialTimeout("tcp", d.addr.String(), 100*time.Millisecond)
		if err != nil {
			return d
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue is never full")
	return nil
}

// hear accepts who waits and who comes until stop is closed, and returns how many bytes they have sent.
func (d *deaf) hear(stop <-chan struct{}) (sent int) {
	var accepted []unix.PollFd
	for {
		list := append([]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}, accepted...)
		_, _ = unix.Poll(list, 20)
		if list[0].Revents != 0 {
			if fd, _, err := unix.Accept(d.fd); err == nil {
				defer unix.Close(fd)
				accepted = append(accepted, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
		for i, p := range list[1:] {
			if p.Revents == 0 {
				continue
			}
			n, _ := unix.Read(int(p.Fd), make([]byte, 100))
			if sent += max(n, 0); n <= 0 {
				accepted[i].Events = 0
			}
		}
		select {
		case <-stop:
			return sent
		default:
		}
	}
}

// TestResetMeanwhile: pain 48: a connection that is being made to a member that goes down under on_down reset is not used: the client
// is served by another member, or reset where there is none.
func TestResetMeanwhile(t *testing.T) {
	for name, http := range map[string]bool{"TCP": false, "HTTP": true} {
		for second, alone := range map[string]bool{"with_another": false, "alone": true} {
			t.Run(name+"_"+second, func(t *testing.T) {
				t.Parallel()
				d := newDeaf(t)
				o := newOrigin(t, "s1", "127.0.0.11:0", nil)
				c := &pb.Pool{Name: "p", OnDown: pb.OnDown_ON_DOWN_RESET.Enum(), Members: []*pb.Member{{Address: d.addr.String()}}}
				if !alone {
					c.Members = append(c.Members, &pb.Member{Address: o.addr.String()})
				}
				var known pool.Healths
				p, reasons := pool.Compile(c, &pool.Env{View: config.NewTree(), Table: persist.New(persist.Options{}), Health: &known}, nil)
				if len(reasons) > 0 {
					t.Fatal(reasons)
				}
				b := newLab(t, Settings{HTTP: http, Pools: []*pool.Pool{p}})
				client := b.dial()
				client.send(get())
				for p.Members()[0].Counters().Current() == 0 {
					time.Sleep(time.Millisecond)
				}
				known.SetService(d.addr, pool.Down)
				if n := b.table.Reset((*pool.Member).Over); n != 0 {
					t.Errorf("%d connections end", n)
				}
				var hearing sync.WaitGroup
				stop := make(chan struct{})
				hearing.Go(func() {
					if sent := d.hear(stop); sent > 0 {
						t.Errorf("the member that is down got %d bytes", sent)
					}
				})
				switch {
				case alone && !http:
					if text, err := client.rest(); text != "" || !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("answered %q, %v", text, err)
					}
				case alone:
					if head := client.head(); !strings.HasPrefix(head, "HTTP/1.1 503 ") {
						t.Errorf("answered %q", head)
					}
				default:
					if head := client.head(); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
						t.Errorf("answered %q", head)
					}
				}
				close(stop)
				hearing.Wait()
			})
		}
	}
}
