package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What systemd is told: ready with the main process, signs of life, the end; and nothing after Silence.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "2000")
	hear := func() string {
		b := make([]byte, 200)
		l.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := Notify(ctx, slog.New(slog.DiscardHandler))
	if got, want := hear(), fmt.Sprintf("READY=1\nMAINPID=%d", os.Getpid()); got != want {
		t.Errorf("it says %q", got)
	}
	until := func(want string) {
		t.Helper()
		for {
			switch got := hear(); {
			case strings.HasPrefix(got, want):
				return
			case got != "WATCHDOG=1":
				t.Fatalf("it says %q, want %q", got, want)
			}
		}
	}
	until("WATCHDOG=1")
	n.Reloading()
	until("RELOADING=1\nMONOTONIC_USEC=")
	n.Ready()
	until("READY=1")
	cancel()
	until("STOPPING=1")
	n.Silence()
	n.Silence()
	for err == nil { // what was said before
		l.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = l.Read(make([]byte, 200))
	}
	l.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := l.Read(make([]byte, 200)); err == nil {
		t.Errorf("%d bytes after silence", n)
	}
	(*Notifier)(nil).Silence()
}
