package shell

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// input reads the keyboard until it is closed; a read that waits then ends. Readline itself cannot leave off waiting for a key.
type input struct {
	file *os.File
	// closed has two ends of a pipe: closing the second makes the first readable.
	closed [2]int
	once   sync.Once

	// ready is what Read has still to return.
	ready []byte

	mu sync.Mutex
	// pasted holds the texts that a pasteKey stands for, in order.
	pasted []string
}

const (
	// pasteKey stands for a text that came all at once. Readline draws the line again after each key, which takes seconds for a
	// long one that is pasted.
	pasteKey = '\uF8F0'
	// shortestPaste is how many bytes have to come at once to be such a text, longestPaste how many are read at once.
	shortestPaste = 32
	longestPaste  = 1 << 20
)

func newInput(file *os.File) (*input, error) {
	in := &input{file: file}
	return in, unix.Pipe2(in.closed[:], unix.O_CLOEXEC)
}

// Read implements io.Reader. An end of input that was typed while a command ran is a null byte; it becomes Ctrl-D again. A long text
// without control characters is one pasteKey.
func (in *input) Read(b []byte) (int, error) {
	if len(in.ready) == 0 {
		keys, err := in.keys()
		if err != nil {
			return 0, err
		}
		in.ready = in.gather(keys)
	}
	n := copy(b, in.ready)
	in.ready = in.ready[n:]
	return n, nil
}

// keys waits for keys and returns all that have come.
func (in *input) keys() ([]byte, error) {
	keys := make([]byte, 0, 4096)
	for {
		wait := []unix.PollFd{
			{Fd: int32(in.file.Fd()), Events: unix.POLLIN}, {Fd: int32(in.closed[0]), Events: unix.POLLIN},
		}
		patience := -1
		if len(keys) > 0 {
			patience = 0
		}
		came, err := unix.Poll(wait, patience)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case wait[1].Revents != 0:
			return nil, io.EOF
		case came == 0:
			return keys, nil
		}
		keys = slices.Grow(keys, 4096)
		n, err := in.file.Read(keys[len(keys):cap(keys)])
		keys = keys[:len(keys)+n]
		if err != nil && len(keys) == 0 {
			return nil, err
		}
		if err != nil || len(keys) >= longestPaste {
			return keys, nil //nolint:nilerr // what was read comes first, the error with the next call
		}
	}
}

// gather puts a pasteKey in the place of each long text.
func (in *input) gather(keys []byte) []byte {
	var out []byte
	for len(keys) > 0 {
		text := keys[:textLength(keys)]
		if len(text) >= shortestPaste && utf8.Valid(text) {
			in.mu.Lock()
			in.pasted = append(in.pasted, strings.ReplaceAll(string(text), "\t", " "))
			in.mu.Unlock()
			out = utf8.AppendRune(out, pasteKey)
		} else {
			out = append(out, text...)
		}
		keys = keys[len(text):]
		if len(keys) > 0 {
			if keys[0] == 0 {
				keys[0] = 4
			}
			out = append(out, keys[0])
			keys = keys[1:]
		}
	}
	return out
}

// textLength is how many bytes at the beginning of keys are text: up to a control character but a tab. A Tab or ? at the end is a
// key, and a character that has not come whole is left for later.
func textLength(keys []byte) int {
	n := bytes.IndexFunc(keys, func(r rune) bool { return unicode.IsControl(r) && r != '\t' })
	if n < 0 {
		n = len(keys)
		for cut := 1; cut < utf8.UTFMax && cut <= n; cut++ {
			if lead := keys[n-cut]; utf8.RuneStart(lead) {
				if !utf8.FullRune(keys[n-cut:]) {
					n -= cut
				}
				break
			}
		}
	}
	return len(bytes.TrimRight(keys[:n], "\t?"))
}

// paste takes the text that a pasteKey stands for; false where it is a character of its own.
func (in *input) paste() (string, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.pasted) == 0 {
		return "", false
	}
	text := in.pasted[0]
	in.pasted = in.pasted[1:]
	return text, true
}

// Close ends a read that waits, and all later ones. The file stays open.
func (in *input) Close() error {
	var err error
	in.once.Do(func() { err = unix.Close(in.closed[1]) })
	return err
}

// release frees what Read needs; nothing may read any more.
func (in *input) release() {
	_ = in.Close()
	_ = unix.Close(in.closed[0])
}
