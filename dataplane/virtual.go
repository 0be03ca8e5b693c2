package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// virtual is a virtual server as it runs. It lives as long as one of its address is configured.
type virtual struct {
	address  string // as configured
	counters *pool.Counters
	why      atomic.Pointer[string] // why it is not in effect; nil: it is

	// The fields below are guarded by the engine's lock.

	wanted   plan
	listener *forward.Listener    // nil while it does not listen for connections
	udp      *forward.UDPListener // nil while it does not listen for datagrams
	retryAt  time.Time            // when to try again to listen; zero: not
	pause    time.Duration
	held     netip.Addr // the address that it needs; invalid: none
}

// plan is what one configuration makes of a virtual server.
type plan struct {
	settings forward.Settings
	idleUDP  time.Duration  // ends flows of UDP
	bind     netip.AddrPort // where to listen; invalid: not at all
	tcp, udp bool           // what to listen for
	network  netip.Prefix   // the destinations, where they are others'; else invalid
	port     uint16         // their port; 0: all
	// reason says what cannot be in effect, whatever the host looks like.
	reason string
}

// Pauses between attempts to listen.
const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 4 * time.Second
	// longestWatched is longestPause where the address is missing and its arrival is noticed.
	longestWatched = 30 * time.Second
)

// notAvailable is why a virtual server is not in effect whose address the host does not have.
const notAvailable = "address not available"

func (v *virtual) reason() string {
	if why := v.why.Load(); why != nil {
		return *why
	}
	return ""
}

func (v *virtual) setReason(reason string) {
	if reason == "" {
		v.why.Store(nil)
		return
	}
	v.why.Store(&reason)
}

// plan compiles a virtual server, v where it runs.
func (r *runtime) plan(vs *pb.VirtualServer, v *virtual, addresses *AddressMap, shares *shares) plan {
	addr, err := netip.ParseAddrPort(vs.GetAddress())
	if err != nil {
		return plan{reason: "virtual servers of a VLAN are not supported"}
	}
	if vs.GetForward() {
		return plan{reason: "forwarding virtual servers are not supported"}
	}
	p := plan{settings: r.settings(vs, unmapped(addr), v.counters)}
	p.settings.Shared = shares.of(r.view, unmapped(addr))
	if p.reason = r.choice(vs, &p.settings, v.wanted.settings.Rule); p.reason != "" {
		return p
	}
	if vs.GetTransparent() {
		if err := forward.Impersonates(); err != nil {
			p.reason = fmt.Sprintf("transparent needs the capability CAP_NET_ADMIN or CAP_NET_RAW: %v", err)
			return p
		}
	}
	enabled, _ := config.VirtualEnabled(r.view, vs)
	p.tcp, p.udp = config.Listening(r.view, vs)
	if !enabled || !p.tcp && !p.udp {
		return p
	}
	p.idleUDP = config.IdleUDP(r.view, vs)
	if r.intercepted(vs, &p, addresses) {
		return p
	}
	if addr.Port() == 0 && !addresses.Maps(addr) {
		p.reason = "all ports of one address of this host cannot be taken"
		return p
	}
	if p.bind, err = addresses.Local(addr); err != nil {
		p.reason = err.Error()
	}
	return p
}

func (r *runtime) settings(vs *pb.VirtualServer, addr netip.AddrPort, counters *pool.Counters) forward.Settings {
	s := forward.Settings{
		Virtual:        addr,
		HeaderTimeout:  time.Duration(vs.GetHeaderTimeout()) * time.Second,
		IdleTimeout:    config.IdleTCP(r.view, vs),
		BodyMinRate:    forward.DefaultBodyMinRate,
		XForwardedFor:  vs.GetXForwardedFor(),
		OneConnect:     oneConnect(vs),
		TrustedProxies: config.TrustedProxiesOf(vs),
		Limit:          vs.GetLimit(),
		SourceLimit:    vs.GetSourceLimit(),
		Counters:       counters,
		ProxyProtocol:  vs.GetProxyProtocol() == pb.ProxyProtocol_PROXY_PROTOCOL_V2,
		Transparent:    vs.GetTransparent(),
		SplitSticks:    vs.GetSplitSticks(),
		KeepPort:       vs.TranslatePort != nil && !vs.GetTranslatePort(),
	}
	if vs.TranslateAddr != nil && !vs.GetTranslateAddr() {
		s.Gateway = r.gateway
	}
	s.HTTP, _ = config.IsHTTP(r.view, vs)
	if vs.BodyMinRate != nil {
		s.BodyMinRate = int(vs.GetBodyMinRate())
	}
	return s
}

// Limits of shared server connections that a virtual server does not set (rule O-8).
const (
	oneConnectMaxSize  = 10000
	oneConnectMaxReuse = 1000
	oneConnectMaxAge   = 86400 // seconds
)

// oneConnect says how connections to members are shared; nil: they are not.
func oneConnect(vs *pb.VirtualServer) *forward.OneConnect {
	if !vs.GetOneconnect() {
		return nil
	}
	or := func(configured *uint32, otherwise uint32) int {
		if configured == nil {
			return int(otherwise)
		}
		return int(*configured)
	}
	one := &forward.OneConnect{
		MaxSize:  or(vs.OneconnectMaxSize, oneConnectMaxSize),
		MaxReuse: or(vs.OneconnectMaxReuse, oneConnectMaxReuse),
		MaxAge:   time.Duration(or(vs.OneconnectMaxAge, oneConnectMaxAge)) * time.Second,
		Share:    vs.GetOneconnectSharePools(),
	}
	mask := config.OneconnectMaskOf(vs)
	one.SourceMask, _ = persist.NewMask(mask.Bits4, mask.Bits6) // the lengths always fit
	return one
}

