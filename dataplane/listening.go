package dataplane

import (
	"context"
	"iter"
	"net/netip"
	"os"
	"time"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/handover"
)

// endpoint is a listener for connections or for datagrams.
type endpoint interface {
	File() (*os.File, error)
	Pause()
	Resume()
	Retire(grace time.Duration)
	Drain(ctx context.Context)
}

var (
	_ endpoint = (*forward.Listener)(nil)
	_ endpoint = (*forward.UDPListener)(nil)
)

// openTCP returns a listener on a socket that this process was given, or on a new one. It accepts unless the engine is paused.
func (v *virtual) openTCP(e *Engine) (*forward.Listener, error) {
	l, err := open(v, e, "tcp", func(file *os.File) (*forward.Listener, error) {
		return forward.ListenOn(e.connections, file, v.wanted.settings)
	})
	if l == nil && err == nil {
		l, err = forward.Listen(e.connections, v.wanted.bind, v.wanted.settings)
		if err == nil && e.paused {
			l.Pause()
		}
	}
	return l, err
}

// openUDP does the same for datagrams.
func (v *virtual) openUDP(e *Engine) (*forward.UDPListener, error) {
	l, err := open(v, e, "udp", func(file *os.File) (*forward.UDPListener, error) {
		return forward.ListenUDPOn(e.connections, file, v.wanted.datagrams())
	})
	if l == nil && err == nil {
		l, err = forward.ListenUDP(e.connections, v.wanted.bind, v.wanted.datagrams())
		if err == nil && e.paused {
			l.Pause()
		}
	}
	return l, err
}

// open makes a listener of a socket that this process was given; nil if there is none that can be used.
func open[L endpoint](v *virtual, e *Engine, network string, listenOn func(*os.File) (L, error)) (l L, err error) {
	bind := v.wanted.bind
	file := e.sockets.Take(socketName(network, v.address, bind), boundName(network, bind))
	if file == nil {
		return l, nil
	}
	defer func() { _ = file.Close() }() // the listener has a copy
	given, err := listenOn(file)
	if err != nil {
		e.log.Warn("a socket that was given cannot be used", "virtual", v.address, "bind", bind, "network", network, "error", err)
		return l, nil
	}
	if !e.paused {
		given.Resume()
	}
	return given, nil
}

// endpoints returns what listens, by network.
func (v *virtual) endpoints() iter.Seq2[string, endpoint] {
	return func(yield func(string, endpoint) bool) {
		if v.listener != nil && !yield("tcp", v.listener) {
			return
		}
		if v.udp != nil {
			yield("udp", v.udp)
		}
	}
}

func (r *runtime) endpoints() []endpoint {
	var list []endpoint
	for _, v := range r.virtuals {
		for _, l := range v.endpoints() {
			list = append(list, l)
		}
	}
	return list
}

// sockets returns copies of the sockets of a virtual server, which the caller closes.
func (v *virtual) sockets() (list []handover.Socket, err error) {
	for network, l := range v.endpoints() {
		file, err := l.File()
		if err != nil {
			return list, err
		}
		list = append(list, handover.Socket{Name: socketName(network, v.address, v.wanted.bind), File: file})
	}
	return list, nil
}

// socketName names the socket of a virtual server: its network, its address in the configuration, and what is to be bound.
func socketName(network, virtual string, bind netip.AddrPort) string {
	return "virtual " + network + " " + virtual + " " + bind.String()
}

// boundName names a socket by what it is bound to.
func boundName(network string, bind netip.AddrPort) string { return network + " " + bind.String() }
