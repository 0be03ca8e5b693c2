package shell

import (
	"slices"
	"strings"

	"bigpipe/grammar"
)

// Continuations returns a line of help for each way to go on at the end of text: what Complete offers, values that have no
// words, in capitals, and the end of the command where it may end.
func (l *Language) Continuations(text string) []Candidate {
	l = l.askingOnce()
	candidates, start := l.Complete(text)
	list := candidates
	if tokens, _ := scan(text); len(tokens) > 0 {
		if own, rest := l.own(tokens); own != nil {
			if rest < 0 || rest >= len(tokens) {
				return list
			}
			skip := tokens[rest].start
			text, start = text[skip:], start-skip
		}
	}
	ends := false
	for _, before := range l.readings(text[:start]) {
		for _, h := range hints(lastStatement(before)) {
			if !slices.ContainsFunc(list, func(c Candidate) bool { return c.Text == h.Text }) {
				list = append(list, h)
			}
		}
		ends = ends || l.complete(before+text[start:])
	}
	if ends {
		list = append(list, Candidate{Text: "ENTER", Help: "run the command"})
	}
	return list
}

// complete tells whether a text is a command that may be run.
func (l *Language) complete(text string) bool {
	if strings.TrimSpace(text) == "" || l.Incomplete(text) {
		return false
	}
	text, err := l.Expand(text)
	return err == nil && !faulty(text)
}

// hints returns the placeholders of what can follow the words of a statement.
func hints(words []string) []Candidate {
	if len(words) == 0 {
		return nil
	}
	keyword := words[0]
	if keyword == "vip" {
		keyword = "virtual"
	}
	if open := openBlock(words); open >= 0 {
		return blockHints(keyword, words[open:])
	}
	var list []Candidate
	for _, command := range grammar.Commands {
		for _, form := range command.Forms() {
			if form[0] == keyword {
				list = append(list, formHints(command, form, words)...)
			}
		}
	}
	return list
}

// isLiteral tells whether a word is one that a form of a command has at a place.
func isLiteral(keyword, word string, place int) bool {
	for _, command := range grammar.Commands {
		for _, form := range command.Forms() {
			if form[0] == keyword && place < len(form) && !grammar.IsPlaceholder(form[place]) &&
				slices.Contains(strings.Split(form[place], "|"), word) {
				return true
			}
		}
	}
	return false
}

// openBlock is where the words inside the outermost open brace begin, -1 if none is open.
func openBlock(words []string) int {
	depth, open := 0, -1
	for i, word := range words {
		switch word {
		case "{":
			if depth == 0 {
				open = i + 1
			}
			depth++
		case "}":
			depth--
		}
	}
	if depth <= 0 {
		return -1
	}
	return open
}

func blockHints(keyword string, words []string) []Candidate {
	table := grammar.TableOf(grammar.Kind(keyword))
	if table == nil {
		return nil
	}
	list := valueHints(table, words)
	if table == grammar.Pools {
		if len(words) > 0 && words[len(words)-1] == "member" {
			return []Candidate{{"ADDRESS:SERVICE", "a node and its port"}}
		}
		list = append(list, valueHints(grammar.Members, words)...)
	}
	return list
}

// valueHints describes the value of the attribute that words end with: of several that with the longest name.
func valueHints(table *grammar.Table, words []string) []Candidate {
	var found *grammar.Attribute
	longest := 0
	for _, a := range table.Rows {
		for _, spelling := range append([][]string{a.Words}, a.Aliases...) {
			n := len(words) - len(spelling)
			if n >= 0 && len(spelling) > longest && slices.Equal(words[n:], spelling) {
				found, longest = a, len(spelling)
			}
		}
	}
	if found == nil {
		return nil
	}
	var list []Candidate
	for _, usage := range usages(found) {
		list = append(list, Candidate{usage, found.Help})
	}
	return list
}

// usages are the forms of an attribute's value that are not words.
func usages(a *grammar.Attribute) []string {
	usage := a.Usage()
	if len(a.ValueWords()) == 0 && usage != "" {
		return []string{usage}
	}
	var list []string
	for _, part := range strings.Split(usage, "|") {
		if grammar.IsPlaceholder(part) {
			list = append(list, part)
		}
	}
	return list
}

// formHints describes the element of a form that follows words.
func formHints(command *grammar.Command, form, words []string) []Candidate {
	for i := 1; i < len(words); i++ {
		switch {
		case i >= len(form):
			return filterHints(command, words[len(form):])
		case form[i] == "ATTRIBUTES":
			table := grammar.TableOf(grammar.Kind(form[0]))
			if table == nil {
				return nil
			}
			return valueHints(table, words[i:])
		case grammar.IsPlaceholder(form[i]) && isLiteral(form[0], words[i], i):
			return nil
		case !grammar.IsPlaceholder(form[i]) && !slices.Contains(strings.Split(form[i], "|"), words[i]):
			return nil
		}
	}
	if len(form) <= len(words) || !grammar.IsPlaceholder(form[len(words)]) || form[len(words)] == "ATTRIBUTES" {
		return nil
	}
	return []Candidate{{form[len(words)], command.Help}}
}

// filterHints describes the value of the pair that words end with.
func filterHints(command *grammar.Command, words []string) []Candidate {
	if len(words)%2 == 0 {
		return nil
	}
	for _, pair := range command.Filter {
		if word, value, _ := strings.Cut(pair, " "); word == words[len(words)-1] {
			return []Candidate{{value, command.Help}}
		}
	}
	return nil
}
