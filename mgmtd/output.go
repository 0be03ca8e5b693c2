package mgmtd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "bigpipe/proto/bigpipe/v1"
)

// outputBytes is how much of the output goes into one piece of the reply.
const outputBytes = 64 << 10

// pieces is a writer that hands on what it gets in large pieces.
type pieces struct {
	send func([]byte) error
	buf  []byte
}

// Write implements io.Writer.
func (p *pieces) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	if len(p.buf) < outputBytes {
		return len(b), nil
	}
	return len(b), p.flush()
}

func (p *pieces) flush() error {
	for len(p.buf) > 0 {
		n := min(len(p.buf), outputBytes)
		if err := p.send(p.buf[:n:n]); err != nil {
			return err
		}
		p.buf = p.buf[n:]
	}
	p.buf = nil
	return nil
}

// writeJSON writes a value without escaping what HTML would need.
func writeJSON(w io.Writer, v any) error {
	text, err := marshalJSON(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func marshalJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// jsonList writes {"name":[...]} or more such lists in one object, entry by entry.
type jsonList struct {
	w       io.Writer
	entries int
}

// begin starts a document with its first list.
func (l *jsonList) begin(name string) error {
	_, err := fmt.Fprintf(l.w, "{%q:[", name)
	return err
}

// next ends a list and starts another one.
func (l *jsonList) next(name string) error {
	l.entries = 0
	_, err := fmt.Fprintf(l.w, "],%q:[", name)
	return err
}

func (l *jsonList) add(v any) error {
	if l.entries++; l.entries > 1 {
		if _, err := io.WriteString(l.w, ","); err != nil {
			return err
		}
	}
	return writeJSON(l.w, v)
}

func (l *jsonList) end() error {
	_, err := io.WriteString(l.w, "]}")
	return err
}

// message is a proto message as JSON with its fields' own names and plain numbers, which protojson reads too.
type message struct {
	protoreflect.Message
	// words writes enums as their bigip.conf words instead of their proto names.
	words bool
	// skip leaves fields out, by name.
	skip map[protoreflect.Name]bool
}

// MarshalJSON implements json.Marshaler.
func (m message) MarshalJSON() ([]byte, error) { return m.append(nil) }

func (m message) append(b []byte) ([]byte, error) {
	b = append(b, '{')
	fields, first := m.Descriptor().Fields(), true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) || m.skip[fd.Name()] {
			continue
		}
		value, err := m.field(nil, fd, m.Get(fd))
		if err != nil {
			return nil, err
		}
		if fd.Name() == "meta" && string(value) == "{}" { // nothing is left of it
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(strconv.AppendQuote(b, string(fd.Name())), ':')
		b = append(b, value...)
	}
	return append(b, '}'), nil
}

func (m message) field(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	if !fd.IsList() {
		return m.value(b, fd, v)
	}
	b = append(b, '[')
	for i := range v.List().Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = m.value(b, fd, v.List().Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func (m message) value(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return message{Message: v.Message(), words: m.words, skip: m.skip}.append(b)
	case protoreflect.EnumKind:
		return strconv.AppendQuote(b, enumName(fd.Enum(), v.Enum(), m.words)), nil
	}
	text, err := marshalJSON(v.Interface())
	return append(b, text...), err
}

// enumName is a value's word or its proto name; a number where it has none.
func enumName(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber, words bool) string {
	v := d.Values().ByNumber(n)
	if v == nil {
		return strconv.Itoa(int(n))
	}
	if !words {
		return string(v.Name())
	}
	return pb.ValueWord(d, v)
}

// tableAhead is how many rows a table looks at to find the widths of its columns.
const tableAhead = 500

// table writes rows with aligned columns. It holds only its first rows; later ones that are wider stick out.
type table struct {
	w      io.Writer
	rows   [][]string
	widths []int
}

// row adds a row; the first one is the head.
func (t *table) row(cells ...string) error {
	if t.widths != nil {
		return t.write(cells)
	}
	t.rows = append(t.rows, cells)
	if len(t.rows) <= tableAhead {
		return nil
	}
	return t.flush()
}

// flush writes the rows that are held.
func (t *table) flush() error {
	if t.widths == nil && len(t.rows) > 0 {
		t.widths = make([]int, len(t.rows[0]))
	}
	for _, cells := range t.rows {
		for i, c := range cells {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, cells := range t.rows {
		if err := t.write(cells); err != nil {
			return err
		}
	}
	t.rows = nil
	return nil
}

func (t *table) write(cells []string) error {
	var line strings.Builder
	for i, c := range cells {
		line.WriteString(c)
		if i+1 < len(cells) {
			line.WriteString(strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(c))+2))
		}
	}
	_, err := io.WriteString(t.w, strings.TrimRight(line.String(), " ")+"\n")
	return err
}

// note makes a diagnostic without a place.
func note(severity pb.Severity, code, format string, args ...any) *pb.Diagnostic {
	return &pb.Diagnostic{Severity: severity, Code: code, Message: pb.Message(format, args...)}
}

// fault makes an error without a place.
func fault(code, format string, args ...any) *pb.Diagnostic {
	return note(pb.Severity_SEVERITY_ERROR, code, format, args...)
}
