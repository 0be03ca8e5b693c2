package grammar

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// goldenTexts are the golden inputs without faults: their statements, and what is written of them in both dialects.
type goldenText struct {
	name       string
	statements []*Statement
	objects    []*pb.Object
	written    map[int]string
}

func goldenTexts(t *testing.T) (texts []goldenText, faulty int) {
	t.Helper()
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		a, err := readArchive(file)
		if err != nil {
			t.Fatal(err)
		}
		g := goldenText{name: filepath.Base(file), written: map[int]string{}}
		for _, part := range a.files {
			switch part.name {
			case "in.conf":
				g.statements, _ = Parse("in.conf", part.data)
			case "canonical.conf":
				g.written[4] = string(part.data)
			case "canonical3.conf":
				g.written[3] = string(part.data)
			}
		}
		if g.written[4] == "" {
			faulty++
			continue
		}
		g.objects = fold(g.statements)
		texts = append(texts, g)
	}
	return texts, faulty
}

// spaced is a text as words with one blank around each.
func spaced(text string) string {
	var f faults
	s := lex("", 1, 1, []byte(text), &f)
	var b strings.Builder
	b.WriteByte(' ')
	for i := range s.tokens {
		b.WriteString(s.value(i))
		b.WriteByte(' ')
	}
	return b.String()
}

// TestGoldenCoverage: the golden files are many enough, and hold every row of every table, in every spelling and with every word
// that can be its value, every row also as each dialect writes it; and every word that begins a statement of a file.
func TestGoldenCoverage(t *testing.T) {
	texts, faulty := goldenTexts(t)
	if len(texts) < 40 || faulty < 20 {
		t.Errorf("%d golden files and %d faulty ones; 40 and 20 are wanted", len(texts), faulty)
	}
	said := make(map[*Table]string) // all statements of a table's kind
	keywords := make(map[string]bool)
	set := make(map[*Attribute]bool)
	written := map[int]map[Kind]string{3: {}, 4: {}}
	for _, g := range texts {
		for _, st := range g.statements {
			text := spaced(st.Text)
			keywords[strings.Fields(text)[0]] = true
			if table := TableOf(st.Kind); table != nil {
				said[table] += text
			}
			if st.Kind == KindPool {
				said[Members] += text
			}
		}
		for _, o := range g.objects {
			kind, _ := pb.SplitKey(o.Key())
			for dialect := range written {
				written[dialect][Kind(kind)] += spaced(string(FormatObject(o, FormatOptions{Dialect: dialect})))
			}
			if table := TableOf(Kind(kind)); table != nil {
				markRows(set, table, o.Message().Interface())
			}
			for _, m := range o.GetPool().GetMembers() {
				markRows(set, Members, m)
			}
		}
	}
	missing := func(format string, args ...any) { t.Errorf("no golden file has "+format, args...) }
	for _, table := range Tables() {
		for _, a := range table.Rows {
			if !set[a] {
				missing("%s: %s", table.Title, a.Name())
				continue
			}
			for _, s := range table.spellingsOf(a) {
				timed := table == Services && timedSpelling(a, keywords)
				if !strings.Contains(said[table], " "+strings.Join(s, " ")+" ") && !timed {
					missing("%s: the spelling %q", table.Title, strings.Join(s, " "))
				}
			}
			for _, word := range valueSpellings(a) {
				if !slices.ContainsFunc(table.spellingsOf(a), func(s []string) bool {
					return strings.Contains(said[table], " "+strings.Join(s, " ")+" "+word+" ")
				}) {
					missing("%s: %s %s", table.Title, a.Name(), word)
				}
			}
			for dialect, byKind := range written {
				if words := writtenWords(table, a, dialect); !strings.Contains(byKind[table.Kind], " "+words+" ") {
					missing("%s: %q as dialect %d writes it", table.Title, words, dialect)
				}
			}
		}
	}
	for _, word := range statementNames {
		w := statementWords[word]
		if w.kind != "" && w.missing == "" && !keywords[word] && word != "persist" {
			missing("the statement word %s", word)
		}
	}
}

// timedSpelling tells whether a 3.x word that sets a service's seconds was said: those are no attributes of a service statement.
func timedSpelling(a *Attribute, keywords map[string]bool) bool {
	for word, field := range timed {
		if field == a.Field && keywords[word] && (a.Field == "tping" || a.Field == "tping_timeout") {
			return true
		}
	}
	return false
}

func markRows(set map[*Attribute]bool, table *Table, m proto.Message) {
	for _, a := range table.Rows {
		if len(a.Lines(m)) > 0 {
			set[a] = true
		}
	}
}

// spellingsOf lists all ways to write an attribute's words.
func (t *Table) spellingsOf(a *Attribute) [][]string {
	var all [][]string
	for _, list := range t.byFirst {
		for _, s := range list {
			// What takes elements out of a list is a command, not a statement of a file.
			removes := s.off && a.field.IsList()
			if s.row == a && !removes {
				all = append(all, s.words)
			}
		}
	}
	return all
}

// valueSpellings lists the words that can be an attribute's value, in all spellings.
func valueSpellings(a *Attribute) []string {
	switch a.Value {
	case ValueWord:
		return sortedKeys(a.enum)
	case ValueFlag:
		return []string{"enable", "disable"}
	case ValueNone:
		return nil
	}
	words := a.ValueWords()
	if a.Field == "netmask" || a.Field == "oneconnect_source_mask" || a.Field == "epoch" {
		return nil // none and new belong to commands that change something
	}
	return words
}

