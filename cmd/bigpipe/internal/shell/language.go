package shell

import (
	"net/netip"
	"slices"
	"strings"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// Candidate is one way to go on.
type Candidate struct {
	Text string
	Help string
}

// Language is what can be typed: the commands of the grammar, those of the program itself, names of objects and of files.
type Language struct {
	// Names returns the names of the objects of a kind that begin with prefix, in order; it may return others too. Nil knows
	// none. It is called once for each kind and completion.
	Names func(kind grammar.Kind, prefix string) []string
	// Commands are the program's own commands. One that has a Rest is followed by a command of the grammar.
	Commands []Command
}

// Command is a command of the program itself.
type Command struct {
	Candidate
	// Rest tells how many of the words that follow belong to the command, before another command begins; nil: none begins.
	Rest func(words []string) int
	// Next offers what can follow the words; nil offers nothing.
	Next func(words []string) []Candidate
}

// Complete returns what can stand at the end of text, and the place in text, in bytes, that a candidate replaces from.
// Abbreviated words before it are understood.
func (l *Language) Complete(text string) (candidates []Candidate, start int) {
	l = l.askingOnce()
	if strings.HasSuffix(strings.TrimRight(text, " \t"), "\n") || strings.TrimSpace(text) == "" {
		return l.grammar(text, len(text), "")
	}
	tokens, open := scan(text)
	if len(tokens) == 0 {
		return l.grammar(text, len(text), "")
	}
	partial := ""
	if last := tokens[len(tokens)-1]; last.end == len(text) && (isWord(last.text) || open) {
		partial = last.text
		tokens = tokens[:len(tokens)-1]
	} else if open {
		return nil, len(text) // inside a comment
	}
	start = len(text) - len(partial)
	if own, rest := l.own(tokens); own != nil {
		switch {
		case rest >= 0:
			before := ""
			if rest < len(tokens) {
				before = text[tokens[rest].start:start]
			}
			found, _ := l.Complete(before + partial)
			if own.Next != nil && rest == len(tokens) {
				found = merge(matching(own.Next(texts(tokens)[1:]), partial), found)
			}
			return found, start
		case own.Next != nil:
			return matching(own.Next(texts(tokens)[1:]), partial), start
		}
		return nil, start
	}
	var lists [][]Candidate
	for _, before := range l.readings(text[:start]) {
		found, _ := l.grammar(before+partial, len(before), partial)
		words := lastStatement(before)
		lists = append(lists, found, fileCandidates(words, partial), l.members(words, partial))
	}
	return merge(lists...), start
}

// askingOnce is the language with names that are asked for once for each kind and prefix.
func (l *Language) askingOnce() *Language {
	if l.Names == nil {
		return l
	}
	type question struct {
		kind   grammar.Kind
		prefix string
	}
	known := map[question][]string{}
	once := *l
	once.Names = func(kind grammar.Kind, prefix string) []string {
		q := question{kind, prefix}
		names, asked := known[q]
		if !asked {
			names = l.Names(kind, prefix)
			known[q] = names
		}
		return names
	}
	return &once
}

// members completes the address of a member in a pool.
func (l *Language) members(words []string, partial string) []Candidate {
	if len(words) < 3 || words[0] != "pool" || words[len(words)-1] != "member" || openBlock(words) < 0 {
		return nil
	}
	var list []Candidate
	for _, name := range l.names(grammar.KindNode, partial) {
		if _, err := netip.ParseAddrPort(name); err == nil {
			list = append(list, Candidate{Text: name, Help: "node"})
		}
	}
	return list
}

// merge makes one list of several, in order.
func merge(lists ...[]Candidate) []Candidate {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Candidate) int { return strings.Compare(a.Text, b.Text) })
	return slices.CompactFunc(all, func(a, b Candidate) bool { return a.Text == b.Text })
}

// own returns the program's own command that tokens begin with, and where in tokens the command begins that it is followed
// by: len(tokens) when that is next, -1 when none follows or its own words are not complete.
func (l *Language) own(tokens []token) (*Command, int) {
	if len(tokens) == 0 {
		return nil, 0
	}
	name := tokens[0].text
	if named, choices := l.options("", name); !named && len(choices) == 1 {
		name = choices[0].Text
	}
	for i, c := range l.Commands {
		if c.Text != name {
			continue
		}
		if c.Rest == nil {
			return &l.Commands[i], -1
		}
		return &l.Commands[i], 1 + c.Rest(texts(tokens[1:]))
	}
	return nil, 0
}

// grammar returns the grammar's candidates for the word at start, with help on names. At the beginning of a text the program's
// own commands are among them.
func (l *Language) grammar(text string, start int, partial string) ([]Candidate, int) {
	offered := map[grammar.Kind][]string{}
	found, at := grammar.Complete(text, len(text), func(kind grammar.Kind) []string {
		if _, asked := offered[kind]; asked {
			return nil // several forms of a command ask; once is enough
		}
		offered[kind] = l.names(kind, partial)
		return offered[kind]
	})
	candidates := make([]Candidate, 0, len(found))
	for _, f := range found {
		if !strings.HasPrefix(f.Text, partial) {
			continue // partial is a string
		}
		c := Candidate(f)
		if c.Help == "" {
			c.Help = kindOf(offered, c.Text)
		}
		candidates = append(candidates, c)
	}
	if strings.TrimSpace(text[:start]) == "" {
		for _, own := range l.Commands {
			if strings.HasPrefix(own.Text, partial) {
				candidates = append(candidates, own.Candidate)
			}
		}
		candidates = merge(candidates)
	}
	return candidates, at
}

// kindOf says what a name is, "" where it is none of those that were offered.
func kindOf(offered map[grammar.Kind][]string, name string) string {
	for kind, names := range offered {
		if _, is := slices.BinarySearch(names, name); is {
			return strings.ReplaceAll(string(kind), "_", " ")
		}
	}
	return ""
}

// names are the names of a kind that begin with partial.
func (l *Language) names(kind grammar.Kind, partial string) []string {
	if l.Names == nil {
		return nil
	}
	all := l.Names(kind, partial)
	first, _ := slices.BinarySearch(all, partial)
	end := first
	for end < len(all) && strings.HasPrefix(all[end], partial) {
		end++
	}
	return all[first:end]
}

// Incomplete tells whether a statement in text is still open, so that it goes on in the next line.
func (l *Language) Incomplete(text string) bool {
	parts, _ := grammar.Split("", []byte(text))
	return len(parts) > 0 && parts[len(parts)-1].Open
}

// lastStatement returns the words of the statement that a text ends with; none after one that is closed.
func lastStatement(text string) []string {
	parts, _ := grammar.Split("", []byte(text))
	if len(parts) == 0 {
		return nil
	}
	last := parts[len(parts)-1]
	tokens, _ := scan(last.Text)
	if !last.Open && len(tokens) > 0 && tokens[len(tokens)-1].text == "}" {
		return nil
	}
	return texts(tokens)
}

func matching(candidates []Candidate, partial string) []Candidate {
	var list []Candidate
	for _, c := range candidates {
		if strings.HasPrefix(c.Text, partial) {
			list = append(list, c)
		}
	}
	return list
}

// isWord tells a word or a string from signs.
func isWord(text string) bool { return strings.IndexByte("{}()'", text[0]) < 0 }

// faulty tells whether a text has an error as commands.
func faulty(text string) bool {
	_, diagnostics := grammar.ParseCommand(&pb.Position{Line: 1, Column: 1}, []byte(text))
	return hasError(diagnostics)
}

func hasError(diagnostics []*pb.Diagnostic) bool {
	return slices.ContainsFunc(diagnostics, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR })
}
