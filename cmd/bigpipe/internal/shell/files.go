package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bigpipe/grammar"
)

// fileCandidates completes the words of load, merge, save and verify load that name a file or are the value of an option; nil
// where no such word is expected.
func fileCandidates(words []string, partial string) []Candidate {
	if len(words) > 1 && words[0] == "verify" && words[1] == "load" {
		words = words[1:]
	}
	if len(words) == 0 || !slices.Contains([]string{"load", "merge", "save"}, words[0]) {
		return nil
	}
	switch words[len(words)-1] {
	case "--confirm-within":
		return matching([]Candidate{
			{"1m", "go back unless confirmed within a minute"}, {"5m", "five minutes"}, {"1h", "an hour"},
		}, partial)
	case "--dialect":
		return matching([]Candidate{{"3", "words of 3.x"}, {"4", "words of 4.x"}}, partial)
	}
	if strings.HasPrefix(partial, "--") || named(words[1:]) {
		return nil
	}
	return Files(partial)
}

// named tells whether the words of a file command name a file already.
func named(words []string) bool {
	for i, word := range words {
		if strings.HasPrefix(word, "--") || i > 0 && (words[i-1] == "--confirm-within" || words[i-1] == "--dialect") {
			continue
		}
		return true
	}
	return false
}

// Files returns the files and folders whose names begin with partial, which may begin with a quote; a folder ends with a slash.
// Hidden ones are offered after a dot only.
func Files(partial string) []Candidate {
	prefix := strings.TrimPrefix(partial, `"`)
	dir, base := filepath.Split(prefix)
	open := dir
	if open == "" {
		open = "."
	}
	entries, err := os.ReadDir(open)
	if err != nil {
		return nil
	}
	var list []Candidate
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, base) || name[0] == '.' && base == "" || strings.ContainsAny(name, "\"\n\r") {
			continue
		}
		c := Candidate{Text: dir + name, Help: "file"}
		if isDir(filepath.Join(open, name), entry) {
			c = Candidate{Text: c.Text + "/", Help: "folder"}
		}
		if partial != prefix || grammar.Word(c.Text) != c.Text {
			c.Text = `"` + c.Text
			if c.Help == "file" {
				c.Text += `"`
			}
		}
		list = append(list, c)
	}
	return list
}

// isDir tells whether an entry is a folder, or a link to one.
func isDir(path string, entry os.DirEntry) bool {
	if entry.Type()&os.ModeSymlink == 0 {
		return entry.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
