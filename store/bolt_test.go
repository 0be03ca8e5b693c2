package store_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/store"
	"bigpipe/store/storetest"
)

func TestBolt(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Opener {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "sub", "config.db")
		return func() (store.Store, error) { return store.Open(path, store.Options{}) }
	})
}

func TestOpen_modes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "config.db")
	openAndClose(t, path)
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestOpen_identities_differ(t *testing.T) {
	a, b := openAndClose(t, filepath.Join(t.TempDir(), "db")), openAndClose(t, filepath.Join(t.TempDir(), "db"))
	if a == b {
		t.Errorf("two stores have the identity %s", a)
	}
}

func openAndClose(t *testing.T, path string) (id string) {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

func TestOpen_locked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=hold", childPathEnv+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(path, store.Options{Timeout: 50 * time.Millisecond})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("a store that another process holds: %v", err)
	}
	in.Close() // ends the child; Open gets the lock while it waits
	s, err := store.Open(path, store.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestOpen_not_a_store(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "x", "text": strings.Repeat("pool web { }\n", 10000)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.db")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(path, store.Options{})
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			after, err := os.ReadFile(path)
			if err != nil || string(after) != text {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func TestOpen_no_folder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(filepath.Join(file, "config.db"), store.Options{}); err == nil {
		t.Error("opened a store below a file")
	}
}
