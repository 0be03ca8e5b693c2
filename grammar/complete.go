package grammar

import (
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// Candidate is one way to go on.
type Candidate struct {
	Text string
	Help string
}

// Complete returns what can stand at cursor, a byte offset into line: statement and command words, attributes, values, and names of
// objects, which names gives (it may be nil). The text from start to cursor is what a candidate replaces.
func Complete(line string, cursor int, names func(kind Kind) []string) (candidates []Candidate, start int) {
	cursor = min(max(cursor, 0), len(line))
	var f faults
	s := lex("", 1, 1, []byte(line[:cursor]), &f)
	n := len(s.tokens)
	start, partial := cursor, ""
	if n > 0 && s.tokens[n-1].kind == tokenWord && int(s.tokens[n-1].end) == len(s.text) && len(s.text) == cursor {
		partial, start = s.value(n-1), int(s.tokens[n-1].start)
		s.tokens = s.tokens[:n-1]
	}
	if names == nil {
		names = func(Kind) []string { return nil }
	}
	c := &completer{source: s, names: names, partial: partial, added: make(map[Kind]bool)}
	c.run()
	return slices.CompactFunc(c.inOrder(), func(a, b Candidate) bool { return a.Text == b.Text }), start
}

// inOrder are the candidates in the order of their texts, words before names. Names, which may be many, come in order mostly.
func (c *completer) inOrder() []Candidate {
	compare := func(a, b Candidate) int { return strings.Compare(a.Text, b.Text) }
	slices.SortStableFunc(c.found, compare)
	if len(c.named) == 0 {
		return c.found
	}
	if !slices.IsSortedFunc(c.named, compare) {
		slices.SortStableFunc(c.named, compare)
	}
	all := make([]Candidate, 0, len(c.found)+len(c.named))
	i := 0
	for _, name := range c.named {
		for i < len(c.found) && c.found[i].Text <= name.Text {
			all = append(all, c.found[i])
			i++
		}
		all = append(all, name)
	}
	return append(all, c.found[i:]...)
}

// completer gathers what can follow the tokens of a text.
type completer struct {
	*source
	names func(Kind) []string
	// partial is how a candidate begins.
	partial string
	found   []Candidate
	// named are the candidates that are names of objects.
	named []Candidate
	// added holds the kinds whose names were added.
	added map[Kind]bool
}

func (c *completer) add(text, help string) {
	if text != "" && strings.HasPrefix(text, c.partial) {
		c.found = append(c.found, Candidate{Text: text, Help: help})
	}
}

func (c *completer) run() {
	spans := c.split(false)
	if len(spans) == 0 {
		c.statements()
		return
	}
	last := spans[len(spans)-1]
	words := make([]string, 0, last.end-last.first)
	open := -1
	depth := 0
	for i := last.first; i < last.end; i++ {
		words = append(words, c.value(i))
		switch c.tokens[i].kind {
		case tokenOpenBrace:
			if depth == 0 {
				open = len(words)
			}
			depth++
		case tokenCloseBrace:
			depth--
		}
	}
	switch {
	case last.faulty:
	case last.open && open >= 0:
		c.block(words[0], words[open:])
	case words[len(words)-1] == "}":
		c.statements()
	default:
		c.forms(words)
	}
}

func (c *completer) statements() {
	for _, name := range statementNames {
		if word := statementWords[name]; word.missing == "" {
			c.add(name, word.help)
		}
	}
}

// block completes inside braces.
func (c *completer) block(keyword string, words []string) {
	switch keyword {
	case "rule":
		c.ruleBody(words)
	case "pool":
		c.poolBlock(words)
	case "vip", "virtual":
		if !c.attributes(Virtuals, words) {
			c.add("define", "nodes of its own")
		}
	case "ratio", "alias":
		c.objects(KindNode)
	default:
		if table := tableOfWord(keyword); table != nil && table.Lenient {
			c.attributes(table, words)
		}
	}
}

// poolBlock completes a pool's body: attributes of the pool, and of the last member where it is still open.
func (c *completer) poolBlock(words []string) {
	i := lastIndex(words, "member")
	if i >= 0 && i == len(words)-1 {
		return // an address comes next
	}
	if c.attributes(Pools, words) {
		return
	}
	if i >= 0 && !slices.ContainsFunc(words[i+1:], Pools.knows) {
		mark := len(c.found)
		if c.attributes(Members, words[i+2:]) {
			c.found = c.found[mark:]
			return
		}
	}
	c.add("member", "ADDRESS:SERVICE")
}

func lastIndex(words []string, word string) int {
	for i := len(words) - 1; i >= 0; i-- {
		if words[i] == word {
			return i
		}
	}
	return -1
}

func (c *completer) ruleBody(words []string) {
	last := ""
	for i := len(words) - 1; i >= 0 && last == ""; i-- {
		if words[i] != "(" {
			last = words[i]
		}
	}
	if last == "use" || last == "pool" || strings.HasSuffix(last, "_pool") {
		c.objects(KindPool)
		return
	}
	for _, w := range ruleWords {
		c.add(w, "")
	}
}

func (c *completer) objects(kind Kind) {
	if c.added[kind] {
		return
	}
	c.added[kind] = true
	names := c.names(kind)
	c.named = slices.Grow(c.named, len(names))
	for _, name := range names {
		if name != "" && strings.HasPrefix(name, c.partial) {
			c.named = append(c.named, Candidate{Text: name})
		}
	}
	if kind == KindMonitor {
		for _, name := range pb.MonitorTemplateNames() {
			c.add(name, "template")
		}
	}
}

// attributes completes after the words of an attribute list: values where one is expected (true), else the next words of attributes
// (true in the middle of their words).
func (c *completer) attributes(t *Table, words []string) bool {
	for back := min(maxAttributeWords, len(words)); back > 0; back-- {
		tail := words[len(words)-back:]
		inside := false
		for _, s := range t.byFirst[tail[0]] {
			switch {
			case len(s.words) == back && slices.Equal(s.words, tail) && s.row.Value == ValueFlag:
				c.values(s.row) // which may be left out
			case len(s.words) == back && slices.Equal(s.words, tail) && s.row.Value != ValueNone:
				c.values(s.row)
				return true
			case len(s.words) > back && slices.Equal(s.words[:back], tail):
				c.add(s.words[back], s.row.Help)
				inside = true
			}
		}
		if inside {
			return true
		}
	}
	for _, a := range t.Rows {
		if a == t.bare {
			continue
		}
		c.add(a.Words[0], a.summary())
		if a == t.Find("others") {
			for _, alias := range a.Aliases {
				c.add(alias[0], a.summary())
			}
		}
		if a.Opposite != nil {
			c.add(a.Opposite[0], a.summary())
		}
	}
	return false
}

func (c *completer) values(a *Attribute) {
	help := a.Help
	for _, word := range a.ValueWords() {
		c.add(word, help)
	}
	if a.Names != "" {
		c.objects(a.Names)
	}
	if a.Value == ValueService {
		for _, name := range serviceNames {
			c.add(name, "")
		}
	}
}

// forms completes after the words of a command by the forms of the command table.
func (c *completer) forms(words []string) {
	for _, row := range commandsOf(words[0]) {
		for _, form := range row.Forms() {
			c.form(row, form, words)
		}
	}
	switch {
	case words[0] == "help" && len(words) == 1:
		c.statements()
	case words[0] == "list" && len(words) == 1:
		for _, word := range statementNames {
			if statementWords[word].kind != "" {
				c.add(word, statementWords[word].help)
			}
		}
	case words[0] == "list" && len(words) == 2 && statementWords[words[1]] != nil && statementWords[words[1]].kind != "":
		c.objects(statementWords[words[1]].kind)
	}
}

// form adds what follows words in one form.
func (c *completer) form(row *Command, form, words []string) {
	for i := 1; i < len(words); i++ {
		switch {
		case i >= len(form):
			c.filter(row, words[len(form):])
			return
		case form[i] == "ATTRIBUTES":
			if table := c.tableFor(words); table != nil && (table.bare != nil || table.begins(words[i:]) || words[i] == "define") {
				c.attributes(table, words[i:])
			}
			return
		case !fits(form[i], words[i]):
			return
		}
	}
	if len(words) >= len(form) {
		c.filter(row, nil)
		return
	}
	next := form[len(words)]
	if next == "ATTRIBUTES" {
		if table := c.tableFor(words); table != nil {
			c.attributes(table, nil)
		}
		return
	}
	c.placeholder(next, row)
}

// begins tells whether words begin with an attribute, or are the beginning of one. The forms of commands that are no attributes do not.
func (t *Table) begins(words []string) bool {
	return slices.ContainsFunc(t.byFirst[words[0]], func(s spelling) bool {
		n := min(len(words), len(s.words))
		if len(words) > n && (s.row.Value == ValueSwitch || s.row.Value == ValueWord) && !slices.Contains(s.row.ValueWords(), words[n]) {
			return false
		}
		return slices.Equal(words[:n], s.words[:n])
	})
}

// tableFor is the attribute table of a statement without braces.
func (c *completer) tableFor(words []string) *Table {
	table := tableOfWord(words[0])
	if table == Virtuals && len(words) > 1 && isAddress(words[1]) {
		return VirtualAddresses
	}
	return table
}

// placeholder adds what an element of a form stands for.
func (c *completer) placeholder(element string, row *Command) {
	switch kind, is := placeholders[element]; {
	case is:
		c.objects(kind)
		if kind == KindService {
			for _, name := range serviceNames {
				c.add(name, "")
			}
		}
	case element == "MODE" && strings.HasPrefix(row.Form, "lb "):
		c.values(Globals.Find("lb"))
	case element == "MODE":
		c.values(Pools.Find("persist_mode"))
	case element == "MASK":
		c.add("none", "")
	case strings.HasPrefix(element, "bigip."):
		for _, name := range append(sortedKeys(Sysctls), keptSysctls...) {
			text := "bigip." + name
			if strings.Contains(element, "=") {
				text += "="
			}
			c.add(text, sysctlHelp(name))
		}
	case !IsPlaceholder(element):
		for _, word := range strings.Split(element, "|") {
			if word != "..." {
				c.add(word, row.Help)
			}
		}
	}
}

// sysctlHelp is the help on a variable.
func sysctlHelp(name string) string {
	if field := Sysctls[name]; field != "" {
		return Globals.Find(field).Help
	}
	return "a variable of the old unit [kept, not in effect]"
}

// filter adds the pairs that are not given yet, or the values of the word that stands last.
func (c *completer) filter(row *Command, words []string) {
	if len(words)%2 == 1 {
		for _, pair := range row.Filter {
			if word, value, _ := strings.Cut(pair, " "); word == words[len(words)-1] {
				c.placeholder(value, row)
			}
		}
		return
	}
	for _, pair := range row.Filter {
		word, _, _ := strings.Cut(pair, " ")
		if !slices.Contains(words, word) {
			c.add(word, row.Help)
		}
	}
}

// fits tells whether a word can stand for an element of a form.
func fits(element, word string) bool {
	if _, is := placeholders[element]; is {
		return word != "show" && word != "persist" && word != "stats"
	}
	return IsPlaceholder(element) || slices.Contains(strings.Split(element, "|"), word)
}

// IsPlaceholder tells what stands for something, in capitals, from words that are typed as they are.
func IsPlaceholder(element string) bool {
	return strings.ToUpper(element) == element && strings.ContainsAny(element, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// expand returns a form with each optional part left out and taken.
func expand(form []string) [][]string {
	for i, element := range form {
		if !strings.HasPrefix(element, "[") {
			continue
		}
		end := i
		for end < len(form)-1 && !strings.HasSuffix(form[end], "]") {
			end++
		}
		without := slices.Concat(form[:i], form[end+1:])
		with := slices.Clone(form)
		with[i] = strings.TrimPrefix(with[i], "[")
		with[end] = strings.TrimSuffix(with[end], "]")
		return append(expand(with), expand(without)...)
	}
	return [][]string{form}
}
