package balance

import (
	"net/netip"
	"sync"
)

// The hash of rules M-4 and M-5: 64 bits of FNV-1a over the 16 bytes of the address (IPv4 in its mapped form), and over
// those of the member's address after them for MinMisses, stirred by [stir].
const (
	fnvBasis = 14695981039346656037
	fnvPrime = 1099511628211
)

func fnv(h uint64, data []byte) uint64 {
	for _, b := range data {
		h = (h ^ uint64(b)) * fnvPrime
	}
	return h
}

// stir spreads the differences of the last bytes over all bits: FNV alone leaves them low.
func stir(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Digest makes a number of a name, or of what a client brings, for [Score].
func Digest(b []byte) uint64 { return stir(fnv(fnvBasis, b)) }

// Score ranks a member for a key by what [Digest] makes of both: where each key takes the member with the highest score, and without
// it the one with the next, a member that leaves moves its own keys alone.
func Score(key, member uint64) uint64 { return stir(key ^ member) }

// keyHash is the FNV of a key, not stirred. An invalid key counts as the unspecified address.
func keyHash(key netip.Addr) uint64 {
	if !key.IsValid() {
		key = netip.IPv6Unspecified()
	}
	bytes := key.As16()
	return fnv(fnvBasis, bytes[:])
}

// hashed takes the member at the place that the hash of the key has among those that may be chosen (rule M-4).
//
// Who may be chosen changes without notice, so a pick first looks at up to [glance] members: with no more than that it is
// exact, else a member that is usable again may be noticed some picks later. A pick costs O(log n).
type hashed struct {
	members []Member // immutable

	mu    sync.Mutex
	here  []bool  // by member: may be chosen
	sums  []int32 // Fenwick tree of here, from 1
	count int
	look  int
	begun bool
}

func newHashed(members []Member) *hashed {
	return &hashed{members: members, here: make([]bool, len(members)), sums: make([]int32, len(members)+1)}
}

// Pick implements [Picker].
func (h *hashed) Pick(ask Ask) (int, bool) {
	place := stir(keyHash(ask.Key))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun {
		h.read(&ask, glance)
	} else {
		h.begun = true
		h.read(&ask, len(h.members))
	}
	out := [8]int{}
	i, away := h.find(&ask, place, out[:0])
	if i < 0 && len(h.members) > glance {
		h.read(&ask, len(h.members))
		i, away = h.find(&ask, place, away)
	}
	for _, t := range away {
		h.set(t, true)
	}
	return i, i >= 0
}

// find returns the member at a place, or -1, and who was set aside because it was tried.
func (h *hashed) find(ask *Ask, place uint64, away []int) (int, []int) {
	for h.count > 0 {
		i := h.at(int32(place % uint64(h.count)))
		if ask.accepts(i) {
			return i, away
		}
		h.set(i, false)
		if ask.Tried.Has(i) {
			away = append(away, i)
		}
	}
	return -1, away
}

func (h *hashed) read(ask *Ask, atMost int) {
	for range min(atMost, len(h.members)) {
		if h.look >= len(h.members) {
			h.look = 0
		}
		h.set(h.look, ask.Usable == nil || ask.Usable(h.look))
		h.look++
	}
}

func (h *hashed) set(i int, here bool) {
	if h.here[i] == here {
		return
	}
	h.here[i] = here
	delta := int32(1)
	if !here {
		delta = -1
	}
	h.count += int(delta)
	for k := i + 1; k < len(h.sums); k += k & -k {
		h.sums[k] += delta
	}
}

// at returns the member with so many before it that may be chosen.
func (h *hashed) at(before int32) int {
	step := 1
	for 2*step < len(h.sums) {
		step *= 2
	}
	k := 0
	for ; step > 0; step /= 2 {
		if next := k + step; next < len(h.sums) && h.sums[next] <= before {
			k = next
			before -= h.sums[next]
		}
	}
	return k
}

// minMisses takes the member whose address has the highest hash together with the key; of equal ones the first. A member
// that leaves moves only its own clients (rule M-5). The rule makes a pick look at each member's address, so it costs
// O(n), but the predicate is asked O(log n) times, and nothing is locked.
type minMisses struct {
	addrs []uint32    // immutable: of members with IPv4 addresses
	four  []int32     // their indexes
	other []otherAddr // the members with IPv6 addresses
}

type otherAddr struct {
	index int32
	addr  [16]byte
}

func newMinMisses(members []Member) *minMisses {
	m := &minMisses{}
	for i := range members {
		addr := members[i].Addr.Addr()
		if !addr.IsValid() {
			addr = netip.IPv6Unspecified()
		}
		if addr = addr.Unmap(); addr.Is4() {
			b := addr.As4()
			m.addrs = append(m.addrs, uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3]))
			m.four = append(m.four, int32(i))
			continue
		}
		m.other = append(m.other, otherAddr{int32(i), addr.As16()})
	}
	return m
}

var mapped = [12]byte{10: 0xff, 11: 0xff}

// Pick implements [Picker].
func (m *minMisses) Pick(ask Ask) (int, bool) {
	best, highest := -1, uint64(0)
	consider := func(i int, score uint64) {
		if best >= 0 && (score < highest || score == highest && i > best) || !ask.accepts(i) {
			return
		}
		best, highest = i, score
	}
	start := keyHash(ask.Key)
	prefix := fnv(start, mapped[:])
	for k, addr := range m.addrs {
		h := (prefix ^ uint64(addr>>24)) * fnvPrime
		h = (h ^ uint64(addr>>16&0xff)) * fnvPrime
		h = (h ^ uint64(addr>>8&0xff)) * fnvPrime
		h = (h ^ uint64(addr&0xff)) * fnvPrime
		consider(int(m.four[k]), stir(h))
	}
	for k := range m.other {
		consider(int(m.other[k].index), stir(fnv(start, m.other[k].addr[:])))
	}
	return best, best >= 0
}
