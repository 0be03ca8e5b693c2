// Package balance chooses a member of a pool for traffic that persistence has not placed, and a pool for traffic that a
// use statement splits.
//
// A [Picker] knows nothing of pools, health or connections: its members are indexes, and the caller says with a
// predicate which of them may be chosen. Traffic that a record or a cookie places never asks a picker, so it does not
// move the rotation (rule J-2).
package balance

import "fmt"

// Mode is a load-balancing mode. The zero value is round robin, the default of a pool that names none (rule M-1).
type Mode uint8

const (
	// RoundRobin takes the members in turn, the first configured first (rule M-2).
	RoundRobin Mode = iota
	// Ratio shares by the weight of a member's node address.
	Ratio
	// RatioMember shares by the member's own weight. It differs from Ratio only in where the caller takes the
	// weights from.
	RatioMember
)

var modeWords = [...]string{
	RoundRobin:  "round_robin",
	Ratio:       "ratio",
	RatioMember: "ratio_member",
}

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
	// Weight is the member's share relative to the others. Zero means 1, the default ratio. RoundRobin ignores it.
	Weight uint32
}

// Ask is one decision to make. The zero value accepts every member.
type Ask struct {
	// Usable says whether member i may be chosen: up, enabled, under its limit. Nil means that all may.
	// It is called several times for a pick, possibly with a lock held: it must be cheap, must not block and must
	// not call the picker. Keep one function per pool rather than making one per connection, which would allocate.
	Usable func(i int) bool
	// Tried holds the members that this connection has tried in vain; they are not chosen again.
	Tried Set
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

// New returns a picker for the members in their configured order; it keeps the slice, which must not change. A change of the members or of their weights needs a
// new picker; given the one it replaces, it goes on where that one stood instead of starting again with the first
// member. Previous may be nil, of another mode, of other members, and in use.
func New(mode Mode, members []Member, previous Picker) Picker {
	switch mode {
	case Ratio, RatioMember:
		old, _ := previous.(*weighted)
		return newWeighted(members, old)
	default:
		old, _ := previous.(*roundRobin)
		return newRoundRobin(members, old)
	}
}

// indexOf maps the members' names to their indexes.
func indexOf(members []Member) map[string]int {
	index := make(map[string]int, len(members))
	for i, m := range members {
		index[m.Name] = i
	}
	return index
}
