// Package e2e runs the real programs on loopback for tests: mgmtd, a dataplane, members and clients.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"bigpipe/cmd/internal/process"
)

// Site is what one test runs: mgmtd, a dataplane, and members. It is used by one goroutine at a time.
type Site struct {
	// Programs is the folder that Build filled; Dir holds sockets, state and logs.
	Programs, Dir string
	// Under are words before those that start the second dataplane, such as those of unshare(1).
	Under []string
	// Unmapped: addresses are what they are. The site has a network namespace of its own.
	Unmapped bool

	addresses *addresses
	mu        sync.Mutex // guards daemons against abort
	daemons   map[string]*process.Process
	members   map[netip.AddrPort]*Member
	jars      map[string]jar
	held      map[string]*held
	retired   []*process.Process // dataplanes that were taken over from
}

// NewSite returns a site on which nothing runs. Every ADDRESS:SERVICE of text gets a place on loopback.
func NewSite(programs, dir, text string) (*Site, error) {
	s := &Site{
		Programs: programs, Dir: dir, addresses: newAddresses(), daemons: map[string]*process.Process{},
		members: map[netip.AddrPort]*Member{}, jars: map[string]jar{}, held: map[string]*held{},
	}
	return s, s.addresses.place(text)
}

// Address is mgmtd's admin address.
func (s *Site) Address() string { return "unix://" + s.socket("mgmtd") }

// Command is a program of ours on this site, with the site's folder as home.
func (s *Site) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.Programs, program), args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "BIGPIPE_ADDRESS="+s.Address(), "HOME="+s.Dir, raceOptions)
	return cmd
}

func (s *Site) socket(name string) string { return filepath.Join(s.Dir, name+".sock") }
func (s *Site) log(name string) string    { return filepath.Join(s.Dir, name+".log") }

// Place returns where an address of the configuration lives on loopback.
func (s *Site) Place(real string) (netip.AddrPort, error) {
	addr, err := parse(real)
	if err != nil {
		return addr, err
	}
	return s.addresses.local(addr)
}

// StartDaemon starts "mgmtd", "dataplane" or "dataplane2" and waits until it listens.
func (s *Site) StartDaemon(name string, more ...string) error {
	if s.daemon(name) != nil {
		return fmt.Errorf("%s runs already", name)
	}
	return s.launch(name, more)
}

// HandOver starts another dataplane, which takes the place of the one that runs. It returns when that accepts nothing any more;
// it ends with its last connection, or with the site.
func (s *Site) HandOver() error {
	old, err := s.take("dataplane")
	if err != nil {
		return err
	}
	s.retired = append(s.retired, old)
	if err := s.launch("dataplane", []string{"--take-over"}); err != nil {
		return err
	}
	const over = `"another process has taken over" pid=%d `
	next := s.daemon("dataplane")
	return next.Await(context.Background(), startTime, func() error {
		log, err := os.ReadFile(next.Log)
		if err == nil && !strings.Contains(string(log), fmt.Sprintf(over, next.PID())) {
			err = errors.New("it has not taken over")
		}
		return err
	})
}

// launch starts a daemon, and waits until its socket accepts connections.
func (s *Site) launch(name string, more []string) error {
	args := []string{"--state-dir", filepath.Join(s.Dir, name), "--listen", "unix://" + s.socket(name)}
	switch name {
	case "mgmtd":
		args = append(args, "--dataplane", "unix://"+s.socket("dataplane"))
	case "dataplane", second:
		if s.Unmapped {
			break
		}
		file := filepath.Join(s.Dir, name+".map")
		if err := os.WriteFile(file, []byte(s.addresses.file(name == second)), 0o600); err != nil {
			return err
		}
		args = append(args, "--map-file", file, "--map-only")
	}
	words := append([]string{filepath.Join(s.Programs, strings.TrimSuffix(name, "2"))}, append(args, more...)...)
	if name == second {
		words = append(s.Under, words...)
	}
	p, err := startDaemon(words[0], name, s.socket(name), s.log(name), words[1:]...)
	if err == nil {
		s.mu.Lock()
		s.daemons[name] = p
		s.mu.Unlock()
	}
	return err
}

// second is another dataplane, which mgmtd has under the name two after StartBoth. Its virtual servers at 192.168.200.N have their
// places where those of 192.168.201.N would be.
const second = "dataplane2"

// StartBoth starts two dataplanes and mgmtd, which configures both.
func (s *Site) StartBoth() error {
	for _, name := range []string{"dataplane", second} {
		if err := s.StartDaemon(name); err != nil {
			return err
		}
	}
	return s.StartManager()
}

// StartManager starts mgmtd for both dataplanes.
func (s *Site) StartManager() error {
	return s.StartDaemon("mgmtd", "--dataplane", "two=unix://"+s.socket(second))
}

func (s *Site) daemon(name string) *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.daemons[name]
}

// PID is the process number of a daemon that runs.
func (s *Site) PID(name string) int { return s.daemon(name).PID() }

// Log returns what a daemon has printed.
func (s *Site) Log(name string) (string, error) {
	text, err := os.ReadFile(s.log(name))
	return string(text), err
}

// StopDaemon asks a daemon to end and waits for it.
func (s *Site) StopDaemon(name string) error {
	p, err := s.take(name)
	if err != nil {
		return err
	}
	return p.Stop(stopTime)
}

// KillDaemon ends a daemon with SIGKILL.
func (s *Site) KillDaemon(name string) error {
	p, err := s.take(name)
	if err != nil {
		return err
	}
	return p.Kill()
}

func (s *Site) take(name string) (*process.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.daemons[name]
	if p == nil {
		return nil, fmt.Errorf("%s does not run", name)
	}
	delete(s.daemons, name)
	return p, nil
}

// abort kills the daemons; whatever waits for them fails then. Unlike the other methods it may be called at any time.
func (s *Site) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.daemons {
		_ = p.Kill()
	}
}

// Member returns the member at an address of the configuration. It does not listen before its Start.
func (s *Site) Member(real string) (*Member, error) {
	addr, err := parse(real)
	if err != nil {
		return nil, err
	}
	if m := s.members[addr]; m != nil {
		return m, nil
	}
	place, err := s.addresses.local(addr)
	if err != nil {
		return nil, err
	}
	m := &Member{name: addr.String(), place: place}
	s.members[addr] = m
	return m, nil
}

// StartMembers starts the members at addresses of the configuration.
func (s *Site) StartMembers(reals ...string) error {
	for _, real := range reals {
		m, err := s.Member(real)
		if err != nil {
			return err
		}
		if err := m.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends everything, and reports what did not end cleanly or has crashed before.
func (s *Site) Close() error {
	var errs []error
	for _, h := range s.held {
		h.conn.Close()
	}
	for _, name := range []string{"mgmtd", "dataplane", second} {
		if s.daemon(name) != nil {
			errs = append(errs, s.StopDaemon(name))
		}
		errs = append(errs, fault(s.log(name)))
	}
	for _, p := range s.retired {
		errs = append(errs, p.Stop(stopTime))
	}
	for _, m := range s.members {
		m.Stop()
	}
	return errors.Join(errs...)
}
