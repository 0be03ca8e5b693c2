package mgmtd

import (
	"slices"

	"github.com/pmezard/go-difflib/difflib"
)

// exhaustive is how many pairs of lines are compared at most: the time for that grows with their square. Of longer texts the lines
// are found first with which both begin and end, and those that both have once; what stands between them is compared.
const exhaustive = 1 << 20

// matching returns how the lines a become b, without regarding frequent lines as noise. What is too long to compare is replaced
// whole.
func matching(a, b []string) []difflib.OpCode {
	if len(a)*len(b) <= exhaustive {
		return difflib.NewMatcherWithJunk(a, b, false, nil).GetOpCodes()
	}
	first, most := 0, min(len(a), len(b))
	for first < most && a[first] == b[first] {
		first++
	}
	last := 0
	for last < most-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	equal := func(from pair, n int) difflib.OpCode {
		return difflib.OpCode{Tag: 'e', I1: from.a, I2: from.a + n, J1: from.b, J2: from.b + n}
	}
	end := pair{len(a) - last, len(b) - last}
	codes, at := []difflib.OpCode{equal(pair{}, first)}, pair{first, first}
	for _, m := range anchors(a[first:end.a], b[first:end.b]) {
		m = pair{m.a + first, m.b + first}
		codes = append(append(codes, between(a, b, at, m)...), equal(m, 1))
		at = pair{m.a + 1, m.b + 1}
	}
	codes = append(append(codes, between(a, b, at, end)...), equal(end, last))
	return slices.DeleteFunc(codes, func(c difflib.OpCode) bool { return c.I1 == c.I2 && c.J1 == c.J2 })
}

// pair is a place in each of two texts.
type pair struct{ a, b int }

// between compares what stands between two pairs.
func between(a, b []string, from, to pair) []difflib.OpCode {
	whole := difflib.OpCode{Tag: 'r', I1: from.a, I2: to.a, J1: from.b, J2: to.b}
	switch left, right := to.a-from.a, to.b-from.b; {
	case left == 0 && right == 0:
		return nil
	case left == 0:
		whole.Tag = 'i'
	case right == 0:
		whole.Tag = 'd'
	case left*right <= exhaustive:
		codes := matching(a[from.a:to.a], b[from.b:to.b])
		for i := range codes {
			c := &codes[i]
			c.I1, c.I2, c.J1, c.J2 = c.I1+from.a, c.I2+from.a, c.J1+from.b, c.J2+from.b
		}
		return codes
	}
	return []difflib.OpCode{whole}
}

// anchors are the most lines that both texts have once and in the same order.
func anchors(a, b []string) []pair {
	once := onceIn(b)
	var common []pair
	for line, i := range onceIn(a) {
		if j, both := once[line]; both {
			common = append(common, pair{i, j})
		}
	}
	slices.SortFunc(common, func(x, y pair) int { return x.a - y.a })
	return rising(common)
}

// onceIn finds the lines that a text has once, and where.
func onceIn(text []string) map[string]int {
	at := make(map[string]int, len(text))
	for i, line := range text {
		if _, again := at[line]; again {
			i = -1
		}
		at[line] = i
	}
	for line, i := range at {
		if i < 0 {
			delete(at, line)
		}
	}
	return at
}

// rising is the longest part of a list, which rises in a, that rises in b too.
func rising(list []pair) []pair {
	var last []int // of the rising parts of each length, the index of the end that is least in b
	before := make([]int, len(list))
	for i, p := range list {
		n, _ := slices.BinarySearchFunc(last, p.b, func(k, b int) int { return list[k].b - b })
		before[i] = -1
		if n > 0 {
			before[i] = last[n-1]
		}
		if n == len(last) {
			last = append(last, i)
		} else {
			last[n] = i
		}
	}
	part := make([]pair, len(last))
	if len(last) > 0 {
		for n, i := len(last)-1, last[len(last)-1]; n >= 0; n, i = n-1, before[i] {
			part[n] = list[i]
		}
	}
	return part
}
