package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// message is the head of an HTTP/1.x message, its lines as they came.
type message struct {
	first  string
	fields []string
}

// readFields reads the lines up to the empty one.
func (m *message) readFields(r *bufio.Reader) error {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return unexpected(err)
		}
		if line == "\r\n" {
			return nil
		}
		m.fields = append(m.fields, line)
	}
}

func (m *message) String() string { return m.first + strings.Join(m.fields, "") }

// all returns the lines of one field, without the line's end.
func (m *message) all(name string) []string {
	var lines []string
	for _, line := range m.fields {
		if n, _, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			lines = append(lines, strings.TrimSuffix(line, "\r\n"))
		}
	}
	return lines
}

// field returns the value of the first field of a name, or "".
func (m *message) field(name string) string {
	for _, line := range m.all(name) {
		_, value, _ := strings.Cut(line, ":")
		return strings.TrimSpace(value)
	}
	return ""
}

// length is the body's length by Content-Length, 0 without one.
func (m *message) length() int64 {
	n, err := strconv.ParseInt(m.field("Content-Length"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readResponse reads one response whose body has a length.
func readResponse(r *bufio.Reader) (head message, status int, body string, err error) {
	if head.first, err = r.ReadString('\n'); err != nil {
		return head, 0, "", unexpected(err)
	}
	words := strings.Fields(head.first)
	if len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/1.") {
		return head, 0, "", fmt.Errorf("not a response: %q", head.first)
	}
	if status, err = strconv.Atoi(words[1]); err != nil {
		return head, 0, "", fmt.Errorf("not a response: %q", head.first)
	}
	if err := head.readFields(r); err != nil {
		return head, 0, "", err
	}
	text := make([]byte, head.length())
	if _, err := io.ReadFull(r, text); err != nil {
		return head, 0, "", unexpected(err)
	}
	return head, status, string(text), nil
}

// unexpected is err, but the end of the input where more had to come is called that.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
