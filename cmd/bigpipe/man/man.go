// Package man makes the manual pages whose tables come from the language: bigpipe(1) and bigip.conf(5). The pages stand beside it
// as they are installed; go generate writes them anew.
package man

//go:generate env UPDATE=1 go test -run TestPages .

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"bigpipe/grammar"
)

//go:embed *.in
var templates embed.FS

// generated are the pages that Pages makes, each from a template of its name and ".in".
var generated = []string{"bigpipe.1", "bigip.conf.5"}

// Pages returns the generated pages by the names of their files.
func Pages() (map[string][]byte, error) {
	pages := map[string][]byte{}
	for _, name := range generated {
		page, err := template.New(name+".in").Funcs(template.FuncMap{
			"commands": commands, "othercommands": otherCommands, "tables": tables,
		}).ParseFS(templates, name+".in")
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := page.Execute(&text, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pages[name] = text.Bytes()
	}
	return pages, nil
}

// commands describes the commands that begin with one of the words.
func commands(words ...string) string {
	return describe(func(word string) bool { return slices.Contains(words, word) })
}

// otherCommands describes those that begin with none of them.
func otherCommands(words ...string) string {
	return describe(func(word string) bool { return !slices.Contains(words, word) })
}

func describe(wanted func(word string) bool) string {
	var b strings.Builder
	for _, c := range grammar.Commands {
		word, _, _ := strings.Cut(c.Form, " ")
		if !wanted(word) {
			continue
		}
		fmt.Fprintf(&b, ".TP\n%s\n%s (%s).\n", usage(c.Usage()), sentence(c.Help), c.Release)
		if c.Example != "" {
			fmt.Fprintf(&b, ".br\nExample: %s\n", bold(c.Example))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// tables describes every attribute of every kind.
func tables() string {
	var b strings.Builder
	for _, t := range grammar.Tables() {
		fmt.Fprintf(&b, ".SS %s\n", escape(t.Title))
		if !t.Acts() {
			b.WriteString("Kept and written back; not in effect.\n")
		}
		for _, a := range t.Rows {
			attribute(&b, t, a)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// attribute describes one row of a table.
func attribute(b *strings.Builder, t *grammar.Table, a *grammar.Attribute) {
	words := bold(a.Name())
	if a.Opposite != nil {
		words += " | " + bold(strings.Join(a.Opposite, " "))
	}
	fmt.Fprintf(b, ".TP\n%s\n%s", strings.TrimSpace(words+" "+usage(a.Usage())), sentence(a.Help))
	if a.Default != "" {
		fmt.Fprintf(b, "; default %s", bold(a.Default))
	}
	fmt.Fprintf(b, " (%s).\n", a.Release)
	for _, alias := range a.Aliases {
		fmt.Fprintf(b, "Also read: %s.\n", bold(strings.Join(alias, " ")))
	}
	if a.Words3 != nil {
		fmt.Fprintf(b, "Written in 3.x words: %s.\n", bold(strings.Join(a.Words3, " ")))
	}
	switch {
	case a.Acts && a.Acting != nil:
		fmt.Fprintf(b, "In effect: %s; other values are kept.\n", bold(strings.Join(a.Acting, ", ")))
	case !a.Acts && t.Acts():
		b.WriteString("Kept, not in effect.\n")
	}
}

// element is a part of a form: what stands for something, or what is typed. Between them are the signs of forms.
var element = regexp.MustCompile(`([A-Z][A-Z]+)|([^][|. ]+)`)

// usage sets words that are typed in bold, and those that stand for something in italics.
func usage(form string) string {
	var b strings.Builder
	at := 0
	for _, m := range element.FindAllStringSubmatchIndex(form, -1) {
		b.WriteString(escape(form[at:m[0]]))
		at = m[1]
		if m[2] >= 0 {
			b.WriteString(`\fI` + form[m[2]:m[3]] + `\fR`)
		} else {
			b.WriteString(bold(form[m[4]:m[5]]))
		}
	}
	return b.String() + escape(form[at:])
}

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

// sentence is a text at the beginning of a line, with a capital letter.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if text[0] == '.' || text[0] == '\'' {
		return `\&` + escape(text)
	}
	return escape(text)
}

// escape protects what roff would read.
var escape = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\`", "^", `\(ha`, "~", `\(ti`).Replace
