package handover

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const test Kind = 16

// pair returns the two ends of a connection.
func pair(t *testing.T) (giver, taker *Conn) {
	t.Helper()
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		c, _ := l.Accept(func(err error) { t.Error(err) })
		accepted <- c
	}()
	if taker, err = Dial(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	giver = <-accepted
	t.Cleanup(func() {
		giver.Close()
		taker.Close()
	})
	return giver, taker
}

func TestMessages(t *testing.T) {
	giver, taker := pair(t)
	if giver.PID() != os.Getpid() || taker.PID() != os.Getpid() {
		t.Errorf("processes %d and %d", giver.PID(), taker.PID())
	}
	files := make([]*os.File, MaxFiles)
	for i := range files {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = os.Open(path); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	for _, payload := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("y"), MaxPayload)} {
		if err := giver.Send(test, payload, files...); err != nil {
			t.Fatal(err)
		}
		m, err := taker.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != test || !bytes.Equal(m.Payload, payload) || len(m.Files) != MaxFiles {
			t.Fatalf("kind %d, %d bytes, %d files", m.Kind, len(m.Payload), len(m.Files))
		}
		for i, f := range m.Files {
			b := make([]byte, 8)
			if n, _ := f.ReadAt(b, 0); string(b[:n]) != fmt.Sprint(i) {
				t.Errorf("file %d is %q", i, b[:n])
			}
		}
		m.Close()
	}
	if giver.Send(test, make([]byte, MaxPayload+1)) == nil || giver.Send(test, nil, make([]*os.File, MaxFiles+1)...) == nil {
		t.Error("what is too large is sent")
	}
	giver.Refuse(errors.New("busy"))
	if _, err := taker.Receive(); !errors.Is(err, Refused("busy")) {
		t.Errorf("refused: %v", err)
	}
	taker.Within(time.Millisecond)
	if _, err := taker.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing comes: %v", err)
	}
	taker.Within(0)
	giver.Close()
	if _, err := taker.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

func TestNobody(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNobody) {
		t.Errorf("no socket: %v", err)
	}
	for range 2 { // one that is left over is replaced
		l, err := Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNobody) {
		t.Errorf("nobody listens: %v", err)
	}
	if Alive(t.Context(), dir) {
		t.Error("nobody is alive")
	}
	info, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Who is not a dataplane of this version, or not the process it says, is turned away on both sides, and the next is served.
func TestStrangers(t *testing.T) {
	hello := func(greeting string, pid int) []byte {
		return binary.BigEndian.AppendUint32(append([]byte{byte(kindHello)}, greeting...), uint32(pid))
	}
	strangers := map[string][]byte{
		"garbage":         []byte("GET / HTTP/1.1\r\n\r\n"),
		"another version": hello("bigpipe handover 9\n", os.Getpid()),
		"another process": hello(greeting, 1),
		"too much":        bytes.Repeat([]byte("z"), MaxPayload+100),
		"nothing":         nil,
	}
	for name, words := range strangers {
		t.Run("takes_"+name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := Listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			faults := make(chan error, 2)
			done := make(chan *Conn)
			go func() {
				c, _ := l.Accept(func(err error) { faults <- err })
				done <- c
			}()
			stranger, err := net.Dial("unixpacket", filepath.Join(dir, socketName))
			if err != nil {
				t.Fatal(err)
			}
			if words != nil {
				if _, err := stranger.Write(words); err != nil {
					t.Fatal(err)
				}
			}
			stranger.Close()
			<-faults
			next, err := Dial(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			next.Close()
			if c := <-done; c == nil {
				t.Error("nobody is served")
			} else {
				c.Close()
			}
			l.Close()
		})
		t.Run("gives_"+name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unixpacket"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					_, _ = c.Write(words)
					c.Close()
				}
			}()
			if c, err := Dial(context.Background(), dir); err == nil {
				c.Close()
				t.Error("it is believed")
			}
		})
	}
}

func listening(t *testing.T, network, address string) (*os.File, string) {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, err := c.(*net.UDPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		return f, c.LocalAddr().String()
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var f *os.File
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
		f, err = u.File()
	} else {
		f, err = l.(*net.TCPListener).File()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f, l.Addr().String()
}

func TestSockets(t *testing.T) {
	s := NewSockets()
	var managed []*os.File
	names := map[string]bool{}
	path := filepath.Join(t.TempDir(), "s")
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "udp": "127.0.0.1:0", "unix": path} {
		f, bound := listening(t, network, address)
		managed = append(managed, f)
		names[network+" "+bound] = true
	}
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.KeepManaged(append(managed, plain)); err == nil || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("a file that is no socket: %v", err)
	}
	given, _ := listening(t, "tcp", "127.0.0.1:0")
	s.Add("mine", given)
	left, _ := listening(t, "tcp", "127.0.0.1:0")
	s.Add("left", left)
	for name := range names {
		for range 2 { // copies
			f := s.Take("none", name)
			if f == nil {
				t.Fatalf("no %s", name)
			}
			f.Close()
		}
	}
	l, err := s.Listener("mine")
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	l.Close()
	if s.Take("mine") != nil {
		t.Error("what was given is taken twice")
	}
	if kept := s.Kept(); len(kept) != len(names) {
		t.Errorf("%v is kept", kept)
	}
	if dropped := s.Drop(); len(dropped) != 1 || dropped[0] != "left" {
		t.Errorf("%q is dropped", dropped)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the manager's socket is gone", err)
	}
	s.Close()
	var none *Sockets
	if none.Take("x") != nil || none.Kept() != nil || none.Drop() != nil {
		t.Error("nil has something")
	}
	none.Close()
}
