package forward

import (
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
)

// Limits of time that a virtual server has unless its settings say otherwise.
const (
	DefaultHeaderTimeout = 10 * time.Second
	DefaultIdleTimeout   = 300 * time.Second
	DefaultUDPTimeout    = 60 * time.Second
	DefaultBodyMinRate   = 100
)

// Settings say how a listener treats its connections. They must not be changed once a listener has them: give it new ones.
type Settings struct {
	// Virtual is the virtual server's address in the configuration, which the one that is bound may differ from.
	Virtual netip.AddrPort
	// HTTP makes the forwarder read requests and responses; else bytes pass untouched.
	HTTP bool
	// Rule chooses among Pools by its indexes. Nil: Pools[0] is used.
	Rule *rule.Rule
	// ByRule: Rule is one that was configured, not a split into weighted pools.
	ByRule bool
	// Pools are in the order of Rule.Pools. A nil pool has no member.
	Pools []*pool.Pool
	// PerRequest decides for each HTTP request instead of once for a connection (rules O-3, O-14). The member's connection
	// is kept while the decisions name the same member.
	PerRequest bool
	// OneConnect shares the connections to members: PerRequest must be set too. Nil: each belongs to a client.
	OneConnect *OneConnect
	// SplitSticks makes the splits of Rule send clients back to the pool that knows them.
	SplitSticks bool
	// HeaderTimeout bounds the time in which a whole request head must arrive. Zero: DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// IdleTimeout ends what moves no byte for so long: TCP connections, HTTP connections between two requests, bodies in
	// transit. Zero: DefaultIdleTimeout.
	IdleTimeout time.Duration
	// BodyMinRate is how many bytes a second of a request's body must arrive on average, after HeaderTimeout. Zero: any.
	BodyMinRate int
	// XForwardedFor tells members the address of who connected, in the last value of X-Forwarded-For. What a trusted proxy
	// has said there stays before it; what anybody else has said is dropped.
	XForwardedFor bool
	// TrustedProxies are the networks of those whose X-Forwarded-For is believed: its last value that is none of theirs is
	// the client's address for persistence, for rules and for the sharing of connections.
	TrustedProxies []netip.Prefix
	// ProxyProtocol tells members the client's address in a PROXY protocol header, version 2, before the first byte of each
	// connection. Such a connection belongs to one client: it excludes OneConnect. UDP has none.
	ProxyProtocol bool
	// Transparent makes connections to members, and datagrams, come from the client's address. The process must be allowed to
	// (Impersonates), the replies must find their way back to this host, and members must have addresses of the client's family.
	Transparent bool
	// Intercepts: the listener is bound to all addresses of a family and may have connections to addresses of others delivered.
	// The process must be allowed to (Impersonates).
	Intercepts bool
	// KeepPort sends to the port that the client wanted, instead of the member's.
	KeepPort bool
	// Gateway leaves the destination that the client wanted, and returns the mark of packets for which the member is the next hop;
	// zero where there is no such way. It excludes OneConnect. Nil: members are sent to at their own address.
	Gateway func(member netip.Addr) uint32
	// Limit is the most client connections at a time; zero means no limit.
	Limit uint32
	// SourceLimit is the most connections of one client address at a time, or of one /64 network of IPv6; zero means no limit.
	// It does not bind trusted proxies.
	SourceLimit uint32
	// Shared are further limits, which it shares with other virtual servers.
	Shared []Shared
	// Counters count the virtual server's connections; they may outlive the settings. Nil: none are kept.
	Counters *pool.Counters

	calls, users bool // a pool persists by the call, by the user
}

// Shared is a limit of connections that several virtual servers have together. The gauge may outlive the settings.
type Shared struct {
	Gauge *pool.Gauge
	Limit uint32 // zero means no limit
}

// destination is where a member is sent to for a client that wanted to go to contact: at the member's address and port, unless one
// of them is kept. A member without a port has all of them. Mark is that of the packets; zero is none. The destination is invalid
// where there is no way.
func (s *Settings) destination(m *pool.Member, contact netip.AddrPort) (to netip.AddrPort, mark uint32) {
	if !contact.IsValid() {
		contact = s.Virtual
	}
	to = m.Dial
	if to.IsValid() && (s.KeepPort || to.Port() == 0) {
		to = netip.AddrPortFrom(to.Addr(), contact.Port())
	}
	if s.Gateway == nil || !to.IsValid() {
		return to, 0
	}
	if mark = s.Gateway(to.Addr()); mark == 0 || to.Addr().Is4() != contact.Addr().Is4() {
		return netip.AddrPort{}, 0
	}
	return netip.AddrPortFrom(contact.Addr(), to.Port()), mark
}

// setMark gives the packets of a socket a mark, unless it is zero.
func setMark(fd int, mark uint32) error {
	if mark == 0 {
		return nil
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)))
}

// open counts a connection at the virtual server and at what it shares, unless there are as many as may be.
func (s *Settings) open() bool {
	if !s.Counters.Open(s.Limit) {
		return false
	}
	for i, shared := range s.Shared {
		if !shared.Gauge.Open(shared.Limit) {
			closeShared(s.Counters, s.Shared[:i])
			return false
		}
	}
	return true
}

// closeShared ends what open began.
func closeShared(counters *pool.Counters, list []Shared) {
	counters.Close()
	for _, shared := range list {
		shared.Gauge.Close()
	}
}

// OneConnect says which connections to members are kept when a response is complete, and who may use them next (rules O-6 to
// O-8).
type OneConnect struct {
	// SourceMask is applied to the client's address: who has the same result shares. It is the client's because connections
	// to members come from this host in any case (rule O-7).
	SourceMask persist.Mask
	// MaxSize is how many may be kept at a time, MaxReuse how often each may be used again, MaxAge for how long. Zero means
	// that none is.
	MaxSize, MaxReuse int
	MaxAge            time.Duration
	// Share shares them with the other virtual servers that do.
	Share bool
}

// source is what the mask leaves of a client's address; the zero value where everyone shares.
func (one *OneConnect) source(client netip.Addr) netip.Addr {
	a := one.SourceMask.Apply(client)
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// withDefaults returns the settings with nothing left out.
func (s Settings) withDefaults() *Settings {
	if s.HeaderTimeout <= 0 {
		s.HeaderTimeout = DefaultHeaderTimeout
	}
	if s.IdleTimeout <= 0 {
		s.IdleTimeout = DefaultIdleTimeout
	}
	if s.ProxyProtocol || s.Gateway != nil || s.KeepPort {
		s.OneConnect = nil
	}
	if s.Counters == nil {
		s.Counters = pool.NewCounters()
	}
	for _, p := range s.Pools {
		if p != nil {
			_, calls := p.PolicyOf(persist.SIP, netip.AddrPort{})
			_, users := p.PolicyOf(persist.MSRDP, netip.AddrPort{})
			s.calls, s.users = s.calls || calls, s.users || users
		}
	}
	return &s
}
