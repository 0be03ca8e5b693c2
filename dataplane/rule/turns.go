package rule

import "sync"

// turns deals out choices by weight: in every run of as many choices as the weights add up to, each gets exactly its weight,
// and they are mixed as evenly as they can be (smooth weighted round robin).
type turns struct {
	weights []int64
	sum     int64

	mu     sync.Mutex
	credit []int64 // guarded by mu
}

// newTurns takes weights above 0.
func newTurns(weights []uint32) *turns {
	t := &turns{weights: make([]int64, len(weights)), credit: make([]int64, len(weights))}
	for i, w := range weights {
		t.weights[i] = int64(w)
		t.sum += int64(w)
	}
	return t
}

// next returns the index of the next choice.
func (t *turns) next() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	best := 0
	for i, w := range t.weights {
		t.credit[i] += w
		if t.credit[i] > t.credit[best] {
			best = i
		}
	}
	t.credit[best] -= t.sum
	return best
}
