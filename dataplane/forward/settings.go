package forward

import (
	"net/netip"
	"time"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
)

// Limits of time that a virtual server has unless its settings say otherwise.
const (
	DefaultHeaderTimeout = 10 * time.Second
	DefaultIdleTimeout   = 300 * time.Second
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
	// Pools are in the order of Rule.Pools. A nil pool has no member.
	Pools []*pool.Pool
	// PerRequest decides for each HTTP request instead of once for a connection (rules O-3, O-14). The member's connection
	// is kept while the decisions name the same member.
	PerRequest bool
	// HeaderTimeout bounds the time in which a whole request head must arrive. Zero: DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// IdleTimeout ends what moves no byte for so long: TCP connections, HTTP connections between two requests, bodies in
	// transit. Zero: DefaultIdleTimeout.
	IdleTimeout time.Duration
	// BodyMinRate is how many bytes a second of a request's body must arrive on average, after HeaderTimeout. Zero: any.
	BodyMinRate int
	// XForwardedFor adds a line with the client's address to requests.
	XForwardedFor bool
	// Limit is the most client connections at a time; zero means no limit.
	Limit uint32
	// Counters count the virtual server's connections; they may outlive the settings. Nil: none are kept.
	Counters *pool.Counters
}

// withDefaults returns the settings with nothing left out.
func (s Settings) withDefaults() *Settings {
	if s.HeaderTimeout <= 0 {
		s.HeaderTimeout = DefaultHeaderTimeout
	}
	if s.IdleTimeout <= 0 {
		s.IdleTimeout = DefaultIdleTimeout
	}
	if s.Counters == nil {
		s.Counters = pool.NewCounters()
	}
	return &s
}