// choice sets how connections come to pools, and returns why they cannot. Previous is the rule that chose before, or nil.
func (r *runtime) choice(vs *pb.VirtualServer, s *forward.Settings, previous *rule.Rule) string {
	names := []string{}
	switch pools := vs.GetPools(); {
	case vs.GetRule() != "":
		if s.Rule = r.rules[vs.GetRule()]; s.Rule == nil {
			return fmt.Sprintf("rule %s is not in effect", vs.GetRule())
		}
		s.ByRule, names = true, s.Rule.Pools()
	case len(pools) == 1:
		names = append(names, pools[0].GetPool())
	case len(pools) > 1:
		split, err := rule.CompileUse(pools, previous)
		if err != nil {
			return err.Error()
		}
		s.Rule, names = split, split.Pools()
	default:
		return "it uses no pool"
	}
	for _, name := range names {
		s.Pools = append(s.Pools, r.pools[name])
	}
	s.PerRequest = s.HTTP && (s.OneConnect != nil || s.Rule != nil && s.Rule.Splits() || slices.ContainsFunc(s.Pools, (*pool.Pool).PerRequest))
	return ""
}

// follow makes the plan true, whose address is held: it listens, goes on with other settings, or stops. What happened to an
// address that could not be bound is in the reason.
func (v *virtual) follow(p plan, e *Engine) {
	moves := v.wanted.bind != p.bind
	v.wanted = p
	if moves || !p.tcp {
		v.stopTCP(e)
	}
	if moves || !p.udp {
		v.stopUDP(e)
	}
	e.holds.release(v.held)
	if v.held = (netip.Addr{}); p.bind.IsValid() {
		v.held = p.bind.Addr().Unmap()
	}
	if v.listener != nil {
		v.listener.Set(p.settings)
	}
	if v.udp != nil {
		v.udp.Set(p.datagrams())
	}
	switch {
	case !p.bind.IsValid():
		v.retryAt, v.pause = time.Time{}, 0
		v.setReason(p.reason)
	case !v.listening():
		v.retryAt, v.pause = time.Time{}, 0
		v.listen(e)
	case v.reason() != notAvailable:
		v.setReason(p.reason)
	}
}

// datagrams are the settings for UDP.
func (p *plan) datagrams() forward.Settings {
	s := p.settings
	s.IdleTimeout = p.idleUDP
	return s
}

// listening reports whether it listens for all that it should.
func (v *virtual) listening() bool {
	return (v.listener != nil || !v.wanted.tcp) && (v.udp != nil || !v.wanted.udp)
}

// listen tries to listen as planned, and sets when to try again if that fails. Each reason is logged once.
func (v *virtual) listen(e *Engine) {
	var tcp, udp error
	if v.wanted.tcp && v.listener == nil {
		v.listener, tcp = v.openTCP(e)
	}
	if v.wanted.udp && v.udp == nil {
		v.udp, udp = v.openUDP(e)
	}
	if tcp == nil && udp == nil {
		v.retryAt, v.pause = time.Time{}, 0
		v.setReason(v.wanted.reason)
		return
	}
	longest := longestPause
	if (errors.Is(tcp, unix.EADDRNOTAVAIL) || errors.Is(udp, unix.EADDRNOTAVAIL)) && e.presence.watch.Works() {
		longest = longestWatched
	}
	v.pause = min(max(2*v.pause, shortestPause), longest)
	v.retryAt = time.Now().Add(v.pause)
	reason := bindReasons(tcp, udp)
	if reason != v.reason() {
		e.log.Warn("virtual server is not in effect", "virtual", v.address, "bind", v.wanted.bind, "reason", reason)
	}
	v.setReason(reason)
}

// bindReasons says what keeps a virtual server from listening; UDP is named where it is alone in that.
func bindReasons(tcp, udp error) string {
	switch {
	case udp == nil:
		return bindReason(tcp)
	case tcp == nil:
		return "udp: " + bindReason(udp)
	case bindReason(tcp) == bindReason(udp):
		return bindReason(tcp)
	}
	return bindReason(tcp) + "; udp: " + bindReason(udp)
}

func bindReason(err error) string {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return notAvailable
	case errors.Is(err, unix.EADDRINUSE):
		return "address in use"
	}
	return err.Error()
}

// stop ends listening.
func (v *virtual) stop(e *Engine) {
	v.stopTCP(e)
	v.stopUDP(e)
}

func (v *virtual) stopTCP(e *Engine) {
	if l := v.listener; l != nil {
		v.listener = nil
		v.retire(l, e)
	}
}

func (v *virtual) stopUDP(e *Engine) {
	if l := v.udp; l != nil {
		v.udp = nil
		v.retire(l, e)
	}
}

// retire lets open connections drain, owned by the engine, which holds their address until then.
func (v *virtual) retire(l endpoint, e *Engine) {
	held := v.held
	if held.IsValid() {
		e.holds.take([]netip.Addr{held})
	}
	e.drains.add(l, func() { e.holds.release(held) })
}

// drain is stop for good.
func (v *virtual) drain(e *Engine) {
	v.retryAt = time.Time{}
	v.stop(e)
	e.holds.release(v.held)
	v.held = netip.Addr{}
}
