package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"bigpipe/cmd/bigpipe/internal/client"
	"bigpipe/cmd/bigpipe/internal/shell"
	"bigpipe/grammar"
)

// completionUsage is the help on a command that the language does not have.
const completionUsage = `completion: complete commands in bash and zsh

  completion bash|zsh
      prints a script for the shell to read
      example: source <(bigpipe completion bash)
`

// completeWord is the command that the scripts call: __complete LINE prints a line for each word that can end the command
// line, and its help after a tab.
const completeWord = "__complete"

//go:embed completion.bash
var bashScript string

//go:embed completion.zsh
var zshScript string

// completion prints the script of a shell.
func (a *app) completion(words []string) int {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript}
	if len(words) != 1 || scripts[words[0]] == "" {
		return a.usage(usageError("completion takes bash or zsh"))
	}
	return a.print("script", scripts[words[0]])
}

// runComplete answers __complete. Faults are silent: a completion has nothing to say.
func runComplete(ctx context.Context, args []string, env environment, stdout io.Writer) int {
	line := strings.Join(args, " ")
	typed, word := splitLine(line)
	if len(typed) > 0 {
		typed = typed[1:] // the program's own name
	}
	c := &completer{ctx: ctx, env: env}
	for _, candidate := range c.candidates(typed, word.text) {
		if strings.ContainsAny(candidate.Text, "\n\t") {
			continue
		}
		text := word.replace(candidate.Text)
		if _, err := fmt.Fprintf(stdout, "%s\t%s\n", text, candidate.Help); err != nil {
			return exitRefused
		}
	}
	return exitDone
}

// completer completes command lines.
type completer struct {
	ctx context.Context
	env environment
	// options are those of the command line.
	options *options
	// client is made when names are needed first; it ends with the program.
	client *client.Client
	silent bool // mgmtd did not answer once: it is not asked again
}

// optionWords are the options, with what their values are.
var optionWords = []struct {
	words []string
	value string // "", "file", "command", "format", "address"
	help  string
}{
	{[]string{"-a", "--address"}, "address", "mgmtd's admin address"},
	{[]string{"-o", "--output"}, "format", "text or json"},
	{[]string{"-c", "--command"}, "command", "run a command, then the next -c"},
	{[]string{"-d"}, "", "check only; change nothing"},
	{[]string{"-f"}, "file", "reset and load a file"},
	{[]string{"-l"}, "file", "merge a file"},
	{[]string{"-s"}, "file", "print or save the running configuration"},
	{[]string{"-r"}, "", "reset configuration and counters"},
	{[]string{"-n"}, "", "numbers instead of service names"},
	{[]string{"-v"}, "", "version"},
	{[]string{"-h", "-?"}, "", "help"},
	{[]string{"--tls-cert"}, "file", "certificate for a TCP address"},
	{[]string{"--tls-key"}, "file", "its key"},
	{[]string{"--tls-ca"}, "file", "who signs mgmtd's certificate"},
}

// candidates returns what can stand in the place of partial after the words of a command line.
func (c *completer) candidates(words []string, partial string) []shell.Candidate {
	o, err := parseOptions(words)
	if err == nil && len(o.words) > 0 {
		c.options = o
		return c.command(strings.Join(o.words, " ")+" ", partial)
	}
	kind := ""
	if len(words) > 0 {
		kind = optionValue(words[len(words)-1])
	}
	c.options = o
	if c.options == nil { // the last option has no value yet
		if c.options, err = parseOptions(words[:len(words)-1]); err != nil {
			c.options = &options{}
		}
	}
	switch {
	case kind == "file" && !strings.HasPrefix(partial, "-"):
		return shell.Files(partial)
	case kind == "format":
		return beginning(partial, shell.Candidate{Text: "text"}, shell.Candidate{Text: "json"})
	case kind == "command":
		return c.command("", partial)
	case kind == "address":
		return beginning(partial, shell.Candidate{Text: "unix:///"})
	case strings.HasPrefix(partial, "-"):
		return optionCandidates(partial)
	}
	return c.command("", partial)
}

