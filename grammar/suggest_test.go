package grammar

import (
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

// swaps returns a word with each pair of different neighbours swapped.
func swaps(word string) []string {
	var all []string
	for i := 1; i < len(word); i++ {
		if word[i-1] != word[i] {
			all = append(all, word[:i-1]+word[i:i+1]+word[i-1:i]+word[i+1:])
		}
	}
	return all
}

// suggestionFor parses a command and returns what its first fault or warning offers.
func suggestionFor(text string) string {
	_, ds := ParseCommand(&pb.Position{}, []byte(text))
	if len(ds) == 0 {
		return "no fault"
	}
	if _, meant, ok := strings.Cut(ds[0].GetMessage(), `did you mean "`); ok {
		return strings.TrimSuffix(meant, `"?`)
	}
	return ds[0].GetSuggestion()
}

// statementWith is a statement of a table's kind that says some words.
func statementWith(table *Table, words string) string {
	switch table {
	case Pools:
		return "pool p { " + words + " 5 }"
	case Members:
		return "pool p { member 10.1.1.1:80 " + words + " 5 }"
	case Virtuals:
		return "virtual 10.0.0.1:80 { " + words + " 5 }"
	case VirtualAddresses:
		return "virtual 10.0.0.1 { " + words + " 5 }"
	case Nodes:
		return "node 10.1.1.1 " + words + " 5"
	case Services:
		return "service 80 " + words + " 5"
	case Globals:
		return "global " + words + " 5"
	case Monitors, Classes, Vlans, Vlangroups, Stps, Interfaces, Trunks:
		return string(table.Kind) + " x { " + words + " 5 }"
	case Selfs, Nats:
		return string(table.Kind) + " 10.0.0.1 { " + words + " 5 }"
	case Proxies:
		return "proxy 10.0.0.1:443 { " + words + " 5 }"
	}
	return ""
}

// TestSuggest: two neighbours swapped in any word of any attribute, of any statement word, and of any value that is a word: what was
// meant is offered.
func TestSuggest(t *testing.T) {
	// Where another word is as near, or words that begin alike, these will do.
	check := func(text, typed, want string) {
		t.Helper()
		got := suggestionFor(text)
		near := got != "" && strings.HasPrefix(want, got+" ")
		for n := 1; n <= 4; n++ {
			near = near || pb.EditDistance(typed, firstWords(got, n), 9) == 1
		}
		if got != want && !near {
			t.Errorf("%s: %q is taken for %q, want %q", text, typed, got, want)
		}
	}
	for _, table := range Tables() {
		if statementWith(table, "") == "" {
			continue
		}
		for _, list := range table.byFirst {
			for _, s := range list {
				for i, word := range s.words {
					for _, typed := range swaps(word) {
						words := append(append(append([]string{}, s.words[:i]...), typed), s.words[i+1:]...)
						c := &cursor{}
						for _, w := range words {
							it := item{}
							it.Token.Value = w
							c.items = append(c.items, it)
						}
						if _, _, known := table.match(c); known || len(word) < 3 || table.spelled(words) {
							continue
						}
						check(statementWith(table, strings.Join(words, " ")), strings.Join(words[:i+1], " "), strings.Join(s.words, " "))
					}
				}
			}
		}
		for _, a := range table.Rows {
			for _, value := range a.ValueWords() {
				for _, typed := range swaps(value) {
					if a.Value == ValueWord && a.enum[typed] == 0 && len(value) > 2 {
						check(statementWith(table, a.Name()+" "+typed), typed, value)
					}
				}
			}
		}
	}
	for _, word := range statementNames {
		for _, typed := range swaps(word) {
			if statementWords[typed] == nil && len(word) > 2 && statementWords[word].missing == "" {
				check(typed+" x { }", typed, word)
			}
		}
	}
	check("pool p { member 10.1.1.1:80 ratoi 2 }", "ratoi", "ratio")
	check("ratoi 10.1.1.1 2", "ratoi", "ratio")
	check("lb ratoi", "ratoi", "ratio")
}

// spelled tells whether words are an attribute's.
func (t *Table) spelled(words []string) bool {
	for _, s := range t.byFirst[words[0]] {
		if strings.Join(s.words, " ") == strings.Join(words, " ") {
			return true
		}
	}
	return false
}
