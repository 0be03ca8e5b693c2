package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"bigpipe/grammar"
)

// ownUsage is the help on the commands that the language does not have.
var ownUsage = map[string]string{"lab": labUsage, "watch": watchUsage, "completion": completionUsage}

const labUsage = `lab: a file on loopback, to try it

  lab FILE [--state-dir DIR] [--listen ADDR] [--metrics HOST:PORT]
      starts mgmtd, a dataplane and demo members on 127.0.0.0/8, loads FILE and prints where its virtual servers are
`

// helpWords tells whether a command asks for help, and on what: help pool, pool -?, pool add -h.
func helpWords(text string) ([]string, bool) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, false
	}
	switch last := words[len(words)-1]; {
	case words[0] == "help":
		return words[1:], true
	case last == "-?" || last == "-h" || words[0] == "?":
		return words[:len(words)-1], true
	}
	return nil, false
}

// help prints help on the program, or on the command that words name.
func (a *app) help(words []string) int {
	text, known := usage, true
	switch {
	case len(words) == 0 && a.inShell:
		text, known = grammar.Help(nil)
		text += shellHelp
	case len(words) == 0:
	case ownUsage[words[0]] != "":
		text = ownUsage[words[0]]
	default:
		text, known = grammar.Help(words)
	}
	if !known {
		fmt.Fprint(a.stderr, "bigpipe: ", text)
		return exitUsage
	}
	return a.print("help", text)
}

// print writes text, or with -o json a document that holds it under name.
func (a *app) print(name, text string) int {
	if a.json() {
		document, err := json.Marshal(map[string]string{name: text})
		if err != nil {
			return a.fail(err)
		}
		text = string(document)
		if a.documents != nil {
			a.documents.add(document)
			return exitDone
		}
	}
	if _, err := fmt.Fprintln(a.stdout, strings.TrimSuffix(text, "\n")); err != nil {
		return a.fail(err)
	}
	return exitDone
}
