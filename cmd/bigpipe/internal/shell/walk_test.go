package shell

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bigpipe/grammar"
)

// contexts are the beginnings of statements after which the attributes of a kind can stand.
var contexts = map[*grammar.Table]string{
	grammar.Interfaces: "interface exp0 ", grammar.Ipaliases: "ipalias exp1 10.0.0.9 ", grammar.Trunks: "trunk 1.1 ", grammar.Stps: "stp s1 { ",
	grammar.Vlans: "vlan v { ", grammar.Vlangroups: "vlangroup g { ", grammar.Selfs: "self 10.0.0.2 { ", grammar.Globals: "global ",
	grammar.Services: "service 80 ", grammar.Classes: "class c { ", grammar.Authzs: "authz a { ", grammar.Monitors: "monitor m { ",
	grammar.Pools: "pool p { ", grammar.Members: "pool p { member 10.1.1.1:80 ", grammar.VirtualAddresses: "virtual 10.0.0.1 ",
	grammar.Virtuals: "virtual 10.0.0.1:80 { ", grammar.Nodes: "node 10.1.1.1 ", grammar.MonitorUses: "node 10.1.1.1:80 ",
	grammar.Snats: "snat map { default to 10.0.0.9 ", grammar.Nats: "nat 10.1.1.1 to 10.0.0.9 ", grammar.Proxies: "proxy 10.0.0.9:443 { ",
}

// walker asks at every place of a text.
type walker struct {
	*testing.T
	language *Language
	asked    map[string]bool
}

// word checks that each beginning of a word completes to it after a text, and that ? has a line of help for it there.
func (w *walker) word(text, word string) {
	w.Helper()
	if w.asked[text+word] {
		return
	}
	w.asked[text+word] = true
	for n := range len(word) {
		found, start := w.language.Complete(text + word[:n])
		if start != len(text) || !slices.ContainsFunc(found, func(c Candidate) bool { return c.Text == word }) {
			w.Errorf("%q: Tab does not offer %q", text+word[:n], word)
			return
		}
	}
	for _, c := range w.language.Continuations(text) {
		if c.Text == word && c.Help != "" {
			return
		}
	}
	w.Errorf("%q: ? has no help on %q", text, word)
}

// value checks that ? says in a line what a value is that no words name.
func (w *walker) value(text string) {
	w.Helper()
	list := w.language.Continuations(text)
	if !slices.ContainsFunc(list, func(c Candidate) bool { return strings.ToLower(c.Text) != c.Text && c.Text != "ENTER" && c.Help != "" }) {
		w.Errorf("%q: ? does not say what value follows: %v", text, list)
	}
}

func newWalker(t *testing.T) *walker {
	names := map[grammar.Kind][]string{
		grammar.KindPool: {"web"}, grammar.KindVirtual: {"10.0.0.1:80"}, grammar.KindNode: {"10.1.1.1"}, grammar.KindRule: {"r"},
	}
	return &walker{t, &Language{Names: func(kind grammar.Kind, _ string) []string { return names[kind] }}, map[string]bool{}}
}

// TestWalkAttributes asks at every word of every row of every attribute table, and at the value.
func TestWalkAttributes(t *testing.T) {
	w := newWalker(t)
	for _, table := range grammar.Tables() {
		context := contexts[table]
		if context == "" {
			if table != grammar.Aliases && table != grammar.Actives {
				t.Errorf("no context for %s", table.Title)
			}
			continue
		}
		for _, a := range table.Rows {
			if a.Bare && strings.ToUpper(a.Words[0]) == a.Words[0] {
				continue // its elements stand for themselves
			}
			for _, words := range [][]string{a.Words, a.Opposite} {
				text := context
				for _, word := range words {
					w.word(text, word)
					text += word + " "
				}
			}
			text := context + a.Name() + " "
			for _, word := range a.ValueWords() {
				w.word(text, word)
			}
			if usage := a.Usage(); usage != "" && strings.ToLower(usage) != usage {
				w.value(text)
			}
		}
	}
}

