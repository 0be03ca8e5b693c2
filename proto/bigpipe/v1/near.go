package bigpipev1

import "unicode/utf8"

// maxCompared is the longest word that is compared with others, in characters.
const maxCompared = 100

// EditDistance counts the characters to insert, delete, change or swap to come from a to b, for words that may be misspelt. Above
// limit it may return any larger number.
func EditDistance(a, b string, limit int) int {
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
