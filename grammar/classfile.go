package grammar

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	pb "bigpipe/proto/bigpipe/v1"
)

// ClassFiles lists the files that the classes of a text take their contents from, each once. Faults of the text do not matter.
func ClassFiles(text []byte) []string {
	if !bytes.Contains(text, []byte("class")) || !bytes.Contains(text, []byte("file")) {
		return nil
	}
	var names []string
	bounds, _ := Split("", text)
	for _, b := range bounds {
		if !strings.HasPrefix(b.Text, "class") || !strings.Contains(b.Text, "file") {
			continue
		}
		statements, _ := ParseCommand(b.Position, []byte(b.Text))
		for _, s := range statements {
			if name := s.Object.GetClass().GetFile(); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// ParseClassFile reads what the file of a class holds: texts and numbers, host ADDRESS, and network ADDRESS mask MASK, as they
// stand between the braces of a class. Commas may stand between them, # begins a comment, and a word that is none of these is a
// text without its quotes. All faults are returned, at most 50.
func ParseClassFile(name string, src []byte) (*pb.ClassContents, []*pb.Diagnostic) {
	var f faults
	r := classReader{source: lex(name, 1, 1, src, &f), contents: &pb.ClassContents{}}
	for r.next() {
		switch word := r.text(); {
		case r.bracket():
			f.add(r.place(r.i), CodeSyntax, "", "%q cannot stand in the file of a class", r.value(r.i))
		case r.tokens[r.i].kind == tokenWord && word == "host":
			r.host()
		case r.tokens[r.i].kind == tokenWord && word == "network":
			r.network()
		default:
			r.contents.Strings = append(r.contents.Strings, word)
		}
	}
	return r.contents, f.result()
}

// classReader goes through the tokens of a class file.
type classReader struct {
	*source
	contents *pb.ClassContents
	// i is the token that is looked at; before the first call of next it means nothing.
	i       int
	started bool
}

// next goes on to the next token that is more than commas.
func (r *classReader) next() bool {
	for {
		if r.started {
			r.i++
		}
		r.started = true
		if r.i >= len(r.tokens) {
			return false
		}
		if r.tokens[r.i].kind != tokenWord || strings.Trim(r.value(r.i), ",") != "" {
			return true
		}
	}
}

// text is what the token says; commas after a word are none of it.
func (r *classReader) text() string {
	t := lexer.Token{Type: lexer.TokenType(r.tokens[r.i].kind), Value: r.value(r.i)}
	if r.tokens[r.i].kind == tokenWord {
		return strings.TrimRight(t.Value, ",")
	}
	return unquote(t)
}

func (r *classReader) bracket() bool {
	kind := r.tokens[r.i].kind
	return kind != tokenWord && kind != tokenString
}

// address reads the address behind the word that is looked at.
func (r *classReader) address(after string) (string, bool) {
	at := r.i
	if !r.next() {
		r.faults.add(r.place(at), CodeValue, "", "%s needs an address", after)
		return "", false
	}
	a, err := netip.ParseAddr(strings.Trim(r.text(), "[]"))
	if err != nil {
		r.faults.add(r.place(r.i), CodeValue, "", "%s: %q is not an address", after, r.text())
		return "", false
	}
	return a.Unmap().String(), true
}

func (r *classReader) host() {
	if address, ok := r.address("host"); ok {
		r.contents.Hosts = append(r.contents.Hosts, address)
	}
}

func (r *classReader) network() {
	address, ok := r.address("network")
	if !ok {
		return
	}
	at := r.i
	if !r.next() || r.text() != "mask" && r.text() != "netmask" || !r.next() {
		r.faults.add(r.place(min(at, len(r.tokens)-1)), CodeValue, "", "network %s is followed by mask MASK", address)
		return
	}
	mask, none, fault, suggestion := parseMask(r.text())
	if none || fault != "" {
		r.faults.add(r.place(r.i), CodeValue, suggestion, "network %s is followed by mask MASK", address)
		return
	}
	r.contents.Networks = append(r.contents.Networks, &pb.ClassNetwork{Address: address, Netmask: mask})
}
