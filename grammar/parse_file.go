package grammar

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// list reads list [KIND [NAME]].
func (cl *clause) list() {
	c := cl.c
	t, ok := c.peek()
	if !ok {
		cl.emit(ActionList, "", "", lexer.Token{})
		cl.end()
		return
	}
	word := statementWords[t.Value]
	if word == nil || word.kind == "" {
		var kinds []string
		for _, k := range sortedKeys(statementWords) {
			if statementWords[k].kind != "" {
				kinds = append(kinds, k)
			}
		}
		cl.p.faults.at(t, CodeUnknownWord, nearest(t.Value, kinds), "%q is no kind of object", t.Value)
		return
	}
	c.i++
	name, ok := c.peek()
	if !ok {
		cl.emit(ActionList, word.kind, "", lexer.Token{})
		cl.end()
		return
	}
	c.i++
	kind, text := word.kind, name.Value
	switch kind {
	case KindVirtual, KindNode:
		e, fault, suggestion := parseEndpoint(text)
		if fault != "" {
			cl.p.faults.at(name, CodeValue, suggestion, "%s: %s", t.Value, fault)
			return
		}
		if text = e.String(); kind == KindVirtual && !e.hasPort && isAddress(text) {
			kind = KindVirtualAddress
		}
	case KindService:
		if port, ok := ParseService(text); ok {
			text = strconv.Itoa(int(port))
		}
	default:
		if canonical, fault := legacyName(kind, text); fault == "" {
			text = canonical
		}
	}
	cl.emit(ActionList, kind, string(kind)+"/"+text, name)
	cl.end()
}

// The options of file commands.
const (
	OptionDryRun        = "--dry-run"
	OptionConfirmWithin = "--confirm-within"
	OptionDialect       = "--dialect"
)

// fileCommand reads [OPTION [VALUE] | OPTION=VALUE] [FILE]. Words are the file ("" if none is named) and the options with their
// values.
func (cl *clause) fileCommand(action Action, need int, options ...string) {
	c := cl.c
	file := ""
	var words []string
	var within uint64
	for !c.done() {
		t, ok := c.peek()
		c.i++
		text := unquote(t)
		name, value, attached := strings.Cut(text, "=")
		switch {
		case !ok:
			cl.p.faults.at(c.items[c.i-1].token(), CodeSyntax, "", "a file's name is expected")
			return
		case slices.Contains(options, name):
			words = append(words, name)
			if name == OptionDryRun {
				if attached {
					cl.p.faults.at(t, CodeSyntax, name, "%s takes no value", name)
					return
				}
				continue
			}
			vt := t
			if !attached {
				if value, vt, ok = cl.argument(t); !ok {
					return
				}
			}
			seconds, ok := cl.optionValue(name, value, vt)
			if !ok {
				return
			}
			within += seconds
			words = append(words, value)
		case strings.HasPrefix(text, "--"):
			cl.wrongWord(t, append(options, "FILE")...)
			return
		case file != "":
			cl.p.faults.at(t, CodeSyntax, "", "%q is too much here: one file is named already", text)
			return
		case text == "":
			cl.p.faults.at(t, CodeValue, "", "the file's name is empty")
			return
		default:
			file = text
		}
	}
	if need > 0 && file == "" {
		cl.p.faults.at(c.here(), CodeSyntax, "", "%s needs a file", cl.keyword.Value)
		return
	}
	st := cl.emit(action, "", "", lexer.Token{})
	st.Seconds = within
	if file != "" || words != nil {
		st.Words = append([]string{file}, words...)
	}
}

// optionValue checks the value of an option; one that is a time gives seconds.
func (cl *clause) optionValue(option, value string, t lexer.Token) (seconds uint64, ok bool) {
	switch option {
	case OptionDialect:
		if value != "3" && value != "4" {
			cl.p.faults.at(t, CodeValue, "", "--dialect is 3 or 4, not %q", value)
			return 0, false
		}
	case OptionConfirmWithin:
		ms, fault := parseTimeout(value)
		if fault == "" && (ms < 1000 || ms/1000 > math.MaxUint32) {
			fault = fmt.Sprintf("%s is not a time of at least a second", value)
		}
		if fault != "" {
			cl.p.faults.at(t, CodeValue, "", "--confirm-within: %s", fault)
			return 0, false
		}
		return ms / 1000, true
	}
	return 0, true
}

func (cl *clause) rollback() {
	var number uint64
	if t, ok := cl.c.peek(); ok {
		cl.c.i++
		n, err := strconv.ParseUint(t.Value, 10, 64)
		if err != nil || n == 0 {
			cl.p.faults.at(t, CodeValue, "", "rollback: %q is no number of a revision", t.Value)
			return
		}
		number = n
	}
	cl.emit(ActionRollback, "", "", lexer.Token{}).Seconds = number
	cl.end()
}

// failover reads failover [active|standby|show].
func (cl *clause) failover() {
	word := "show"
	if !cl.c.done() {
		t, _ := cl.c.peek()
		if !slices.Contains([]string{"active", "standby", "show"}, t.Value) {
			cl.wrongWord(cl.c.here(), "active", "standby", "show")
			return
		}
		cl.c.i++
		word = t.Value
	}
	cl.emit(ActionFailover, "", "", lexer.Token{}).Words = []string{word}
	cl.end()
}

// config reads config save [FILE], config [sync [all]] and configsync [all].
func (cl *clause) config() {
	c := cl.c
	if cl.keyword.Value == "config" && !c.done() {
		if _, ok := c.word("save"); ok {
			cl.fileCommand(ActionSave, 0)
			return
		}
		if _, ok := c.word("sync"); !ok {
			cl.wrongWord(c.here(), "save", "sync")
			return
		}
	}
	c.word("all")
	cl.emit(ActionConfigSync, "", "", lexer.Token{})
	cl.end()
}

// makeCookie reads makecookie ADDRESS:SERVICE.
func (cl *clause) makeCookie() {
	t, ok := cl.c.peek()
	if !ok {
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "makecookie is followed by ADDRESS:SERVICE")
		return
	}
	cl.c.i++
	e, fault, suggestion := parseEndpoint(t.Value)
	if fault == "" && (!e.hasPort || !isAddress(e.host)) {
		fault = fmt.Sprintf("%q is not ADDRESS:SERVICE", t.Value)
	}
	if fault != "" {
		cl.p.faults.at(t, CodeValue, suggestion, "makecookie: %s", fault)
		return
	}
	cl.emit(ActionMakeCookie, "", "", t).Words = []string{e.String()}
	cl.end()
}