// samples are words that stand for an element in capitals.
var samples = map[string]string{
	"POOL": "web", "RULE": "r", "VIRTUAL": "10.0.0.1:80", "VADDRESS": "10.0.0.1", "NODE": "10.1.1.1", "SERVICE": "http", "MEMBER": "10.1.1.1:80",
	"INTERFACE": "exp0", "IPALIAS": "10.0.0.9", "TRUNK": "1.1", "STP": "s1", "VLAN": "internal", "VLANGROUP": "both", "SELF": "10.0.0.2",
	"CLASS": "images", "AUTHZ": "a", "MONITOR": "http_1", "SNAT": "10.0.0.9", "NAT": "10.1.1.1", "PROXY": "10.0.0.9:443", "ALIAS": "10.1.1.1",
	"ACTIVE": "10.1.1.1:80", `"SEND"`: `"x"`, `"RECV"`: `"y"`,
	"ADDRESS": "10.1.1.1", "ADDRESS:SERVICE": "10.1.1.1:80", "ORIGIN": "default", "ID": "a011", "NUMBER": "5", "SECONDS": "60", "MASK": "255.255.255.0",
	"FILE": "f.conf", "REVISION": "3", "DURATION": "5m", "LEVEL": "4", "TEXT": "x", "NAME": "web", "KIND": "pool", "COMMAND": "pool", "MODE": "simple",
	"bigip.NAME": "bigip.persist_on_any_vip", "bigip.NAME=0|1": "bigip.persist_on_any_vip=1",
}

// TestWalkCommands asks at every word of every form of the command table, optional parts taken and left out, and of its filter.
func TestWalkCommands(t *testing.T) {
	w := newWalker(t)
	for _, c := range grammar.Commands {
		for _, form := range c.Forms() {
			text := w.form(form)
			for _, pair := range c.Filter {
				word, value, _ := strings.Cut(pair, " ")
				w.word(text, word)
				w.value(text + word + " ")
				if samples[value] == "" {
					t.Errorf("%s: no sample of %s", c.Form, value)
				}
			}
		}
	}
}

// form walks through one form and returns the words that it has put in.
func (w *walker) form(form []string) string {
	text := ""
	for _, element := range form {
		switch {
		case element == "ATTRIBUTES" || element == "BODY" || strings.Contains("{}", element):
			return text
		case strings.HasPrefix(element, "bigip."):
			w.word(text, samples[element][:len("bigip.persist_on_any_vip")]+strings.Repeat("=", strings.Count(element, "=")))
			text += samples[element] + " "
		case grammar.IsPlaceholder(element):
			if samples[element] == "" {
				w.Errorf("no sample of %s", element)
			}
			w.value(text)
			text += samples[element] + " "
		default:
			words := strings.Split(element, "|")
			for _, word := range words {
				if word != "..." {
					w.word(text, word)
				}
			}
			text += words[0] + " "
		}
	}
	return text
}

// TestNotOffered: after the words of a command the attributes are not offered once more.
func TestNotOffered(t *testing.T) {
	w := newWalker(t)
	for text, want := range map[string]string{
		"vip 10.0.0.1:80 persist ":        "[mask]",
		"vip 10.0.0.1:80 sticky ":         "[clear disable enable mask]",
		"vip 10.0.0.1:80 persist mask ":   "[none]",
		"virtual 10.0.0.1:80 persist 30 ": "[]",
		"pool web persist dump node ":     "[10.1.1.1]",
		"node 10.1.1.1 monitor ":          "[delete show use]",
	} {
		found, _ := w.language.Complete(text)
		words := []string{}
		for _, c := range found {
			words = append(words, c.Text)
		}
		if got := fmt.Sprint(words); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestNamesOnce: however many forms and readings a text has, names are asked for once for each kind.
func TestNamesOnce(t *testing.T) {
	for _, text := range []string{"pool ", "p ", "vip ", "node 10.1.1.1 ", "pool web persist dump node ", "virtual 10.0.0.1:80 use pool ", "persist dump virtual ", "pool web { member "} {
		asked := map[grammar.Kind]int{}
		l := &Language{Names: func(kind grammar.Kind, _ string) []string { asked[kind]++; return []string{"10.0.0.1:80"} }}
		l.Continuations(text)
		for kind, n := range asked {
			if n > 1 {
				t.Errorf("%q: names of kind %s asked for %d times", text, kind, n)
			}
		}
	}
}
