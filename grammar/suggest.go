package grammar

import (
	"slices"
	"unicode/utf8"

	pb "bigpipe/proto/bigpipe/v1"
)

// nearest returns the word that was probably meant, "" if none is close. Of words that are equally close, the one that begins like
// the word wins.
func nearest(word string, words []string) string {
	if len(word) > maxText {
		return ""
	}
	best, prefix := "", -1
	distance := min(3, max(1, utf8.RuneCountInString(word)/3))
	for _, w := range words {
		d := pb.EditDistance(word, w, distance)
		if d == 0 {
			return "" // the word is right and only stands in the wrong place
		}
		if d > distance || d >= utf8.RuneCountInString(w) {
			continue
		}
		if p := commonPrefix(word, w); d < distance || p > prefix {
			best, distance, prefix = w, d, p
		}
	}
	return best
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
