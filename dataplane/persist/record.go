package persist

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Forever is the Remaining of a record that does not expire.
const Forever time.Duration = -1

// Policy says how records live that are bound or refreshed through a pool.
type Policy struct {
	Pool PoolID
	// Timeout ends a record this long after its last use or its creation. Zero: it never expires (rule B-15, sticky).
	// Where zero means "no persistence" (simple), the caller does not come here at all.
	Timeout time.Duration
	Timer   Timer
}

// Record is a copy of one record as it was at one moment.
type Record struct {
	Key       Key
	Node      netip.AddrPort
	Pool      PoolID        // through which it was bound: elsewhere only the node's address counts (rule B-5)
	Refresher PoolID        // through which it was last refreshed; Timeout and Timer are this pool's (rule B-14)
	Timeout   time.Duration // 0: never expires
	Timer     Timer
	Age       time.Duration // since it was bound
	Idle      time.Duration // since the last use; 0 while a connection is open
	Remaining time.Duration // until it ends if nothing happens, or Forever
	Open      int           // connections that hold it
	Accepted  bool          // its member has accepted a connection
}

// Filter chooses records; a zero field chooses all.
type Filter struct {
	Client netip.Prefix   // address keys that have an address in common with it
	ID     []byte         // ID keys with exactly these bytes (the SHA-256 of an ID over 32 bytes)
	Node   netip.AddrPort // port 0 is any port
	Pool   PoolID         // bound through this pool
	Older  time.Duration  // bound at least this long ago
}

// SetClient reads the text of a key: an address, a network (10.1.2.0/24), or an ID in hex, as Key.String prints them.
func (f *Filter) SetClient(text string) error {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		f.Client, f.ID = netip.PrefixFrom(addr, addr.BitLen()), nil
		return nil
	}
	if strings.Contains(text, "/") {
		if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.Addr().Is4In6() {
			f.Client, f.ID = prefix.Masked(), nil
			return nil
		}
	}
	if id, err := hex.DecodeString(text); err == nil && len(id) > 0 && len(id) <= wideKey {
		f.Client, f.ID = netip.Prefix{}, id
		return nil
	}
	return fmt.Errorf("client %q is not an address, a network or an ID in hex", text)
}

// Match says whether the filter chooses the record.
func (f *Filter) Match(r *Record) bool {
	return (f.Pool == 0 || f.Pool == r.Pool) &&
		r.Age >= f.Older &&
		(!f.Node.IsValid() || sameNode(f.Node, r.Node)) &&
		(!f.Client.IsValid() || f.Client.Overlaps(r.Key.Prefix())) &&
		(f.ID == nil || !r.Key.space.kind.addressed() && bytes.Equal(f.ID, r.Key.bytes()))
}

func sameNode(want, got netip.AddrPort) bool {
	return want.Addr().Unmap() == got.Addr() && (want.Port() == 0 || want.Port() == got.Port())
}
