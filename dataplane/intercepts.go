package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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
	looked         time.Time // for the rules
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
	r, x := e.running.Load(), &e.intercepts
	targets, on := r.targets()
	gateways := r.gateways(e.health.monitors.Ways())
	var err error
	if len(targets)+len(gateways) > 0 {
		err = x.mark()
	}
	if err == nil {
		err = x.kernel.Set(targets)
	}
	x.refuse(on, err)
	var faults []string
	if err != nil {
		faults = append(faults, x.refused)
	}
	if err := x.kernel.SetGateways(gateways); err != nil {
		faults = append(faults, "gateways: "+err.Error())
	}
	x.retryAt = time.Time{}
	if len(faults) > 0 {
		x.retryAt = time.Now().Add(longestPause)
	}
	fault := strings.Join(faults, "; ")
	if fault != "" && fault != x.fault {
		e.log.Error("virtual servers for addresses of others are not whole", "reason", fault)
	}
	x.fault = fault
}

// targets are what the kernel is to deliver, and the virtual servers that it is for.
func (r *runtime) targets() (targets []intercept.Target, on []*virtual) {
	for _, v := range r.virtuals {
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
	return targets, on
}

// gateways are the members through which packets leave whatever their destination, and the ways of monitors, each once.
func (r *runtime) gateways(ways []netip.Addr) (list []netip.Addr) {
	seen := map[netip.Addr]bool{}
	add := func(a netip.Addr) {
		if a.IsValid() && !seen[a] {
			seen[a] = true
			list = append(list, a)
		}
	}
	for _, v := range r.virtuals {
		if v.wanted.settings.Gateway == nil {
			continue
		}
		for _, p := range v.wanted.settings.Pools {
			if p == nil {
				continue
			}
			for _, m := range p.Members() {
				add(m.Dial.Addr())
			}
		}
	}
	for _, a := range ways {
		add(a)
	}
	return list
}

// interceptLook is how often the kernel's rules are looked for: others may take them away.
const interceptLook = 10 * time.Second

// keepIntercepting tries again what failed, and makes anew what others have taken away. The caller holds the lock.
func (e *Engine) keepIntercepting(now time.Time) {
	x := &e.intercepts
	if !x.retryAt.IsZero() && now.After(x.retryAt) {
		e.intercept()
	}
	if now.Sub(x.looked) < interceptLook {
		return
	}
	x.looked = now
	switch missing, err := x.kernel.Repair(); {
	case err != nil:
		e.log.Error("rules that intercept packets cannot be kept", "error", err)
	case missing:
		e.log.Warn("rules that intercept packets were taken away by somebody; they are made anew")
	}
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
