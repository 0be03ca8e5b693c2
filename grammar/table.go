package grammar

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// Release says which releases know a word. Words of every release are always read.
type Release uint8

// The releases; a word may belong to several.
const (
	Release3 Release = 1 << iota
	Release4
	Ours

	Legacy = Release3 | Release4
)

// String is "3.x", "4.x", "ours" or several of them.
func (r Release) String() string {
	var names []string
	for i, name := range []string{"3.x", "4.x", "ours"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ValueKind says what follows an attribute's words.
type ValueKind int

// The kinds of values.
const (
	// ValueNone: nothing follows; the words alone set the field.
	ValueNone ValueKind = iota
	// ValueSwitch is enable or disable, or the two words of Attribute.Switch.
	ValueSwitch
	// ValueFlag is nothing, which says enable, or enable or disable.
	ValueFlag
	// ValueWord is one of the words of the field's enum.
	ValueWord
	// ValueNumber and ValueSeconds are whole numbers from Min to Max.
	ValueNumber
	ValueSeconds
	// ValueMask is a dotted mask or none.
	ValueMask
	// ValueAddress is an address or a host name.
	ValueAddress
	// ValueName names an object.
	ValueName
	// ValueText is text that is written in quotes, ValuePlain text that is quoted only where it must be.
	ValueText
	ValuePlain
	// ValueService is the number or the name of a service.
	ValueService
	// ValueExpiration is a cookie's lifetime: 10d, 1d 12:00:00 (rule C-6).
	ValueExpiration
	// ValueDuration is a number of seconds or a duration such as 1h30m (rule G-16).
	ValueDuration
	// valueForm is read and printed by functions of its own.
	valueForm
)

// Attribute is one row of the attribute table.
type Attribute struct {
	// Words are what is written, Aliases what is read as well.
	Words   []string
	Aliases [][]string
	// Words3 is what the 3.x dialect writes where that differs; for global variables the whole statement's words.
	Words3 []string
	// Statement holds the words of the statement that a global variable has in both dialects.
	Statement []string
	// Bare: the elements of a list stand for themselves, without words.
	Bare    bool
	Release Release
	Value   ValueKind
	// Other spellings of the value's words.
	ValueAliases map[string]string
	// Switch holds the words of a ValueSwitch for true and false where they are not enable and disable.
	Switch [2]string
	// Min and Max bound numbers; a Max of 0 is the largest number of the field's type.
	Min, Max uint64
	// Default is what holds where the attribute is absent, in words; "" if nothing.
	Default string
	// Field is the proto field, which is also the name in JSON.
	Field string
	// Opposite are the words that set the field to false where Words set it to true (enable, disable), or that take elements
	// out of a list.
	Opposite []string
	// Adds: the elements of a list are added to those that are there.
	Adds bool
	// Names is the kind of object that the value names.
	Names Kind
	Help  string
	// Acts: the dataplane acts on it. Acting lists the value words that it acts on where these are not all.
	Acts   bool
	Acting []string

	form  *form
	field protoreflect.FieldDescriptor
	enum  map[string]protoreflect.EnumNumber
}

// form reads and prints values that no kind describes.
type form struct {
	// usage describes the value, words are what completion offers for it.
	usage string
	words []string
	parse func(p *parser, b *building, a *Attribute, at lexer.Token, c *cursor) bool
	// print returns what follows the attribute's words, an element a line; nothing where the attribute is absent.
	print func(m proto.Message) []string
}

// Name is the attribute's words joined with blanks.
func (a *Attribute) Name() string { return strings.Join(a.Words, " ") }

// Table holds the attributes of one kind of object, in the order in which they are printed.
type Table struct {
	Kind Kind
	// Title is how messages name the object.
	Title string
	Rows  []*Attribute
	// Head names the fields that stand before the attributes, besides the name: to of nat NODE to ADDRESS.
	Head []string
	// Lenient: nothing of the old unit's words may be a fault. A statement with words that the table does not know is kept whole.
	Lenient bool

	acts    bool // the dataplane acts on the head
	bare    *Attribute
	byFirst map[string][]spelling
	words   []string
	pairs   map[[2]string]bool
}

// spelling is one way to write an attribute; off sets the field to false.
type spelling struct {
	words []string
	row   *Attribute
	off   bool
}

// newTable binds rows to the fields of a message; it panics where they do not fit, which no built program does.
func newTable(kind Kind, title string, m proto.Message, rows []*Attribute) *Table {
	t := &Table{Kind: kind, Title: title, Rows: rows, byFirst: make(map[string][]spelling), pairs: make(map[[2]string]bool)}
	fields := m.ProtoReflect().Descriptor().Fields()
	for _, a := range rows {
		a.field = fields.ByName(protoreflect.Name(a.Field))
		if a.field == nil {
			panic(fmt.Sprintf("grammar: %s attribute %s: no field %q", title, a.Name(), a.Field))
		}
		a.bindEnum()
		if a.Bare && strings.ToLower(a.Words[0]) != a.Words[0] {
			t.bare = a
			continue
		}
		t.spell(a, a.Words, false)
		for _, alias := range a.Aliases {
			t.spell(a, alias, false)
		}
		if a.Opposite != nil {
			t.spell(a, a.Opposite, true)
		}
	}
	for first, list := range t.byFirst {
		slices.SortStableFunc(list, func(a, b spelling) int { return len(b.words) - len(a.words) })
		t.words = append(t.words, first)
	}
	slices.Sort(t.words)
	return t
}

// legacyTable is the table of a kind of the old unit; head names the fields that its statements set before the attributes.
func legacyTable(kind Kind, title string, m proto.Message, head []string, rows []*Attribute) *Table {
	t := newTable(kind, title, m, rows)
	t.Head, t.Lenient = head, true
	return t
}

// Acts tells whether the dataplane acts on objects of the kind.
func (t *Table) Acts() bool {
	return t.acts || slices.ContainsFunc(t.Rows, func(a *Attribute) bool { return a.Acts })
}

func (t *Table) spell(a *Attribute, words []string, off bool) {
	t.byFirst[words[0]] = append(t.byFirst[words[0]], spelling{words: words, row: a, off: off})
	for i := 1; i < len(words); i++ {
		t.pairs[[2]string{words[i-1], words[i]}] = true
	}
	for value := range a.enum {
		t.pairs[[2]string{words[len(words)-1], value}] = true
	}
}

func (a *Attribute) bindEnum() {
	if a.Value != ValueWord {
		return
	}
	a.enum = make(map[string]protoreflect.EnumNumber)
	for _, word := range pb.EnumWords(a.field.Enum()) {
		a.enum[word], _ = pb.ParseEnum(a.field.Enum(), word)
	}
	for alias, word := range a.ValueAliases {
		a.enum[alias] = a.enum[word]
	}
}

// ValueWords returns the words that can follow, nil where the value is no word.
func (a *Attribute) ValueWords() []string {
	switch a.Value {
	case ValueSwitch, ValueFlag:
		return a.switchWords()
	case ValueWord:
		return pb.EnumWords(a.field.Enum())
	case ValueMask:
		return []string{"none"}
	case valueForm:
		return a.form.words
	}
	return nil
}

// switchWords are the words for true and false.
func (a *Attribute) switchWords() []string {
	if a.Switch[0] != "" {
		return a.Switch[:]
	}
	return []string{"enable", "disable"}
}

// Usage describes the value: enable|disable, SECONDS, none|simple|...
func (a *Attribute) Usage() string {
	switch a.Value {
	case ValueSwitch, ValueWord:
		return strings.Join(a.ValueWords(), "|")
	case ValueFlag:
		return "[" + strings.Join(a.ValueWords(), "|") + "]"
	case ValueNumber:
		return "NUMBER"
	case ValueSeconds:
		return "SECONDS"
	case ValueMask:
		return "MASK|none"
	case ValueAddress:
		return "ADDRESS"
	case ValueName:
		return "NAME"
	case ValueText:
		return `"TEXT"`
	case ValuePlain:
		return "TEXT"
	case ValueService:
		return "SERVICE"
	case ValueExpiration:
		return "DAYSd [HH:MM:SS]"
	case ValueDuration:
		return "SECONDS|DURATION"
	case valueForm:
		return a.form.usage
	}
	return ""
}

// match finds the attribute that the next words of c name and goes past them.
func (t *Table) match(c *cursor) (spelling, lexer.Token, bool) {
	first, ok := c.peek()
	if !ok {
		return spelling{}, first, false
	}
	for _, s := range t.byFirst[first.Value] {
		if s.matches(c) {
			c.i += len(s.words)
			return s, first, true
		}
	}
	if t.bare != nil && (t != Classes || first.Type == lexer.TokenType(tokenString) || isNumber(first.Value)) {
		c.i++
		return spelling{row: t.bare}, first, true
	}
	return spelling{}, first, false
}

func (s spelling) matches(c *cursor) bool {
	for n, word := range s.words {
		if t, ok := c.peekAt(n); !ok || t.Value != word {
			return false
		}
	}
	return true
}

// knows tells whether a word begins an attribute.
func (t *Table) knows(word string) bool { return len(t.byFirst[word]) > 0 }

// goesOn tells whether a word can follow another inside an attribute: lasthop pool, sslproxy failover, lb ratio.
func (t *Table) goesOn(before, word string) bool { return t.pairs[[2]string{before, word}] }

// expectsValue tells whether a word is an attribute that is not complete without a value.
func (t *Table) expectsValue(word string) bool {
	for _, s := range t.byFirst[word] {
		if len(s.words) == 1 && s.row.Value != ValueNone {
			return true
		}
	}
	return false
}

// Tables returns the attribute tables in the order in which a file is written.
func Tables() []*Table {
	return []*Table{
		Interfaces, Ipaliases, Trunks, Stps, Vlans, Vlangroups, Selfs, Globals, Services, Classes, Authzs, Monitors, Pools, Members,
		VirtualAddresses, Virtuals, Nodes, MonitorUses, Snats, Nats, Proxies, Aliases, Actives,
	}
}

// tablesByKind are the tables but Members.
var tablesByKind = sync.OnceValue(func() map[Kind]*Table {
	m := make(map[Kind]*Table)
	for _, t := range Tables() {
		if t != Members {
			m[t.Kind] = t
		}
	}
	return m
})

// TableOf returns the table of a kind, nil for rules and for statements that are kept whole.
func TableOf(kind Kind) *Table { return tablesByKind()[kind] }

// Find returns the row that sets a proto field, nil if there is none.
func (t *Table) Find(field string) *Attribute {
	i := slices.IndexFunc(t.Rows, func(a *Attribute) bool { return a.Field == field })
	if i < 0 {
		return nil
	}
	return t.Rows[i]
}

// w splits the words of a row.
func w(words string) []string { return strings.Fields(words) }
