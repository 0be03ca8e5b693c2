package shell

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// AmbiguousError says that a word is the beginning of several.
type AmbiguousError struct {
	Word    string
	Choices []Candidate
}

// Error names the words.
func (e *AmbiguousError) Error() string {
	words := make([]string, len(e.Choices))
	for i, c := range e.Choices {
		words[i] = c.Text
	}
	return fmt.Sprintf("%q may be %s", e.Word, strings.Join(words, ", "))
}

// maxTries bounds how many readings of one text are tried.
const maxTries = 64

// Expand replaces unique beginnings of words by the words: po web sh is pool web show. A text that is no fault as it stands is
// left alone, as are names of objects and what stands in braces. The error is an AmbiguousError.
func (l *Language) Expand(text string) (string, error) {
	tokens, _ := scan(text)
	if own, rest := l.own(tokens); own != nil {
		expanded := own.Text + text[tokens[0].end:]
		if rest < 0 || rest >= len(tokens) {
			return expanded, nil
		}
		tail, err := l.Expand(text[tokens[rest].start:])
		return own.Text + text[tokens[0].end:tokens[rest].start] + tail, err
	}
	if !l.wrong(text) {
		return text, nil
	}
	s := search{language: l}
	found, _, ambiguous := s.run("", text)
	switch {
	case ambiguous != nil:
		return text, ambiguous
	case found != "":
		return found, nil
	}
	return s.first, nil
}

// wrong tells whether a text is a fault, or asks for an object that does not exist: virtual sh.
func (l *Language) wrong(text string) bool {
	statements, diagnostics := grammar.ParseCommand(&pb.Position{Line: 1, Column: 1}, []byte(text))
	return hasError(diagnostics) || slices.ContainsFunc(statements, func(s *grammar.Statement) bool {
		if s.Action != grammar.ActionShow || s.Key == "" || l.Names == nil {
			return false
		}
		keyword, _, _ := strings.Cut(s.Text, " ")
		_, name := pb.SplitKey(s.Key)
		if _, choices := l.options(keyword+" ", name); len(choices) == 0 {
			return false // it cannot be meant as anything else
		}
		_, known := slices.BinarySearch(l.Names(s.Kind, name), name)
		return !known
	})
}

// search looks for the reading of a text that is no fault.
type search struct {
	language *Language
	tries    int
	first    string // the first reading that was tried
}

// run reads rest after done, which holds whole words. ok is set where there is a reading without a fault; ambiguous where there
// are several, or none but a word that has several.
func (s *search) run(done, rest string) (found string, ok bool, ambiguous *AmbiguousError) {
	word, more := nextWord(rest)
	if !more {
		s.tries++
		if s.tries == 1 {
			s.first = done + rest
		}
		return done + rest, !s.language.wrong(done + rest), nil
	}
	before := done + rest[:word.start]
	named, choices := s.language.options(before, word.text)
	if named {
		if found, ok, ambiguous = s.run(before+word.text, rest[word.end:]); ok {
			return found, true, nil
		}
	}
	var read []Candidate // the choices that have a reading
	for _, c := range choices {
		if s.tries >= maxTries {
			return "", false, &AmbiguousError{Word: word.text, Choices: choices}
		}
		text, good, inner := s.run(before+c.Text, rest[word.end:])
		if good || inner != nil {
			read = append(read, c)
			found, ok, ambiguous = text, good, inner
		}
	}
	switch {
	case len(read) > 1:
		return "", false, &AmbiguousError{Word: word.text, Choices: read}
	case len(read) == 0 && len(choices) > 1 && !named:
		return "", false, &AmbiguousError{Word: word.text, Choices: choices}
	}
	return found, ok, ambiguous
}

// nextWord returns the next word of a text outside of braces and strings.
func nextWord(text string) (token, bool) {
	tokens, _ := scan(text)
	for _, t := range tokens {
		if t.depth == 0 && isWord(t.text) && t.text[0] != '"' {
			return t, true
		}
	}
	return token{}, false
}

// options are the words that a word after a text may stand for. named is set where it may be a name, or stands for itself: it is
// a whole word, or the beginning of none.
func (l *Language) options(before, word string) (named bool, choices []Candidate) {
	found, _ := grammar.Complete(before+word, len(before)+len(word), func(grammar.Kind) []string {
		named = true
		return nil
	})
	first := strings.TrimSpace(before) == ""
	for _, f := range found {
		if f.Text == word {
			return true, nil
		}
		if f.Help != "" && (!first || commandWords()[f.Text]) { // what has no help is no keyword: services, variables
			choices = append(choices, Candidate(f))
		}
	}
	if first {
		for _, own := range l.Commands {
			if own.Text == word {
				return true, nil
			}
			if strings.HasPrefix(own.Text, word) {
				choices = append(choices, own.Candidate)
			}
		}
	}
	return named || len(choices) == 0, choices
}

// commandWords are the statement words that begin a command. The others stand in files of the old unit only.
var commandWords = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{"vip": true}
	for _, c := range grammar.Commands {
		first, _, _ := strings.Cut(c.Form, " ")
		words[first] = true
	}
	return words
})

// maxReadings bounds the readings of the words before one that is completed.
const maxReadings = 8

// readings are the ways to read the text before a word that is completed: beginnings of words replaced by the words.
func (l *Language) readings(text string) []string {
	type partly struct{ done, rest string }
	todo, readings := []partly{{"", text}}, []string(nil)
	for len(todo) > 0 && len(readings)+len(todo) <= maxReadings {
		p := todo[0]
		todo = todo[1:]
		word, ok := nextWord(p.rest)
		if !ok {
			readings = append(readings, p.done+p.rest)
			continue
		}
		before, after := p.done+p.rest[:word.start], p.rest[word.end:]
		named, choices := l.options(before, word.text)
		if named {
			choices = []Candidate{{Text: word.text}}
		}
		for _, c := range choices {
			todo = append(todo, partly{before + c.Text, after})
		}
	}
	return readings
}
