package cookie

import (
	"net/netip"
	"time"
)

// Outcome says what the cookies of a request came to.
type Outcome uint8

// From the least to the most telling: of several cookies with the name, the most telling outcome is reported.
const (
	// None: there is no cookie with the name.
	None Outcome = iota
	// Malformed: no value is an address (rule C-4), or what is one must be encrypted and is not, or by an unknown key.
	Malformed
	// UnknownMember: a value is an address, but of no member (rule C-8), or of what was a member before an epoch.
	UnknownMember
	// Expired: a value named a member and its life is over.
	Expired
	// Valid: a value names a member.
	Valid
)

var outcomeWords = [...]string{
	None: "none", Malformed: "malformed", UnknownMember: "unknown_member", Expired: "expired", Valid: "valid",
}

// String returns the outcome as counters and logs name it.
func (o Outcome) String() string {
	if int(o) < len(outcomeWords) {
		return outcomeWords[o]
	}
	return "unknown"
}

// Found is what was found in the Cookie lines of one request. Use a zero Found for each request.
type Found struct {
	Outcome Outcome
	// Member is what the lookup gave for the address; it has a meaning only if Outcome is Valid.
	Member int
	// PrintedOrder: the member was found only in the byte order that seed 002 prints.
	PrintedOrder bool
	// Outdated: the value counts, but would not be written so now: it is not encrypted although the reader knows keys, or it
	// is by another key than the first and has no end by Lifetime, so that it would be lost with its key.
	Outdated bool
}

// Lookup tells the index and the epoch of a member.
type Lookup func(netip.AddrPort) (index int, epoch uint64, ok bool)

// Reader says which values of a pool's cookies are read. The zero value reads clear ones.
type Reader struct {
	// Ring decrypts; nil: encrypted values are malformed.
	Ring *Ring
	// Sealed: clear values are malformed (rule C-9, required).
	Sealed bool
	// Lifetime is how long an encrypted value counts after it was made; zero is for ever. Now is the wall clock.
	Lifetime time.Duration
	Now      func() time.Time
}

// Read looks into one Cookie line and reports whether it names a member, which decides: the lines after it need not be
// read. The first value that names a member wins, whatever that member's state is (rules C-4, C-7, O-T16). Member finds
// the member with exactly this address and port. Lines are read in the order they came.
func (r *Reader) Read(f *Found, line []byte, name Name, member Lookup) bool {
	for value := range Values(name, line) {
		if r.ReadValue(f, value, name.text, member) {
			return true
		}
	}
	return false
}

// ReadValue is [Reader.Read] for the value of a cookie with the name.
func (r *Reader) ReadValue(f *Found, value []byte, name string, member Lookup) bool {
	switch {
	case r.Ring != nil && IsSealed(value):
		return r.readSealed(f, value, name, member)
	case r.Sealed:
		f.Outcome = max(f.Outcome, Malformed)
		return false
	}
	v, ok := Decode(value)
	if !ok {
		f.Outcome = max(f.Outcome, Malformed)
		return false
	}
	i, _, ok := member(v.Addr)
	if !ok && v.Printed.IsValid() {
		i, _, ok = member(v.Printed)
		f.PrintedOrder = ok
	}
	if !ok {
		f.Outcome = max(f.Outcome, UnknownMember)
		return false
	}
	f.Outcome, f.Member, f.Outdated = Valid, i, r.Ring != nil
	return true
}

func (r *Reader) readSealed(f *Found, value []byte, name string, member Lookup) bool {
	s, ok := r.Ring.Open(value, name)
	if !ok {
		f.Outcome = max(f.Outcome, Malformed)
		return false
	}
	i, epoch, ok := member(s.Addr)
	switch {
	case !ok || epoch != s.Epoch:
		f.Outcome = max(f.Outcome, UnknownMember)
		return false
	case r.Lifetime > 0 && r.Now().Sub(s.Made) > r.Lifetime:
		f.Outcome = max(f.Outcome, Expired)
		return false
	}
	f.Outcome, f.Member, f.Outdated = Valid, i, s.Old && r.Lifetime == 0
	return true
}
