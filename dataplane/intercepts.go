package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/intercept"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// intercepts are what the kernel delivers to wildcard and network virtual servers, though it is for others, and the members that are
// gateways to where clients wanted to go. One dataplane of a network namespace can have any.
type intercepts struct {
	kernel intercept.Interceptor
	// marker is a file that is there while the kernel may have rules of ours; "" without a state directory. A process that is
	// killed leaves both.
	marker string
	// fault is the last error, which is logged once, refused the reason that virtual servers were given for it; "" without.
	fault, refused string
	retryAt        time.Time // when to try again; zero: not
}

const interceptMarker = "intercepting"

// open removes what a process that was killed has left.
func (x *intercepts) open(o *EngineOptions) {
	if o.StateDir == "" {
		return
	}
	x.marker = filepath.Join(o.StateDir, interceptMarker)
	if _, err := os.Stat(x.marker); err != nil {
		return
	}
	if err := intercept.Clean(); err != nil {
		o.Log.Error("cannot remove rules that intercept packets", "error", err)
		return
	}
	_ = os.Remove(x.marker)
}

// mark notes that there may be rules, before there are any.
func (x *intercepts) mark() error {
	if x.marker == "" {
		return nil
	}
	f, err := os.OpenFile(x.marker, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// close removes all rules, unless another process has them by now.
func (x *intercepts) close() error {
	err := x.kernel.Close()
	if err == nil && x.marker != "" && !x.kernel.Left() {
		_ = os.Remove(x.marker)
	}
	return err
}

// intercept makes the kernel deliver to those that listen now. What fails is why they are not in effect, and is tried again. The
// caller holds the engine's lock.
func (e *Engine) intercept() {
	var targets []intercept.Target
	var gateways []netip.Addr
	var on []*virtual
	for _, v := range e.running.Load().virtuals {
		if !v.wanted.network.IsValid() {
			continue
		}
		t := intercept.Target{Network: v.wanted.network, Port: v.wanted.port}
		if v.listener != nil {
			t.Local = v.listener.Addr().Port()
			targets = append(targets, t)
		}
		if v.udp != nil {
			t.UDP, t.Local = true, v.udp.Addr().Port()
			targets = append(targets, t)
		}
		on = append(on, v)
	}
	for _, v := range e.running.Load().virtuals {
		if v.wanted.settings.Gateway == nil {
			continue
		}
		for _, p := range v.wanted.settings.Pools {
			if p == nil {
				continue
			}
			for _, m := range p.Members() {
				if a := m.Dial.Addr(); a.IsValid() && !slices.Contains(gateways, a) {
					gateways = append(gateways, a)
				}
			}
		}
	}
	for _, a := range e.health.monitors.Ways() {
		if !slices.Contains(gateways, a) {
			gateways = append(gateways, a)
		}
	}
	var err error
	if len(targets)+len(gateways) > 0 {
		err = e.intercepts.mark()
	}
	if err == nil {
		err = e.intercepts.kernel.Set(targets)
	}
	e.intercepts.refuse(on, err)
	var faults []string
	if err != nil {
		faults = append(faults, e.intercepts.refused)
	}
	if err := e.intercepts.kernel.SetGateways(gateways); err != nil {
		faults = append(faults, "gateways: "+err.Error())
	}
	e.intercepts.retryAt = time.Time{}
	if len(faults) > 0 {
		e.intercepts.retryAt = time.Now().Add(longestPause)
	}
	fault := strings.Join(faults, "; ")
	if fault != "" && fault != e.intercepts.fault {
		e.log.Error("virtual servers for addresses of others are not whole", "reason", fault)
	}
	e.intercepts.fault = fault
}

// refuse gives virtual servers the reason why nothing is delivered to them, or takes back the one that they were given.
func (x *intercepts) refuse(on []*virtual, err error) {
	before := x.refused
	if x.refused = ""; err != nil {
		x.refused = "packets are not intercepted: " + err.Error()
	}
	for _, v := range on {
		switch {
		case err != nil:
			v.setReason(x.refused)
		case before != "" && v.reason() == before:
			v.setReason(v.wanted.reason)
		}
	}
}

// intercepted fills a plan in for a virtual server that takes what is sent to addresses of others; false if it does not.
func (r *runtime) intercepted(vs *pb.VirtualServer, p *plan, addresses *AddressMap) bool {
	network, port, ok := config.Destinations(vs)
	if !ok || addresses.Maps(netip.AddrPortFrom(network.Addr(), port)) || addresses != nil && addresses.Only {
		return false
	}
	own := network.Bits() == 0 && port != 0 // it is for this host's addresses, too
	any := netip.IPv4Unspecified()
	if network.Addr().Is6() {
		any = netip.IPv6Unspecified()
	}
	if err := forward.Impersonates(); err != nil {
		p.reason = fmt.Sprintf("what is for addresses of others is not taken without the capability CAP_NET_ADMIN: %v", err)
		if own {
			p.bind = netip.AddrPortFrom(any, port)
		}
		return true
	}
	p.network, p.port, p.settings.Intercepts = network, port, true
	p.bind = netip.AddrPortFrom(any, 0)
	if own {
		p.bind = netip.AddrPortFrom(any, port)
	}
	return true
}
