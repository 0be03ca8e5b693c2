// Package rule compiles the rules of a configuration, and the weighted pools of a use statement, to functions that decide where
// a connection or request goes.
package rule

import (
	"net/netip"

	"bigpipe/dataplane/balance"
	pb "bigpipe/proto/bigpipe/v1"
)

// Protocol is what a connection speaks below its data.
type Protocol uint8

// The protocols that ip_protocol names.
const (
	TCP Protocol = iota
	UDP
)

// Request is the head of an HTTP request as rules see it. The slices need to be good only during Decide.
type Request interface {
	Method() []byte
	// URI is the path and query, without protocol and host.
	URI() []byte
	// Version is "HTTP/1.0" or "HTTP/1.1".
	Version() []byte
	// Host is the host with its port as the client sent it; empty when there is none.
	Host() []byte
	// Header returns the value of the first line with a name, given in lower case, without blanks around it.
	Header(name string) ([]byte, bool)
	// Cookie returns the value of the first cookie with a name. Cookie names are case-sensitive.
	Cookie(name string) ([]byte, bool)
}

// Input is what a decision is made by.
type Input struct {
	// Client and Server are the two ends of the client's connection as the configuration names them: Server is the address
	// that the client contacted.
	Client, Server netip.AddrPort
	Protocol       Protocol
	// Request is nil where no HTTP is read: then no comparison of an http_ variable holds.
	Request Request
	// Returning makes a split send a client back to the pool that knows it. Nil: splits go by weights alone.
	Returning Returning
}

// Returning tells of a client that was there before.
type Returning interface {
	// Knows reports whether Pools()[pool] knows the client and can serve it.
	Knows(pool int) bool
}

// Action says what a rule decided.
type Action uint8

const (
	// Nothing was decided: no statement of the rule applied, or all weights are 0. The connection has no pool.
	Nothing Action = iota
	// UsePool sends the connection to Pools()[Decision.Pool].
	UsePool
	// Discard drops the connection without a word.
	Discard
	// Redirect answers 302 with the location that Decision.Location holds.
	Redirect
)

// Decision is the result of a rule.
type Decision struct {
	Action Action
	// Pool is an index into Rule.Pools.
	Pool int
	// PersistNone asks for a new choice in the pool, whatever was recorded (use ... persist none).
	PersistNone bool
	// Location is set with Redirect.
	Location *Location
}

// Rule is a compiled rule. It may be used by any number of goroutines at once.
type Rule struct {
	pools  []string
	decide statement
	splits []balance.Picker // of each use of several pools, in the order of the text
}

// statement decides; ok is false when it does not apply.
type statement func(in *Input) (d Decision, ok bool)

// Pools returns the names of all pools that the rule can choose, each once, in the order in which the text names them.
func (r *Rule) Pools() []string { return r.pools }

// Splits reports whether the rule chooses among several weighted pools anywhere (rule O-14).
func (r *Rule) Splits() bool { return len(r.splits) > 0 }

// Decide runs the rule. It does not allocate.
func (r *Rule) Decide(in *Input) Decision {
	d, _ := r.decide(in)
	return d
}

// Classes finds the class with a name; nil when there is none.
type Classes func(name string) *pb.Class

// Compile compiles a rule. Its splits go on where those of previous stand: the rule before it, or nil. The error joins every
// part that cannot be compiled, each an *Error that names its place.
func Compile(r *pb.Rule, classes Classes, previous *Rule) (*Rule, error) {
	c := &compiler{rule: &Rule{}, previous: previous, classes: classes, where: r.GetMeta().GetPosition()}
	c.rule.decide = c.statement(r.GetStatement())
	return c.result()
}

// CompileUse compiles the pools of a virtual server's use statement. A weight that is absent is 1. The split goes on where that
// of previous stands, which may be nil.
func CompileUse(pools []*pb.WeightedPool, previous *Rule) (*Rule, error) {
	c := &compiler{rule: &Rule{}, previous: previous}
	c.rule.decide = c.use(&pb.RuleUse{Pools: pools})
	return c.result()
}