// command completes the last word of a command. partial may hold several words, as in quotes.
func (c *completer) command(before, partial string) []shell.Candidate {
	own := []shell.Command{watchCommand, {
		Candidate: shell.Candidate{Text: "completion", Help: "print a script that completes commands in bash or zsh"},
		Next: func(words []string) []shell.Candidate {
			if len(words) > 0 {
				return nil
			}
			return []shell.Candidate{{Text: "bash"}, {Text: "zsh"}}
		},
	}, {
		Candidate: shell.Candidate{Text: "lab", Help: "run a file on loopback, to try it"},
	}}
	if words := strings.Fields(before); len(words) > 0 && words[0] == "lab" {
		return labCandidates(words[1:], partial)
	}
	text := before + partial
	language := &shell.Language{Names: c.names, Commands: own}
	found, start := language.Complete(text)
	if start < len(before) {
		return nil
	}
	kept := text[len(before):start]
	for i := range found {
		found[i].Text = kept + found[i].Text
	}
	return found
}

// names asks the mgmtd of the command line for names.
func (c *completer) names(kind grammar.Kind, prefix string) []string {
	if c.silent {
		return nil
	}
	if c.client == nil {
		o := c.options
		address := o.address
		if address == "" {
			address = client.DefaultAddress(c.env.address, c.env.runtimeDir)
		}
		var err error
		if c.client, err = client.New(address, client.TLS{Cert: o.tlsCert, Key: o.tlsKey, CA: o.tlsCA}); err != nil {
			c.silent = true
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, completionTime)
	defer cancel()
	names, err := c.client.Names(ctx, string(kind), prefix)
	c.silent = err != nil
	return names
}

// optionValue says what the value of an option is, "" where it has none or it is attached.
func optionValue(word string) string {
	for _, o := range optionWords {
		if slices.Contains(o.words, word) {
			return o.value
		}
	}
	return ""
}

func optionCandidates(partial string) []shell.Candidate {
	var all []shell.Candidate
	for _, o := range optionWords {
		for _, word := range o.words {
			all = append(all, shell.Candidate{Text: word, Help: o.help})
		}
	}
	return beginning(partial, all...)
}

func labCandidates(words []string, partial string) []shell.Candidate {
	if strings.HasPrefix(partial, "-") {
		return beginning(partial, shell.Candidate{Text: "--state-dir", Help: "keeps state and logs"},
			shell.Candidate{Text: "--listen", Help: "mgmtd's admin address"}, shell.Candidate{Text: "--metrics", Help: "HOST:PORT of metrics"})
	}
	if len(words) > 0 && words[len(words)-1] == "--metrics" {
		return nil
	}
	return shell.Files(partial)
}

// beginning are the candidates that begin with partial.
func beginning(partial string, candidates ...shell.Candidate) []shell.Candidate {
	return slices.DeleteFunc(candidates, func(c shell.Candidate) bool { return !strings.HasPrefix(c.Text, partial) })
}

// lineWord is the last word of a command line, as the user's shell will read it.
type lineWord struct {
	text  string // without quotes
	quote byte   // the quote that is open at the end, 0 for none
}

// splitLine splits a command line into complete words and the one that is being typed, in the way of a shell.
func splitLine(line string) (words []string, last lineWord) {
	var b strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case last.quote != 0 && c == last.quote:
			last.quote = 0
		case c == '\\' && last.quote != '\'' && i+1 < len(line) && (last.quote == 0 || strings.IndexByte("\"\\$`", line[i+1]) >= 0):
			i++
			b.WriteByte(line[i])
			inWord = true
		case last.quote == 0 && (c == '\'' || c == '"'):
			last.quote, inWord = c, true
		case last.quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	last.text = b.String()
	return words, last
}

// replace is a candidate as it stands in the line: what the user's shell would read otherwise is protected.
func (w lineWord) replace(text string) string {
	text = strings.ReplaceAll(text, `"`, "") // of a file's name with blanks
	special := " \t'\"\\$`&;|<>()*?[]#~!"
	switch w.quote {
	case '\'':
		return text
	case '"':
		special = "\"\\$`"
	}
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(special, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
