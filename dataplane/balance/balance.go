// Package balance chooses a member of a pool for traffic that persistence has not placed, and a pool for traffic that a
// use statement splits.
//
// A [Picker] knows nothing of pools, health or connections: its members are indexes, and the caller says with a
// predicate which of them may be chosen. Traffic that a record or a cookie places never asks a picker, so it does not
// move the rotation (rule J-2).
package balance

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Mode is a load-balancing mode. The zero value is round robin, the default of a pool that names none (rule M-1). The
// forms by member and by node address differ only in where the caller takes weights and measures from.
type Mode uint8

const (
	// RoundRobin takes the members in turn, the first configured first (rule M-2).
	RoundRobin Mode = iota
	// Ratio shares by the weight of a member's node address.
	Ratio
	// RatioMember shares by the member's own weight.
	RatioMember
	// LeastConn takes whose node address has the fewest open connections for its weight (rule M-3).
	LeastConn
	// LeastConnMember takes the member that has the fewest open connections for its weight (rule M-3).
	LeastConnMember
	// Fastest takes whose node address would answer first: the least product of its answering time and the connections
	// that wait there, this one included.
	Fastest
	// FastestAppResp is Fastest by member.
	FastestAppResp
	// Observed shares by weights that are inversely proportional to the open connections of a node address, each second
	// anew.
	Observed
	// ObservedMember is Observed by member.
	ObservedMember
	// Predictive is Observed by the connections that a node address will have in a second if it goes on like the last one.
	Predictive
	// PredictiveMember is Predictive by member.
	PredictiveMember
	// Priority takes the members in turn; the caller says that only those of the highest priority may be chosen.
	Priority
	// PriorityMember is Priority.
	PriorityMember
	// DynamicRatio shares by weights from outside.
	DynamicRatio
	// Hash takes the member whose place among those that may be chosen is the hash of a key, modulo their number (rule M-4).
	Hash
	// MinMisses takes the member whose address gives the highest hash together with a key (rule M-5).
	MinMisses
	// Response shares by weights that are inversely proportional to the time that members take to answer (rule M-6).
	Response
	// Bandwidth shares by weights that are inversely proportional to the octets that members have moved (rule M-7).
	Bandwidth
)

var modeWords = [...]string{
	RoundRobin:       "round_robin",
	Ratio:            "ratio",
	RatioMember:      "ratio_member",
	LeastConn:        "least_conn",
	LeastConnMember:  "least_conn_member",
	Fastest:          "fastest",
	FastestAppResp:   "fastest_app_resp",
	Observed:         "observed",
	ObservedMember:   "observed_member",
	Predictive:       "predictive",
	PredictiveMember: "predictive_member",
	Priority:         "priority",
	PriorityMember:   "priority_member",
	DynamicRatio:     "dynamic_ratio",
	Hash:             "hash",
	MinMisses:        "minmisses",
	Response:         "response",
	Bandwidth:        "bandwidth",
}

// ByNode reports whether the mode looks at the node addresses of members: at their weights and at what is measured of them.
func (m Mode) ByNode() bool {
	switch m {
	case Ratio, LeastConn, Fastest, Observed, Predictive, DynamicRatio:
		return true
	}
	return false
}

// Measures reports whether the mode asks members' meters.
func (m Mode) Measures() bool {
	switch m {
	case LeastConn, LeastConnMember, Fastest, FastestAppResp, Observed, ObservedMember, Predictive, PredictiveMember, Response, Bandwidth:
		return true
	}
	return false
}

// Multiplied reports whether how fast members reply multiplies into their weights where they belong to a pool of Response too (rule
// M-6).
func (m Mode) Multiplied() bool {
	switch m {
	case RoundRobin, Priority, PriorityMember, Ratio, RatioMember, LeastConn, LeastConnMember:
		return true
	}
	return false
}

// Timed reports whether the mode looks at the time that members take to answer.
func (m Mode) Timed() bool { return m == Fastest || m == FastestAppResp || m == Response }

// Keyed reports whether the mode looks at the key of an [Ask].
func (m Mode) Keyed() bool { return m == Hash || m == MinMisses }

