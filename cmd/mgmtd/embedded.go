package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"bigpipe/dataplane"
)

// embedded is a dataplane in this process. Its service is on a socket of its own, so that the push is the same as to any
// other.
type embedded struct {
	address string
	dir     string
	options dataplane.Options
}

// embed prepares the dataplane of --embedded; nil without it.
func (p *program) embed(addresses *dataplane.AddressMap) (*embedded, error) {
	if !p.flags.Embedded {
		return nil, nil
	}
	o := dataplane.Options{}
	o.StateDir, o.Log = filepath.Join(p.flags.StateDir, "dataplane"), p.log
	o.Addresses, o.AssignDevice = addresses, p.flags.AssignAddresses
	dir, err := os.MkdirTemp("", "mgmtd-") // mode 0700: nobody else can speak to it
	if err != nil {
		return nil, err
	}
	e := &embedded{dir: dir, options: o}
	path := filepath.Join(dir, "dataplane.sock")
	e.address = "unix://" + path
	if e.options.Listener, err = net.Listen("unix", path); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return e, nil
}

// run is the dataplane; it ends with ctx.
func (e *embedded) run(ctx context.Context, ready func(*dataplane.Engine)) error {
	e.options.Ready = ready
	if err := dataplane.Run(ctx, e.options); err != nil {
		return fmt.Errorf("dataplane: %w", err)
	}
	return nil
}

// remove closes and removes the socket.
func (e *embedded) remove() {
	if e != nil {
		_ = e.options.Listener.Close() // closed already where it ran
		_ = os.RemoveAll(e.dir)        // a folder in the system's place for such, empty by now
	}
}
