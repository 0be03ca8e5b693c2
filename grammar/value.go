package grammar

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

const (
	maxName = 31
	// maxLongName holds for appgen_ names, which carry an IPv6 address.
	maxLongName = 63
	maxText     = 1024
)

// isNumber tells whether text is all digits.
func isNumber(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// parseAddress returns an address in its canonical text, or a host name as it is. A fault says what is wrong.
func parseAddress(text string) (address, fault string) {
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String(), ""
	}
	if strings.Contains(text, "/") {
		return "", fmt.Sprintf("%q is not an address: it stands without a prefix length", text)
	}
	if !isHostName(text) {
		return "", fmt.Sprintf("%q is not an address", text)
	}
	return text, ""
}

// isHostName tells whether text can be the name of a host: labels of letters, digits, - and _, the last not a number.
func isHostName(text string) bool {
	if text == "" || len(text) > 253 {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return false
			}
		}
	}
	return !isNumber(labels[len(labels)-1])
}

// endpoint is an address or a host name, with a service where one was given.
type endpoint struct {
	host    string
	port    uint32
	hasPort bool
}

// String is the canonical text: "10.1.1.1:80", "[2001:db8::1]:80", "10.1.1.1".
func (e endpoint) String() string {
	switch {
	case !e.hasPort:
		return e.host
	case strings.Contains(e.host, ":"):
		return "[" + e.host + "]:" + strconv.FormatUint(uint64(e.port), 10)
	}
	return e.host + ":" + strconv.FormatUint(uint64(e.port), 10)
}

// parseEndpoint reads ADDRESS or ADDRESS:SERVICE; * stands for all addresses.
func parseEndpoint(text string) (e endpoint, fault, suggestion string) {
	host, service := text, ""
	switch {
	case strings.HasPrefix(text, "["):
		inside, rest, found := strings.Cut(text[1:], "]")
		if !found || rest != "" && rest[0] != ':' {
			return e, fmt.Sprintf("%q is not an address: an IPv6 address is written [ADDRESS]:SERVICE", text), ""
		}
		host, e.hasPort, service = inside, rest != "", strings.TrimPrefix(rest, ":")
	case strings.Count(text, ":") == 1:
		host, service, e.hasPort = strings.Cut(text, ":")
	}
	if host == "*" && e.hasPort {
		host = "0.0.0.0"
	}
	if e.host, fault = parseAddress(host); fault != "" {
		return e, fault, ""
	}
	if !e.hasPort {
		return e, "", ""
	}
	port, ok := ParseService(service)
	if !ok {
		return e, fmt.Sprintf("%q is neither a service name nor a number from 0 to 65535", service), nearest(service, serviceNames)
	}
	e.port = uint32(port)
	return e, "", ""
}

// parseMask returns a contiguous dotted mask; "none" is none.
func parseMask(text string) (mask string, none bool, fault, suggestion string) {
	if text == "none" {
		return "", true, "", ""
	}
	if bits, err := strconv.Atoi(strings.TrimPrefix(text, "/")); err == nil && strings.HasPrefix(text, "/") && bits >= 0 && bits <= 32 {
		return "", false, fmt.Sprintf("%q is not a mask: masks are written in dots", text), pb.MaskText(bits)
	}
	bits, err := pb.MaskBits(text)
	switch {
	case errors.Is(err, pb.ErrMaskHole):
		return "", false, fmt.Sprintf("the mask %s is not contiguous", text), ""
	case err != nil:
		return "", false, fmt.Sprintf("%q is neither a dotted mask nor none", text), ""
	}
	return pb.MaskText(bits), false, "", ""
}

// parseNetwork returns a network or an address in canonical text; false where it is neither.
func parseNetwork(text string) (string, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked().String(), true
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String(), true
	}
	return "", false
}

