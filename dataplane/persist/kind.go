package persist

import "fmt"

// Kind says what a record's key is made of. The zero Kind is none.
type Kind uint8

// The kinds of keys. Each prints its bigip.conf word; ticket is the second key of ssl persistence.
const (
	Simple Kind = iota + 1 // client address and mask
	Sticky                 // destination address and mask
	SSL                    // TLS session ID, 1 to 32 bytes
	Ticket                 // TLS session ticket
	SIP                    // Call-ID
	MSRDP                  // user name of a terminal services client
	Token                  // session token
	Cookie                 // client address, reserved for simultaneous first requests
)

var kindWords = [...]string{"none", "simple", "sticky", "ssl", "ticket", "sip", "msrdp", "token", "cookie"}

// String returns the word, "none" for the zero Kind.
func (k Kind) String() string {
	if int(k) < len(kindWords) {
		return kindWords[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// addressed says whether keys of the kind are masked addresses (else they are IDs).
func (k Kind) addressed() bool { return k == Simple || k == Sticky || k == Cookie }

// Timer says what a record's timeout is counted from (rule B-13).
type Timer uint8

// The two timers, under the words of `global persist timer`.
const (
	Idle  Timer = iota // limit: from the last use; not while a connection is open
	Fixed              // timeout: from creation, whatever happens in between
)

// String returns the bigip.conf word.
func (t Timer) String() string {
	switch t {
	case Idle:
		return "limit"
	case Fixed:
		return "timeout"
	}
	return fmt.Sprintf("timer(%d)", uint8(t))
}