// String returns the word that bigip.conf uses.
func (m Mode) String() string {
	if int(m) < len(modeWords) {
		return modeWords[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseMode is the inverse of [Mode.String]. A word that names no mode of this package is an error.
func ParseMode(word string) (Mode, error) {
	for m, w := range modeWords {
		if w == word {
			return Mode(m), nil
		}
	}
	return RoundRobin, fmt.Errorf("load-balancing mode %q is not known", word)
}

// Member is what a picker must know of a member. Its index in the slice given to [New] is its name in Pick.
type Member struct {
	// Name identifies the member when a new picker takes over from an old one.
	Name string
	// Weight is the member's share relative to the others in Ratio, RatioMember, DynamicRatio, LeastConn and
	// LeastConnMember; the other modes ignore it (rule M-8). Zero means 1, the default ratio.
	Weight uint32
	// Addr is the member's address, for MinMisses.
	Addr netip.AddrPort
	// Meter tells what is measured of the member; nil is one that always tells zero. Modes that need none do not ask.
	Meter Meter
	// Live tells what changes of the weight without a new picker; nil: nothing.
	Live *Live
}

// Live tells what changes of a member's weight by itself. A nil function is for what does not change.
type Live struct {
	// Weight is said instead of that of the member, in the modes that look at that.
	Weight func() uint32
	// Warmth is the part of its weight that the member counts with, 1 to 100 percent: less than all while it starts slowly. Hash
	// and MinMisses do not ask: there no weight counts (rule M-8).
	Warmth func() uint32
	// Replies is how long the member takes to reply, where that multiplies into its weight as it does in Response (rule M-6);
	// zero is not known. Who asks is said by [Mode.Multiplied].
	Replies func() time.Duration
}

// Meter tells what is measured of a member, now. It is asked with a lock held: it must be cheap and must not block. So must be the
// functions of [Live].
type Meter interface {
	// Open is the number of open connections.
	Open() uint64
	// Took is the time in which it lately answered; zero is not known.
	Took() time.Duration
	// Octets is how many it has moved since some moment.
	Octets() uint64
}

type noMeter struct{}

func (noMeter) Open() uint64        { return 0 }
func (noMeter) Took() time.Duration { return 0 }
func (noMeter) Octets() uint64      { return 0 }

func (m *Member) meter() Meter {
	if m.Meter == nil {
		return noMeter{}
	}
	return m.Meter
}

// Ask is one decision to make. The zero value accepts every member.
type Ask struct {
	// Usable says whether member i may be chosen: up, enabled, under its limit. Nil means that all may.
	// It is called several times for a pick, possibly with a lock held: it must be cheap, must not block and must
	// not call the picker. Keep one function per pool rather than making one per connection, which would allocate.
	Usable func(i int) bool
	// Tried holds the members that this connection has tried in vain; they are not chosen again.
	Tried Set
	// Key is what Hash and MinMisses choose by: the client's address.
	Key netip.Addr
}

func (a *Ask) accepts(i int) bool {
	return !a.Tried.Has(i) && (a.Usable == nil || a.Usable(i))
}

// Picker chooses members. It may be called from any number of goroutines and does not allocate.
type Picker interface {
	// Pick returns the index of the next member in turn among those that the ask accepts. When it accepts none, Pick
	// returns -1 and false and the rotation stays where it is.
	Pick(Ask) (index int, ok bool)
}

// New returns a picker for the members in their configured order; it keeps the slice, which must not change. A change of
// the members or of their weights needs a new picker; given the one it replaces, it goes on where that one stood instead of starting again with the first
// member. Previous may be nil, of another mode, of other members, and in use.
func New(mode Mode, members []Member, previous Picker) Picker {
	switch mode {
	case Ratio, RatioMember, DynamicRatio:
		old, _ := previous.(*weighted)
		return newWeighted(members, old)
	case LeastConn, LeastConnMember, Fastest, FastestAppResp:
		old, _ := previous.(*least)
		return newLeast(mode, members, old)
	case Observed, ObservedMember, Predictive, PredictiveMember, Response, Bandwidth:
		old, _ := previous.(*adaptive)
		return newAdaptive(mode, members, old)
	case Hash:
		return newHashed(members)
	case MinMisses:
		return newMinMisses(members)
	}
	if slices.ContainsFunc(members, func(m Member) bool { return m.Live != nil }) {
		old, _ := previous.(*weighted)
		return newWeighted(evenly(members), old)
	}
	old, _ := previous.(*roundRobin)
	return newRoundRobin(members, old)
}

// indexOf maps the members' names to their indexes.
func indexOf(members []Member) map[string]int {
	index := make(map[string]int, len(members))
	for i, m := range members {
		index[m.Name] = i
	}
	return index
}