// writtenWords are the words of an attribute as a dialect writes them.
func writtenWords(table *Table, a *Attribute, dialect int) string {
	switch {
	case a == table.bare:
		return strings.Fields(map[*Table]string{Classes: `".gif"`, Authzs: "model"}[table])[0]
	case a.Statement != nil:
		return strings.Join(a.Statement, " ")
	case table == Globals && dialect == 3 && sysctlOf[a.Field] != "":
		return "sysctl -w"
	case table == MonitorUses && a.Field == "enabled":
		return "monitor instance 10.1.1.1:80 disable"
	case table == Services && dialect == 3 && a.Field != "udp":
		word, _, _ := strings.Cut(strings.Join(a.Words3, " "), " ")
		return word
	case table == Virtuals && a.Field == "unit", dialect == 4, a.Words3 == nil:
		return a.Name()
	}
	return strings.Join(a.Words3, " ")
}

// TestCommandCoverage: every form of the command table parses with and without its optional parts, and does what no other does by
// mistake: only forms that define or change something carry an object.
func TestCommandCoverage(t *testing.T) {
	for _, c := range Commands {
		for _, form := range c.Forms() {
			for _, text := range samples(form, c) {
				statements, ds := ParseCommand(&pb.Position{}, []byte(text))
				if len(ds) > 0 || len(statements) == 0 || statements[0].Faulty || statements[0].Action == ActionKeep {
					t.Errorf("%s: %q: %v", c.Form, text, ds)
				}
			}
		}
	}
}

// samples fills the words in capitals of a form, each alternative once, with and without the filter.
func samples(form []string, c *Command) []string {
	texts := []string{""}
	for i, element := range form {
		var next []string
		for _, alternative := range sampleWords(element, form[:i], c) {
			for _, text := range texts {
				next = append(next, strings.TrimSpace(text+" "+alternative))
			}
		}
		texts = next
	}
	for _, pair := range c.Filter {
		word, value, _ := strings.Cut(pair, " ")
		texts = append(texts, fmt.Sprintf("%s %s %s", texts[0], word, sampleWords(value, form, c)[0]))
	}
	if slices.Contains(form, "explain") { // it needs a client, and a pool
		texts = texts[len(texts)-len(c.Filter):]
		for i := range texts {
			if !strings.Contains(texts[i], " client ") {
				texts[i] += " client 10.9.8.7"
			}
			if form[0] == "persist" && !strings.Contains(texts[i], " pool ") {
				texts[i] += " pool web"
			}
		}
	}
	return texts
}

func sampleWords(element string, before []string, c *Command) []string {
	one := map[string]string{
		"POOL": "web", "RULE": "r", "VIRTUAL": "10.0.0.1:80", "VADDRESS": "10.0.0.1", "NODE": "10.1.1.1:80", "SERVICE": "http", "MEMBER": "10.1.1.1:80",
		"INTERFACE": "exp0", "IPALIAS": "10.0.0.9", "TRUNK": "1.1", "STP": "s1", "VLAN": "internal", "VLANGROUP": "both", "SELF": "10.0.0.2",
		"CLASS": "images", "AUTHZ": "a", "MONITOR": "http_1", "SNAT": "10.0.0.9", "NAT": "10.1.1.1", "PROXY": "10.0.0.9:443", "ALIAS": "10.1.1.1", "ACTIVE": "10.1.1.1:80",
		"ADDRESS": "10.1.1.1", "ADDRESS:SERVICE": "10.1.1.1:80", "ORIGIN": "default", "ID": "a011", "NUMBER": "5", "SECONDS": "60", "MASK": "255.255.255.0", "FILE": "f.conf",
		"REVISION": "3", "DURATION": "5m", "LEVEL": "4", "TEXT": "x", "NAME": "web", "KIND": "pool", "COMMAND": "pool", "MODE": "simple",
		"bigip.NAME": "bigip.persist_on_any_vip", "bigip.NAME=0|1": "bigip.persist_on_any_vip=1", "BODY": "use ( web )",
	}
	word, ok := one[element]
	switch {
	case element == "MODE" && c.Form == "lb MODE":
		return []string{"round_robin"}
	case element == "ATTRIBUTES":
		return []string{sampleAttribute(before)}
	case ok:
		return []string{word}
	}
	return strings.Split(element, "|")
}

// sampleAttribute is an attribute of the statement that words begin.
func sampleAttribute(words []string) string {
	switch words[0] {
	case "pool":
		if slices.Contains(words, "add") || slices.Contains(words, "delete") {
			return "member 10.1.1.1:80"
		}
		return "lb_mode round_robin member 10.1.1.1:80 ratio 2"
	case "virtual":
		if slices.Contains(words, "VADDRESS") {
			return "disable"
		}
		return "use pool web"
	case "monitor":
		return "use http"
	case "authz":
		return "model ldap"
	case "class":
		return `".gif"`
	case "interface":
		return "failsafe arm"
	case "ipalias", "self", "snat", "nat", "proxy":
		return "unit 1"
	case "trunk":
		return "define 1.1"
	case "stp", "node":
		return "disable"
	case "vlan":
		return "tag 5"
	case "vlangroup":
		return "vlans add a"
	case "service":
		return "udp enable"
	}
	return "lb round_robin"
}
