// Package daemon is what the programs of daemons share: their flags' faults, their end, their metrics, and the addresses that
// stand for others.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"bigpipe/cmd/internal/version"
	"bigpipe/dataplane"
)

// Exit statuses of a daemon.
const (
	// ExitStopped: it was told to stop.
	ExitStopped = 0
	// ExitFailed: it could not begin or go on.
	ExitFailed = 1
	// ExitUsage: it was called in a wrong way, or a file that it was given has faults.
	ExitUsage = 2
)

// Context returns a context that ends when the process is told to end; a second signal ends the process at once.
func Context() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Program is a daemon to its user.
type Program struct {
	Name, Description string
	Stdout, Stderr    io.Writer
}

// Parse reads args into flags, a pointer to a struct with tags for kong. It returns false when the program is over, with its
// exit status: help or the version was printed, or args have a fault.
func (p Program) Parse(flags any, args []string) (status int, goOn bool) {
	status = -1
	parser, err := kong.New(flags, kong.Name(p.Name), kong.Description(p.Description), kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(n int) { status = n }), kong.Vars{"version": version.String()})
	if err == nil {
		_, err = parser.Parse(args)
	}
	switch {
	case status >= 0:
		return status, false
	case err != nil:
		return p.Fail(ExitUsage, err), false
	}
	return 0, true
}

// Fail tells the user why the program ends and returns the exit status.
func (p Program) Fail(status int, err error) int {
	_, _ = fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err) // nobody is left to tell if that fails
	return status
}

// Mapping says where addresses of a configuration are bound or dialled instead.
type Mapping struct {
	// Pairs are REAL=LOCAL; Files hold such pairs, one a line.
	Pairs, Files []string
	// Only refuses addresses that are not mapped.
	Only bool
}

// Read returns the mapping for a dataplane. All faults are reported.
func (m Mapping) Read() (*dataplane.AddressMap, error) {
	addresses := &dataplane.AddressMap{Only: m.Only}
	var faults []error
	for _, pairs := range m.Pairs {
		faults = append(faults, addresses.Add(pairs))
	}
	for _, path := range m.Files {
		if err := readPairs(addresses, path); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", path, err))
		}
	}
	return addresses, errors.Join(faults...)
}

func readPairs(addresses *dataplane.AddressMap, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	return addresses.Read(file)
}
