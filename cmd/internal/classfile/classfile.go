// Package classfile reads the files that classes take their contents from. They are opened by the program that reads the text,
// in its folder and with its rights; the contents travel with the text.
package classfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"bigpipe/grammar"
)

// MaxBytes is how long all files of a text may be together: they travel in one message.
const MaxBytes = 8 << 20

// Read returns the contents of the files that a text names, and why others cannot be read, by name.
func Read(text []byte) (files map[string][]byte, unreadable map[string]string) {
	left := MaxBytes
	for _, name := range grammar.ClassFiles(text) {
		contents, err := read(name, left)
		if err != nil {
			if unreadable == nil {
				unreadable = map[string]string{}
			}
			unreadable[name] = err.Error()
			continue
		}
		if files == nil {
			files = map[string][]byte{}
		}
		files[name] = contents
		left -= len(contents)
	}
	return files, unreadable
}

// read reads a file of at most so many bytes. Only regular files are read: others may never end.
func read(name string, most int) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	contents, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	switch {
	case err != nil:
		return nil, reason(err)
	case len(contents) > most:
		return nil, fmt.Errorf("the files of all classes are more than %d bytes long", MaxBytes)
	}
	return contents, nil
}

// reason is an error without the operation and the name, which the message about it says.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
