package grammar

import (
	"slices"
	"unicode/utf8"
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
		d := editDistance(word, w, distance)
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

// maxCompared is the longest word that is compared with others, in characters.
const maxCompared = 100

// editDistance counts the characters to insert, delete, change or swap to come from a to b. Above limit it may return any larger number.
func editDistance(a, b string, limit int) int {
	if isASCII(a) && isASCII(b) {
		if max(len(a), len(b)) > maxCompared || max(len(a)-len(b), len(b)-len(a)) > limit {
			return limit + 1
		}
		return distance([]byte(a), []byte(b))
	}
	s, t := []rune(a), []rune(b)
	if max(len(s), len(t)) > maxCompared || max(len(s)-len(t), len(t)-len(s)) > limit {
		return limit + 1
	}
	return distance(s, t)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// distance is the edit distance of two words of at most maxCompared characters.
func distance[C byte | rune](s, t []C) int {
	var rows [3][maxCompared + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(t) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
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
