package balance

// Set is a set of member indexes. The zero value is empty; a set of indexes under 64 needs no allocation.
// A copy made before Add may share memory with the original: hand over the set that was added to last.
type Set struct {
	low  uint64   // indexes 0 to 63
	high []uint64 // indexes from 64 on
}

// Add puts i into the set. A negative index is ignored.
func (s *Set) Add(i int) {
	switch {
	case i < 0:
	case i < 64:
		s.low |= 1 << i
	default:
		word := i/64 - 1
		for len(s.high) <= word {
			s.high = append(s.high, 0)
		}
		s.high[word] |= 1 << (i % 64)
	}
}

// Has reports whether i is in the set.
func (s *Set) Has(i int) bool {
	switch {
	case i < 0:
		return false
	case i < 64:
		return s.low&(1<<i) != 0
	default:
		word := i/64 - 1
		return word < len(s.high) && s.high[word]&(1<<(i%64)) != 0
	}
}
