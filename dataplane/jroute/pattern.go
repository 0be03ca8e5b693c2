package jroute

import (
	"cmp"
	"slices"
	"strings"
)

// Match reports whether a pattern is all of a path: "*" stands for any bytes, "/" among them, "?" for one.
func Match(pattern string, path []byte) bool {
	p, i := 0, 0
	star, from := -1, 0 // where the last star stood, and to where it reaches
	for i < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == path[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Contexts are the paths of applications, the longest first (rule J-21).
type Contexts []string

// NewContexts makes contexts of paths; of none, the one of everything.
func NewContexts(paths []string) Contexts {
	c := make(Contexts, 0, max(len(paths), 1))
	for _, path := range paths {
		c = append(c, strings.TrimRight(path, "/"))
	}
	if len(c) == 0 {
		c = append(c, "")
	}
	slices.SortStableFunc(c, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return c
}

// Of returns the context of a path: the longest that the path is equal to or below, as a cookie's path. It is false where the path
// is outside of all.
func (c Contexts) Of(path []byte) (context string, ok bool) {
	for _, context := range c {
		if len(path) < len(context) || string(path[:len(context)]) != context {
			continue
		}
		if rest := path[len(context):]; len(rest) == 0 || rest[0] == '/' || rest[0] == ';' {
			return cmp.Or(context, "/"), true
		}
	}
	return "", false
}
