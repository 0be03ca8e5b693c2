package persist

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndex compares the index with a map, through growth, cleaning and shrinking, with hashes that collide.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		hashes := map[ref]uint64{}
		hashOf := func(r ref) uint64 { return hashes[r] }
		spread := rapid.SampledFrom([]uint64{1, 7, 1 << 20}).Draw(t, "spread")
		next := ref(0)
		var refs []ref
		for _, grow := range rapid.SliceOfN(rapid.IntRange(-400, 400), 1, 12).Draw(t, "growth") {
			for ; grow > 0; grow-- {
				next++
				mixed := uint64(next) * 0x9e3779b97f4a7c15
				hashes[next] = mixed<<56 | mixed>>20%spread
				x.add(hashes[next], next, hashOf)
				refs = append(refs, next)
			}
			for ; grow < 0 && len(refs) > 0; grow++ {
				i := int(next) * 31 % len(refs)
				r := refs[i]
				refs = append(refs[:i], refs[i+1:]...)
				x.remove(hashes[r], r, hashOf)
				if x.find(hashes[r], func(o ref) bool { return o == r }) != 0 {
					t.Fatalf("slot %d was removed and is still found", r)
				}
				delete(hashes, r)
			}
			for _, r := range refs {
				if x.find(hashes[r], func(o ref) bool { return o == r }) != r {
					t.Fatalf("slot %d is not found", r)
				}
			}
			if x.live != len(refs) {
				t.Fatalf("%d slots, the index counts %d", len(refs), x.live)
			}
			if len(refs) > 100 && x.old == nil && len(x.cur) > 16*len(refs) {
				t.Fatalf("%d entries for %d slots", len(x.cur), len(refs))
			}
		}
	})
}
