package config

import (
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// LbModeOf returns the mode that balances a pool: its own, else the global lb mode, else round_robin.
func LbModeOf(v View, p *pb.Pool) pb.LbMode {
	if m := p.GetLbMode(); m != 0 {
		return m
	}
	if m := Globals(v).GetLb(); m != 0 {
		return m
	}
	return pb.LbMode_LB_MODE_ROUND_ROBIN
}

// PersistModeOf returns the persistence that a pool really does: none when it says nothing, and none for simple with a
// timeout of 0 (rule B-15).
func PersistModeOf(p *pb.Pool) pb.PersistMode {
	switch m := p.GetPersistMode(); {
	case m == 0, m == pb.PersistMode_PERSIST_MODE_SIMPLE && p.GetSimpleTimeout() == 0:
		return pb.PersistMode_PERSIST_MODE_NONE
	default:
		return m
	}
}

// CookieModeOf returns a cookie pool's mode; insert when it names none.
func CookieModeOf(p *pb.Pool) pb.CookieMode {
	if m := p.GetCookieMode(); m != 0 {
		return m
	}
	return pb.CookieMode_COOKIE_MODE_INSERT
}

// TokenNameOf returns the name of a token pool's cookie or header. A cookie that is not named has one that no other pool's has
// and that stays (rule G-9).
func TokenNameOf(p *pb.Pool) string {
	if p.TokenName != nil {
		return p.GetTokenName()
	}
	sum := sha256.Sum256([]byte(p.GetName()))
	return "gwsp-" + hex.EncodeToString(sum[:5])
}

// TokenTimeoutOf returns how long a token is valid; zero is without end.
func TokenTimeoutOf(p *pb.Pool) time.Duration {
	return time.Duration(min(p.GetTokenTimeoutMs(), math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// TokenRetainOf returns how long tokens of a member are honoured that was removed (rule G-12).
func TokenRetainOf(p *pb.Pool) time.Duration {
	if p.TokenRetain == nil {
		return DefaultTokenRetain
	}
	return time.Duration(p.GetTokenRetain()) * time.Second
}

// The names of cookies that a jroute pool has where it names none (rules J-4, J-6), and what stands between session and route in the
// session cookies of other servers.
const (
	DefaultJrouteCookie        = "JROUTE"
	DefaultJrouteSessionCookie = "JSESSIONID"
	DefaultJrouteSuffix        = "."
)

// JrouteCookieOf returns the name of a jroute pool's route cookie.
func JrouteCookieOf(p *pb.Pool) string { return cmp.Or(p.GetJrouteCookie(), DefaultJrouteCookie) }

// JrouteSessionCookieOf returns the name of the session cookie that the members of a jroute pool set.
func JrouteSessionCookieOf(p *pb.Pool) string {
	return cmp.Or(p.GetJrouteSessionCookie(), DefaultJrouteSessionCookie)
}

// JrouteSuffixOf returns what stands between session and route in session cookies.
func JrouteSuffixOf(p *pb.Pool) string { return cmp.Or(p.GetJrouteSuffix(), DefaultJrouteSuffix) }

// RouteOf returns what names a member in route cookies and in paths: its route, else the first 12 bytes of the MD5 of its address and
// port in URL-safe base 64, to which every dataplane comes (rule J-4).
func RouteOf(m *pb.Member) string {
	if m.GetRoute() != "" {
		return m.GetRoute()
	}
	return opaqueRoute(m.GetAddress())
}

func opaqueRoute(of string) string {
	sum := md5.Sum([]byte(of))
	return base64.URLEncoding.EncodeToString(sum[:12])
}

// The timeouts of pools that do not name one (rule B-15; sip and msrdp ours).
const (
	DefaultSSLTimeout   = 600 * time.Second
	DefaultSIPTimeout   = 32 * time.Second
	DefaultMSRDPTimeout = 300 * time.Second
	DefaultTokenRetain  = 600 * time.Second
)

// PersistTimeout returns how long a record of a pool lives without use. Zero: it never expires (a sticky pool without a
// sticky_timeout), or the mode keeps no records (PersistModeOf tells).
func PersistTimeout(p *pb.Pool) time.Duration {
	seconds := func(value *uint32, absent time.Duration) time.Duration {
		if value == nil {
			return absent
		}
		return time.Duration(*value) * time.Second
	}
	switch PersistModeOf(p) {
	case pb.PersistMode_PERSIST_MODE_SIMPLE:
		return seconds(p.SimpleTimeout, 0)
	case pb.PersistMode_PERSIST_MODE_STICKY:
		return seconds(p.StickyTimeout, 0)
	case pb.PersistMode_PERSIST_MODE_SSL:
		return seconds(p.SslTimeout, DefaultSSLTimeout)
	case pb.PersistMode_PERSIST_MODE_SIP:
		return seconds(p.SipTimeout, DefaultSIPTimeout)
	case pb.PersistMode_PERSIST_MODE_MSRDP:
		return seconds(p.MsrdpTimeout, DefaultMSRDPTimeout)
	}
	return 0
}

// KeepsRecords reports whether a persistence mode keeps records of its clients; else they carry what binds them, or nothing does.
func KeepsRecords(mode pb.PersistMode) bool {
	switch mode {
	case pb.PersistMode_PERSIST_MODE_SIMPLE, pb.PersistMode_PERSIST_MODE_STICKY, pb.PersistMode_PERSIST_MODE_SSL,
		pb.PersistMode_PERSIST_MODE_SIP, pb.PersistMode_PERSIST_MODE_MSRDP:
		return true
	}
	return false
}

// FallbackTimeout returns how long a record of ssl_fallback simple lives without use: simple_timeout, or where that is 0 the
// ssl_timeout. It is false for a pool without that fallback.
func FallbackTimeout(p *pb.Pool) (timeout time.Duration, ok bool) {
	if PersistModeOf(p) != pb.PersistMode_PERSIST_MODE_SSL || p.GetSslFallback() != pb.SslFallback_SSL_FALLBACK_SIMPLE {
		return 0, false
	}
	if n := p.GetSimpleTimeout(); n > 0 {
		return time.Duration(n) * time.Second, true
	}
	return PersistTimeout(p), true
}

// MemberTimeout returns how long a record of an SSL session that is bound to a member lives without use: the member's tmout, or
// that of its pool (rules A-8, M-9).
func MemberTimeout(p *pb.Pool, m *pb.Member) time.Duration {
	if m.GetTmout() > 0 {
		return time.Duration(m.GetTmout()) * time.Second
	}
	return PersistTimeout(p)
}

// Mask says how many leading bits of an address count as a record's key.
type Mask struct {
	Bits4, Bits6 int
}

// SimpleMaskOf returns the mask of simple persistence; the whole address when a pool names none (rule B-11).
func SimpleMaskOf(p *pb.Pool) Mask { return maskOf(p.GetSimpleMask(), p.SimpleMask6) }

// StickyMaskOf returns the mask of sticky persistence; the whole address when a pool names none (rule B-12).
func StickyMaskOf(p *pb.Pool) Mask { return maskOf(p.GetStickyMask(), p.StickyMask6) }

// OneconnectMaskOf returns the mask that says which clients share server connections: by default none of the address counts,
// so that all do. The mask is dotted; of IPv6 addresses nothing counts where nothing of IPv4 does, else all (rule O-7).
func OneconnectMaskOf(vs *pb.VirtualServer) Mask {
	if vs.OneconnectSourceMask == nil {
		return Mask{}
	}
	m := maskOf(vs.GetOneconnectSourceMask(), nil)
	if m.Bits4 == 0 {
		m.Bits6 = 0
	}
	return m
}

// TrustedProxiesOf returns the networks of trusted_proxies; what is none is left out.
func TrustedProxiesOf(vs *pb.VirtualServer) (networks []netip.Prefix) {
	for _, text := range vs.GetTrustedProxies() {
		if n, err := parseNetwork(text); err == nil {
			networks = append(networks, n)
		}
	}
	return networks
}

// parseNetwork reads an address or a network. IPv4-mapped addresses count as IPv4.
func parseNetwork(text string) (netip.Prefix, error) {
	if a, err := parseAddress(text); err == nil {
		return a.Prefix(a.BitLen())
	}
	n, err := netip.ParsePrefix(text)
	if err == nil && n.Addr().Is4In6() && n.Bits() >= 96 {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n.Masked(), err
}

// Network returns what an address stands for that rules and classes name, with its dotted netmask or, without one, alone. Bits of
// hosts do not count. IPv4-mapped addresses count as IPv4.
func Network(address, netmask string) (netip.Prefix, error) {
	a, err := parseAddress(address)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("bad address %q", address)
	}
	bits := a.BitLen()
	if netmask != "" {
		if bits, err = maskBits(netmask); err != nil || !a.Is4() {
			return netip.Prefix{}, fmt.Errorf("bad netmask %q for address %s", netmask, address)
		}
	}
	return a.Prefix(bits)
}

func maskOf(mask4 string, bits6 *uint32) Mask {
	m := Mask{Bits4: 32, Bits6: 128}
	if n, err := maskBits(mask4); err == nil {
		m.Bits4 = n
	}
	if bits6 != nil && *bits6 <= 128 {
		m.Bits6 = int(*bits6)
	}
	return m
}

func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err
}

// maskBits counts the leading ones of a dotted mask; "" is the whole address.
func maskBits(mask string) (int, error) {
	if mask == "" {
		return 32, nil
	}
	return pb.MaskBits(mask)
}

// State is what operators have said about a node, a member or a virtual server.
type State struct {
	// Enabled is false for what takes only its open connections and persisted clients (rule C-7).
	Enabled bool
	// Up is false for what is forced down: nothing new at all.
	Up bool
	// Word is the state to show: unchecked, disabled, address_disabled, port_disabled, forced_down or address_down.
	Word pb.MemberState
}

// MemberState returns the operator's state of a member "10.1.1.1:80": its own, that of its address, that of its service.
// Given a node's address alone, that of the node.
func MemberState(v View, member string) State {
	s := State{Enabled: true, Up: true, Word: pb.MemberState_MEMBER_STATE_UNCHECKED}
	address, port, isMember := SplitAddress(member)
	node := v.Get("node/" + address).GetNode()
	off := func(value *bool) bool { return value != nil && !*value }
	var own *pb.Node
	if isMember {
		own = v.Get("node/" + member).GetNode()
		service := v.Get("service/" + strconv.Itoa(int(port))).GetService()
		if service != nil && off(service.Tcp) && !service.GetUdp() {
			s.Enabled, s.Word = false, pb.MemberState_MEMBER_STATE_PORT_DISABLED
		}
	}
	if node != nil && off(node.Enabled) {
		s.Enabled, s.Word = false, pb.MemberState_MEMBER_STATE_DISABLED
		if isMember {
			s.Word = pb.MemberState_MEMBER_STATE_ADDRESS_DISABLED
		}
	}
	if own != nil && off(own.Enabled) {
		s.Enabled, s.Word = false, pb.MemberState_MEMBER_STATE_DISABLED
	}
	if node != nil && off(node.Up) {
		s.Up, s.Word = false, pb.MemberState_MEMBER_STATE_FORCED_DOWN
		if isMember {
			s.Word = pb.MemberState_MEMBER_STATE_ADDRESS_DOWN
		}
	}
	if own != nil && off(own.Up) {
		s.Up, s.Word = false, pb.MemberState_MEMBER_STATE_FORCED_DOWN
	}
	return s
}

// VirtualEnabled reports whether a virtual server takes new connections, and if not, why: its own switch or its address's.
// Whether its service is enabled is for Listening.
func VirtualEnabled(v View, vs *pb.VirtualServer) (enabled bool, reason string) {
	if vs.Enabled != nil && !vs.GetEnabled() {
		return false, "disabled"
	}
	address, _, _ := SplitAddress(vs.GetAddress())
	if a := v.Get("virtual_address/" + address).GetVirtualAddress(); a != nil && a.Enabled != nil && !a.GetEnabled() {
		return false, fmt.Sprintf("virtual address %s is disabled", address)
	}
	return true, ""
}

// IdleTCP is how long a connection of a virtual server may be idle: what the virtual server says, else its service (treaper,
// service timeout tcp). Zero is the forwarder's own limit.
func IdleTCP(v View, vs *pb.VirtualServer) time.Duration {
	if vs.IdleTimeout != nil {
		return time.Duration(vs.GetIdleTimeout()) * time.Second
	}
	return time.Duration(serviceOf(v, vs).GetTimeoutTcp()) * time.Second
}

// IdleUDP is how long a flow of UDP may be idle: what the service says, which speaks of UDP alone (udp, service timeout udp),
// else the virtual server. Zero is the forwarder's own limit.
func IdleUDP(v View, vs *pb.VirtualServer) time.Duration {
	if s := serviceOf(v, vs); s != nil && s.TimeoutUdp != nil {
		return time.Duration(s.GetTimeoutUdp()) * time.Second
	}
	return time.Duration(vs.GetIdleTimeout()) * time.Second
}

// serviceOf returns the service of a virtual server's port; nil if none is configured.
func serviceOf(v View, vs *pb.VirtualServer) *pb.Service {
	_, port, _ := SplitAddress(vs.GetAddress())
	return v.Get("service/" + strconv.Itoa(int(port))).GetService()
}

// MemberRatio returns a member's weight for ratio_member; 1 when it names none.
func MemberRatio(m *pb.Member) uint32 {
	if m.Ratio == nil {
		return 1
	}
	return m.GetRatio()
}

// NodeRatio returns the weight of a node's address for ratio; 1 when there is none. The address may carry a port.
func NodeRatio(v View, address string) uint32 {
	address, _, _ = SplitAddress(address)
	if n := v.Get("node/" + address).GetNode(); n != nil && n.Ratio != nil {
		return n.GetRatio()
	}
	return 1
}
