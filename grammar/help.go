package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// Help returns what -? and help print on words: on everything, on one statement, or on one attribute of it (pool lb_mode). It is
// false when there is none; the text then says so, with what was probably meant.
func Help(words []string) (text string, found bool) {
	if len(words) == 0 {
		return helpAll(), true
	}
	word := statementWords[words[0]]
	if word == nil || word.missing != "" {
		text := fmt.Sprintf("no help on %q\n", words[0])
		if near := nearest(words[0], statementNames); near != "" {
			text = fmt.Sprintf("no help on %q; did you mean %q?\n", words[0], near)
		}
		return text, false
	}
	var b strings.Builder
	if a, table := attributeIn(words); a != nil {
		b.WriteString(a.describe(table))
	}
	helpCommands(&b, words[0], commandsWith(words))
	if b.Len() == 0 {
		return helpStatement(words[0], word), true
	}
	return b.String(), true
}

func helpAll() string {
	var b strings.Builder
	b.WriteString("Commands and statements; COMMAND -? tells more:\n")
	for _, name := range statementNames {
		if word := statementWords[name]; word.missing == "" {
			fmt.Fprintf(&b, "  %-16s %s\n", name, word.help)
		}
	}
	return b.String()
}

func helpStatement(name string, word *statementWord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", name, word.help)
	if word.kept {
		b.WriteString("\nThe statement is read, kept whole and written back; it is not in effect.\n")
		return b.String()
	}
	helpCommands(&b, name, commandsOf(name))
	if table := tableOfWord(name); table != nil {
		b.WriteString("\nAttributes:\n")
		table.list(&b)
		if table == Pools {
			b.WriteString("\nAttributes of a member, after member ADDRESS:SERVICE:\n")
			Members.list(&b)
		}
	}
	return b.String()
}

// attributeIn finds the attribute that words name behind a statement word, or behind the name of an object: pool lb_mode, pool web
// lb_mode.
func attributeIn(words []string) (*Attribute, *Table) {
	table := tableOfWord(words[0])
	for n := 1; table != nil && n <= 2 && n < len(words); n++ {
		if a := table.named(words[n:]); a != nil {
			return a, table
		}
		if a := Members.named(words[n:]); a != nil && table == Pools {
			return a, Members
		}
	}
	return nil, nil
}

// helpCommands writes forms of a command.
func helpCommands(b *strings.Builder, name string, rows []*Command) {
	for _, c := range rows {
		usage := c.Usage()
		if name == "vip" {
			usage = "vip" + strings.TrimPrefix(usage, "virtual")
		}
		fmt.Fprintf(b, "\n  %s\n      %s (%s)\n", usage, c.Help, c.Release)
		if c.Example != "" {
			fmt.Fprintf(b, "      example: %s\n", c.Example)
		}
	}
}

// commandsWith returns the forms of a command that have all of its further words, in their order: pool add, pool web persist. Nil
// where one of the words is in none of the forms itself, but may be the name of something.
func commandsWith(words []string) []*Command {
	var rows []*Command
	for _, c := range commandsOf(words[0]) {
		elements := append(strings.Fields(c.Form), c.Filter...)[1:]
		rest := words[1:]
		named := 0
		for _, element := range elements {
			element, _, _ = strings.Cut(strings.Trim(element, "[]"), " ")
			switch {
			case len(rest) == 0:
			case slices.Contains(strings.Split(element, "|"), rest[0]):
				rest, named = rest[1:], named+1
			case element != "ATTRIBUTES" && IsPlaceholder(element) && len(rest) > 1:
				rest = rest[1:]
			}
		}
		if len(rest) == 0 && named > 0 {
			rows = append(rows, c)
		}
	}
	return rows
}

// list writes a line for each attribute.
func (t *Table) list(b *strings.Builder) {
	for _, a := range t.Rows {
		fmt.Fprintf(b, "  %-28s %s\n", a.synopsis(), a.summary())
	}
}

// synopsis is the attribute as it is written, long lists of values shortened.
func (a *Attribute) synopsis() string {
	if a.Opposite != nil {
		return a.Name() + "|" + strings.Join(a.Opposite, " ")
	}
	usage := a.Usage()
	if len(usage) > 40 {
		usage = usage[:strings.LastIndexByte(usage[:40], '|')] + "|..."
	}
	return strings.TrimSpace(a.Name() + " " + usage)
}

// summary is an attribute's help with its default, its release and whether it is in effect.
func (a *Attribute) summary() string {
	text := a.Help
	if a.Default != "" {
		text += "; default " + a.Default
	}
	text += " (" + a.Release.String() + ")"
	if !a.Acts {
		text += " [kept, not in effect]"
	}
	return text
}

// named finds the attribute that words begin with.
func (t *Table) named(words []string) *Attribute {
	for _, s := range t.byFirst[words[0]] {
		if len(s.words) <= len(words) && slices.Equal(s.words, words[:len(s.words)]) {
			return s.row
		}
	}
	return nil
}

// describe is the help on one attribute.
func (a *Attribute) describe(t *Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n    %s: %s\n", a.Name(), a.Usage(), t.Title, a.summary())
	for _, alias := range a.Aliases {
		fmt.Fprintf(&b, "    also read: %s\n", strings.Join(alias, " "))
	}
	if a.Acts && a.Acting != nil {
		fmt.Fprintf(&b, "    in effect: %s\n", strings.Join(a.Acting, ", "))
	}
	return b.String()
}