// parseRecordKey returns what chooses records by their key: an address, a network, or an ID in hexadecimal digits.
func parseRecordKey(text string) (key, fault string) {
	const longest = 64 // digits of an ID as it is printed
	if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() {
		return p.Masked().String(), ""
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return a.Unmap().String(), ""
	}
	if id, err := hex.DecodeString(text); err == nil && len(id) > 0 && len(text) <= longest {
		return strings.ToLower(text), ""
	}
	return "", fmt.Sprintf("%q is not an address, a network, or an ID of up to %d hexadecimal digits", text, longest)
}

// parseScope returns what chooses records by who shares them: a virtual server, ADDRESS:* for those that an address shares,
// ADDRESS for all of an address, and * for those that all virtual servers share, whose text is empty.
func parseScope(text string) (scope, fault, suggestion string) {
	if text == "*" || text == "" {
		return "", "", ""
	}
	address, shared := strings.CutSuffix(text, ":*")
	e, fault, suggestion := parseEndpoint(address)
	switch {
	case fault != "":
		return "", fault, suggestion
	case shared && e.hasPort:
		return "", fmt.Sprintf("%q is not ADDRESS:SERVICE, ADDRESS:* or *", text), ""
	case shared:
		e.hasPort, e.port = true, 0
		return strings.TrimSuffix(e.String(), ":0") + ":*", "", ""
	}
	return e.String(), "", ""
}

// nameFault says what is wrong with an object's name, "" if nothing.
func nameFault(what, name string) string {
	limit := maxName
	if strings.HasPrefix(name, "appgen_") {
		limit = maxLongName
	}
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return fmt.Sprintf("the %s has no name", what)
	case n > limit:
		return fmt.Sprintf("the name %q has %d characters; at most %d are allowed", name, n, limit)
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.~/+@%$:", r) {
			return fmt.Sprintf("the name %q holds %q; letters, digits, - _ . ~ / + @ %% $ : are allowed", name, r)
		}
	}
	return ""
}

// maxOf is the largest number that an attribute takes.
func (a *Attribute) maxOf() uint64 {
	switch {
	case a.Max > 0:
		return a.Max
	case a.field.Kind() == protoreflect.Uint32Kind:
		return math.MaxUint32
	}
	return math.MaxUint64
}

// value is what was read for an attribute: a value, or that it is to be absent.
type value struct {
	v    protoreflect.Value
	none bool
}

// readValue reads the value of an attribute whose words stand at at. A fault is noted and false returned.
func (p *parser) readValue(a *Attribute, at lexer.Token, c *cursor, t *Table) (value, bool) {
	tok, ok := c.peek()
	if !ok || t != nil && t.knows(tok.Value) && !a.takes(tok) {
		where := at
		if ok || !c.done() {
			where = c.here()
		}
		p.faults.at(where, CodeValue, "", "%s needs a value: %s", a.Name(), a.Usage())
		return value{}, false
	}
	c.i++
	v, fault, suggestion := a.read(tok, c)
	if fault != "" {
		p.faults.at(tok, CodeValue, suggestion, "%s: %s", a.Name(), fault)
		return value{}, false
	}
	return v, true
}

// takes tells whether a word that is also an attribute is this attribute's value.
func (a *Attribute) takes(tok lexer.Token) bool {
	switch a.Value {
	case ValueText, ValuePlain, ValueName, ValueAddress:
		return true
	case ValueMask, ValueExpiration:
		return tok.Value == "none"
	case ValueSwitch:
		return slices.Contains(a.switchWords(), tok.Value)
	case ValueWord:
		_, ok := a.enum[tok.Value]
		return ok
	case ValueService:
		_, ok := ParseService(tok.Value)
		return ok
	}
	return false
}

