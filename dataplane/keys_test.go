package dataplane

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	pb "bigpipe/proto/bigpipe/v1"
)

// safeText collects a log.
type safeText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safeText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *safeText) count(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), part)
}

// cookieKeys is a configuration with key files, named after themselves.
func cookieKeys(paths ...string) *pb.Object {
	g := &pb.Global{}
	for _, path := range paths {
		g.CookieKeys = append(g.CookieKeys, &pb.CookieKey{Name: filepath.Base(path), File: path})
	}
	return object(g)
}

// Rule C-9: the files of keys are read with each update; each that is none is named, and the others count.
func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(t *testing.T, name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digits := strings.Repeat("01", 32)
	good := write(t, "good", digits+"\n", 0o600)
	other := write(t, "other", strings.Repeat("02", 32), 0o440)
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "cookie_key none: open " + dir + "/none: no such file or directory"},
		{"folder", dir, "not a regular file"},
		{"pipe_without_a_writer", fifo, "not a regular file"},
		{"short", write(t, "short", digits[1:], 0o600), "a key is 64 hexadecimal digits"},
		{"empty", write(t, "empty", "", 0o600), "a key is 64 hexadecimal digits"},
		{"too_long", write(t, "long", digits+strings.Repeat("\n", longestKeyFile), 0o600), "too long for a key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, "", mapped)
			s.apply(cookieKeys(good, tt.path, other))
			reason := s.engine.running.Load().faults["global"]
			if !strings.Contains(reason, tt.want) || !strings.HasPrefix(reason, "cookie_key "+filepath.Base(tt.path)+": ") {
				t.Errorf("reason %q, want %q", reason, tt.want)
			}
			if n := len(s.engine.keys.read); n != 2 {
				t.Errorf("%d keys", n)
			}
			// What was repaired is no fault any more.
			s.apply(cookieKeys(good, other))
			if reason := s.engine.running.Load().faults["global"]; reason != "" {
				t.Errorf("reason %q", reason)
			}
		})
	}
	t.Run("anybody_may_read_it", func(t *testing.T) {
		var log safeText
		s := newLoggedSite(t, "", mapped, slog.New(slog.NewTextHandler(&log, nil)))
		exposed := write(t, "exposed", digits, 0o644)
		warned := func(want int) {
			t.Helper()
			if n := log.count("anybody may read or write a cookie key"); n != want || n != log.count("file="+exposed+" mode=-rw-r--r--") {
				t.Errorf("warned %d times, want %d", n, want)
			}
			if len(s.engine.keys.read) != 2 || s.engine.running.Load().faults["global"] != "" {
				t.Error("the key is not in use")
			}
		}
		s.apply(cookieKeys(exposed, other))
		warned(1)
		s.apply(cookieKeys(other, exposed)) // the next update says nothing new
		warned(1)
		write(t, "exposed", digits, 0o640)
		s.apply(cookieKeys(exposed, other))
		warned(1)
		write(t, "exposed", digits, 0o644)
		s.apply(cookieKeys(other, exposed))
		warned(2)
	})
}
