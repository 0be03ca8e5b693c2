package handover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Socket is a listening socket with a name that says what it is for.
type Socket struct {
	Name string
	File *os.File
}

// Sockets are listening sockets that a process was given. Those of a predecessor go to who takes them, once. Those of the
// service manager are kept: the manager has them open too, so nobody else could open them anew. Nil has none. Methods may be
// called from any goroutine.
type Sockets struct {
	mu    sync.Mutex
	given map[string]*os.File // guarded by mu, as kept
	kept  map[string]*os.File
}

// NewSockets has no sockets.
func NewSockets() *Sockets {
	return &Sockets{given: map[string]*os.File{}, kept: map[string]*os.File{}}
}

// Add adds a socket that is taken once. The file belongs to s from now on.
func (s *Sockets) Add(name string, file *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(s.given, name, file)
}

// Keep adds a socket of which copies are taken. The file belongs to s from now on.
func (s *Sockets) Keep(name string, file *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(s.kept, name, file)
}

func put(files map[string]*os.File, name string, file *os.File) {
	if old := files[name]; old != nil {
		_ = old.Close() // one is enough
	}
	files[name] = file
}

// KeepManaged keeps the sockets of the service manager.
func (s *Sockets) KeepManaged(files []*os.File) error {
	var faults []error
	for _, f := range files {
		name, err := nameOf(f)
		if err != nil {
			faults = append(faults, fmt.Errorf("socket %s of the service manager: %w", f.Name(), err))
			_ = f.Close()
			continue
		}
		s.Keep(name, f)
	}
	return errors.Join(faults...)
}

// Take returns the first socket that has one of the names; nil if there is none. The caller closes it.
func (s *Sockets) Take(names ...string) *os.File {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if f := s.given[name]; f != nil {
			delete(s.given, name)
			return f
		}
		if f := s.kept[name]; f != nil {
			if f, err := duplicate(f); err == nil {
				return f
			}
		}
	}
	return nil
}

// Listener is Take for a server; nil if there is none.
func (s *Sockets) Listener(names ...string) (net.Listener, error) {
	file := s.Take(names...)
	if file == nil {
		return nil, nil
	}
	defer func() { _ = file.Close() }() // the listener has a copy
	return net.FileListener(file)
}

// Kept returns the sockets that are kept, which stay with s.
func (s *Sockets) Kept() []Socket {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Socket
	for name, f := range s.kept {
		list = append(list, Socket{name, f})
	}
	return list
}

// Drop closes what was given and not taken. It returns the names.
func (s *Sockets) Drop() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, f := range s.given {
		names = append(names, name)
		_ = f.Close()
	}
	clear(s.given)
	slices.Sort(names)
	return names
}

// Close closes all that s has.
func (s *Sockets) Close() {
	if s == nil {
		return
	}
	s.Drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.kept {
		_ = f.Close()
	}
	clear(s.kept)
}

// nameOf is the network and the address that a socket is bound to, such as "tcp 10.0.0.1:80", "udp [::]:53" or
// "unix /run/bigpipe/dataplane.sock".
func nameOf(file *os.File) (string, error) {
	if l, err := net.FileListener(file); err == nil {
		defer func() {
			if u, ok := l.(*net.UnixListener); ok {
				u.SetUnlinkOnClose(false)
			}
			_ = l.Close()
		}()
		return l.Addr().Network() + " " + l.Addr().String(), nil
	}
	c, err := net.FilePacketConn(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	return c.LocalAddr().Network() + " " + c.LocalAddr().String(), nil
}

// duplicate returns another descriptor of what is open.
func duplicate(file *os.File) (copied *os.File, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	fault := raw.Control(func(from uintptr) {
		var fd int
		if fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			copied = os.NewFile(uintptr(fd), file.Name())
		}
	})
	return copied, errors.Join(fault, err)
}