// read returns what a token says as this attribute's value.
func (a *Attribute) read(tok lexer.Token, c *cursor) (v value, fault, suggestion string) {
	text := unquote(tok)
	switch a.Value {
	case ValueSwitch:
		words := a.switchWords()
		if !slices.Contains(words, text) {
			return v, fmt.Sprintf("%q is neither %s nor %s", text, words[0], words[1]), nearest(text, words)
		}
		return value{v: protoreflect.ValueOfBool(text == words[0])}, "", ""
	case ValueWord:
		n, ok := a.enum[text]
		if !ok {
			return unknownValue(text, a.ValueWords(), sortedKeys(a.enum))
		}
		return value{v: protoreflect.ValueOfEnum(n)}, "", ""
	case ValueNumber, ValueSeconds:
		return a.readNumber(text)
	case ValueMask:
		mask, none, fault, suggestion := parseMask(text)
		return value{v: protoreflect.ValueOfString(mask), none: none}, fault, suggestion
	case ValueAddress:
		address, fault := parseAddress(text)
		return value{v: protoreflect.ValueOfString(address)}, fault, ""
	case ValueName:
		return value{v: protoreflect.ValueOfString(text)}, nameFault(a.Name(), text), ""
	case ValueText, ValuePlain:
		if n := utf8.RuneCountInString(text); n > maxText {
			return v, fmt.Sprintf("the text has %d characters; at most %d are allowed", n, maxText), ""
		}
		return value{v: protoreflect.ValueOfString(text)}, "", ""
	case ValueService:
		port, ok := ParseService(text)
		if !ok {
			return v, fmt.Sprintf("%q is neither a service name nor a number from 0 to 65535", text), nearest(text, serviceNames)
		}
		return value{v: protoreflect.ValueOfUint32(uint32(port))}, "", ""
	case ValueExpiration:
		return readExpiration(text, c)
	case ValueDuration:
		ms, fault := parseTimeout(text)
		return value{v: protoreflect.ValueOfUint64(ms)}, fault, ""
	}
	return v, "it takes no value", ""
}

func (a *Attribute) readNumber(text string) (v value, fault, suggestion string) {
	unit := "number"
	if a.Value == ValueSeconds {
		unit = "number of seconds"
	}
	if !isNumber(text) {
		return v, fmt.Sprintf("%q is not a %s from %d to %d", text, unit, a.Min, a.maxOf()), ""
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < a.Min || n > a.maxOf() {
		return v, fmt.Sprintf("%s is not a %s from %d to %d", text, unit, a.Min, a.maxOf()), ""
	}
	if a.field.Kind() == protoreflect.Uint32Kind {
		return value{v: protoreflect.ValueOfUint32(uint32(n))}, "", ""
	}
	return value{v: protoreflect.ValueOfUint64(n)}, "", ""
}

// text prints a field's value as the language writes it.
func (a *Attribute) text(v protoreflect.Value) string {
	switch a.Value {
	case ValueSwitch:
		words := a.switchWords()
		if v.Bool() {
			return words[0]
		}
		return words[1]
	case ValueWord:
		return enumText(a.field.Enum(), v.Enum())
	case ValueNumber, ValueSeconds, ValueService:
		return strconv.FormatUint(v.Uint(), 10)
	case ValueText:
		return quote(v.String())
	case ValuePlain, ValueName, ValueAddress, ValueMask:
		return plain(v.String())
	case ValueExpiration:
		return FormatExpiration(v.Uint())
	case ValueDuration:
		return formatTimeout(v.Uint())
	}
	return ""
}

func switchWord(on bool) string {
	if on {
		return "enable"
	}
	return "disable"
}

// enumText is the word of an enum's value; a number that no word names is printed as it is.
func enumText(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	for _, word := range pb.EnumWords(d) {
		if number, _ := pb.ParseEnum(d, word); number == n {
			return word
		}
	}
	return strconv.Itoa(int(n))
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// unknownValue says what could stand in place of a word: the nearest of all spellings, or else all of words.
func unknownValue(text string, words, spellings []string) (v value, fault, suggestion string) {
	if suggestion = nearest(text, spellings); suggestion != "" {
		return v, fmt.Sprintf("unknown value %q", text), suggestion
	}
	return v, fmt.Sprintf("unknown value %q; it is one of %s", text, strings.Join(words, ", ")), ""
}
